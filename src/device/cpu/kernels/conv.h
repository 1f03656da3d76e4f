/* Convolution over any number of spatial axes, as a matrix product. The windows of one image and
 * group become the columns of a matrix of C/group * K rows and P = S'... columns. */
#ifndef CR_DEVICE_CPU_KERNELS_CONV_H
#define CR_DEVICE_CPU_KERNELS_CONV_H

#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/gemm.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/post_ops.h"
#include "device/cpu/kernels/unfold.h"

typedef void cr_conv_multiply(const cr_gemm *gemm);

/* The workspace holds the unfolded matrix, then a result if the op adds to it. */
typedef struct cr_conv_state {
  cr_slide slide;
  int64_t batch, group, in_channels, out_channels; /* the last two: of one group */
  int64_t rows;                                    /* in_channels * window elements */
  int64_t images;                                  /* batch * group; 0 without positions */
} cr_conv_state;

static inline crema_status cr_conv_plan(cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  int src = 0, weights = 1, dst = 3; /* the arguments of these shapes */
  if (desc->kind == CR_OP_CONV_BWD_DATA) src = 2, dst = 0;
  if (desc->kind == CR_OP_CONV_BWD_WEIGHTS) weights = 2, dst = 1;
  const crema_shape *in = &desc->arg[src].shape, *out = &desc->arg[dst].shape;
  cr_conv_state s = {.group = desc->u.conv.group, .batch = in->dim[0]};
  CR_TRY(cr_slide_conv(desc, src, weights, dst, &s.slide));
  s.in_channels = in->dim[1] / s.group;
  s.out_channels = out->dim[1] / s.group;
  s.rows = s.in_channels * s.slide.kernel_count;
  s.images = s.slide.out_count > 0 ? s.batch * s.group : 0;
  if (s.slide.out_count > 0 && s.rows > INT64_MAX / 16 / s.slide.out_count - s.out_channels) {
    return cr_fail(CREMA_E_UNSUPPORTED, "the windows of an image have too many elements");
  }
  const int64_t rows = s.rows + (cr_posts_add(cr_op_posts(plan->desc)) ? s.out_channels : 0);
  plan->workspace_bytes = (size_t)(rows * s.slide.out_count) * sizeof(cr_real);
  return cr_plan_keep(plan, &s, sizeof s);
}

/* matrix (rows, P) = the windows of one image's group. */
static inline void cr_conv_unfold(const cr_conv_state *s, const cr_real *image, cr_real *matrix) {
  const int64_t step = s->slide.kernel_count * s->slide.out_count;
#pragma omp parallel for schedule(static) if (s->rows * s->slide.out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s->in_channels; ++c) {
    cr_ref_unfold(&s->slide, image + c * s->slide.in_count, matrix + c * step);
  }
}

/* src (N,C,S...), weights (O,C/group,K...), bias (O), dst (N,O,S'...); dst may be the addend. */
static inline crema_status cr_conv_forward(const cr_call *call, cr_conv_multiply *multiply) {
  const cr_conv_state *s = call->plan->state;
  const cr_posts *posts = cr_op_posts(call->desc);
  const cr_real *src = cr_as_reals(call->buffer, 0), *weights = cr_as_reals(call->buffer, 1),
                *bias = cr_as_reals(call->buffer, 2);
  const cr_real *addend = cr_posts_add(posts) ? cr_as_reals(call->buffer, CR_ARG_ADDEND) : NULL;
  const int64_t places = s->slide.out_count;
  cr_real *matrix = cr_as_reals(&call->workspace, 0);
  for (int64_t i = 0; i < s->images; ++i) {
    const int64_t first = i % s->group * s->out_channels; /* output channel */
    cr_real *dst = cr_as_reals(call->buffer, 3) + i * s->out_channels * places;
    cr_real *made = addend != NULL ? matrix + s->rows * places : dst;
    cr_conv_unfold(s, src + i * s->in_channels * s->slide.in_count, matrix);
    multiply(&(cr_gemm){.m = s->out_channels,
                        .n = places,
                        .k = s->rows,
                        .a = weights + first * s->rows,
                        .a_row = s->rows,
                        .a_column = 1,
                        .b = matrix,
                        .b_row = places,
                        .c = made,
                        .c_row = places});
    if (bias == NULL && cr_posts_count(posts) == 0) continue;
#pragma omp parallel for schedule(static) if (s->out_channels * places >= CR_REF_PARALLEL_MIN)
    for (int64_t c = 0; c < s->out_channels; ++c) {
      cr_ref_posts(posts, places, bias == NULL ? 0 : bias[first + c], made + c * places,
                   addend == NULL ? NULL : addend + (i * s->out_channels + c) * places,
                   dst + c * places);
    }
  }
  return CREMA_OK;
}

