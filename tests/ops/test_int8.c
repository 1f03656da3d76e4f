/* Every row of the kernel table that computes with integers of 8 bits, against sums of exact
 * integers: the factors are powers of two and the biases whole, so that nothing but the last
 * rounding is inexact, and every value must be the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/rng.h"
#include "memory/blob.h"
#include "op_check.h"
#include "op_make.h"
#include "op_reference.h"
#include "op_run.h"

static uint32_t seed;
static bool ran[OP_ROWS_MAX];

/* ---- one op -------------------------------------------------------------- */

typedef struct problem {
  cr_op_desc *desc;
  double *value[OP_MAX_ARGS]; /* what is read, and for the result what it must be */
  int result;
} problem;

static double lowest(crema_dtype type) {
  return type == CREMA_U8 ? 0 : -128;
}

static double highest(crema_dtype type) {
  return type == CREMA_U8 ? 255 : 127;
}

/* rint rounds ties to the even number. */
static double cut(crema_dtype type, double x) {
  if (type == CREMA_F32) return x;
  return fmin(fmax(rint(x), lowest(type)), highest(type));
}

static double draw(crema_dtype type, cr_mt19937 *rng) {
  if (type == CREMA_F32) return (double)cr_mt19937_below(rng, 129) - 64;
  return (double)cr_mt19937_below(rng, 256) + lowest(type);
}

/* Arrays of all arguments; those that are read have values. */
static void problem_fill(problem *p, cr_mt19937 *rng) {
  for (int i = 0; i < p->desc->args; ++i) {
    const cr_op_arg *arg = &p->desc->arg[i];
    if (arg->shape.axes < 0) continue;
    const int64_t count = op_count(&arg->shape);
    p->value[i] = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(p->value[i]);
    for (int64_t k = 0; i != p->result && k < count; ++k) p->value[i][k] = draw(arg->type, rng);
  }
}

static void problem_free(problem *p) {
  for (int i = 0; i < OP_MAX_ARGS; ++i) free(p->value[i]);
  cr_op_desc_free(p->desc);
}

static void compare(const problem *p, const op_run *run, const double *found, double tolerance) {
  const cr_op_arg *result = &p->desc->arg[p->result];
  for (int64_t k = 0; k < op_count(&result->shape); ++k) {
    const double wanted = p->value[p->result][k];
    if (fabs(found[k] - wanted) <= tolerance) continue;
    fail_msg("%s (hint %d): value %lld is %.9g, not %.9g", run->kernel->name, (int)run->hint,
             (long long)k, found[k], wanted);
  }
}

/* Runs every row that is there for the op; what it writes to argument `other` comes to `values`. */
static void check_rows_with(const problem *p, crema_dtype arithmetic, double tolerance, int other,
                            double *values) {
  int n = 0;
  double *out[OP_MAX_ARGS] = {NULL};
  if (values != NULL) out[other] = values;
  p->desc->type = arithmetic;
  out[p->result] = calloc((size_t)op_count(&p->desc->arg[p->result].shape) + 1, sizeof(double));
  assert_non_null(out[p->result]);
  for (const cr_kernel *const *row = op_table(); *row != NULL; ++row, ++n) {
    if ((*row)->op != p->desc->kind || (*row)->type != arithmetic || !op_is_int8(*row)) continue;
    for (int hint = 0; hint < OP_HINTS; ++hint) {
      const op_run run = {.kernel = *row,
                          .desc = p->desc,
                          .hint = (op_hint)hint,
                          .in_place_from = -1,
                          .in_place_to = -1,
                          .opaque = -1};
      const op_outcome outcome = op_run_row(&run, p->value, out);
      if (outcome == OP_FAILED) fail_msg("%s: %s", (*row)->name, crema_error_text());
      if (outcome == OP_RAN) compare(p, &run, out[p->result], tolerance);
      if (outcome == OP_DECLINED && strstr(crema_error_text(), "implement") != NULL) ran[n] = true;
      if (outcome == OP_RAN) ran[n] = true;
      if (outcome == OP_DECLINED && op_is_ref(*row)) fail_msg("%s declined", (*row)->name);
    }
  }
  free(out[p->result]);
}

