/* Convolution as a matrix product: the windows of one image and group are unfolded into the
 * columns of a matrix of C/group * K rows and P = S'... columns. Any number of spatial axes. */
#include <stdlib.h>

#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/gemm.h"
#include "device/cpu/kernels/post_ops.h"
#include "device/cpu/kernels/unfold.h"

typedef struct conv_state {
  cr_slide slide;
  int64_t batch, group;
  int64_t in_channels, out_channels; /* of one group */
  int64_t rows;                      /* in_channels * window elements */
  bool unfolded;                     /* a 1x1 window of stride 1: the image is its own matrix */
  size_t result_offset; /* in the workspace: a result that may not be written over its addend yet */
} conv_state;

static bool is_unfolded(const cr_slide *s) {
  for (int a = 0; a < s->axes; ++a) {
    if (s->kernel[a] != 1 || s->stride[a] != 1 || s->pad[a] != 0 || s->in[a] != s->out[a]) {
      return false;
    }
  }
  return true;
}

/* src, weights and dst: the numbers of the arguments that have these shapes. */
static crema_status conv_plan(cr_plan *plan, int src, int weights, int dst) {
  const cr_conv_params *params = &plan->desc->u.conv;
  const crema_shape *in = &plan->desc->arg[src].shape, *out = &plan->desc->arg[dst].shape;
  const crema_shape *filter = &plan->desc->arg[weights].shape;
  conv_state state = {.group = params->group};
  CR_TRY(cr_slide_make(&params->window, in, out, &state.slide));
  if (state.group < 1 || in->dim[1] % state.group || out->dim[1] % state.group) {
    return cr_fail(CREMA_E_SHAPE, "%lld groups do not divide %lld input and %lld output channels",
                   (long long)state.group, (long long)in->dim[1], (long long)out->dim[1]);
  }
  state.batch = in->dim[0];
  state.in_channels = in->dim[1] / state.group;
  state.out_channels = out->dim[1] / state.group;
  state.rows = state.in_channels * state.slide.kernel_count;
  state.unfolded = is_unfolded(&state.slide);
  const int64_t expected = out->dim[1] * state.rows;
  if (out->dim[0] != in->dim[0] || cr_op_arg_count(plan->desc, weights) != expected) {
    char text[3][128];
    return cr_fail(CREMA_E_SHAPE, "convolution of %s with weights %s to %s",
                   crema_shape_text(in, text[0], sizeof text[0]),
                   crema_shape_text(filter, text[1], sizeof text[1]),
                   crema_shape_text(out, text[2], sizeof text[2]));
  }
  if (!state.unfolded) {
    if (state.slide.out_count > 0 && state.rows > INT64_MAX / 8 / state.slide.out_count) {
      return cr_fail(CREMA_E_UNSUPPORTED, "the windows of an image have too many elements");
    }
    plan->workspace_bytes = (size_t)state.rows * (size_t)state.slide.out_count * sizeof(cr_real);
  }
  state.result_offset = plan->workspace_bytes / sizeof(cr_real);
  if (cr_posts_add(cr_op_posts(plan->desc))) {
    plan->workspace_bytes += (size_t)(state.out_channels * state.slide.out_count) * sizeof(cr_real);
  }
  conv_state *kept = malloc(sizeof *kept);
  if (!kept) return cr_fail_memory(sizeof *kept, "the plan of a convolution");
  *kept = state;
  plan->state = kept;
  return CREMA_OK;
}

static void conv_destroy(cr_plan *plan) {
  free(plan->state);
}

static crema_status conv_fwd_plan(cr_plan *plan) {
  return conv_plan(plan, 0, 1, 3);
}
static crema_status conv_bwd_data_plan(cr_plan *plan) {
  return conv_plan(plan, 2, 1, 0);
}
static crema_status conv_bwd_weights_plan(cr_plan *plan) {
  return conv_plan(plan, 0, 2, 1);
}

/* Groups of images that have positions to compute. */
static int64_t groups(const conv_state *s) {
  return s->slide.out_count > 0 ? s->batch * s->group : 0;
}

/* The matrix of one image's group: (rows, P). */
static const cr_real *unfold(const conv_state *s, const cr_real *image, cr_real *workspace) {
  if (s->unfolded) return image;
  const int64_t step = s->slide.kernel_count * s->slide.out_count;
#pragma omp parallel for schedule(static) if (s->rows * s->slide.out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s->in_channels; ++c) {
    cr_ref_unfold(&s->slide, image + c * s->slide.in_count, workspace + c * step);
  }
  return workspace;
}

static void fold_add(const conv_state *s, const cr_real *matrix, cr_real *image) {
  const int64_t step = s->slide.kernel_count * s->slide.out_count;
#pragma omp parallel for schedule(static) if (s->rows * s->slide.out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < s->in_channels; ++c) {
    cr_ref_fold_add(&s->slide, matrix + c * step, image + c * s->slide.in_count);
  }
}

/* Adds the bias to `planes` planes of one group, and applies the post operations. `addend` NULL:
 * there is none. from and dst may be one array, addend and dst too. */
static void finish(const cr_op_desc *desc, int64_t planes, int64_t size, const cr_real *bias,
                   const cr_real *from, const cr_real *addend, cr_real *dst) {
  const cr_posts *posts = cr_op_posts(desc);
#pragma omp parallel for schedule(static) if (planes * size >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < planes; ++c) {
    cr_ref_posts(posts, size, bias == NULL ? 0 : bias[c], from + c * size,
                 addend == NULL ? NULL : addend + c * size, dst + c * size);
  }
}

