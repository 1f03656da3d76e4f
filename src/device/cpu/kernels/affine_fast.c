/* y = x * scale + bias, one scale and one bias per channel, and its gradients, for tensors held in
 * blocks of channels or channels-last. The library oneDNN has no such op. The plain kernel needs
 * two conversions for a Scale between a convolution and a ReLU. The arguments' shapes are (outer,
 * C, inner), the layout's (N, C, S...).
 *
 * Values are F32, BF16 or F16, computed in float a piece at a time. Scale, bias and their gradients
 * may have a different one of these types. Only an F32 result is rounded to integers.
 *
 * Gain over the plain kernel and its conversions on Sapphire Rapids, one thread:
 * 3.6x for the Scale layers of DenseNet-121. Without it the forward pass takes 1.3x the
 * time there, 1.4x in the compiled net and 1.2x in ResNet-50. */
#include <math.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/dtype.h"
#include "core/fail.h"
#include "device/backend/half_blocks.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/int8.h"
#include "device/cpu/onednn/primitive.h"

enum {
  BLOCK_MAX = 16,
  LANES = 8,           /* channels that are summed at a time */
  PIECE = 2048,        /* values that are in floats at a time */
  PARTS = 64,          /* partial sums, for any number of threads */
  PARALLEL_MIN = 16384 /* values; below, one thread is faster */
};

/* Memory as (outer, blocks, inner, width): channels-last has one block of all channels. */
typedef struct affine_blocks {
  int64_t outer, channels, blocks, inner, width;
  int64_t step;         /* from one row of argument 0 to the next: its width, or more for a view */
  const cr_post *relu;  /* of the results; NULL: none */
  crema_dtype type, to; /* `to` of the result */
} affine_blocks;

/* The order of argument 0. */
static cr_dnnl_order order_of(const cr_plan *plan) {
  return cr_dnnl_layout_order(cr_format_packed(plan->format[0]).layout);
}

/* The one post operation that is applied here. */
static const cr_post *relu_of(const cr_op_desc *desc) {
  const cr_posts *posts = cr_op_posts(desc);
  return cr_posts_count(posts) > 0 ? &posts->post[0] : NULL;
}

static crema_status check_posts(const cr_op_desc *desc) {
  const cr_post *post = relu_of(desc);
  const bool relu = post != NULL && post->kind == CR_POST_UNARY && post->function == CR_UNARY_RELU;
  if (post == NULL || (relu && cr_posts_count(cr_op_posts(desc)) == 1)) return CREMA_OK;
  return cr_fail(CREMA_E_UNSUPPORTED, "post operations other than one ReLU");
}

static affine_blocks blocks_of(const cr_plan *plan) {
  const crema_shape *shape = &plan->desc->arg[0].shape;
  const cr_dnnl_order order = order_of(plan);
  const int64_t channels = shape->dim[1], step = cr_dnnl_layout_step(plan->format[0].layout);
  const int64_t width = order.kind == CR_DNNL_LAST ? channels : order.block;
  return (affine_blocks){.outer = shape->dim[0],
                         .channels = channels,
                         .blocks = (channels + width - 1) / width,
                         .inner = shape->dim[2],
                         .width = width,
                         .step = step != 0 ? step : width,
                         .relu = relu_of(plan->desc),
                         .type = plan->format[0].type,
                         .to = plan->format[0].type};
}

/* Asks for all arguments of argument 0's shape in its layout; a view of that stays one. */
static crema_status plan_layout(cr_plan *plan) {
  const cr_layout *layout = cr_format_packed(plan->hint[0]).layout;
  const crema_shape *shape = &plan->desc->arg[0].shape;
  const cr_dnnl_order order = cr_dnnl_layout_order(layout);
  const bool blocked =
      order.kind == CR_DNNL_BLOCKED && order.block <= BLOCK_MAX && order.block % LANES == 0;
  if (layout == NULL || !(blocked || order.kind == CR_DNNL_LAST)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not held in blocks of channels");
  }
  if (shape->axes != 3 || layout->shape.dim[0] != shape->dim[0] ||
      layout->shape.dim[1] != shape->dim[1]) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not along the channels");
  }
  for (int i = 0; i < plan->desc->args; ++i) {
    if (!crema_shape_equal(&plan->desc->arg[i].shape, shape)) continue;
    const crema_dtype type = plan->desc->arg[i].type;
    if (type != layout->type && cr_dtype_is_floating(type) && cr_dtype_is_floating(layout->type)) {
      return cr_fail(CREMA_E_UNSUPPORTED, "values of two types");
    }
    plan->format[i].layout = i == 0 ? plan->hint[0].layout : cr_layout_in(layout, type);
    if (plan->format[i].layout == NULL) return cr_fail(CREMA_E_UNSUPPORTED, "no such layout");
  }
  return CREMA_OK;
}

