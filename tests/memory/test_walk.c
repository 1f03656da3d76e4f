/* Random walks over automaton x pool x streams x devices x faults: blocks of changing sizes are
 * used by contexts on three devices, in interleavings chosen by the walk, against a model that
 * keeps two arrays of bytes for each block, one for each side. The race checker watches. A walk
 * that fails is shrunk to a short sequence of steps, which is printed; drivers with a mistake show
 * that. */
#include "device/memory/device_memory.h"
#include "memory/sim_fixture.h"
#include "memory/walk.h"

#include "core/fail.h"
#include "core/rng.h"
#include "device/memory/pool.h"
#include "memory/syncedmem.h"

enum { BLOCKS = 5, CONTEXTS = 4, DEVICES = 3, MOST_BYTES = 9000, RUNS = 3 };

typedef enum op {
  OP_CPU,
  OP_GPU,
  OP_MUTABLE_CPU,
  OP_MUTABLE_GPU,
  OP_WRITE_CPU,
  OP_WRITE_GPU,
  OP_SET_CPU,
  OP_SET_GPU,
  OP_ASYNC_PUSH,
  OP_RENEW,
  OP_FINISH,
  OP_TRIM,
  OPS
} op;

static const char *const op_name[OPS] = {"cpu",        "gpu",       "mutable_cpu", "mutable_gpu",
                                         "write_cpu",  "write_gpu", "set_cpu",     "set_gpu",
                                         "async_push", "renew",     "finish",      "trim"};

/* Everything that is random about a step, so that steps can be left out. */
typedef struct step {
  unsigned char op, block, context;
  unsigned char runs, run[RUNS]; /* pieces of queued work that run before */
  unsigned char fault;           /* the operation that fails, counted from 1; 0: none */
  unsigned char look;            /* whether a device side is compared */
  unsigned char value;           /* that is written */
  unsigned char size;            /* of a new block */
  uint16_t at, bytes;            /* what a partial write changes, modulo the size */
} step;

static const size_t sizes[] = {1, 64, 100, 1000, 4096, MOST_BYTES};

typedef struct tracked {
  crema_syncedmem memory;
  size_t size;
  crema_head head;
  unsigned char host[MOST_BYTES],
      gpu[MOST_BYTES];   /* what each side holds, where the head says so */
  crema_context *pushes; /* whose queue holds an asynchronous push of the block; NULL: none */
  unsigned char *mine;   /* memory to adopt */
  crema_devptr theirs[DEVICES]; /* likewise */
} tracked;

typedef struct world {
  crema_context *context[CONTEXTS];
  tracked block[BLOCKS];
  unsigned char *pattern[256]; /* MOST_BYTES of each value, to copy from */
  int failed;
} world;

/* ---- the walk's world ---- */

static void new_block(world *w, tracked *b, const step *s) {
  b->size = sizes[s->size % 6];
  b->head = CREMA_UNINITIALIZED;
  b->pushes = NULL;
  cr_syncedmem_init(&b->memory, w->context[s->context]->device, b->size);
}

static world *begin(cr_sim_mistake mistake) {
  cr_sim_options options = sim_test_options(DEVICES);
  options.memory = (size_t)32 << 20;
  options.stepped = true;
  options.keep_log = false;
  options.peer[2][0] = options.peer[0][2] = false;
  sim_begin(&options);
  world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  static const int device_of[CONTEXTS] = {0, 0, 1, 2};
  for (int i = 0; i < CONTEXTS; ++i)
    w->context[i] = sim_test_context(sim_test_device(device_of[i]));
  for (int v = 0; v < 256; ++v) {
    w->pattern[v] = malloc(MOST_BYTES);
    assert_non_null(w->pattern[v]);
    memset(w->pattern[v], v, MOST_BYTES);
  }
  for (int i = 0; i < BLOCKS; ++i) {
    tracked *b = &w->block[i];
    b->mine = malloc(MOST_BYTES);
    assert_non_null(b->mine);
    for (int d = 0; d < DEVICES; ++d) {
      ok(cr_device_alloc(sim_test_device(d), MOST_BYTES, &b->theirs[d]));
    }
    new_block(w, b, &(step){.size = (unsigned char)i});
  }
  cr_sim_break(mistake);
  return w;
}