static void check_rows(const problem *p, crema_dtype arithmetic, double tolerance) {
  check_rows_with(p, arithmetic, tolerance, 0, NULL);
}

static double apply_posts(const cr_op_desc *desc, double x, double addend) {
  const cr_posts *posts = cr_op_posts(desc);
  for (int i = 0; i < cr_posts_count(posts); ++i) {
    const cr_post *post = &posts->post[i];
    if (post->kind == CR_POST_ADD) x += (double)desc->arg[CR_ARG_ADDEND].scale * addend;
    else if (post->function == CR_UNARY_RELU) x = x < 0 ? 0 : x;
    else x = fmin(fmax(x, post->alpha), post->beta);
  }
  return x;
}

/* The result from the exact sums, which are in its place. */
static void finish(problem *p, int64_t channels, int64_t inner) {
  const cr_op_arg *result = &p->desc->arg[p->result];
  double *y = p->value[p->result];
  for (int64_t k = 0; k < op_count(&result->shape); ++k) {
    const int64_t c = k / inner % channels;
    const double addend = p->value[CR_ARG_ADDEND] != NULL ? p->value[CR_ARG_ADDEND][k] : 0;
    const double x = (double)cr_op_numbers(p->desc)[c] * (y[k] + p->value[2][c]);
    y[k] = cut(result->type, apply_posts(p->desc, x, addend));
  }
}

/* ---- convolution and inner product --------------------------------------- */

#define RELU \
  { .kind = CR_POST_UNARY, .function = CR_UNARY_RELU }
#define CLIP(low, high) \
  { .kind = CR_POST_UNARY, .function = CR_UNARY_CLIP, .alpha = low, .beta = high }
#define ADD \
  { .kind = CR_POST_ADD }

typedef struct product_case {
  int64_t batch, in, out, group, size, kernel, stride, pad; /* size 0: an inner product */
  crema_dtype src, dst, addend;
  cr_post post[CR_POSTS];
} product_case;

static const product_case products[] = {
    {2, 5, 7, 1, 9, 3, 1, 1, CREMA_U8, CREMA_U8, CREMA_U8, {RELU}},
    {1, 3, 64, 1, 17, 7, 2, 3, CREMA_I8, CREMA_U8, CREMA_U8, {RELU}},
    {2, 64, 32, 1, 6, 1, 1, 0, CREMA_U8, CREMA_F32, CREMA_U8, {{0}}},
    {2, 64, 64, 1, 6, 1, 1, 0, CREMA_U8, CREMA_U8, CREMA_I8, {ADD, RELU}},
    {1, 32, 48, 1, 7, 3, 2, 1, CREMA_U8, CREMA_I8, CREMA_I8, {ADD}},
    {1, 32, 32, 32, 8, 3, 1, 1, CREMA_U8, CREMA_U8, CREMA_U8, {CLIP(0, 100)}},
    {1, 48, 48, 48, 8, 3, 2, 1, CREMA_I8, CREMA_I8, CREMA_U8, {{0}}},
    {1, 16, 64, 2, 5, 5, 1, 2, CREMA_U8, CREMA_U8, CREMA_U8, {RELU}},
    {1, 512, 16, 1, 4, 3, 1, 1, CREMA_I8, CREMA_F32, CREMA_F32, {ADD, RELU}},
    {3, 40, 10, 1, 0, 1, 1, 0, CREMA_U8, CREMA_F32, CREMA_U8, {{0}}},
    {1, 1024, 64, 1, 0, 1, 1, 0, CREMA_I8, CREMA_U8, CREMA_U8, {RELU}},
    {4, 96, 32, 1, 0, 1, 1, 0, CREMA_U8, CREMA_I8, CREMA_I8, {ADD}},
    /* Groups of one channel, whose windows are single positions. */
    {1, 16, 64, 16, 7, 1, 1, 0, CREMA_U8, CREMA_F32, CREMA_F32, {{0}}},
    {2, 3, 12, 3, 8, 1, 1, 0, CREMA_I8, CREMA_F32, CREMA_F32, {{0}}},
    {1, 8, 48, 8, 6, 1, 2, 0, CREMA_U8, CREMA_I8, CREMA_I8, {RELU}},
};