static crema_status plan_scale(cr_plan *plan) {
  CR_TRY(check_posts(plan->desc));
  CR_TRY(plan_layout(plan));
  const affine_blocks b = blocks_of(plan);
  plan->workspace_bytes = (size_t)(b.blocks * b.width) * 2 * sizeof(float);
  return CREMA_OK;
}

static crema_status plan_quantize(cr_plan *plan) {
  CR_TRY(cr_int8_check_quantize(plan));
  return plan_scale(plan);
}

static crema_status plan_integers(cr_plan *plan) {
  CR_TRY(cr_int8_check_affine(plan));
  return plan_scale(plan);
}

/* Argument `arg`, one value per channel, as floats: `absent` if it is absent, and 0 after the last
 * channel. */
static void load_channels(const cr_call *call, const affine_blocks *b, int arg, float absent,
                          float *out) {
  const void *values = arg < 0 ? NULL : (const void *)call->buffer[arg].address;
  memset(out, 0, (size_t)(b->blocks * b->width) * sizeof *out);
  if (values != NULL) {
    cr_load_floats(call->plan->format[arg].type, values, 0, b->channels, out);
  } else {
    for (int64_t c = 0; c < b->channels; ++c) out[c] = absent;
  }
}

/* `count` values of one row after the other, each `width` wide, from channel 0 of `scale` on. */
CR_INLINE void scale_rows(int64_t width, int64_t count, const float *from, const float *scale,
                          const float *bias, float *to) {
  for (int64_t at = 0; at < count; at += width) {
    const int64_t n = count - at < width ? count - at : width;
#pragma omp simd
    for (int64_t k = 0; k < n; ++k) to[at + k] = from[at + k] * scale[k] + bias[k];
  }
}

/* For values in the caches. For values in memory, wide vectors took 1.3 times as long. */
CR_CLONES static void scale_near_rows(int64_t width, int64_t count, const float *from,
                                      const float *scale, const float *bias, float *to) {
  scale_rows(width, count, from, scale, bias, to);
}

/* Without a product for slope 0, so that -infinity gives 0. */
CR_CLONES static void rectify(const cr_post *relu, int64_t count, float *y) {
  const float slope = (float)relu->alpha;
  if (slope == 0.0f) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = y[i] < 0.0f ? 0.0f : y[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) y[i] = y[i] < 0.0f ? slope * y[i] : y[i];
  }
}

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl")))

/* To the nearest, as cr_f32_to_bf16 does. */
WIDE static inline __m256i round_16(__m512 y) {
  const __m512i bits = _mm512_castps_si512(y), cut = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(cut, _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd);
  const __m512i nearest = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
  const __mmask16 none = _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(nearest, none, cut, _mm512_set1_epi32(0x40)));
}

/* Rows of scale_rows. Writing floats and reading them back in between takes the time of all other
 * steps together. */
WIDE static void scale_halves(int64_t width, int64_t count, const uint16_t *from,
                              const float *scale, const float *bias, float low, uint16_t *to) {
  const __m512 least = _mm512_set1_ps(low);
  for (int64_t at = 0; at < count; at += width) {
    const int64_t n = count - at < width ? count - at : width;
    for (int64_t k = 0; k < n; k += 16) {
      const __mmask16 mask = (__mmask16)(n - k >= 16 ? 0xffff : (1 << (n - k)) - 1);
      const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from + at + k));
      const __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
      const __m512 product = _mm512_mul_ps(x, _mm512_maskz_loadu_ps(mask, scale + k));
      const __m512 y = _mm512_add_ps(product, _mm512_maskz_loadu_ps(mask, bias + k));
      /* NaN stays: of two operands the second is taken then. */
      _mm256_mask_storeu_epi16(to + at + k, mask, round_16(_mm512_max_ps(least, y)));
    }
  }
}

