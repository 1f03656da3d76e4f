/* Max pooling over plain rows and over values that are channels-last against the reference kernel,
 * to the bit: equal values, zeros of both signs, infinities, values that are no numbers, and planes
 * that fill a strip or do not. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/rng.h"
#include "device/backend/kernel.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plain_rows.h"
#include "device/cpu/onednn/layout.h"
#include "device/device.h"
#include "memory/blob.h"

typedef struct windows_case {
  int64_t n, c, in[2], kernel[2], stride[2], pad[2];
} windows_case;

static const windows_case cases[] = {
    {1, 3, {7, 9}, {3, 3}, {2, 2}, {0, 0}},       {2, 5, {13, 13}, {3, 3}, {2, 2}, {1, 1}},
    {1, 40, {4, 6}, {3, 3}, {2, 2}, {0, 0}},      {2, 7, {6, 31}, {3, 3}, {1, 1}, {1, 1}},
    {1, 2, {11, 300}, {3, 3}, {2, 2}, {1, 2}},    {1, 1, {3, 3}, {3, 3}, {1, 1}, {0, 0}},
    {1, 2, {3, 2010}, {3, 3}, {2, 2}, {0, 0}},    {3, 4, {15, 10}, {5, 3}, {3, 2}, {4, 1}},
    {1, 9, {12, 8}, {1, 3}, {5, 1}, {0, 2}},      {1, 9, {9, 8}, {4, 3}, {1, 2}, {0, 2}},
    {1, 3, {56, 56}, {56, 56}, {56, 56}, {0, 0}}, {2, 3, {30, 33}, {10, 9}, {10, 9}, {3, 4}},
    {1, 2, {20, 40}, {2, 16}, {1, 20}, {1, 3}},   {2, 3, {8, 40}, {2, 2}, {2, 2}, {0, 0}},
    {1, 2, {9, 33}, {2, 2}, {1, 1}, {1, 1}},      {1, 2, {5, 17}, {3, 2}, {2, 2}, {1, 1}},
    {1, 3, {6, 3}, {2, 3}, {1, 2}, {1, 2}},       {1, 2, {9, 19}, {3, 3}, {5, 2}, {0, 0}},
    {3, 4, {15, 20}, {5, 3}, {3, 2}, {4, 1}},     {2, 5, {27, 27}, {3, 3}, {2, 2}, {1, 1}},
    {1, 9, {12, 18}, {1, 3}, {5, 1}, {0, 2}},     {1, 9, {9, 16}, {4, 3}, {1, 2}, {0, 2}},
};

/* The forward row for planes in plain order takes these. */
static bool is_short(const windows_case *w) {
  return w->kernel[1] <= 3 && w->in[1] >= 16 && w->in[1] <= 2048;
}

static int64_t out_of(const windows_case *w, int a) {
  int64_t out = (w->in[a] + 2 * w->pad[a] - w->kernel[a] + w->stride[a] - 1) / w->stride[a] + 1;
  while ((out - 1) * w->stride[a] - w->pad[a] >= w->in[a]) --out;
  return out;
}

/* Few values, so that many are equal; `odd`: also what is no number. */
static void fill(cr_mt19937 *rng, bool odd, int64_t count, float *value) {
  static const float values[] = {0, -0.0f, 1, -1, 2, FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, NAN};
  for (int64_t i = 0; i < count; ++i) value[i] = values[cr_mt19937_below(rng, odd ? 10 : 5)];
}

typedef struct problem {
  cr_op_desc *desc;
  cr_format format[3], hint[3];
  cr_plan plan;
} problem;

static void describe(problem *p, const windows_case *w, const cr_kernel *kernel) {
  const bool backward = kernel->op == CR_OP_POOL_BWD;
  const crema_shape in = cr_shape_4(w->n, w->c, w->in[0], w->in[1]);
  const crema_shape out = cr_shape_4(w->n, w->c, out_of(w, 0), out_of(w, 1));
  p->desc = calloc(1, cr_op_desc_bytes(3));
  assert_non_null(p->desc);
  p->desc->kind = kernel->op;
  p->desc->type = CREMA_F32;
  p->desc->args = 3;
  p->desc->u.pool.method = CR_POOL_MAX;
  p->desc->u.pool.window.axes = 2;
  for (int a = 0; a < 2; ++a) {
    cr_window *to = &p->desc->u.pool.window;
    to->kernel[a] = w->kernel[a];
    to->stride[a] = w->stride[a];
    to->pad[a] = w->pad[a];
    to->dilation[a] = 1;
  }
  p->desc->arg[0] = (cr_op_arg){.type = CREMA_F32, .shape = backward ? out : in};
  p->desc->arg[1] = (cr_op_arg){.type = backward ? CREMA_I32 : CREMA_F32, .shape = out};
  p->desc->arg[2] =
      (cr_op_arg){.type = backward ? CREMA_F32 : CREMA_I32, .shape = backward ? in : out};
  for (int i = 0; i < 3; ++i) {
    p->format[i] = p->hint[i] = (cr_format){p->desc->arg[i].type, NULL};
  }
  p->plan = (cr_plan){.desc = p->desc,
                      .context = cr_host_context(),
                      .kernel = kernel,
                      .hint = p->hint,
                      .format = p->format};
}