static int64_t extent_of(const product_case *c) {
  return c->size == 0 ? 1 : (c->size + 2 * c->pad - c->kernel) / c->stride + 1;
}

static cr_op_desc *describe_product(const product_case *c) {
  const bool ip = c->size == 0;
  const int64_t to = extent_of(c);
  cr_op_desc desc = op_blank(ip ? CR_OP_IP_INT8 : CR_OP_CONV_INT8, CREMA_F32), *made = NULL;
  cr_posts *posts = ip ? &desc.u.ip.posts : &desc.u.conv.posts;
  memcpy(posts->post, c->post, sizeof c->post);
  if (!ip) {
    cr_window *w = &desc.u.conv.window;
    w->axes = 2;
    desc.u.conv.group = c->group;
    for (int a = 0; a < 2; ++a) {
      w->kernel[a] = c->kernel;
      w->stride[a] = c->stride;
      w->pad[a] = c->pad;
      w->dilation[a] = 1;
    }
  }
  const crema_shape src =
      ip ? cr_shape_2(c->batch, c->in) : cr_shape_4(c->batch, c->in, c->size, c->size);
  const crema_shape weights =
      ip ? cr_shape_2(c->out, c->in) : cr_shape_4(c->out, c->in / c->group, c->kernel, c->kernel);
  const crema_shape bias = cr_shape_1(c->out);
  const crema_shape dst = ip ? cr_shape_2(c->batch, c->out) : cr_shape_4(c->batch, c->out, to, to);
  const bool adds = cr_posts_add(posts);
  float number[512];
  /* Sums of 8-bit products grow with the square root of their number. */
  const double typical = 8192 * sqrt((double)(c->in / c->group * c->kernel * c->kernel));
  const int shift = (int)log2(typical / 64);
  for (int o = 0; o < c->out; ++o) number[o] = ldexpf(1, -shift - o % 3);
  const float scale[] = {1, 1, 1, 1, 0.5f};
  ok(cr_op_describe_numbers(
      &desc, 5, (const crema_shape *[]){&src, &weights, &bias, &dst, adds ? &dst : NULL}, scale,
      (int)c->out, number, &made));
  const crema_dtype type[] = {c->src, CREMA_I8, CREMA_F32, c->dst, c->addend};
  for (int i = 0; i < 5; ++i) made->arg[i].type = type[i];
  return made;
}

/* The exact sum of products of one value of the result. */
static double sum_at(const problem *p, const product_case *c, int64_t n, int64_t o, int64_t y,
                     int64_t x) {
  const int64_t in = c->in / c->group, size = c->size == 0 ? 1 : c->size;
  const int64_t first = o / (c->out / c->group) * in;
  int64_t sum = 0;
  for (int64_t i = 0; i < in * c->kernel * c->kernel; ++i) {
    const int64_t h = y * c->stride - c->pad + i / c->kernel % c->kernel;
    const int64_t w = x * c->stride - c->pad + i % c->kernel;
    const int64_t channel = first + i / (c->kernel * c->kernel);
    if (h < 0 || w < 0 || h >= size || w >= size) continue;
    sum += (int64_t)p->value[0][((n * c->in + channel) * size + h) * size + w] *
           (int64_t)p->value[1][o * in * c->kernel * c->kernel + i];
  }
  return (double)sum;
}

static void check_product(const product_case *c, cr_mt19937 *rng) {
  problem p = {.desc = describe_product(c), .result = 3};
  const int64_t to = extent_of(c);
  problem_fill(&p, rng);
  for (int64_t k = 0; k < c->batch * c->out * to * to; ++k) {
    p.value[3][k] =
        sum_at(&p, c, k / (c->out * to * to), k / (to * to) % c->out, k / to % to, k % to);
  }
  finish(&p, c->out, to * to);
  check_rows(&p, CREMA_F32, 0);
  problem_free(&p);
}

