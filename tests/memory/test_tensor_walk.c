/* Random walks over two tensors, which may share their values: resizing, marking as zero, access in
 * every format and on every device, adopted memory, copies and views, against a model that has an
 * array of numbers for each. A walk that fails is shrunk and printed. */
#include "memory/sim_fixture.h"
#include "memory/walk.h"

#include "core/fail.h"
#include "core/rng.h"
#include "device/backend/half.h"
#include "device/registry.h"
#include "memory/tensor.h"
#include "memory/tensor_help.h"

enum { MOST = 40, TENSORS = 2, CONTEXTS = 4, FORMS = 4, VIEWS = 3, RANGE = 1000 };

typedef enum op {
  OP_READ,
  OP_WRITE,
  OP_UPDATE,
  OP_HOST_READ,
  OP_HOST_UPDATE,
  OP_RESIZE,
  OP_ZERO,
  OP_ADOPT,
  OP_SHRINK,
  OP_SHARE,
  OP_UNSHARE,
  OP_COPY,
  OP_VIEW_MAKE,
  OP_VIEW_USE,
  OPS
} op;

static const char *const op_name[OPS] = {
    "read",  "write",  "update", "host read", "host update", "resize",    "zero",
    "adopt", "shrink", "share",  "unshare",   "copy",        "make view", "use view",
};

typedef struct step {
  unsigned char op, tensor, context, format, count, view, at;
  uint16_t value;
} step;

/* What is known of values. A number behind the old end is not, after the tensor has grown within
 * its memory. */
typedef struct model {
  int64_t count, most; /* elements; that memory may be there for */
  bool zero;
  bool known[MOST];
  double value[MOST];
  void *adopted; /* the caller's memory, of so many bytes, that a resize lets go of */
  size_t bytes;
} model;

typedef struct seen_view {
  cr_tensor_view view;
  int tensor; /* -1: none */
  const model *of;
  int64_t offset;
  bool stale; /* must be refused */
} seen_view;

typedef struct world {
  bool layouts; /* the CPU with a layout that the walk knows; otherwise simulated devices */
  cr_backend backend;
  cr_layout reversed[2][MOST + 1];
  crema_context *context[CONTEXTS];
  cr_tensor *tensor[TENSORS];
  model *of[TENSORS]; /* the same one while they share */
  model model[TENSORS];
  seen_view view[VIEWS];
  void **adopted;
  size_t adoptions;
  int64_t used[OPS]; /* steps that did something */
} world;

/* ---- formats ---- */

static double get_value(crema_dtype type, const void *memory, int64_t i) {
  switch (type) {
    case CREMA_F64: return ((const double *)memory)[i];
    case CREMA_F16: return cr_f16_to_f32(((const uint16_t *)memory)[i]);
    default: return ((const float *)memory)[i];
  }
}

static void set_value(crema_dtype type, void *memory, int64_t i, double value) {
  switch (type) {
    case CREMA_F64: ((double *)memory)[i] = value; break;
    case CREMA_F16: ((uint16_t *)memory)[i] = cr_f32_to_f16((float)value); break;
    default: ((float *)memory)[i] = (float)value;
  }
}

/* The layout has the values in reverse order. */
static crema_status convert(crema_context *context, int64_t count, cr_format dst_format,
                            crema_devptr dst, cr_format src_format, crema_devptr src) {
  (void)context;
  for (int64_t i = 0; i < count; ++i) {
    double value = get_value(src_format.type, (const void *)src.address,
                             src_format.layout != NULL ? count - 1 - i : i);
    set_value(dst_format.type, (void *)dst.address, dst_format.layout != NULL ? count - 1 - i : i,
              value);
  }
  return CREMA_OK;
}

static cr_format format_of(const world *w, const step *s, int64_t count) {
  static const crema_dtype plain[FORMS] = {CREMA_F32, CREMA_F64, CREMA_F16, CREMA_F32};
  static const crema_dtype type[FORMS] = {CREMA_F32, CREMA_F64, CREMA_F32, CREMA_F64};
  if (!w->layouts) return (cr_format){plain[s->format], NULL};
  int wide = type[s->format] == CREMA_F64;
  return (cr_format){type[s->format], s->format < 2 ? NULL : &w->reversed[wide][count]};
}

