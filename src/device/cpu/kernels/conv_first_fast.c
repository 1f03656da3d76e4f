/* A net's first convolution: of an image of few channels, which lie in planes as the caller wrote
 * them, to results that lie channels-last as the convolutions behind it want them. oneDNN wants the
 * image channels-last, too, where vectors of three channels are mostly empty; bringing it there
 * takes as long as a third of the convolution.
 *
 * A result is the sum over the rows of its window, one after the other. 14 positions beside each
 * other times 32 channels of the result are 28 vectors, which stay in the processor's registers
 * while the taps of the window go by: for each one, two vectors of weights and 14 values of the
 * image. That takes the 32 registers of AVX-512. Rows of an image with a border of zeros are copied
 * with their zeros first, some at a time, so that no window needs to ask where it is. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/onednn/conv.h"
#include "device/cpu/onednn/primitive.h"
#include "device/cpu/threads/threads.h"

enum {
  OUTPUTS = 32,   /* channels of the result that are computed at once */
  POSITIONS = 14, /* beside each other */
  HALF = 7,       /* where fewer are left */
  CHANNELS_MOST = 4,
  KERNEL_MOST = 11,
  ROWS = 8, /* of the result, for which rows of the image are copied */
  LINE = 16 /* floats to which parts of the workspace are rounded */
};

/* What the workspace holds: the weights, then the rows of each thread. */
typedef struct planes {
  int64_t batch, channels, outputs;
  int64_t in[2], out[2], kernel[2], stride, pad[2];
  int64_t strips;        /* of ROWS rows of the result, in each image */
  int64_t rows, width;   /* of the image, that are copied for a strip; padded is false: none are */
  int64_t weights, slot; /* floats */
  int64_t slots;
  float low, high; /* to which results are cut */
  bool padded;
} planes;

/* ---- the sums ------------------------------------------------------------ */

/* Where the values of a window begin, and how far it is to the next row and plane. */
typedef struct view {
  const float *at;
  int64_t row, plane;
} view;

/* Where results go, and what is added to all of them; NULL: nothing. */
typedef struct target {
  char *at;
  const float *bias;
  int64_t outputs;
  float low, high;
  bool shorter; /* BF16 */
} target;

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f")))
#define WIDE_INLINE static inline __attribute__((target("avx512f"), always_inline))

/* To the nearest, a tie to the even one; NaN stays NaN. */
WIDE_INLINE __m256i round_16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i nearest = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
  const __mmask16 none = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(nearest, none, high, _mm512_set1_epi32(0x40)));
}

/* NaN stays NaN: of two operands the second is taken then. */
WIDE_INLINE void put(const target *t, int64_t index, __m512 sum) {
  const __m512 above = _mm512_max_ps(_mm512_set1_ps(t->low), sum);
  const __m512 value = _mm512_min_ps(_mm512_set1_ps(t->high), above);
  if (t->shorter) {
    _mm256_storeu_si256((__m256i *)(void *)(t->at + 2 * index), round_16(value));
  } else {
    _mm512_storeu_ps((float *)(void *)t->at + index, value);
  }
}

/* Windows beside each other have columns in common. The compiler must not keep those from one
 * column to the next: there are no registers left for them. */
#define keep_apart(pointer) __asm__("" : "+r"(pointer))