/* diff_dst, weights, diff_src. */
static inline crema_status cr_conv_backward_data(const cr_call *call, cr_conv_multiply *multiply) {
  const cr_conv_state *s = call->plan->state;
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0), *weights = cr_as_reals(call->buffer, 1);
  const int64_t places = s->slide.out_count, count = cr_op_arg_count(call->desc, 2);
  cr_real *matrix = cr_as_reals(&call->workspace, 0), *diff_src = cr_as_reals(call->buffer, 2);
  if (count > 0) memset(diff_src, 0, (size_t)count * sizeof *diff_src);
  for (int64_t i = 0; i < s->images; ++i) {
    multiply(&(cr_gemm){.m = s->rows,
                        .n = places,
                        .k = s->out_channels,
                        .a = weights + i % s->group * s->out_channels * s->rows,
                        .a_row = 1,
                        .a_column = s->rows,
                        .b = diff_dst + i * s->out_channels * places,
                        .b_row = places,
                        .c = matrix,
                        .c_row = places});
#pragma omp parallel for schedule(static) if (s->rows * places >= CR_REF_PARALLEL_MIN)
    for (int64_t c = 0; c < s->in_channels; ++c) {
      cr_ref_fold_add(&s->slide, matrix + c * s->slide.kernel_count * places,
                      diff_src + (i * s->in_channels + c) * s->slide.in_count);
    }
  }
  return CREMA_OK;
}

/* src, diff_dst, diff_weights, diff_bias. */
static inline crema_status cr_conv_backward_weights(const cr_call *call,
                                                    cr_conv_multiply *multiply) {
  const cr_conv_state *s = call->plan->state;
  const cr_real *src = cr_as_reals(call->buffer, 0), *diff_dst = cr_as_reals(call->buffer, 1);
  cr_real *diff_weights = cr_as_reals(call->buffer, 2), *diff_bias = cr_as_reals(call->buffer, 3);
  const int64_t places = s->slide.out_count, channels = s->group * s->out_channels;
  cr_real *matrix = cr_as_reals(&call->workspace, 0);
  if (s->images == 0 && !call->accumulate[2]) {
    memset(diff_weights, 0, (size_t)(channels * s->rows) * sizeof *diff_weights);
  }
  for (int64_t i = 0; i < s->images; ++i) {
    cr_conv_unfold(s, src + i * s->in_channels * s->slide.in_count, matrix);
    multiply(&(cr_gemm){.m = s->out_channels,
                        .n = s->rows,
                        .k = places,
                        .a = diff_dst + i * s->out_channels * places,
                        .a_row = places,
                        .a_column = 1,
                        .b = matrix,
                        .b_row = places,
                        .b_transposed = true,
                        .c = diff_weights + i % s->group * s->out_channels * s->rows,
                        .c_row = s->rows,
                        .accumulate = call->accumulate[2] || i >= s->group});
  }
  /* Each sum is rounded before it is added, so opposite gradients of a shared bias cancel. */
  for (int64_t c = 0; c < channels && diff_bias != NULL; ++c) {
    double sum = 0;
    for (int64_t n = 0; n < s->batch; ++n) {
      const cr_real *y = diff_dst + (n * channels + c) * places;
      for (int64_t i = 0; i < places; ++i) sum += (double)y[i];
    }
    diff_bias[c] = (call->accumulate[3] ? diff_bias[c] : 0) + (cr_real)sum;
  }
  return CREMA_OK;
}

#endif
