/* The gradient of the weights of a depthwise convolution or deconvolution over two axes, for
 * windows other than 3 x 3. In FLOAT.
 *
 * Gain over oneDNN 2.6, which has fast code only for 3 x 3 and otherwise computes a matrix product
 * for each channel and image. On Granite Rapids (bench/layers) the backward pass is 7x as fast for
 * 5 x 5 windows over 32 x 64 planes of 56 x 56, and 5x as fast for a bilinear deconvolution.
 *
 * The gradient of a weight is the sum over the map of its gradient times the element of the image
 * under the weight. The columns of the image are first sorted by their remainder modulo the stride,
 * so that all sums read neighbours. Products and sums are not fused, so the bits are the same on
 * every processor. */
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/window.h"
#include "device/cpu/threads/threads.h"

enum {
  LANES = 8,        /* floats of a vector */
  KERNEL_MOST = 16, /* along an axis */
  STRIDE_MOST = 4,  /* along a row; conv_strided_fast.c is faster for long strides */
  TOGETHER = 5,     /* weights of a row whose gradients are summed together */
  ROWS = 2          /* rows of them */
};

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

typedef struct depthwise {
  cr_slide slide;
  int64_t batch, channels;
  int64_t rows;  /* of a sorted image, with rows of zeros for the padding */
  int64_t part;  /* floats of the columns of an image row that have one remainder */
  int64_t width; /* floats of a row of the map, zeros at its end */
  int64_t slots; /* threads */
} depthwise;

/* Number of floats in a sorted image, and in a thread's workspace. */
static int64_t image_floats(const depthwise *d) {
  return d->rows * d->slide.stride[1] * d->part;
}

static int64_t slot_floats(const depthwise *d) {
  return image_floats(d) + d->slide.out[0] * d->width;
}

/* Value x of image row y becomes number (x + pad) / stride of part (x + pad) % stride of row
 * y + pad. */
CR_INLINE void sort_image(const depthwise *d, int64_t stride, const float *restrict image,
                          float *restrict sorted) {
  const int64_t width = d->slide.in[1], pad = d->slide.pad[1];
  sorted += d->slide.pad[0] * stride * d->part;
  for (int64_t y = 0; y < d->slide.in[0]; ++y, image += width) {
    for (int64_t x = 0; x < stride; ++x, sorted += d->part) {
      const int64_t first = ((x - pad) % stride + stride) % stride;
      const int64_t count = first < width ? cr_pieces(width - first, stride) : 0;
      float *to = sorted + (first + pad) / stride;
      for (int64_t i = 0; i < count; ++i) to[i] = image[first + i * stride];
    }
  }
}

/* sum (rows, K) from column `kx` on: the gradients of `count` weights in each of `rows` rows of the
 * window from `ky` on; rows and count are constants. */
CR_INLINE void sum_weights(const depthwise *d, const float *sorted, const float *map, int64_t ky,
                           int64_t kx, int rows, int count, float *sum) {
  const cr_slide *s = &d->slide;
  const int64_t row = s->stride[1] * d->part;
  const float *from[TOGETHER];
  lanes all[ROWS][TOGETHER];
  for (int t = 0; t < count; ++t) {
    from[t] = sorted + ky * row + (kx + t) % s->stride[1] * d->part + (kx + t) / s->stride[1];
    for (int r = 0; r < rows; ++r) all[r][t] = (lanes){0};
  }
  for (int64_t y = 0; y < s->out[0]; ++y, map += d->width) {
    const int64_t at = y * s->stride[0] * row;
    for (int64_t x = 0; x < d->width; x += LANES) {
      const lanes gradient = *(const lanes *)(const void *)(map + x);
      for (int r = 0; r < rows; ++r) {
        for (int t = 0; t < count; ++t) {
          all[r][t] += gradient * *(const lanes *)(const void *)(from[t] + at + r * row + x);
        }
      }
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int t = 0; t < count; ++t) {
      float *to = sum + r * s->kernel[1] + t;
      *to = 0;
      for (int l = 0; l < LANES; ++l) *to += all[r][t][l];
    }
  }
}

/* As above, for all columns. The last columns are summed together with some columns that are
 * complete. */
CR_INLINE void sum_window_rows(const depthwise *d, const float *sorted, const float *map,
                               int64_t ky, int rows, float *sum) {
  const int64_t columns = d->slide.kernel[1];
  for (int64_t next = 0; next < columns; next += TOGETHER) {
    const int64_t kx = cr_least(next, cr_most(0, columns - TOGETHER));
    switch (cr_least(columns, TOGETHER)) {
      case 1: sum_weights(d, sorted, map, ky, kx, rows, 1, sum + kx); break;
      case 2: sum_weights(d, sorted, map, ky, kx, rows, 2, sum + kx); break;
      case 3: sum_weights(d, sorted, map, ky, kx, rows, 3, sum + kx); break;
      case 4: sum_weights(d, sorted, map, ky, kx, rows, 4, sum + kx); break;
      default: sum_weights(d, sorted, map, ky, kx, rows, TOGETHER, sum + kx); break;
    }
  }
}