/* `count` positions, `stride` columns apart; both are constants where this is called. */
WIDE_INLINE void sum_positions(const planes *p, const view *from, const float *weights, int count,
                               int64_t stride, const target *to) {
  __m512 sum[POSITIONS][2];
  const __m512 zero = _mm512_setzero_ps();
  const __m512 first = to->bias == NULL ? zero : _mm512_loadu_ps(to->bias);
  const __m512 second = to->bias == NULL ? zero : _mm512_loadu_ps(to->bias + 16);
#pragma GCC unroll 14
  for (int i = 0; i < count; ++i) {
    sum[i][0] = first;
    sum[i][1] = second;
  }
  for (int64_t c = 0; c < p->channels; ++c) {
    for (int64_t y = 0; y < p->kernel[0]; ++y) {
      const float *at = from->at + c * from->plane + y * from->row;
      for (int64_t x = 0; x < p->kernel[1]; ++x, ++at, weights += OUTPUTS) {
        keep_apart(at);
        const __m512 w0 = _mm512_loadu_ps(weights), w1 = _mm512_loadu_ps(weights + 16);
#pragma GCC unroll 14
        for (int i = 0; i < count; ++i) {
          const __m512 value = _mm512_set1_ps(at[i * stride]);
          sum[i][0] = _mm512_fmadd_ps(value, w0, sum[i][0]);
          sum[i][1] = _mm512_fmadd_ps(value, w1, sum[i][1]);
        }
      }
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < count; ++i) {
    put(to, i * to->outputs, sum[i][0]);
    put(to, i * to->outputs + 16, sum[i][1]);
  }
}

/* A row of results. The last positions are computed together with some before them, which become
 * the same again. */
WIDE_INLINE void sum_row(const planes *p, const view *from, const float *weights, int64_t stride,
                         const target *to) {
  const int64_t element = to->shorter ? 2 : 4;
  for (int64_t x = 0; x < p->out[1];) {
    const int64_t left = p->out[1] - x;
    const int64_t count = left > HALF && p->out[1] >= POSITIONS ? POSITIONS : HALF;
    const int64_t begin = left < count ? p->out[1] - count : x;
    const view v = {from->at + begin * stride, from->row, from->plane};
    target t = *to;
    t.at += begin * to->outputs * element;
    if (count == POSITIONS) sum_positions(p, &v, weights, POSITIONS, stride, &t);
    else sum_positions(p, &v, weights, HALF, stride, &t);
    x = begin + count;
  }
}

WIDE static void compute_row(const planes *p, const view *from, const float *weights,
                             const target *to) {
  if (p->stride == 1) sum_row(p, from, weights, 1, to);
  else if (p->stride == 2) sum_row(p, from, weights, 2, to);
  else sum_row(p, from, weights, 4, to);
}

#else

static void compute_row(const planes *p, const view *from, const float *weights, const target *to) {
  (void)p, (void)from, (void)weights, (void)to;
}

#endif

/* ---- planning ------------------------------------------------------------ */

static crema_status check_shape(const cr_plan *plan) {
  const cr_op_arg *arg = plan->desc->arg;
  const cr_conv_params *conv = &plan->desc->u.conv;
  const cr_window *w = &conv->window;
  if (w->axes != 2 || arg[0].shape.axes != 4 || w->dilation[0] != 1 || w->dilation[1] != 1 ||
      conv->group != 1) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not a dense window over two axes and all channels");
  }
  const int64_t channels = arg[0].shape.dim[1], outputs = arg[3].shape.dim[1];
  const int64_t stride = w->stride[0];
  if (channels < 1 || channels > CHANNELS_MOST || outputs % OUTPUTS != 0 || outputs < 1 ||
      arg[3].shape.dim[3] < HALF || w->kernel[0] > KERNEL_MOST || w->kernel[1] > KERNEL_MOST ||
      w->stride[1] != stride || !(stride == 1 || stride == 2 || stride == 4)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "an image of many channels or other windows");
  }
  return CREMA_OK;
}

static void fill(const cr_plan *plan, planes *p) {
  const crema_shape *in = &plan->desc->arg[0].shape, *out = &plan->desc->arg[3].shape;
  const cr_window *w = &plan->desc->u.conv.window;
  p->batch = in->dim[0];
  p->channels = in->dim[1];
  p->outputs = out->dim[1];
  p->stride = w->stride[0];
  for (int a = 0; a < 2; ++a) {
    p->in[a] = in->dim[a + 2];
    p->out[a] = out->dim[a + 2];
    p->kernel[a] = w->kernel[a];
    p->pad[a] = w->pad[a];
    const int64_t reach = (p->out[a] - 1) * p->stride + p->kernel[a];
    p->padded = p->padded || p->pad[a] > 0 || reach > p->in[a];
  }
  p->strips = (p->out[0] + ROWS - 1) / ROWS;
  p->rows = (ROWS - 1) * p->stride + p->kernel[0];
  p->width = (p->out[1] - 1) * p->stride + p->kernel[1];
  p->weights = cr_whole(p->outputs * p->channels * p->kernel[0] * p->kernel[1], LINE);
  p->slot = p->padded ? cr_whole(p->channels * p->rows * p->width, LINE) : 0;
}

static crema_status plan_planes(cr_plan *plan) {
  const cr_op_arg *arg = plan->desc->arg;
  planes p = {0};
  CR_TRY(cr_dnnl_conv_check_registers());
  CR_TRY(check_shape(plan));
  if (plan->hint[0].layout != NULL || arg[0].type != CREMA_F32) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not held as floats in plain order");
  }
  CR_TRY(cr_dnnl_conv_limits(cr_op_posts(plan->desc), &p.low, &p.high));
  CR_TRY(cr_dnnl_conv_last(plan, NULL, &plan->format[3].layout));
  fill(plan, &p);
  p.slots = plan->threads > 0 ? plan->threads : cr_cpu_threads_of(plan->context);
  planes *kept = malloc(sizeof *kept);
  if (kept == NULL) return cr_fail_memory(sizeof *kept, "the plan of a convolution");
  *kept = p;
  plan->state = kept;
  plan->format[1] = plan->format[2] = (cr_format){CREMA_F32, NULL};
  plan->workspace_bytes = (size_t)(p.weights + p.slots * p.slot) * sizeof(float);
  return CREMA_OK;
}