TEST(products_are_exact) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (size_t i = 0; i < sizeof products / sizeof products[0]; ++i)
    check_product(&products[i], &rng);
}

/* ---- the others ---------------------------------------------------------- */

static void check_quantize(crema_dtype type, const crema_shape *shape, cr_mt19937 *rng) {
  const cr_op_desc desc = op_blank(CR_OP_QUANTIZE, CREMA_F32);
  problem p = {.result = 3};
  ok(cr_op_describe(&desc, 4, (const crema_shape *[]){shape, NULL, NULL, shape},
                    (const float[]){1, 1, 1, 0.25f}, &p.desc));
  p.desc->arg[3].type = type;
  problem_fill(&p, rng);
  /* Eighths: half of them are ties once divided by the scale. */
  for (int64_t k = 0; k < op_count(shape); ++k) {
    p.value[0][k] = ((double)cr_mt19937_below(rng, 801) - 400) / 8;
    p.value[3][k] = cut(type, p.value[0][k] / 0.25);
  }
  check_rows(&p, CREMA_F32, 0);
  problem_free(&p);
}

/* With a scale, a bias and a ReLU; absent: which of the first two is not there. */
static void check_scaled(crema_dtype type, int64_t channels, int absent, bool relu,
                         cr_mt19937 *rng) {
  cr_op_desc desc = op_blank(CR_OP_QUANTIZE, CREMA_F32);
  problem p = {.result = 3};
  const crema_shape x = cr_shape_3(2, channels, 35), c = cr_shape_1(channels);
  if (relu) desc.u.affine.post[0] = (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_RELU};
  ok(cr_op_describe(
      &desc, 4, (const crema_shape *[]){&x, absent == 1 ? NULL : &c, absent == 2 ? NULL : &c, &x},
      (const float[]){1, 1, 1, 0.25f}, &p.desc));
  p.desc->arg[3].type = type;
  problem_fill(&p, rng);
  for (int64_t k = 0; k < op_count(&x); ++k) {
    const int64_t at = k / 35 % channels;
    double y = p.value[0][k] = ((double)cr_mt19937_below(rng, 81) - 40) / 8;
    if (absent != 1) y *= p.value[1][at];
    if (absent != 2) y += p.value[2][at];
    p.value[3][k] = cut(type, apply_posts(p.desc, y, 0) / 0.25);
  }
  check_rows(&p, CREMA_F32, 0);
  problem_free(&p);
}

TEST(values_are_scaled_before_they_are_rounded) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (int i = 0; i < 12; ++i) {
    check_scaled(i % 2 ? CREMA_I8 : CREMA_U8, i < 6 ? 48 : 19, i / 2 % 3, i % 4 < 2, &rng);
  }
}

/* Scales of 256ths and biases of eighths, which floats hold exactly. */
static void check_integers(crema_dtype from, crema_dtype to, int64_t channels, double slope,
                           bool biased, cr_mt19937 *rng) {
  cr_op_desc desc = op_blank(CR_OP_AFFINE_INT8, CREMA_F32);
  problem p = {.result = 3};
  const crema_shape x = cr_shape_3(2, channels, 7), c = cr_shape_1(channels);
  if (slope < 1) {
    desc.u.affine.post[0] =
        (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_RELU, .alpha = slope};
  }
  ok(cr_op_describe(&desc, 4, (const crema_shape *[]){&x, &c, biased ? &c : NULL, &x}, NULL,
                    &p.desc));
  p.desc->arg[0].type = from;
  p.desc->arg[3].type = to;
  problem_fill(&p, rng);
  for (int64_t k = 0; k < channels; ++k) {
    p.value[1][k] /= 64;
    if (biased) p.value[2][k] /= 8;
  }
  for (int64_t k = 0; k < op_count(&x); ++k) {
    const int64_t at = k / 7 % channels;
    const double y = p.value[0][k] * p.value[1][at] + (biased ? p.value[2][at] : 0);
    p.value[3][k] = cut(to, slope < 1 && y < 0 ? slope * y : y);
  }
  check_rows(&p, CREMA_F32, 0);
  problem_free(&p);
}

