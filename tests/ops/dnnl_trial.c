#include "dnnl_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/device.h"
#include "device/memory/host_memory.h"

static unsigned random_state;

int seed_values(void **state) {
  (void)state;
  random_state = 20240517;
  return 0;
}

static float random_value(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return (float)(random_state >> 8) / 8388608.0f - 1.0f;
}

void start(fixture *f, cr_op_kind kind) {
  memset(f, 0, sizeof *f);
  f->desc = calloc(1, cr_op_desc_bytes(ARGS_MAX));
  assert_non_null(f->desc);
  f->desc->kind = kind;
  f->desc->type = CREMA_F32;
}

size_t value_bytes(const fixture *f, int i) {
  const cr_op_arg *arg = &f->desc->arg[i];
  return (size_t)crema_shape_count(&arg->shape, 0, arg->shape.axes) * crema_dtype_size(arg->type);
}

static cr_op_arg *new_argument(fixture *f, int axes, crema_dtype type) {
  assert_true(f->desc->args < ARGS_MAX);
  cr_op_arg *arg = &f->desc->arg[f->desc->args++];
  *arg = (cr_op_arg){.shape.axes = axes, .type = type, .scale = 1};
  return arg;
}

void add_shape(fixture *f, char access, crema_dtype type, const crema_shape *shape) {
  f->access[f->desc->args] = access;
  new_argument(f, shape->axes, type)->shape = *shape;
}

void add(fixture *f, char access, crema_dtype type, int axes, const int64_t *dim) {
  crema_shape shape = {.axes = axes};
  for (int i = 0; i < axes; ++i) shape.dim[i] = dim[i];
  int i = f->desc->args;
  add_shape(f, access, type, &shape);
  f->hint[i] = (cr_format){type, NULL};
  f->value[i] = calloc(1, value_bytes(f, i));
  assert_non_null(f->value[i]);
  if (type != CREMA_F32) return;
  float *v = f->value[i];
  for (size_t k = 0; k < value_bytes(f, i) / sizeof *v; ++k) v[k] = random_value();
}

void add_absent(fixture *f) {
  f->access[f->desc->args] = 'W';
  new_argument(f, -1, CREMA_F32);
}

bool is_absent(const fixture *f, int i) {
  return f->desc->arg[i].shape.axes < 0;
}

void finish(fixture *f) {
  for (int i = 0; i < f->desc->args; ++i) free(f->value[i]);
  free(f->desc);
  f->desc = NULL;
}

/* The n-th row for the kind, best first; NULL after the last. */
const cr_kernel *dnnl_row(cr_op_kind kind, int n) {
  static const cr_kernel *const rows[] = {
#define ROW(name) &cr_##name,
      CR_FAST_ROWS(ROW)
#undef ROW
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    if (rows[i]->op == kind && n-- == 0) return rows[i];
  }
  return NULL;
}

/* The last row of the table. */
const cr_kernel *ref_row(cr_op_kind kind) {
  const cr_kernel *last = NULL;
  for (const cr_kernel *const *row = cr_cpu_kernels; *row != NULL; ++row) {
    if ((*row)->op == kind && (*row)->type == CREMA_F32 && cr_kernel_takes(*row, CREMA_F32))
      last = *row;
  }
  return last;
}

static void convert(const fixture *f, int i, cr_format dst_format, void *dst, cr_format src_format,
                    void *src) {
  const cr_op_arg *arg = &f->desc->arg[i];
  if (cr_format_equal(dst_format, src_format)) {
    memcpy(dst, src, dst_format.layout != NULL ? dst_format.layout->bytes : value_bytes(f, i));
    return;
  }
  int64_t count = crema_shape_count(&arg->shape, 0, arg->shape.axes);
  ok(cr_cpu_device()->backend->convert(cr_host_context(), count, dst_format,
                                       (crema_devptr){(uintptr_t)dst}, src_format,
                                       (crema_devptr){(uintptr_t)src}));
}