/* sum (K, K) = the gradients of the weights for one image and channel. */
CR_CLONES static void sum_plane(const depthwise *d, const float *image, const float *diff,
                                float *space, float *sum) {
  const cr_slide *s = &d->slide;
  float *filled = space + image_floats(d);
  const float *map = s->out[1] == d->width ? diff : filled;
  if (s->stride[1] == 1) sort_image(d, 1, image, space);
  else if (s->stride[1] == 2) sort_image(d, 2, image, space);
  else sort_image(d, s->stride[1], image, space);
  for (int64_t y = 0; y < s->out[0] && map == filled; ++y) {
    for (int64_t x = 0; x < s->out[1]; ++x) filled[y * d->width + x] = diff[y * s->out[1] + x];
  }
  int64_t ky = 0;
  for (; ky + ROWS <= s->kernel[0]; ky += ROWS, sum += ROWS * s->kernel[1]) {
    sum_window_rows(d, space, map, ky, ROWS, sum);
  }
  if (ky < s->kernel[0]) sum_window_rows(d, space, map, ky, 1, sum);
}

/* The gradients of one channel's weights and of its bias over all images. */
static void sum_channel(const cr_call *call, int64_t channel, float *space) {
  const depthwise *d = call->plan->state;
  const int64_t window = d->slide.kernel_count, in = d->slide.in_count, out = d->slide.out_count;
  float *weights = cr_f32(call->buffer, 2) + channel * window, *bias = cr_f32(call->buffer, 3);
  float part[KERNEL_MOST * KERNEL_MOST];
  double sum[KERNEL_MOST * KERNEL_MOST], bias_sum = 0;
  for (int64_t k = 0; k < window; ++k) sum[k] = call->accumulate[2] ? (double)weights[k] : 0;
  for (int64_t n = 0; n < d->batch; ++n) {
    const int64_t plane = n * d->channels + channel;
    const float *diff = cr_f32(call->buffer, 1) + plane * out;
    sum_plane(d, cr_f32(call->buffer, 0) + plane * in, diff, space, part);
    for (int64_t k = 0; k < window; ++k) sum[k] += (double)part[k];
    for (int64_t i = 0; i < out && bias != NULL; ++i) bias_sum += (double)diff[i];
  }
  for (int64_t k = 0; k < window; ++k) weights[k] = (float)sum[k];
  if (bias == NULL) return;
  bias[channel] = (call->accumulate[3] ? bias[channel] : 0) + (float)bias_sum;
}

/* src, diff_dst, diff_weights, diff_bias. Each thread has consecutive channels. What surrounds
 * images and maps in its space stays 0. */
static crema_status run(const cr_call *call) {
  const depthwise *d = call->plan->state;
#pragma omp parallel for schedule(static)
  for (int64_t slot = 0; slot < d->slots; ++slot) {
    float *space = cr_f32(&call->workspace, 0) + slot * slot_floats(d);
    memset(space, 0, (size_t)slot_floats(d) * sizeof *space);
    for (int64_t c = d->channels * slot / d->slots; c < d->channels * (slot + 1) / d->slots; ++c) {
      sum_channel(call, c, space);
    }
  }
  return CREMA_OK;
}

static crema_status plan_weights(cr_plan *plan) {
  const crema_shape *image = &plan->desc->arg[0].shape, *map = &plan->desc->arg[1].shape;
  depthwise d = {.batch = image->dim[0], .channels = image->dim[1]};
  const cr_slide *s = &d.slide;
  CR_TRY(cr_slide_dense_conv(plan->desc, 0, 2, 1, &d.slide));
  if (plan->desc->u.conv.group != d.channels || map->dim[1] != d.channels) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not a window for each channel");
  }
  if (s->kernel[0] > KERNEL_MOST || s->kernel[1] > KERNEL_MOST || s->stride[1] > STRIDE_MOST) {
    return cr_fail(CREMA_E_UNSUPPORTED, "long strides, or a large window");
  }
  if (s->kernel[0] == 3 && s->kernel[1] == 3) {
    return cr_fail(CREMA_E_UNSUPPORTED, "windows that oneDNN is fast for");
  }
  d.rows = cr_most(s->in[0] + s->pad[0], (s->out[0] - 1) * s->stride[0] + s->kernel[0]);
  d.width = cr_whole(s->out[1], LANES);
  d.part = cr_whole(cr_most(d.width + cr_pieces(s->kernel[1], s->stride[1]),
                            cr_pieces(s->in[1] + s->pad[1], s->stride[1])),
                    LANES);
  d.slots = plan->threads > 0 ? plan->threads : cr_cpu_threads_of(plan->context);
  plan->workspace_bytes = (size_t)(d.slots * slot_floats(&d)) * sizeof(float);
  return cr_plan_keep(plan, &d, sizeof d);
}

CR_KERNEL(conv_bwd_weights_depth, CONV_BWD_WEIGHTS, .can_accumulate = true, .plan = plan_weights,
          .run = run, .destroy = cr_plan_release);