/* ---- memory of a device ---- */

static bool fetch(crema_context *context, crema_devptr from, void *to, size_t bytes) {
  const cr_backend *backend = context->device->backend;
  if (backend->host_memory) {
    memcpy(to, (const void *)from.address, bytes);
    return true;
  }
  return crema_context_finish(context) == CREMA_OK && (bytes == 0 || cr_sim_peek(from, to, bytes));
}

static void send(crema_context *context, crema_devptr to, const void *from, size_t bytes) {
  const cr_backend *backend = context->device->backend;
  if (backend->host_memory) {
    memcpy((void *)to.address, from, bytes);
    return;
  }
  ok(backend->copy(context, CR_COPY_HOST_TO_DEVICE, to.address, (uintptr_t)from, bytes));
  ok(crema_context_finish(context));
}

static bool values_are(const model *m, cr_format format, const void *memory) {
  for (int64_t i = 0; i < m->count; ++i) {
    double value = get_value(format.type, memory, format.layout != NULL ? m->count - 1 - i : i);
    if (m->known[i] && value != m->value[i]) return false;
  }
  return true;
}

static void put_values(const model *m, cr_format format, void *memory) {
  for (int64_t i = 0; i < m->count; ++i) {
    set_value(format.type, memory, format.layout != NULL ? m->count - 1 - i : i, m->value[i]);
  }
}

/* New numbers, small and whole, so that every type holds them. */
static void renew(model *m, unsigned value) {
  m->zero = false;
  for (int64_t i = 0; i < m->count; ++i) {
    m->known[i] = true;
    m->value[i] = (double)((value + (unsigned)i * 37) % RANGE);
  }
}

static void clear_model(model *m) {
  m->zero = true;
  for (int i = 0; i < MOST; ++i) {
    m->known[i] = true;
    m->value[i] = 0;
  }
}

/* ---- steps ---- */

static bool access_format(world *w, const step *s, cr_tensor *tensor, model *m) {
  crema_context *context = w->context[s->context];
  cr_format format = format_of(w, s, m->count);
  size_t bytes = (size_t)m->count * crema_dtype_size(format.type);
  double buffer[MOST] = {0};
  crema_devptr data = {0};
  crema_status status = s->op == OP_READ    ? cr_tensor_read(tensor, context, format, &data)
                        : s->op == OP_WRITE ? cr_tensor_write(tensor, context, format, &data)
                                            : cr_tensor_update(tensor, context, format, &data);
  if (status != CREMA_OK) return false;
  if (s->op != OP_WRITE) {
    if (!fetch(context, data, buffer, bytes) || !values_are(m, format, buffer)) return false;
  }
  if (s->op == OP_READ) return true;
  if (!cr_format_equal(cr_tensor_head(tensor), format)) return false;
  renew(m, s->value);
  put_values(m, format, buffer);
  send(context, data, buffer, bytes);
  return true;
}

static bool access_host(const step *s, cr_tensor *tensor, model *m) {
  const cr_format plain = {cr_tensor_type(tensor), NULL};
  const void *read = NULL;
  void *data = NULL;
  if (s->op == OP_HOST_READ) {
    return cr_tensor_host_read(tensor, &read) == CREMA_OK && values_are(m, plain, read);
  }
  if (update_on_host(tensor, &data) != CREMA_OK || !values_are(m, plain, data)) return false;
  m->zero = false;
  if (m->count == 0) return true;
  int64_t at = s->at % m->count;
  m->known[at] = true;
  m->value[at] = s->value % RANGE;
  set_value(plain.type, data, at, m->value[at]);
  return true;
}

static void make_stale(world *w, const model *m) {
  for (int i = 0; i < VIEWS; ++i) {
    if (w->view[i].of == m) w->view[i].stale = true;
  }
}