/* Plans and, unless the kernel declines, makes the arguments' memory. */
crema_status prepare(trial *t, fixture *f, const cr_kernel *kernel) {
  *t = (trial){.kernel = kernel};
  assert_non_null(kernel);
  t->plan = (cr_plan){.desc = f->desc,
                      .context = cr_host_context(),
                      .kernel = kernel,
                      .hint = f->hint,
                      .format = t->format};
  for (int i = 0; i < f->desc->args; ++i) t->format[i] = (cr_format){f->desc->arg[i].type, NULL};
  crema_status status = kernel->plan == NULL ? CREMA_OK : kernel->plan(&t->plan);
  if (status != CREMA_OK) return status;
  for (int i = 0; i < f->desc->args; ++i) {
    if (is_absent(f, i)) continue;
    cr_format plain = {f->desc->arg[i].type, NULL};
    size_t bytes = t->format[i].layout != NULL ? t->format[i].layout->bytes : value_bytes(f, i);
    ok(cr_host_alloc(bytes, &t->memory[i]));
    /* Old content of large numbers: reading it would show. */
    for (size_t k = 0; k < bytes; ++k) ((unsigned char *)t->memory[i])[k] = 0x7e;
    bool read = f->access[i] == 'R' || f->access[i] == 'U';
    if (read && !(t->format[i].layout != NULL && cr_dnnl_layout_is_opaque(t->format[i].layout))) {
      convert(f, i, t->format[i], t->memory[i], plain, f->value[i]);
    }
  }
  return CREMA_OK;
}

/* `add_to`: to what the accumulated arguments hold. */
void execute_on(trial *t, fixture *f, bool add_to) {
  crema_devptr buffer[ARGS_MAX] = {{0}};
  bool accumulate[ARGS_MAX] = {false};
  for (int i = 0; i < f->desc->args; ++i) {
    buffer[i].address = (uintptr_t)t->memory[i];
    accumulate[i] = add_to && f->access[i] == 'A';
  }
  void *scratchpad = NULL;
  ok(cr_host_alloc(t->plan.workspace_bytes, &scratchpad));
  void *execution = NULL;
  if (t->kernel->open != NULL) ok(t->kernel->open(&t->plan, &execution));
  const cr_call call = {.plan = &t->plan,
                        .execution = execution,
                        .desc = t->plan.desc,
                        .context = t->plan.context,
                        .buffer = buffer,
                        .accumulate = accumulate,
                        .scalars = &f->scalars,
                        .workspace = {(uintptr_t)scratchpad}};
  ok(t->kernel->run(&call));
  if (t->kernel->close != NULL) t->kernel->close(&t->plan, execution);
  cr_host_free(scratchpad);
}

void execute(trial *t, fixture *f) {
  execute_on(t, f, false);
}

/* Argument i's values in plain format; free with free(). */
void *fetch(const trial *t, const fixture *f, int i) {
  void *values = calloc(1, value_bytes(f, i));
  assert_non_null(values);
  convert(f, i, (cr_format){f->desc->arg[i].type, NULL}, values, t->format[i], t->memory[i]);
  return values;
}

void release(trial *t) {
  for (int i = 0; i < ARGS_MAX; ++i) cr_host_free(t->memory[i]);
  if (t->kernel->destroy != NULL) t->kernel->destroy(&t->plan);
}

void compare_values(const fixture *f, int arg, const void *got, const void *want,
                    double tolerance) {
  if (f->desc->arg[arg].type != CREMA_F32) {
    assert_memory_equal(got, want, value_bytes(f, arg));
    return;
  }
  const float *a = got, *b = want;
  for (size_t i = 0; i < value_bytes(f, arg) / sizeof *a; ++i) {
    if (fabs((double)a[i] - b[i]) <= tolerance * (1.0 + fabs((double)b[i]))) continue;
    fail_msg("argument %d, value %zu: %.9g, the plain row has %.9g", arg, i, (double)a[i],
             (double)b[i]);
  }
}

/* Hints that every F32 argument of 3 to 5 axes is held in `order`. */
void hold_argument(fixture *f, int arg, cr_dnnl_order order) {
  const cr_op_arg *a = &f->desc->arg[arg];
  cr_md md = NULL;
  ok(cr_dnnl_md_ordered(&a->shape, a->type, order, &md));
  ok(cr_dnnl_layout(cr_cpu_device(), md, &f->hint[arg].layout));
  cr_md_destroy(md);
}

void hold(fixture *f, cr_dnnl_order order) {
  for (int i = 0; i < f->desc->args; ++i) {
    const cr_op_arg *arg = &f->desc->arg[i];
    f->hint[i].layout = NULL;
    if (is_absent(f, i) || arg->type != CREMA_F32 || f->access[i] == 'W') continue;
    if (arg->shape.axes >= 3 && arg->shape.axes <= 5) hold_argument(f, i, order);
  }
}