/* `sound`: nothing may be left behind. */
static void end(world *w, bool sound) {
  cr_sim_clear_faults();
  cr_sim_break(CR_SIM_SOUND);
  for (int i = 0; i < CONTEXTS; ++i) ok(crema_context_finish(w->context[i]));
  for (int i = 0; i < BLOCKS; ++i) {
    cr_syncedmem_clear(&w->block[i].memory);
    for (int d = 0; d < DEVICES; ++d) cr_device_free(sim_test_device(d), w->block[i].theirs[d]);
    free(w->block[i].mine);
  }
  for (int i = 0; i < CONTEXTS; ++i) crema_context_destroy(w->context[i]);
  for (int v = 0; v < 256; ++v) free(w->pattern[v]);
  free(w);
  if (sound) {
    sim_end();
  } else {
    cr_sim_stop(NULL);
  }
}

/* ---- what a step does ---- */

/* The host side may be changed or given away only when a push of it is done. */
static void await_push(tracked *b) {
  if (b->pushes != NULL) ok(crema_context_finish(b->pushes));
  b->pushes = NULL;
}

static bool needs_host_alone(op o) {
  return o == OP_MUTABLE_CPU || o == OP_WRITE_CPU || o == OP_SET_CPU || o == OP_RENEW;
}

static bool on_host(op o) {
  return o == OP_CPU || o == OP_MUTABLE_CPU || o == OP_WRITE_CPU || o == OP_SET_CPU;
}

static bool is_change(op o) {
  return o != OP_CPU && o != OP_GPU && o != OP_ASYNC_PUSH;
}

/* The caller's own memory is free again only when all queued work on it is done. */
static void await_device(world *w, const crema_device *device) {
  for (int i = 0; i < CONTEXTS; ++i) {
    if (w->context[i]->device != device) continue;
    ok(crema_context_finish(w->context[i]));
  }
}

static crema_status perform(tracked *b, op o, crema_context *context, void **host,
                            crema_devptr *gpu) {
  const void *read = NULL;
  crema_status status = CREMA_OK;
  switch (o) {
    case OP_CPU:
      status = crema_syncedmem_cpu_data(&b->memory, &read);
      if (status == CREMA_OK) *host = (void *)(uintptr_t)read;
      return status;
    case OP_GPU: return cr_syncedmem_read(&b->memory, context, gpu);
    case OP_MUTABLE_CPU: return crema_syncedmem_mutable_cpu_data(&b->memory, true, host);
    case OP_WRITE_CPU: return crema_syncedmem_mutable_cpu_data(&b->memory, false, host);
    case OP_MUTABLE_GPU: return cr_syncedmem_write(&b->memory, context, true, gpu);
    case OP_WRITE_GPU: return cr_syncedmem_write(&b->memory, context, false, gpu);
    case OP_SET_CPU: *host = b->mine; return crema_syncedmem_set_cpu_data(&b->memory, b->mine);
    case OP_SET_GPU:
      *gpu = b->theirs[context->device->index];
      return cr_syncedmem_adopt(&b->memory, context->device, *gpu);
    case OP_ASYNC_PUSH: return crema_syncedmem_async_push(&b->memory, context);
    default: return CREMA_OK;
  }
}

/* The two arrays and the head after an access, before what it writes. */
static void model_access(tracked *b, op o) {
  bool host = on_host(o), keeps = o == OP_CPU || o == OP_GPU || o == OP_ASYNC_PUSH ||
                                  o == OP_MUTABLE_CPU || o == OP_MUTABLE_GPU;
  if (b->head == CREMA_UNINITIALIZED) {
    memset(host ? b->host : b->gpu, 0, b->size);
    b->head = host ? CREMA_HEAD_AT_CPU : CREMA_HEAD_AT_GPU;
  } else if (keeps && host && b->head == CREMA_HEAD_AT_GPU) {
    memcpy(b->host, b->gpu, b->size);
    b->head = CREMA_SYNCED;
  } else if (keeps && !host && b->head == CREMA_HEAD_AT_CPU) {
    memcpy(b->gpu, b->host, b->size);
    b->head = CREMA_SYNCED;
  }
  if (is_change(o)) b->head = host ? CREMA_HEAD_AT_CPU : CREMA_HEAD_AT_GPU;
}

/* Writes to the newest side, a part of it where the rest is known, on the device without waiting.
 */