static void prepare(problem *p, const windows_case *w, const cr_kernel *kernel) {
  describe(p, w, kernel);
  ok(kernel->plan(&p->plan));
}

static void run(problem *p, void *a, void *b, void *c, bool add) {
  const crema_devptr buffer[] = {{(uintptr_t)a}, {(uintptr_t)b}, {(uintptr_t)c}};
  const bool accumulate[] = {false, false, add};
  ok(p->plan.kernel->run(&(cr_call){.plan = &p->plan,
                                    .desc = p->desc,
                                    .context = p->plan.context,
                                    .buffer = buffer,
                                    .accumulate = accumulate}));
}

static void finish(problem *p) {
  p->plan.kernel->destroy(&p->plan);
  free(p->desc);
}

/* Positions as I32, whichever the row made. */
static void widen(const problem *p, int64_t count, int32_t *index) {
  if (p->format[2].type != CREMA_U8) return;
  const uint8_t *bytes = (const uint8_t *)index;
  for (int64_t i = count - 1; i >= 0; --i) index[i] = bytes[i];
}

static void check_backward(const windows_case *w, cr_mt19937 *rng, int64_t in, int64_t out,
                           const int32_t *index) {
  float *diff = malloc((size_t)(out + 2 * in) * sizeof *diff), *found = diff + out;
  uint8_t *bytes = malloc((size_t)out);
  assert_true(diff != NULL && bytes != NULL);
  for (int64_t i = 0; i < out; ++i) diff[i] = (float)cr_mt19937_below(rng, 100);
  for (int64_t i = 0; i < out; ++i) bytes[i] = (uint8_t)index[i];
  problem p, want;
  prepare(&p, w, &cr_pool_bwd_rows);
  prepare(&want, w, &cr_pool_bwd_f32_ref);
  run(&want, diff, (void *)(uintptr_t)index, found + in, false);
  for (int add = 0; add < 2; ++add) {
    for (int64_t i = 0; i < in; ++i) found[i] = 7;
    run(&p, diff, bytes, found, add);
    for (int64_t i = 0; i < in; ++i) {
      assert_float_equal(found[i], found[in + i] + (add ? 7 : 0), 0);
    }
  }
  finish(&want);
  finish(&p);
  free(bytes);
  free(diff);
}

/* dst and index: room for `out` results, then the wanted ones. */
static void check_forward(const windows_case *w, float *src, int64_t out, float *dst,
                          int32_t *index) {
  problem p;
  prepare(&p, w, &cr_pool_fwd_rows);
  run(&p, src, dst, index, false);
  widen(&p, out, index);
  assert_memory_equal(dst, dst + out, (size_t)out * sizeof *dst);
  assert_memory_equal(index, index + out, (size_t)out * sizeof *index);
  memset(dst, 0, (size_t)out * sizeof *dst);
  run(&p, src, dst, NULL, false);
  assert_memory_equal(dst, dst + out, (size_t)out * sizeof *dst);
  finish(&p);
}

static void check_case(const windows_case *w, cr_mt19937 *rng, bool odd) {
  const int64_t in = w->n * w->c * w->in[0] * w->in[1];
  const int64_t out = w->n * w->c * out_of(w, 0) * out_of(w, 1);
  float *src = malloc((size_t)(in + 2 * out) * sizeof *src), *dst = src + in;
  int32_t *index = malloc((size_t)(2 * out) * sizeof *index);
  assert_true(src != NULL && index != NULL);
  fill(rng, odd, in, src);
  problem want;
  prepare(&want, w, &cr_pool_fwd_f32_ref);
  run(&want, src, dst + out, index + out, false);
  if (is_short(w)) check_forward(w, src, out, dst, index);
  if (w->kernel[0] * w->kernel[1] <= UINT8_MAX) check_backward(w, rng, in, out, index + out);
  finish(&want);
  free(index);
  free(src);
}