/* Fails unless the pads in the memory of argument i, of which `values` are the values, are 0. */
static void check_pads(const trial *t, const fixture *f, int i, void *values) {
  const cr_layout *layout = t->format[i].layout;
  void *padded = NULL;
  if (layout == NULL || layout->gaps || layout->type != CREMA_F32) return;
  ok(cr_host_alloc(layout->bytes, &padded));
  convert(f, i, t->format[i], padded, (cr_format){CREMA_F32, NULL}, values);
  const float *want = padded, *got = t->memory[i];
  for (size_t k = 0; k < layout->bytes / sizeof *want; ++k) {
    if (want[k] == got[k] || (isnan(want[k]) && isnan(got[k]))) continue;
    fail_msg("argument %d: %g in a pad", i, (double)got[k]);
  }
  cr_host_free(padded);
}

/* Runs the row and the plain one on the values and compares all that they write. Returns false
 * when the row declines. */
static bool row_agrees(fixture *f, const cr_kernel *row, double tolerance) {
  trial got, want;
  crema_status status = prepare(&got, f, row);
  if (status == CREMA_E_UNSUPPORTED) return false;
  ok(status);
  execute(&got, f);
  ok(prepare(&want, f, ref_row(f->desc->kind)));
  execute(&want, f);
  for (int i = 0; i < f->desc->args; ++i) {
    if (is_absent(f, i) || f->access[i] == 'R') continue;
    if (got.format[i].layout != NULL && cr_dnnl_layout_is_opaque(got.format[i].layout)) continue;
    void *a = fetch(&got, f, i), *b = fetch(&want, f, i);
    compare_values(f, i, a, b, tolerance);
    check_pads(&got, f, i, a);
    free(b);
    free(a);
  }
  release(&want);
  release(&got);
  return true;
}

/* ---- the same in shorter element types ----------------------------------- */

const crema_dtype short_types[SHORT_TYPES] = {CREMA_BF16, CREMA_F16};

int taken[SHORT_TYPES][CR_OP_KINDS];

static bool is_value(const fixture *f, int i) {
  if (is_absent(f, i) || f->desc->arg[i].type != CREMA_F32) return false;
  return cr_op_kind_use(f->desc->kind, f->desc->args, i).role == CR_ROLE_VALUES;
}

/* A copy of `f` whose values for which `which` has a bit are of `type`; and in `rounded` a copy
 * with the same values in F32. */
void shorten(const fixture *f, crema_dtype type, unsigned which, fixture *out, fixture *rounded) {
  for (int copy = 0; copy < 2; ++copy) {
    fixture *to = copy == 0 ? out : rounded;
    *to = *f;
    to->desc = calloc(1, cr_op_desc_bytes(ARGS_MAX));
    assert_non_null(to->desc);
    memcpy(to->desc, f->desc, sizeof *f->desc);
    to->desc->args = 0;
    for (int i = 0; i < f->desc->args; ++i) {
      if (is_absent(f, i)) {
        add_absent(to);
        continue;
      }
      const cr_op_arg *arg = &f->desc->arg[i];
      const bool is_short = is_value(f, i) && (which >> i & 1u) != 0;
      const unsigned before = random_state;
      add(to, f->access[i], is_short && copy == 0 ? type : arg->type, arg->shape.axes,
          arg->shape.dim);
      random_state = before;
      to->desc->arg[i].scale = arg->scale;
      to->hint[i] = f->hint[i];
      const int64_t count = crema_shape_count(&arg->shape, 0, arg->shape.axes);
      if (!is_short) {
        memcpy(to->value[i], f->value[i], value_bytes(f, i));
      } else if (copy == 0) {
        cr_store_floats(type, to->value[i], 0, count, f->value[i]);
        to->hint[i].type = type;
      } else {
        cr_load_floats(type, out->value[i], 0, count, to->value[i]);
      }
      const cr_layout *layout = f->hint[i].layout;
      if (!is_short || copy != 0 || layout == NULL) continue;
      cr_md md = NULL;
      ok(cr_dnnl_md_ordered(&layout->shape, type, cr_dnnl_layout_order(layout), &md));
      ok(cr_dnnl_layout(cr_cpu_device(), md, &to->hint[i].layout));
      cr_md_destroy(md);
    }
  }
}

/* The step from 1 to the next number. */
static double epsilon_of(crema_dtype type) {
  return type == CREMA_BF16 ? 0x1p-7 : 0x1p-10;
}

/* Runs the row on shortened values, and the plain one in F32 on the same numbers: a result may be
 * off by its own rounding. Returns false when the row declines. */