static bool has_wide(void) {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

#else

static void scale_halves(int64_t width, int64_t count, const uint16_t *from, const float *scale,
                         const float *bias, float low, uint16_t *to) {
  (void)width, (void)count, (void)from, (void)scale, (void)bias, (void)low, (void)to;
}

static bool has_wide(void) {
  return false;
}

#endif

/* Whether each value is scaled and rounded in one go. */
static bool scales_at_once(const affine_blocks *b) {
  const bool cuts = b->relu == NULL || b->relu->alpha == 0;
  return b->to == CREMA_BF16 && b->type == CREMA_BF16 && cuts && has_wide();
}

/* Whether each value is cut and rounded in one go. */
static bool rounds_at_once(const affine_blocks *b) {
  const bool floats = b->type == CREMA_BF16 || b->type == CREMA_F16;
  if (cr_dtype_is_floating(b->to) || floats) return false;
  return b->relu == NULL || b->relu->alpha == 0;
}

/* Computes `count` values of y, starting at `to`, from values of x starting at `at`. They are full
 * rows, or part of one row. */
static void scale_piece(const affine_blocks *b, const void *x, int64_t at, int64_t count,
                        int64_t channel, const float *scale, const float *bias, void *y,
                        int64_t to) {
  if (b->to == CREMA_F32 && b->type == CREMA_F32) {
    scale_rows(b->width, count, (const float *)x + at, scale + channel, bias + channel,
               (float *)y + to);
    if (b->relu != NULL) rectify(b->relu, count, (float *)y + to);
    return;
  }
  if (scales_at_once(b)) {
    scale_halves(b->width, count, (const uint16_t *)x + at, scale + channel, bias + channel,
                 b->relu == NULL ? -INFINITY : 0, (uint16_t *)y + to);
    return;
  }
  _Alignas(64) float piece[PIECE];
  const float *from = (const float *)x + at;
  if (!cr_dtype_is_floating(b->type)) cr_int8_floats(b->type, x, at, count, piece);
  else if (b->type != CREMA_F32) cr_load_floats(b->type, x, at, count, piece);
  if (b->type != CREMA_F32) from = piece;
  scale_near_rows(b->width, count, from, scale + channel, bias + channel, piece);
  if (b->relu != NULL) rectify(b->relu, count, piece);
  if (cr_dtype_is_floating(b->to)) cr_store_floats(b->to, y, to, count, piece);
  else cr_int8_put(b->to, piece, count, y, to);
}

/* Computes `rows` rows of the block that starts at channel `channel`, from values starting at `at`
 * to values starting at `to`. */
static void round_rows(const affine_blocks *b, const void *x, int64_t at, int64_t rows,
                       const float *scale, const float *bias, void *y, int64_t to) {
  const cr_int8_scaling how = {.from = b->type,
                               .to = b->to,
                               .width = b->width,
                               .step = b->step,
                               .scale = scale,
                               .bias = bias,
                               .low = b->relu != NULL ? 0 : -INFINITY};
  cr_int8_scale(&how, x, at, rows, y, to);
}

/* y = x * scale + bias, where scale and bias are of channels. */
static void scale_planes(const affine_blocks *how, const void *from, const float *scale,
                         const float *bias, void *to) {
  const affine_blocks b = *how;
  const bool rounds = rounds_at_once(how);
  /* A piece is some rows, or a part of a long one. */
  const int64_t rows = b.width < PIECE ? PIECE / b.width : 1;
  const int64_t columns = b.width < PIECE ? b.width : PIECE;
  const int64_t pieces = (b.inner + rows - 1) / rows, planes = b.outer * b.blocks;
#pragma omp parallel for schedule(static) if (planes * b.inner * b.width >= PARALLEL_MIN)
  for (int64_t i = 0; i < planes * pieces; ++i) {
    const int64_t plane = i / pieces, first = i % pieces * rows, at = plane * b.inner + first;
    const int64_t taken = b.inner - first < rows ? b.inner - first : rows, count = taken * b.width;
    const int64_t start = at * b.width, block = plane % b.blocks * b.width;
    if (rounds) {
      round_rows(&b, from, at * b.step, taken, scale + block, bias + block, to, start);
      continue;
    }
    if (columns == b.width && b.step == b.width) {
      scale_piece(&b, from, start, count, block, scale, bias, to, start);
      continue;
    }
    for (int64_t c = 0; c < count; c += columns) {
      const int64_t n = count - c < columns ? count - c : columns, row = at + c / b.width;
      scale_piece(&b, from, row * b.step + c % b.width, n, block + c % b.width, scale, bias, to,
                  start + c);
    }
  }
}

/* y = x * scale + bias; scale and bias are numbers of arguments, -1 for none. A ReLU of the
 * quotient by a positive unit is the quotient of the ReLU. */
static crema_status run_scale(const cr_call *call, int scale, int bias, int y) {
  affine_blocks b = blocks_of(call->plan);
  b.to = call->plan->format[y].type;
  float *factor = (float *)call->workspace.address, *addend = factor + b.blocks * b.width;
  load_channels(call, &b, scale, 1.0f, factor);
  load_channels(call, &b, bias, 0.0f, addend);
  const float unit = call->desc->kind == CR_OP_QUANTIZE ? 1 / call->desc->arg[y].scale : 1;
  for (int64_t c = 0; c < b.blocks * b.width; ++c) {
    factor[c] *= unit;
    addend[c] *= unit;
  }
  scale_planes(&b, (const void *)call->buffer[0].address, factor, addend,
               (void *)call->buffer[y].address);
  return CREMA_OK;
}

static crema_status run_fwd(const cr_call *call) {
  return run_scale(call, 1, 2, 3);
}

static crema_status run_bwd_data(const cr_call *call) {
  return run_scale(call, 1, -1, 2);
}

/* The number of parts of a sum over channels-last memory. */
static int64_t parts_of(const affine_blocks *b) {
  const int64_t rows = b->outer * b->inner;
  return rows < PARTS ? rows : PARTS;
}

static crema_status plan_sum(cr_plan *plan) {
  CR_TRY(plan_layout(plan));
  const affine_blocks b = blocks_of(plan);
  const bool last = order_of(plan).kind == CR_DNNL_LAST;
  if (last) plan->workspace_bytes = (size_t)(parts_of(&b) * b.channels) * sizeof(double);
  return CREMA_OK;
}

/* `count` values at element `at` as floats: in place if they are floats, else in `block`. */
static const float *floats_at(const affine_blocks *b, const void *values, int64_t at, int64_t count,
                              float *block) {
  if (b->type == CREMA_F32) return (const float *)values + at;
  cr_load_floats(b->type, values, at, count, block);
  return block;
}

/* Adds `positions` rows, multiplied by the rows of `weight` unless it is NULL, to `sum`. In double:
 * if the terms of a channel nearly cancel, a sum in single precision has few correct digits. */
static void sum_rows(int64_t width, int64_t positions, const float *x, const float *weight,
                     double *sum) {
  for (int64_t lane = 0; lane < width; lane += LANES) {
    double part[LANES] = {0};
    const float *at = x + lane;
    if (weight == NULL) {
      for (int64_t p = 0; p < positions; ++p, at += width) {
#pragma omp simd
        for (int k = 0; k < LANES; ++k) part[k] += (double)at[k];
      }
    } else {
      const float *by = weight + lane;
      for (int64_t p = 0; p < positions; ++p, at += width, by += width) {
#pragma omp simd
        for (int k = 0; k < LANES; ++k) part[k] += (double)at[k] * (double)by[k];
      }
    }
    for (int k = 0; k < LANES; ++k) sum[lane + k] += part[k];
  }
}

/* The plane that begins at element `at`. */
static void sum_plane(const affine_blocks *b, const void *x, const void *weight, int64_t at,
                      double *sum) {
  float values[PIECE], factors[PIECE];
  const int64_t most = b->type == CREMA_F32 ? b->inner : PIECE / b->width;
  for (int64_t p = 0; p < b->inner; p += most) {
    const int64_t rows = b->inner - p < most ? b->inner - p : most, count = rows * b->width;
    const int64_t from = at + p * b->width;
    const float *by = weight == NULL ? NULL : floats_at(b, weight, from, count, factors);
    sum_rows(b->width, rows, floats_at(b, x, from, count, values), by, sum);
  }
}

/* Sets `count` values of argument `arg` from channel `first` on to the sums, or adds those. */
static void put_sums(const cr_call *call, int arg, int64_t first, int64_t count,
                     const double *sum) {
  const crema_dtype type = call->plan->format[arg].type;
  void *out = (void *)call->buffer[arg].address;
  for (int64_t c = 0; c < count; ++c) {
    float value = 0.0f;
    if (call->accumulate[arg]) cr_load_floats(type, out, first + c, 1, &value);
    value = (call->accumulate[arg] ? value : 0.0f) + (float)sum[c];
    cr_store_floats(type, out, first + c, 1, &value);
  }
}

/* One thread sums a block of channels, so that the result does not depend on the number of threads.
 */
static void sum_blocked(const cr_call *call, const affine_blocks *b, const void *x,
                        const void *weight, int arg) {
  const int64_t plane = b->inner * b->width;
#pragma omp parallel for schedule(static) if (b->outer * b->blocks * plane >= PARALLEL_MIN)
  for (int64_t i = 0; i < b->blocks; ++i) {
    double sum[BLOCK_MAX] = {0};
    for (int64_t n = 0; n < b->outer; ++n) {
      sum_plane(b, x, weight, (n * b->blocks + i) * plane, sum);
    }
    const int64_t first = i * b->width, left = b->channels - first;
    put_sums(call, arg, first, left < b->width ? left : b->width, sum);
  }
}

/* Adds `count` values of one row, multiplied by `weight` unless it is NULL, to `sum`. */
static void add_row(int64_t count, const float *x, const float *weight, double *sum) {
  if (weight == NULL) {
#pragma omp simd
    for (int64_t k = 0; k < count; ++k) sum[k] += (double)x[k];
  } else {
#pragma omp simd
    for (int64_t k = 0; k < count; ++k) sum[k] += (double)x[k] * (double)weight[k];
  }
}

/* The rows are cut into parts, whose sums are added in order. */
static void sum_last(const cr_call *call, const affine_blocks *b, const void *x, const void *weight,
                     int arg) {
  const int64_t rows = b->outer * b->inner, parts = parts_of(b), channels = b->channels;
  double *sums = (double *)call->workspace.address;
  memset(sums, 0, (size_t)(parts * channels) * sizeof *sums);
#pragma omp parallel for schedule(static) if (rows * channels >= PARALLEL_MIN)
  for (int64_t part = 0; part < parts; ++part) {
    float values[PIECE], factors[PIECE];
    for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
      for (int64_t c = 0; c < channels; c += PIECE) {
        const int64_t n = channels - c < PIECE ? channels - c : PIECE, at = row * channels + c;
        const float *by = weight == NULL ? NULL : floats_at(b, weight, at, n, factors);
        add_row(n, floats_at(b, x, at, n, values), by, &sums[part * channels + c]);
      }
    }
  }
  for (int64_t part = 1; part < parts; ++part) {
    for (int64_t c = 0; c < channels; ++c) sums[c] += sums[part * channels + c];
  }
  put_sums(call, arg, 0, channels, sums);
}