/* The tensor's own model after a resize that leaves the values to the other one. */
static model *leave(world *w, int tensor) {
  model *before = w->of[tensor], *own = &w->model[before == &w->model[0] ? 1 : 0];
  for (int i = 0; i < VIEWS; ++i) {
    if (w->view[i].tensor == tensor && w->view[i].of == before) w->view[i].stale = true;
  }
  *own = *before;
  w->of[tensor] = own;
  return own;
}

/* The caller may do what he likes with memory that was adopted. */
static void spoil_adopted(model *m) {
  if (m->adopted != NULL) memset(m->adopted, 0x5a, m->bytes);
  m->adopted = NULL;
}

/* Shrinking keeps the first values; growing keeps them where the memory is large enough and nobody
 * shares it, and gives zeros otherwise. */
static bool resize(world *w, const step *s, cr_tensor *tensor, model *m) {
  int64_t count = s->count % (MOST + 1), before = m->count;
  if (cr_tensor_prepare_resize(tensor, count) != CREMA_OK) return false;
  if (cr_tensor_is_zero(tensor) != m->zero || cr_tensor_count(tensor) != before) return false;
  if (cr_tensor_resize(tensor, count) != CREMA_OK) return false;
  if (count == before) return true;
  const bool shared = w->of[0] == w->of[1];
  spoil_adopted(m);
  if (shared) m = leave(w, s->tensor);
  else make_stale(w, m);
  if (shared && count > before && !cr_tensor_is_zero(tensor)) return false;
  bool dropped = cr_tensor_is_zero(tensor) && !m->zero;
  m->count = count;
  if (count <= before && dropped) return false;
  if (count > m->most + (m->most & 1) && !cr_tensor_is_zero(tensor)) return false;
  for (int64_t i = before; i < count; ++i) m->known[i] = false;
  if (dropped || m->zero) clear_model(m);
  if (shared || dropped || count > m->most) m->most = count;
  return true;
}

/* Memory of the caller, without a byte to spare. */
static bool adopt(world *w, const step *s, cr_tensor *tensor, model *m) {
  crema_dtype type = cr_tensor_type(tensor);
  size_t bytes = (size_t)m->count * crema_dtype_size(type);
  void *memory = malloc(bytes > 0 ? bytes : 1);
  void **list = realloc(w->adopted, (w->adoptions + 1) * sizeof *list);
  assert_true(memory != NULL && list != NULL);
  w->adopted = list;
  w->adopted[w->adoptions++] = memory;
  renew(m, s->value);
  put_values(m, (cr_format){type, NULL}, memory);
  make_stale(w, m);
  m->most = m->count;
  m->adopted = memory;
  m->bytes = bytes;
  return cr_tensor_adopt_host(tensor, memory) == CREMA_OK;
}

static bool shrink(world *w, cr_tensor *tensor, model *m) {
  cr_tensor_shrink_to_fit(tensor);
  if (m->zero || !cr_tensor_is_zero(tensor)) return true;
  make_stale(w, m);
  clear_model(m);
  bool had_to_spare = m->most > m->count;
  m->most = m->count;
  return had_to_spare;
}

static bool share(world *w, const step *s) {
  bool same = w->of[0] == w->of[1], fits = w->of[0]->count == w->of[1]->count;
  if (s->op == OP_SHARE) {
    crema_status status = cr_tensor_share(w->tensor[1], w->tensor[0]);
    if (status != (same || fits ? CREMA_OK : CREMA_E_SHAPE)) return false;
    if (!same && fits) make_stale(w, w->of[1]);
    if (fits) w->of[1] = w->of[0];
    return cr_tensor_shares_with(w->tensor[0], w->tensor[1]) == (w->of[0] == w->of[1]);
  }
  int64_t count = w->of[1]->count;
  crema_dtype type = cr_tensor_type(w->tensor[1]);
  cr_tensor_destroy(w->tensor[1]);
  ok(cr_tensor_create(type, count, &w->tensor[1]));
  w->of[1] = &w->model[w->of[0] == &w->model[0] ? 1 : 0];
  *w->of[1] = (model){.count = count, .most = count};
  clear_model(w->of[1]);
  return true;
}