static void change(world *w, tracked *b, op o, const step *s, void *host, crema_devptr gpu) {
  bool part = o == OP_MUTABLE_CPU || o == OP_MUTABLE_GPU;
  size_t at = part ? s->at % b->size : 0;
  size_t bytes = part ? 1 + s->bytes % (b->size - at) : b->size;
  if (on_host(o)) {
    memset((char *)host + at, s->value, bytes);
    memset(b->host + at, s->value, bytes);
    return;
  }
  crema_context *context = w->context[s->context];
  ok(context->device->backend->copy(context, CR_COPY_HOST_TO_DEVICE, gpu.address + at,
                                    (uintptr_t)w->pattern[s->value], bytes));
  memset(b->gpu + at, s->value, bytes);
  /* Nobody knows of work on adopted memory but the one who brings it. */
  if (o == OP_SET_GPU) ok(crema_context_finish(context));
}

/* What an access returned must be what the model has on that side. */
static bool is_as_modelled(const tracked *b, op o, crema_context *context, const void *host,
                           crema_devptr gpu, bool look) {
  if (o == OP_CPU || o == OP_MUTABLE_CPU) return memcmp(host, b->host, b->size) == 0;
  if ((o != OP_GPU && o != OP_MUTABLE_GPU) || !look) return true;
  unsigned char bytes[MOST_BYTES];
  return crema_context_finish(context) == CREMA_OK && cr_sim_peek(gpu, bytes, b->size) &&
         memcmp(bytes, b->gpu, b->size) == 0;
}

static bool use_block(world *w, tracked *b, op o, const step *s) {
  crema_context *context = w->context[s->context];
  void *host = NULL;
  crema_devptr gpu = {0};
  crema_head before = b->head;
  if (o == OP_SET_GPU) await_device(w, context->device);
  if (s->fault > 0) cr_sim_fail(CR_SIM_ANY, s->fault, CREMA_E_DEVICE, false);
  crema_status status = perform(b, o, context, &host, &gpu);
  cr_sim_clear_faults();
  if (status != CREMA_OK) {
    bool wrong_state = o == OP_ASYNC_PUSH && before != CREMA_HEAD_AT_CPU;
    w->failed += s->fault > 0;
    return (s->fault > 0 || wrong_state) && crema_syncedmem_head(&b->memory) == before;
  }
  if (o == OP_ASYNC_PUSH && before != CREMA_HEAD_AT_CPU) return false;
  if (o == OP_ASYNC_PUSH) b->pushes = context;
  model_access(b, o);
  if (!is_as_modelled(b, o, context, host, gpu, s->look % 4 == 0)) return false;
  if (is_change(o)) change(w, b, o, s, host, gpu);
  return crema_syncedmem_head(&b->memory) == b->head;
}

static bool take_step(world *w, const step *s) {
  tracked *b = &w->block[s->block];
  crema_context *context = w->context[s->context];
  op o = (op)s->op;
  for (int i = 0; i < s->runs; ++i) cr_sim_step_any(s->run[i]);
  if (needs_host_alone(o)) await_push(b);
  /* A move to another device lets the old device side go, which the push still fills; that is
   * safe. A push on one context after a push on another needs the first to be known. */
  if (o == OP_ASYNC_PUSH) await_push(b);
  switch (o) {
    case OP_RENEW:
      cr_syncedmem_clear(&b->memory);
      new_block(w, b, s);
      break;
    case OP_FINISH:
      if (crema_context_finish(context) != CREMA_OK) return false;
      break;
    case OP_TRIM:
      if (s->value % 50 == 0) cr_pool_trim(context->device->pool);
      break;
    default:
      if (!use_block(w, b, o, s)) return false;
      break;
  }
  return cr_sim_races(NULL, 0) == 0;
}

/* ---- walks ---- */

static step draw_step(cr_mt19937 *rng, unsigned fault_share) {
  step s = {.op = (unsigned char)cr_mt19937_below(rng, OPS),
            .block = (unsigned char)cr_mt19937_below(rng, BLOCKS),
            .context = (unsigned char)cr_mt19937_below(rng, CONTEXTS),
            /* Seldom, so that queues are long and memory is freed while work still uses it. */
            .runs = (unsigned char)(cr_mt19937_below(rng, 4) == 0 ? RUNS : 0),
            .look = (unsigned char)cr_mt19937_below(rng, 256),
            .value = (unsigned char)cr_mt19937_below(rng, 256),
            .size = (unsigned char)cr_mt19937_below(rng, 6),
            .at = (uint16_t)cr_mt19937_below(rng, MOST_BYTES),
            .bytes = (uint16_t)cr_mt19937_below(rng, MOST_BYTES)};
  for (int i = 0; i < RUNS; ++i) s.run[i] = (unsigned char)cr_mt19937_below(rng, 256);
  if (fault_share > 0 && cr_mt19937_below(rng, fault_share) == 0) {
    s.fault = (unsigned char)(1 + cr_mt19937_below(rng, 6));
  }
  return s;
}