/* ---- channels-last ------------------------------------------------------- */

/* A float whose value `type` has, too. */
static float fit(crema_dtype type, float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  if (type == CREMA_BF16) bits &= 0xffff0000u;
  if (type == CREMA_U8) bits &= 0x7fffffffu;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void put(crema_dtype type, float value, int64_t at, void *to) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  if (type == CREMA_F32) ((float *)to)[at] = value;
  if (type == CREMA_BF16) ((uint16_t *)to)[at] = (uint16_t)(bits >> 16);
  if (type == CREMA_U8) ((uint8_t *)to)[at] = (uint8_t)value;
  if (type == CREMA_I8) ((int8_t *)to)[at] = (int8_t)value;
}

/* The values of n planes of c channels, `positions` each, channels-last. */
static void *turn(crema_dtype type, int64_t n, int64_t c, int64_t positions, const float *value) {
  void *to = calloc((size_t)(n * c * positions), crema_dtype_size(type));
  assert_non_null(to);
  for (int64_t i = 0; i < n * c * positions; ++i) {
    const int64_t channel = i / positions % c;
    put(type, value[i], (i / (c * positions) * positions + i % positions) * c + channel, to);
  }
  return to;
}

static void check_last(const windows_case *w, crema_dtype type, const cr_kernel *row,
                       cr_mt19937 *rng, bool odd) {
  const int64_t positions = w->in[0] * w->in[1], results = out_of(w, 0) * out_of(w, 1);
  const int64_t in = w->n * w->c * positions, out = w->n * w->c * results;
  float *src = malloc((size_t)(in + out) * sizeof *src), *wanted = src + in;
  assert_non_null(src);
  fill(rng, odd, in, src);
  for (int64_t i = 0; i < in; ++i) src[i] = fit(type, src[i]);
  problem p, want;
  prepare(&want, w, &cr_pool_fwd_f32_ref);
  run(&want, src, wanted, NULL, false);
  describe(&p, w, row);
  p.desc->type = row->type;
  p.desc->arg[0].type = p.desc->arg[1].type = p.hint[0].type = type;
  p.desc->arg[2].shape.axes = -1;
  ok(cr_dnnl_layout_ordered(cr_cpu_device(), &p.desc->arg[0].shape, type,
                            (cr_dnnl_order){CR_DNNL_LAST, 1}, &p.hint[0].layout));
  ok(row->plan(&p.plan));
  /* One position per plane is the same in plain order. */
  assert_int_equal(cr_dnnl_layout_order(p.format[1].layout).kind,
                   results == 1 ? CR_DNNL_PLAIN : CR_DNNL_LAST);
  void *from = turn(type, w->n, w->c, positions, src);
  void *to = turn(type, w->n, w->c, results, wanted);
  void *found = calloc((size_t)out, crema_dtype_size(type));
  assert_non_null(found);
  run(&p, from, found, NULL, false);
  assert_memory_equal(found, to, (size_t)out * crema_dtype_size(type));
  free(found);
  free(to);
  free(from);
  finish(&p);
  finish(&want);
  free(src);
}

TEST(maxima_of_channels_are_those_of_the_reference_kernel) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 1702);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (cases[i].c < 2 || cases[i].in[0] < 2) continue; /* in plain order as well */
    for (int odd = 0; odd < 2; ++odd) {
      check_last(&cases[i], CREMA_F32, &cr_pool_fwd_channels, &rng, odd);
      check_last(&cases[i], CREMA_BF16, &cr_pool_fwd_channels, &rng, odd);
    }
    check_last(&cases[i], CREMA_U8, &cr_pool_fwd_channels_u8, &rng, false);
    check_last(&cases[i], CREMA_I8, &cr_pool_fwd_channels_i8, &rng, false);
  }
}

TEST(maxima_are_those_of_the_reference_kernel) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 1701);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    for (int odd = 0; odd < 2; ++odd) check_case(&cases[i], &rng, odd);
  }
}

/* What the row keeps of a plane's columns lies on the stack. */
TEST(rows_of_wide_planes_are_left_to_others) {
  const windows_case wide = {1, 1, {4, 9000}, {2, 2}, {2, 2}, {0, 0}};
  problem p;
  describe(&p, &wide, &cr_pool_fwd_rows);
  assert_int_equal(p.plan.kernel->plan(&p.plan), CREMA_E_UNSUPPORTED);
  free(p.desc);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