TEST(integers_are_scaled) {
  static const crema_dtype types[] = {CREMA_U8, CREMA_I8, CREMA_F32};
  static const int64_t channels[] = {16, 19, 64, 150, 2100};
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (int i = 0; i < 30; ++i) {
    check_integers(types[i % 2], types[i % 3], channels[i % 5], i / 2 % 3 * 0.5, i % 4 > 0, &rng);
  }
}

TEST(values_are_rounded_to_the_nearest_integer) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  const crema_shape image = cr_shape_4(2, 5, 7, 9), rows = cr_shape_2(3, 700);
  for (int signs = 0; signs < 2; ++signs) {
    check_quantize(signs ? CREMA_I8 : CREMA_U8, &image, &rng);
    check_quantize(signs ? CREMA_I8 : CREMA_U8, &rows, &rng);
  }
}

static void check_lrn(crema_dtype type, const crema_shape *shape, int64_t size, float beta,
                      cr_mt19937 *rng) {
  cr_op_desc desc = op_blank(CR_OP_LRN_QUANTIZE, CREMA_F32);
  problem p = {.result = 1};
  const int64_t channels = shape->dim[1], plane = shape->dim[2] * shape->dim[3];
  desc.u.lrn = (cr_lrn_params){.size = size, .alpha = 0.5f, .beta = beta, .k = 2};
  ok(cr_op_describe(&desc, 2, (const crema_shape *[]){shape, shape}, (const float[]){1, 0.01f},
                    &p.desc));
  p.desc->arg[1].type = type;
  problem_fill(&p, rng);
  for (int64_t k = 0; k < op_count(shape); ++k) {
    p.value[0][k] = ((double)cr_mt19937_below(rng, 81) - 40) / 8;
  }
  for (int64_t k = 0; k < op_count(shape); ++k) {
    const int64_t c = k / plane % channels;
    double sum = 0;
    for (int64_t j = c - (size - 1) / 2; j < c - (size - 1) / 2 + size; ++j) {
      const double x = j < 0 || j >= channels ? 0 : p.value[0][k + (j - c) * plane];
      sum += x * x;
    }
    p.value[1][k] = cut(type, p.value[0][k] * pow(2 + 0.5 / (double)size * sum, -beta) / 0.01f);
  }
  check_rows(&p, CREMA_F32, 1); /* what lies between two integers may become either */
  problem_free(&p);
}

TEST(normalised_values_are_rounded) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  const crema_shape few = cr_shape_4(2, 7, 3, 4), many = cr_shape_4(1, 1100, 2, 3);
  for (int i = 0; i < 8; ++i) {
    check_lrn(i % 2 ? CREMA_I8 : CREMA_U8, i % 4 < 2 ? &few : &many, i < 4 ? 5 : 9,
              i % 3 ? 0.75f : 0.5f, &rng);
  }
}

static double pool_at(const problem *p, int64_t plane, int64_t y, int64_t x, bool largest) {
  double best = -1000, sum = 0;
  int64_t padded = 0;
  for (int64_t h = y * 2 - 1; h < y * 2 + 2; ++h) {
    for (int64_t w = x * 2 - 1; w < x * 2 + 2; ++w) {
      if (h <= 9 && w <= 9) ++padded;
      if (h < 0 || w < 0 || h >= 9 || w >= 9) continue;
      best = fmax(best, p->value[0][(plane * 9 + h) * 9 + w]);
      sum += p->value[0][(plane * 9 + h) * 9 + w];
    }
  }
  return largest ? best : sum / (double)padded;
}