/* src (N,C,S...), weights (O,C/group,K...), bias (O), dst (N,O,S'...). */
static crema_status conv_fwd(const cr_call *call) {
  const conv_state *s = call->plan->state;
  const cr_real *src = cr_as_reals(call->buffer, 0), *weights = cr_as_reals(call->buffer, 1),
                *bias = cr_as_reals(call->buffer, 2);
  cr_real *dst = cr_as_reals(call->buffer, 3);
  const bool posts = cr_posts_count(cr_op_posts(call->desc)) > 0;
  const cr_real *addend =
      cr_posts_add(cr_op_posts(call->desc)) ? cr_as_reals(call->buffer, CR_ARG_ADDEND) : NULL;
  const int64_t places = s->slide.out_count;
  for (int64_t i = 0; i < groups(s); ++i) {
    const int64_t g = i % s->group;
    const cr_real *image = src + i * s->in_channels * s->slide.in_count;
    cr_real *out = dst + i * s->out_channels * places;
    cr_real *made = addend != NULL ? cr_as_reals(&call->workspace, 0) + s->result_offset : out;
    const cr_gemm gemm = {.m = s->out_channels,
                          .n = places,
                          .k = s->rows,
                          .a = weights + g * s->out_channels * s->rows,
                          .a_row = s->rows,
                          .a_column = 1,
                          .b = unfold(s, image, cr_as_reals(&call->workspace, 0)),
                          .b_row = places,
                          .c = made,
                          .c_row = places};
    cr_ref_gemm(&gemm);
    if (bias == NULL && !posts) continue;
    finish(call->desc, s->out_channels, places, bias ? bias + g * s->out_channels : NULL, made,
           addend == NULL ? NULL : addend + i * s->out_channels * places, out);
  }
  return CREMA_OK;
}

/* diff_dst, weights, diff_src. */
static crema_status conv_bwd_data(const cr_call *call) {
  const conv_state *s = call->plan->state;
  const cr_real *diff_dst = cr_as_reals(call->buffer, 0), *weights = cr_as_reals(call->buffer, 1);
  cr_real *diff_src = cr_as_reals(call->buffer, 2);
  const int64_t places = s->slide.out_count, image_size = s->in_channels * s->slide.in_count;
  const int64_t size = s->batch * s->group * image_size;
  if (size > 0 && !s->unfolded) memset(diff_src, 0, (size_t)size * sizeof *diff_src);
  for (int64_t i = 0; i < groups(s); ++i) {
    const int64_t g = i % s->group;
    cr_real *image = diff_src + i * image_size;
    cr_real *matrix = s->unfolded ? image : cr_as_reals(&call->workspace, 0);
    const cr_gemm gemm = {.m = s->rows,
                          .n = places,
                          .k = s->out_channels,
                          .a = weights + g * s->out_channels * s->rows,
                          .a_row = 1,
                          .a_column = s->rows,
                          .b = diff_dst + i * s->out_channels * places,
                          .b_row = places,
                          .c = matrix,
                          .c_row = places};
    cr_ref_gemm(&gemm);
    if (!s->unfolded) fold_add(s, matrix, image);
  }
  return CREMA_OK;
}

/* diff_bias (+)= the sum of diff_dst over images and positions. */
static void bias_gradient(const conv_state *s, const cr_real *diff_dst, bool add,
                          cr_real *diff_bias) {
  const int64_t channels = s->group * s->out_channels, places = s->slide.out_count;
#pragma omp parallel for schedule(static) if (s->batch * channels * places >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t n = 0; n < s->batch; ++n) {
      const cr_real *y = diff_dst + (n * channels + c) * places;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < places; ++i) sum += (double)y[i];
    }
    diff_bias[c] = (cr_real)(add ? (double)diff_bias[c] + sum : sum);
  }
}

/* src, diff_dst, diff_weights, diff_bias. */
static crema_status conv_bwd_weights(const cr_call *call) {
  const conv_state *s = call->plan->state;
  const cr_real *src = cr_as_reals(call->buffer, 0), *diff_dst = cr_as_reals(call->buffer, 1);
  cr_real *diff_weights = cr_as_reals(call->buffer, 2), *diff_bias = cr_as_reals(call->buffer, 3);
  const int64_t places = s->slide.out_count, filters = s->out_channels * s->rows;
  if (groups(s) == 0 && !call->accumulate[2]) {
    memset(diff_weights, 0, (size_t)(filters * s->group) * sizeof *diff_weights);
  }
  for (int64_t i = 0; i < groups(s); ++i) {
    const int64_t g = i % s->group;
    const cr_gemm gemm = {.m = s->out_channels,
                          .n = s->rows,
                          .k = places,
                          .a = diff_dst + i * s->out_channels * places,
                          .a_row = places,
                          .a_column = 1,
                          .b = unfold(s, src + i * s->in_channels * s->slide.in_count,
                                      cr_as_reals(&call->workspace, 0)),
                          .b_row = places,
                          .b_transposed = true,
                          .c = diff_weights + g * filters,
                          .c_row = s->rows,
                          .accumulate = call->accumulate[2] || i >= s->group};
    cr_ref_gemm(&gemm);
  }
  if (diff_bias) bias_gradient(s, diff_dst, call->accumulate[3], diff_bias);
  return CREMA_OK;
}

CR_REF_KERNEL(conv_fwd, CONV_FWD, .plan = conv_fwd_plan, .run = conv_fwd, .destroy = conv_destroy);
CR_REF_KERNEL(conv_bwd_data, CONV_BWD_DATA, .plan = conv_bwd_data_plan, .run = conv_bwd_data,
              .destroy = conv_destroy);
CR_REF_KERNEL(conv_bwd_weights, CONV_BWD_WEIGHTS, .can_accumulate = true,
              .plan = conv_bwd_weights_plan, .run = conv_bwd_weights, .destroy = conv_destroy);