bool row_agrees_in(const fixture *f, const cr_kernel *row, crema_dtype type, unsigned which,
                   double tolerance) {
  fixture values, rounded;
  trial got, want;
  shorten(f, type, which, &values, &rounded);
  bool accepted = prepare(&got, &values, row) == CREMA_OK;
  if (accepted) {
    execute(&got, &values);
    ok(prepare(&want, &rounded, ref_row(f->desc->kind)));
    execute(&want, &rounded);
    for (int i = 0; i < f->desc->args; ++i) {
      if (is_absent(f, i) || f->access[i] == 'R') continue;
      if (got.format[i].layout != NULL && cr_dnnl_layout_is_opaque(got.format[i].layout)) continue;
      void *a = fetch(&got, &values, i), *b = fetch(&want, &rounded, i), *wide = b;
      const bool is_short = values.desc->arg[i].type == type;
      if (is_short) {
        wide = malloc(value_bytes(&rounded, i));
        assert_non_null(wide);
        cr_load_floats(type, a, 0, (int64_t)(value_bytes(&rounded, i) / sizeof(float)), wide);
      }
      compare_values(&rounded, i, is_short ? wide : a, b,
                     is_short ? tolerance + epsilon_of(type) / 2 : 4 * tolerance);
      if (is_short) free(wide);
      free(b);
      free(a);
    }
    release(&want);
    release(&got);
  }
  finish(&rounded);
  finish(&values);
  return accepted;
}

static void agree_in_short_types(const fixture *f, const cr_kernel *row, double tolerance) {
  for (int t = 0; t < 2; ++t) {
    if (!cr_kernel_takes(row, short_types[t])) continue;
    if (row_agrees_in(f, row, short_types[t], ~0u, tolerance)) ++taken[t][f->desc->kind];
  }
}

/* All rows of the kind, in all element types. Returns false when all decline F32. */
bool agree(fixture *f, double tolerance) {
  bool any = false;
  for (int n = 0; dnnl_row(f->desc->kind, n) != NULL; ++n) {
    if (row_agrees(f, dnnl_row(f->desc->kind, n), tolerance)) any = true;
    agree_in_short_types(f, dnnl_row(f->desc->kind, n), tolerance);
  }
  return any;
}

const cr_dnnl_order all_orders[ORDERS] = {
    {CR_DNNL_PLAIN, 1}, {CR_DNNL_BLOCKED, 8}, {CR_DNNL_BLOCKED, 16}, {CR_DNNL_LAST, 1}};

/* In all orders; `wanted`: at least so many of the four must not be declined. */
void agree_in_all_orders(fixture *f, double tolerance, int wanted) {
  int accepted = 0;
  for (size_t i = 0; i < sizeof all_orders / sizeof all_orders[0]; ++i) {
    hold(f, all_orders[i]);
    if (agree(f, tolerance)) ++accepted;
  }
  assert_true(accepted >= wanted);
  finish(f);
}

bool multiplies_bf16(void) {
  const unsigned bf16 = dnnl_cpu_isa_avx512_core_bf16;
  return ((unsigned)dnnl_get_effective_cpu_isa() & bf16) == bf16;
}

void set_window(cr_window *w, int axes, int64_t kernel, int64_t stride, int64_t pad,
                int64_t dilation) {
  w->axes = axes;
  for (int i = 0; i < axes; ++i) {
    w->kernel[i] = kernel;
    w->stride[i] = stride;
    w->pad[i] = pad;
    w->dilation[i] = dilation;
  }
}

/* Hints that argument 0 (outer,C,inner) is held as (N,C,H,W) in `order`. */
void hold_images(fixture *f, int64_t height, int64_t width, cr_dnnl_order order) {
  const int64_t *dim = f->desc->arg[0].shape.dim;
  crema_shape images = {4, {dim[0], dim[1], height, width}};
  cr_md md = NULL;
  ok(cr_dnnl_md_ordered(&images, CREMA_F32, order, &md));
  ok(cr_dnnl_layout(cr_cpu_device(), md, &f->hint[0].layout));
  cr_md_destroy(md);
}

/* `variant`: forward has both, no scale or no bias. */
void make_affine(fixture *f, cr_op_kind kind, int64_t channels, int64_t inner, int variant) {
  const bool forward = kind == CR_OP_AFFINE_FWD, data = kind == CR_OP_AFFINE_BWD_DATA;
  start(f, kind);
  ADD(f, 'R', 3, channels, inner);
  if (kind == CR_OP_AFFINE_BWD_SCALE) ADD(f, 'R', 3, channels, inner);
  if (forward && variant == 1) add_absent(f);
  else ADD(f, forward || data ? 'R' : 'A', channels);
  if (forward && variant == 2) add_absent(f);
  else if (forward) ADD(f, 'R', channels);
  if (forward || data) ADD(f, 'W', 3, channels, inner);
}