static void check_pool(crema_dtype type, bool largest, cr_mt19937 *rng) {
  cr_op_desc desc = op_blank(CR_OP_POOL_FWD, CREMA_F32);
  problem p = {.result = 1};
  const crema_shape src = cr_shape_4(2, 20, 9, 9), dst = cr_shape_4(2, 20, 5, 5);
  desc.u.pool.method = largest ? CR_POOL_MAX : CR_POOL_AVERAGE;
  desc.u.pool.window = (cr_window){2, {3, 3}, {2, 2}, {1, 1}, {1, 1}};
  ok(cr_op_describe(&desc, 3, (const crema_shape *[]){&src, &dst, NULL}, NULL, &p.desc));
  p.desc->arg[0].type = p.desc->arg[1].type = type;
  problem_fill(&p, rng);
  for (int64_t k = 0; k < 2 * 20 * 25; ++k) {
    p.value[1][k] = cut(type, pool_at(&p, k / 25, k / 5 % 5, k % 5, largest));
  }
  /* A library may multiply by the rounded inverse of the divisor, which decides ties. */
  check_rows(&p, type, largest ? 0 : 1);
  problem_free(&p);
}

TEST(pooling_stays_in_integers) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (int way = 0; way < 4; ++way) check_pool(way & 1 ? CREMA_I8 : CREMA_U8, way > 1, &rng);
}

/* Averages as floats: of windows of 3 x 3, or of whole planes, of more rows than short sums hold.
 */
static void check_average(crema_dtype type, int64_t channels, int64_t size, cr_mt19937 *rng) {
  cr_op_desc desc = op_blank(CR_OP_AVERAGE_INT8, CREMA_F32);
  problem p = {.result = 1};
  const bool whole = size != 9;
  const int64_t to = whole ? 1 : 5;
  const crema_shape src = cr_shape_4(2, channels, size, size),
                    dst = cr_shape_4(2, channels, to, to);
  desc.u.pool.method = CR_POOL_AVERAGE;
  desc.u.pool.window = whole ? (cr_window){2, {size, size}, {1, 1}, {0, 0}, {1, 1}}
                             : (cr_window){2, {3, 3}, {2, 2}, {1, 1}, {1, 1}};
  ok(cr_op_describe(&desc, 2, (const crema_shape *[]){&src, &dst}, (const float[]){0.25f, 1},
                    &p.desc));
  p.desc->arg[0].type = type;
  problem_fill(&p, rng);
  /* The largest sums come out whole. */
  for (int64_t k = 0; size > 16 && k < 2 * size * size; ++k) p.value[0][k] = highest(type);
  for (int64_t k = 0; k < 2 * channels * to * to; ++k) {
    double sum = 0;
    for (int64_t i = 0; whole && i < size * size; ++i) sum += p.value[0][k * size * size + i];
    p.value[1][k] =
        0.25 * (whole ? sum / (double)(size * size) : pool_at(&p, k / 25, k / 5 % 5, k % 5, false));
  }
  check_rows(&p, CREMA_F32, 1e-5);
  problem_free(&p);
}

TEST(averages_of_integers_are_floats) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (int signs = 0; signs < 2; ++signs) {
    const crema_dtype type = signs ? CREMA_I8 : CREMA_U8;
    check_average(type, 20, 9, &rng);
    check_average(type, 70, 7, &rng);
    check_average(type, 600, 23, &rng);
  }
}

static void check_concat(crema_dtype type, cr_mt19937 *rng) {
  cr_op_desc desc = op_blank(CR_OP_CONCAT, CREMA_F32);
  problem p = {.result = 2};
  const crema_shape a = cr_shape_4(2, 16, 3, 5), b = cr_shape_4(2, 8, 3, 5),
                    whole = cr_shape_4(2, 24, 3, 5);
  desc.u.axis = 1;
  ok(cr_op_describe(&desc, 3, (const crema_shape *[]){&a, &b, &whole}, NULL, &p.desc));
  for (int i = 0; i < 3; ++i) p.desc->arg[i].type = type;
  problem_fill(&p, rng);
  for (int64_t k = 0; k < 2 * 24 * 15; ++k) {
    const int64_t n = k / (24 * 15), c = k / 15 % 24, i = k % 15;
    p.value[2][k] =
        c < 16 ? p.value[0][(n * 16 + c) * 15 + i] : p.value[1][(n * 8 + c - 16) * 15 + i];
  }
  check_rows(&p, type, 0);
  problem_free(&p);
}