static void destroy(cr_plan *plan) {
  free(plan->state);
}

/* ---- running ------------------------------------------------------------- */

/* (O,C,K,K) to (O / 32, C, K, K, 32). */
static void arrange(const planes *p, const float *weights, float *to) {
  const int64_t taps = p->channels * p->kernel[0] * p->kernel[1];
  for (int64_t o = 0; o < p->outputs; o += OUTPUTS) {
    for (int64_t k = 0; k < taps; ++k) {
      for (int64_t i = 0; i < OUTPUTS; ++i) *to++ = weights[(o + i) * taps + k];
    }
  }
}

/* A row of the image with zeros around it. */
static void copy_row(const planes *p, const float *plane, int64_t y, float *to) {
  const bool inside = y >= 0 && y < p->in[0];
  const int64_t before = inside ? p->pad[1] : p->width;
  const int64_t room = p->width - before, count = room < p->in[1] ? room : p->in[1];
  memset(to, 0, (size_t)before * sizeof *to);
  if (!inside) return;
  memcpy(to + before, plane + y * p->in[1], (size_t)count * sizeof *to);
  memset(to + before + count, 0, (size_t)(room - count) * sizeof *to);
}

/* Where the rows lie that `rows` rows of results from row `y` on read. */
static view find_rows(const planes *p, const float *image, int64_t y, int64_t rows, float *space) {
  const int64_t plane = p->in[0] * p->in[1], first = y * p->stride - p->pad[0];
  if (!p->padded) return (view){image + first * p->in[1], p->in[1], plane};
  const int64_t needed = (rows - 1) * p->stride + p->kernel[0];
  for (int64_t c = 0; c < p->channels; ++c) {
    for (int64_t i = 0; i < needed; ++i) {
      copy_row(p, image + c * plane, first + i, space + (c * p->rows + i) * p->width);
    }
  }
  return (view){space, p->width, p->rows * p->width};
}

static void compute_strip(const cr_call *call, int64_t strip, float *space) {
  const planes *p = call->plan->state;
  const int64_t image = strip / p->strips, y = strip % p->strips * ROWS;
  const int64_t rows = p->out[0] - y < ROWS ? p->out[0] - y : ROWS;
  const float *weights = cr_f32(&call->workspace, 0), *bias = cr_f32(call->buffer, 2);
  const int64_t taps = p->channels * p->kernel[0] * p->kernel[1];
  const view all = find_rows(p, cr_f32(call->buffer, 0) + image * p->channels * p->in[0] * p->in[1],
                             y, rows, space);
  target t = {.outputs = p->outputs,
              .low = p->low,
              .high = p->high,
              .shorter = call->plan->format[3].type == CREMA_BF16};
  for (int64_t o = 0; o < p->outputs; o += OUTPUTS) {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t first = (image * p->out[0] + y + i) * p->out[1] * p->outputs + o;
      const view v = {all.at + i * p->stride * all.row, all.row, all.plane};
      t.at = (char *)call->buffer[3].address + first * (t.shorter ? 2 : 4);
      t.bias = bias == NULL ? NULL : bias + o;
      compute_row(p, &v, weights + o * taps, &t);
    }
  }
}

/* Each thread gets strips that follow one another. */
static crema_status run_planes(const cr_call *call) {
  const planes *p = call->plan->state;
  const int64_t strips = p->batch * p->strips;
  float *space = cr_f32(&call->workspace, 0);
  arrange(p, cr_f32(call->buffer, 1), space);
#pragma omp parallel for schedule(static)
  for (int64_t slot = 0; slot < p->slots; ++slot) {
    for (int64_t i = strips * slot / p->slots; i < strips * (slot + 1) / p->slots; ++i) {
      compute_strip(call, i, space + p->weights + slot * p->slot);
    }
  }
  return CREMA_OK;
}

CR_KERNEL(conv_fwd_planes, CONV_FWD, .types = CR_TYPE(F32) | CR_TYPE(BF16), .library = true,
          .follows_hints = true, .plan = plan_planes, .run = run_planes, .destroy = destroy);