static step *draw_steps(uint32_t seed, size_t count, unsigned fault_share) {
  step *steps = malloc(count * sizeof *steps);
  assert_non_null(steps);
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (size_t i = 0; i < count; ++i) steps[i] = draw_step(&rng, fault_share);
  return steps;
}

/* The number of steps that went well, `count` when all did; `failed` (may be NULL) gets the number
 * of failures on the way, `race` (may be NULL) the text of a race. */
static size_t walk(const step *steps, size_t count, cr_sim_mistake mistake, int *failed,
                   char race[256]) {
  world *w = begin(mistake);
  size_t at = 0;
  while (at < count && take_step(w, &steps[at])) ++at;
  if (failed != NULL) *failed = w->failed;
  if (race != NULL) cr_sim_races(race, 256);
  end(w, at == count && mistake == CR_SIM_SOUND);
  return at;
}

static bool walk_fails(void *user, const void *steps, size_t count) {
  const cr_sim_mistake *mistake = user;
  return walk(steps, count, *mistake, NULL, NULL) < count;
}

/* Shrinks the first `count` steps, of which the last one fails, and prints what is left. */
static size_t shrink_and_print(step *steps, size_t count, cr_sim_mistake mistake) {
  char race[256] = "";
  count = walk_shrink(steps, count, sizeof *steps, walk_fails, &mistake);
  walk(steps, count, mistake, NULL, race);
  for (size_t i = 0; i < count; ++i) {
    const step *s = &steps[i];
    print_message("  %s block %d, context %d", op_name[s->op], s->block, s->context);
    if (s->fault > 0) print_message(", operation %d fails", s->fault);
    print_message("\n");
  }
  if (race[0] != '\0') print_message("  race: %s\n", race);
  return count;
}

static void run_walk(size_t count, unsigned fault_share) {
  uint32_t seed = walk_seed();
  step *steps = draw_steps(seed, count, fault_share);
  int failed = 0;
  size_t at = walk(steps, count, CR_SIM_SOUND, &failed, NULL);
  if (at < count) {
    size_t left = shrink_and_print(steps, at + 1, CR_SIM_SOUND);
    fail_msg("seed %u: step %zu fails; the %zu steps above are enough: %s", seed, at, left,
             crema_error_text());
  }
  if (fault_share > 0) assert_true(failed > (int)count / 200);
  free(steps);
}

TEST(s0_11_a_million_steps_over_pool_streams_and_devices) {
  run_walk(WALK_STEPS, 0);
}

TEST(s0_28_a_million_steps_with_faults) {
  run_walk(WALK_STEPS, 16);
}

/* A driver with a mistake fails the walk, and a few of them are enough.
 */
TEST(mistakes_are_found_and_shrunk) {
  enum { LONG = 100000, SHORT = 8 };
  uint32_t seed = walk_seed();
  for (int mistake = CR_SIM_SOUND + 1; mistake < CR_SIM_MISTAKES; ++mistake) {
    step *steps = draw_steps(seed, LONG, 0);
    size_t at = walk(steps, LONG, (cr_sim_mistake)mistake, NULL, NULL);
    if (at == LONG) fail_msg("seed %u: mistake %d was not found", seed, mistake);
    print_message("mistake %d, found at step %zu:\n", mistake, at);
    size_t left = shrink_and_print(steps, at + 1, (cr_sim_mistake)mistake);
    assert_in_range(left, 1, SHORT);
    /* It is the mistake that fails, and without any of the steps it does not. */
    assert_int_equal(walk(steps, left, CR_SIM_SOUND, NULL, NULL), left);
    for (size_t out = 0; out < left; ++out) {
      step rest[SHORT];
      memcpy(rest, steps, out * sizeof *rest);
      memcpy(rest + out, steps + out + 1, (left - out - 1) * sizeof *rest);
      assert_int_equal(walk(rest, left - 1, (cr_sim_mistake)mistake, NULL, NULL), left - 1);
    }
    free(steps);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