static bool copy(world *w, const step *s) {
  int to = s->tensor, from = 1 - to;
  bool same = w->of[0] == w->of[1], fits = w->of[0]->count == w->of[1]->count;
  crema_context *context = w->context[s->context];
  crema_status status = cr_tensor_copy(w->tensor[to], w->tensor[from], context);
  if (status != (same || fits ? CREMA_OK : CREMA_E_SHAPE)) return false;
  if (same || !fits) return true;
  const model kept = *w->of[to];
  *w->of[to] = *w->of[from];
  w->of[to]->most = kept.most;
  w->of[to]->adopted = kept.adopted;
  w->of[to]->bytes = kept.bytes;
  return crema_context_finish(context) == CREMA_OK;
}

static bool make_view(world *w, const step *s, cr_tensor *tensor, model *m) {
  seen_view *v = &w->view[s->view];
  void *data = NULL;
  if (update_on_host(tensor, &data) != CREMA_OK) return false;
  m->zero = false;
  int64_t offset = s->at % (m->count + 1), count = s->count % (m->count - offset + 1);
  *v = (seen_view){.tensor = s->tensor, .of = m, .offset = offset};
  return cr_tensor_view_make(tensor, offset, count, &v->view) == CREMA_OK;
}

/* A view that is not refused is of the newest values: what it shows is right, and what is written
 * through it is seen. */
static bool use_view(world *w, const step *s) {
  seen_view *v = &w->view[s->view];
  void *data = NULL;
  if (v->tensor < 0) return true;
  cr_tensor *tensor = w->tensor[v->tensor];
  model *m = w->of[v->tensor];
  crema_status status = cr_tensor_view_data(&v->view, tensor, &data);
  if (status == CREMA_E_STATE) return true;
  if (status != CREMA_OK || v->stale || v->of != m) return false;
  ++w->used[OP_VIEW_USE];
  for (int64_t i = 0; i < v->view.count; ++i) {
    int64_t at = v->offset + i;
    if (m->known[at] && get_value(cr_tensor_type(tensor), data, i) != m->value[at]) return false;
    m->known[at] = true;
    m->value[at] = (s->value + (unsigned)i) % RANGE;
    set_value(cr_tensor_type(tensor), data, i, m->value[at]);
  }
  return true;
}

static bool perform(world *w, const step *s) {
  cr_tensor *tensor = w->tensor[s->tensor];
  model *m = w->of[s->tensor];
  if (s->op != OP_VIEW_USE) ++w->used[s->op];
  switch ((op)s->op) {
    case OP_READ:
    case OP_WRITE:
    case OP_UPDATE: return access_format(w, s, tensor, m);
    case OP_HOST_READ:
    case OP_HOST_UPDATE: return access_host(s, tensor, m);
    case OP_RESIZE: return resize(w, s, tensor, m);
    case OP_ZERO:
      cr_tensor_set_zero(tensor);
      clear_model(m);
      return true;
    case OP_ADOPT: return adopt(w, s, tensor, m);
    case OP_SHRINK: return shrink(w, tensor, m);
    case OP_SHARE:
    case OP_UNSHARE: return share(w, s);
    case OP_COPY: return copy(w, s);
    case OP_VIEW_MAKE: return make_view(w, s, tensor, m);
    default: return use_view(w, s);
  }
}

static bool take_step(world *w, const step *s) {
  if (!perform(w, s)) return false;
  for (int i = 0; i < TENSORS; ++i) {
    if (cr_tensor_count(w->tensor[i]) != w->of[i]->count) return false;
    if (cr_tensor_is_zero(w->tensor[i]) != w->of[i]->zero) return false;
  }
  return true;
}

/* ---- walks ---- */

static void make_layouts(world *w) {
  w->backend = cr_backend_cpu;
  w->backend.convert = convert;
  w->backend.same_order = NULL;
  if (w->layouts) cr_cpu_device()->backend = &w->backend;
  for (int wide = 0; wide < 2; ++wide) {
    for (int64_t count = 0; count <= MOST; ++count) {
      crema_dtype type = wide == 1 ? CREMA_F64 : CREMA_F32;
      w->reversed[wide][count] = (cr_layout){.device = cr_cpu_device(),
                                             .type = type,
                                             .shape = {.axes = 1, .dim = {count}},
                                             .bytes = (size_t)count * crema_dtype_size(type)};
    }
  }
}