/* Two samples of `parts` parts of 8 channels. */
static void check_slice(crema_dtype type, cr_mt19937 *rng) {
  cr_op_desc desc = op_blank(CR_OP_SLICE, CREMA_F32);
  const crema_shape part = cr_shape_4(2, 8, 3, 5), whole = cr_shape_4(2, 16, 3, 5);
  double *second = calloc(2 * 8 * 15, sizeof *second);
  assert_non_null(second);
  desc.u.axis = 1;
  /* Each of the two results in turn is compared. */
  for (int k = 0; k < 2; ++k) {
    problem p = {.result = 1 + k};
    ok(cr_op_describe(&desc, 3, (const crema_shape *[]){&whole, &part, &part}, NULL, &p.desc));
    for (int i = 0; i < 3; ++i) p.desc->arg[i].type = type;
    problem_fill(&p, rng);
    for (int64_t i = 0; i < 2 * 8 * 15; ++i) {
      p.value[1 + k][i] = p.value[0][(i / (8 * 15) * 16 + k * 8) * 15 + i % (8 * 15)];
    }
    check_rows_with(&p, type, 0, 2 - k, second);
    problem_free(&p);
  }
  free(second);
}

TEST(slicing_stays_in_integers) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  check_slice(CREMA_U8, &rng);
  check_slice(CREMA_I8, &rng);
}

/* Channels of groups that take turns. */
static void check_shuffle(crema_dtype type, int64_t groups, int64_t width, cr_mt19937 *rng) {
  cr_op_desc desc = op_blank(CR_OP_PERMUTE, CREMA_F32);
  problem p = {.result = 1};
  const crema_shape from = cr_shape_4(2, groups, width, 15), to = cr_shape_4(2, width, groups, 15);
  for (int a = 0; a < 4; ++a) desc.u.order[a] = a == 1 ? 2 : a == 2 ? 1 : a;
  ok(cr_op_describe(&desc, 2, (const crema_shape *[]){&from, &to}, NULL, &p.desc));
  for (int i = 0; i < 2; ++i) p.desc->arg[i].type = type;
  problem_fill(&p, rng);
  for (int64_t k = 0; k < op_count(&to); ++k) {
    const int64_t n = k / (width * groups * 15), w = k / (groups * 15) % width, g = k / 15 % groups;
    p.value[1][k] = p.value[0][((n * groups + g) * width + w) * 15 + k % 15];
  }
  check_rows(&p, type, 0);
  problem_free(&p);
}

TEST(shuffling_stays_in_integers) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  check_shuffle(CREMA_U8, 2, 29, &rng);
  check_shuffle(CREMA_I8, 2, 80, &rng);
  check_shuffle(CREMA_U8, 3, 8, &rng);
}

TEST(concatenation_stays_in_integers) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  check_concat(CREMA_U8, &rng);
  check_concat(CREMA_I8, &rng);
}

/* Runs last. */
TEST(every_row_was_run) {
  int n = 0;
  for (const cr_kernel *const *row = op_table(); *row != NULL; ++row, ++n) {
    if (op_is_int8(*row) && !ran[n]) fail_msg("no case reaches the row %s", (*row)->name);
  }
}

int main(void) {
  if (!op_tests_start(&seed)) return OP_TESTS_SKIPPED;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_are_exact),
      cmocka_unit_test(values_are_rounded_to_the_nearest_integer),
      cmocka_unit_test(values_are_scaled_before_they_are_rounded),
      cmocka_unit_test(integers_are_scaled),
      cmocka_unit_test(normalised_values_are_rounded),
      cmocka_unit_test(pooling_stays_in_integers),
      cmocka_unit_test(averages_of_integers_are_floats),
      cmocka_unit_test(concatenation_stays_in_integers),
      cmocka_unit_test(slicing_stays_in_integers),
      cmocka_unit_test(shuffling_stays_in_integers),
      cmocka_unit_test(every_row_was_run),
  };
  return run_each_of(tests, NULL, NULL);
}