/* Argument `arg` (C) = or += the sum of argument 0 over all positions, times argument `weight`
 * unless that is negative. */
static crema_status run_sum(const cr_call *call, int weight, int arg) {
  const affine_blocks b = blocks_of(call->plan);
  const void *x = (const void *)call->buffer[0].address;
  const void *by = weight < 0 ? NULL : (const void *)call->buffer[weight].address;
  const bool last = order_of(call->plan).kind == CR_DNNL_LAST;
  if (last) sum_last(call, &b, x, by, arg);
  else sum_blocked(call, &b, x, by, arg);
  return CREMA_OK;
}

static crema_status run_bwd_scale(const cr_call *call) {
  return run_sum(call, 1, 2);
}

static crema_status run_bwd_bias(const cr_call *call) {
  return run_sum(call, -1, 1);
}

CR_KERNEL(affine_fwd_fast, AFFINE_FWD, .types = CR_DNNL_TYPES, .library = true, .views = true,
          .follows_hints = true, .plan = plan_scale, .run = run_fwd);

CR_KERNEL(quantize_fast, QUANTIZE, .library = true, .views = true, .follows_hints = true,
          .plan = plan_quantize, .run = run_fwd);

CR_KERNEL(affine_int8_fast, AFFINE_INT8, .library = true, .views = true, .follows_hints = true,
          .plan = plan_integers, .run = run_fwd);

CR_KERNEL(affine_bwd_data_fast, AFFINE_BWD_DATA, .types = CR_DNNL_TYPES, .library = true,
          .follows_hints = true, .plan = plan_scale, .run = run_bwd_data);

CR_KERNEL(affine_bwd_scale_fast, AFFINE_BWD_SCALE, .types = CR_DNNL_TYPES, .library = true,
          .follows_hints = true, .can_accumulate = true, .plan = plan_sum, .run = run_bwd_scale);

CR_KERNEL(affine_bwd_bias_fast, AFFINE_BWD_BIAS, .types = CR_DNNL_TYPES, .library = true,
          .follows_hints = true, .can_accumulate = true, .plan = plan_sum, .run = run_bwd_bias);