static world *begin(bool layouts) {
  cr_sim_options options = sim_test_options(2);
  options.keep_log = false;
  sim_begin(&options);
  world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  w->layouts = layouts;
  make_layouts(w);
  crema_device *const simulated[CONTEXTS] = {cr_cpu_device(), sim_test_device(0),
                                             sim_test_device(0), sim_test_device(1)};
  for (int i = 0; i < CONTEXTS; ++i) {
    w->context[i] = sim_test_context(layouts ? cr_cpu_device() : simulated[i]);
  }
  for (int i = 0; i < TENSORS; ++i) {
    ok(cr_tensor_create(CREMA_F32, 5, &w->tensor[i]));
    w->model[i] = (model){.count = 5, .most = 5};
    clear_model(&w->model[i]);
    w->of[i] = &w->model[i];
  }
  for (int i = 0; i < VIEWS; ++i) w->view[i].tensor = -1;
  return w;
}

static void end(world *w) {
  for (int i = 0; i < TENSORS; ++i) cr_tensor_destroy(w->tensor[i]);
  for (int i = 0; i < CONTEXTS; ++i) crema_context_destroy(w->context[i]);
  for (size_t i = 0; i < w->adoptions; ++i) free(w->adopted[i]);
  free(w->adopted);
  cr_cpu_device()->backend = &cr_backend_cpu;
  free(w);
  sim_end();
}

typedef struct rule {
  bool layouts;
  int64_t used[OPS];
} rule;

/* The number of steps that went well. */
static size_t replay(const step *steps, size_t count, rule *r) {
  world *w = begin(r->layouts);
  size_t at = 0;
  while (at < count && take_step(w, &steps[at])) ++at;
  memcpy(r->used, w->used, sizeof r->used);
  end(w);
  return at;
}

static bool replay_fails(void *user, const void *steps, size_t count) {
  return replay(steps, count, user) < count;
}

static step draw_step(cr_mt19937 *rng) {
  return (step){.op = (unsigned char)cr_mt19937_below(rng, OPS),
                .tensor = (unsigned char)cr_mt19937_below(rng, TENSORS),
                .context = (unsigned char)cr_mt19937_below(rng, CONTEXTS),
                .format = (unsigned char)cr_mt19937_below(rng, FORMS),
                .count = (unsigned char)cr_mt19937_below(rng, MOST + 1),
                .view = (unsigned char)cr_mt19937_below(rng, VIEWS),
                .at = (unsigned char)cr_mt19937_below(rng, 256),
                .value = (uint16_t)cr_mt19937_below(rng, RANGE)};
}

static void run_walk(bool layouts) {
  enum { STEPS = WALK_STEPS / 20 };
  uint32_t seed = walk_seed();
  step *steps = malloc(STEPS * sizeof *steps);
  assert_non_null(steps);
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (int i = 0; i < STEPS; ++i) steps[i] = draw_step(&rng);
  rule r = {.layouts = layouts};
  size_t at = replay(steps, STEPS, &r);
  if (at < STEPS) {
    size_t left = walk_shrink(steps, at + 1, sizeof *steps, replay_fails, &r);
    for (size_t i = 0; i < left; ++i) {
      const step *s = &steps[i];
      print_error("%s: tensor %d, context %d, form %d, count %d, at %d, view %d\n", op_name[s->op],
                  s->tensor, s->context, s->format, s->count, s->at, s->view);
    }
    fail_msg("seed %u: step %zu fails; the sequence above is enough", seed, at);
  }
  /* Every kind of step had something to do often. */
  for (int i = 0; i < OPS; ++i) assert_true(r.used[i] > STEPS / OPS / 20);
  free(steps);
}

TEST(s0_23_s0_25_s4_26_a_walk_over_layouts) {
  run_walk(true);
}

TEST(s0_23_s0_25_s4_26_a_walk_over_devices) {
  run_walk(false);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
