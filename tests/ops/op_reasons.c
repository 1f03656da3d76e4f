#include "op_reasons.h"

#include <stdint.h>
#include <string.h>

#include "check.h"
#include "device/backend/backend.h"
#include "device/cpu/onednn/layout.h"
#include "device/device.h"
#include "op_check.h"
#include "op_reference.h"

typedef struct question {
  const cr_op_desc *desc;
  const cr_format *held;
} question;

typedef struct reason {
  const char *row;  /* what the row's name begins with */
  const char *text; /* what the row says begins with */
  bool (*holds)(const question *q);
  bool always; /* where it holds, the row never runs */
} reason;

static bool is_possible(const question *q) {
  (void)q;
  return true;
}

static bool is_present(const question *q, int arg) {
  return arg < q->desc->args && q->desc->arg[arg].shape.axes >= 0;
}

static bool is_empty(const question *q) {
  for (int i = 0; i < q->desc->args; ++i) {
    if (is_present(q, i) && op_count(&q->desc->arg[i].shape) == 0) return true;
  }
  return false;
}

static bool has_short_values(const question *q) {
  for (int i = 0; i < q->desc->args; ++i) {
    const crema_dtype type = q->desc->arg[i].type;
    if (is_present(q, i) && (type == CREMA_F16 || type == CREMA_BF16)) return true;
  }
  return false;
}

/* Of a batch normalisation. */
static bool has_short_scales(const question *q) {
  const int scale = q->desc->kind == CR_OP_BN_BWD ? 5 : 4;
  return has_short_values(q) && q->desc->args > scale && q->desc->arg[scale].shape.axes > 0;
}

static bool is_rectified(const question *q) {
  return q->desc->u.bn.rectify;
}

static bool first_is_plain(const question *q) {
  return q->held[0].layout == NULL;
}

static bool first_is_private(const question *q) {
  return q->held[0].layout != NULL;
}

static bool second_is_plain(const question *q) {
  return q->held[1].layout == NULL;
}

static bool all_are_plain(const question *q) {
  for (int i = 0; i < q->desc->args; ++i) {
    if (q->held[i].layout != NULL) return false;
  }
  return true;
}

/* ---- windows ---- */

static bool has_other_axes(const question *q) {
  const int axes = q->desc->u.conv.window.axes;
  return axes < 1 || axes > 3;
}

/* A window whose elements along the last axis all lie in the padding. */
static bool misses_input(const question *q) {
  const cr_window *w = &q->desc->u.conv.window;
  const int a = w->axes - 1;
  if (has_other_axes(q)) return false;
  for (int64_t o = 0; o < q->desc->arg[3].shape.dim[a + 2]; ++o) {
    bool meets = false;
    for (int64_t k = 0; k < w->kernel[a]; ++k) {
      const int64_t at = o * w->stride[a] - w->pad[a] + k * w->dilation[a];
      meets = meets || (at >= 0 && at < q->desc->arg[0].shape.dim[a + 2]);
    }
    if (!meets) return true;
  }
  return false;
}

/* A column of the windows that always lies in the padding. */
static bool has_columns_in_padding(const question *q) {
  const cr_window *w = &q->desc->u.conv.window;
  const int a = w->axes - 1;
  if (has_other_axes(q)) return false;
  for (int64_t k = 0; k < w->kernel[a]; ++k) {
    bool meets = false;
    for (int64_t o = 0; o < q->desc->arg[1].shape.dim[a + 2]; ++o) {
      const int64_t at = o * w->stride[a] - w->pad[a] + k * w->dilation[a];
      meets = meets || (at >= 0 && at < q->desc->arg[0].shape.dim[a + 2]);
    }
    if (!meets) return true;
  }
  return false;
}

static bool has_bias_or_posts(const question *q) {
  return is_present(q, 2) || cr_posts_count(cr_op_posts(q->desc)) > 0;
}

static bool has_bias_gradient(const question *q) {
  return is_present(q, 3);
}

static bool is_no_dense_plane(const question *q) {
  const cr_window *w = &q->desc->u.conv.window;
  return w->axes != 2 || w->dilation[0] != 1 || w->dilation[1] != 1;
}

static bool is_no_whole_plane(const question *q) {
  return is_no_dense_plane(q) || q->desc->u.conv.group != 1;
}

/* What 14 positions times 32 channels of the result do not suit. */
static bool is_no_image(const question *q) {
  const cr_window *w = &q->desc->u.conv.window;
  const int64_t *in = q->desc->arg[0].shape.dim, *out = q->desc->arg[3].shape.dim;
  const bool strides =
      w->stride[0] == w->stride[1] && (w->stride[0] == 1 || w->stride[0] == 2 || w->stride[0] == 4);
  return in[1] > 4 || out[1] % 32 != 0 || out[3] < 7 || w->kernel[0] > 11 || w->kernel[1] > 11 ||
         !strides;
}

static bool are_no_limits(const cr_posts *posts, int first) {
  const cr_post *post = &posts->post[first];
  if (cr_posts_count(posts) == first) return false;
  const bool limits =
      (post->function == CR_UNARY_RELU && post->alpha == 0) || post->function == CR_UNARY_CLIP;
  return cr_posts_count(posts) > first + 1 || post->kind != CR_POST_UNARY || !limits;
}

static bool has_other_posts(const question *q) {
  return are_no_limits(cr_op_posts(q->desc), 0);
}

static bool has_more_than_sum_and_limits(const question *q) {
  const cr_posts *posts = cr_op_posts(q->desc);
  return are_no_limits(posts, posts->post[0].kind == CR_POST_ADD ? 1 : 0);
}

static bool is_of_groups(const question *q) {
  return q->desc->u.conv.window.axes != 2 || q->desc->u.conv.group != 1;
}

static bool is_not_over_two_axes(const question *q) {
  return q->desc->u.conv.window.axes != 2;
}

/* Half of a tile of 8 outputs would be empty. */
static bool has_few_outputs_in_a_group(const question *q) {
  return q->desc->arg[3].shape.dim[1] < 4 * q->desc->u.conv.group;
}

static bool has_shared_windows(const question *q) {
  const int64_t group = q->desc->u.conv.group;
  return q->desc->arg[0].shape.dim[1] != group || q->desc->arg[3].shape.dim[1] != group;
}

static bool is_no_point(const question *q) {
  const cr_window *w = &q->desc->u.conv.window;
  for (int a = 0; a < 2; ++a) {
    if (w->kernel[a] != 1 || w->stride[a] != 1 || w->pad[a] != 0) return true;
  }
  return false;
}

static bool has_few_positions_or_outputs(const question *q) {
  const int64_t *out = q->desc->arg[3].shape.dim;
  return out[0] * out[2] * out[3] < 7 || out[1] < 16;
}

static int image_of(const question *q) {
  return q->desc->kind == CR_OP_CONV_BWD_DATA ? 2 : 0;
}

static int map_of(const question *q) {
  const cr_op_kind kind = q->desc->kind;
  return kind == CR_OP_CONV_FWD ? 3 : kind == CR_OP_CONV_BWD_DATA ? 0 : 1;
}

/* Strides are short, or leave gaps between windows, or the library is fast in other ways. */
static bool has_fast_windows(const question *q) {
  const cr_op_kind kind = q->desc->kind;
  const cr_window *w = &q->desc->u.conv.window;
  const int64_t groups = q->desc->u.conv.group;
  const int64_t channels = q->desc->arg[image_of(q)].shape.dim[1] / groups;
  bool some_overlap = false;
  for (int a = 0; a < 2; ++a) {
    const int64_t k = w->kernel[a], s = w->stride[a];
    if (s < 8 || k < s || k > 4 * s) return true;
    some_overlap = some_overlap || k > s;
  }
  if (kind == CR_OP_CONV_FWD && !some_overlap) return true;
  return groups == 1 && 64 * channels < q->desc->arg[map_of(q)].shape.dim[1];
}

/* Windows over several channels, or not over planes. */
static bool is_not_depthwise(const question *q) {
  const int64_t group = q->desc->u.conv.group;
  return is_no_dense_plane(q) || q->desc->arg[image_of(q)].shape.dim[1] != group ||
         q->desc->arg[map_of(q)].shape.dim[1] != group;
}

static bool has_other_strides(const question *q) {
  const cr_window *w = &q->desc->u.conv.window;
  return w->axes == 2 && (w->kernel[0] > 16 || w->kernel[1] > 16 || w->stride[1] > 4);
}

static bool has_3_by_3_windows(const question *q) {
  const cr_window *w = &q->desc->u.conv.window;
  return w->axes == 2 && w->kernel[0] == 3 && w->kernel[1] == 3;
}

static bool is_no_padded_point(const question *q) {
  const cr_window *w = &q->desc->u.conv.window;
  const cr_posts *posts = cr_op_posts(q->desc);
  if (w->axes != 2 || w->pad[0] + w->pad[1] == 0) return true;
  for (int a = 0; a < 2; ++a) {
    if (w->kernel[a] != 1 || w->stride[a] != 1) return true;
  }
  for (int i = 0; i < cr_posts_count(posts); ++i) {
    if (posts->post[i].kind != CR_POST_UNARY || posts->post[i].function != CR_UNARY_RELU)
      return true;
  }
  return false;
}

static const crema_shape *pool_input(const question *q) {
  return &q->desc->arg[q->desc->kind == CR_OP_POOL_BWD ? 2 : 0].shape;
}

static const crema_shape *pool_output(const question *q) {
  return &q->desc->arg[q->desc->kind == CR_OP_POOL_BWD ? 0 : 1].shape;
}

/* How far the last window reaches beyond the input. */
static int64_t overhang(const question *q, int a) {
  const cr_window *w = &q->desc->u.pool.window;
  return (pool_output(q)->dim[a + 2] - 1) * w->stride[a] + w->kernel[a] - w->pad[a] -
         pool_input(q)->dim[a + 2];
}

static bool has_windows_outside(const question *q) {
  const cr_window *w = &q->desc->u.pool.window;
  for (int a = 0; a < w->axes; ++a) {
    if (w->pad[a] >= w->kernel[a] || overhang(q, a) >= w->kernel[a]) return true;
  }
  return false;
}

static bool averages_past_padding(const question *q) {
  const cr_window *w = &q->desc->u.pool.window;
  bool padded = false, past = false;
  if (q->desc->u.pool.method != CR_POOL_AVERAGE) return false;
  for (int a = 0; a < w->axes; ++a) {
    padded = padded || w->pad[a] > 0;
    past = past || overhang(q, a) > w->pad[a];
  }
  return padded && past;
}

static bool is_no_held_maximum(const question *q) {
  const bool held =
      q->held[0].layout != NULL || (q->desc->kind == CR_OP_POOL_BWD && q->held[1].layout != NULL);
  return q->desc->u.pool.method != CR_POOL_MAX || !held;
}

static bool is_no_plane(const question *q) {
  return q->desc->u.pool.window.axes != 2 || pool_input(q)->axes != 4;
}

static bool has_large_window(const question *q) {
  const cr_window *w = &q->desc->u.pool.window;
  return !is_no_plane(q) && w->kernel[0] * w->kernel[1] > UINT8_MAX;
}

static bool is_maximum(const question *q) {
  return q->desc->u.pool.method == CR_POOL_MAX;
}

/* Not 2 or 3 columns wide with stride 1 or 2, of few rows. */
static bool has_no_short_windows(const question *q) {
  const cr_window *w = &q->desc->u.pool.window;
  return is_no_plane(q) || w->kernel[1] < 2 || w->kernel[1] > 3 || w->stride[1] > 2 ||
         w->kernel[0] > 5;
}

static bool is_not_plain(const question *q) {
  const bool backward = q->desc->kind == CR_OP_POOL_BWD;
  return q->held[backward && q->desc->u.pool.method == CR_POOL_MAX ? 1 : 0].layout != NULL;
}

static bool is_no_maximum_of_planes(const question *q) {
  return q->desc->u.pool.method != CR_POOL_MAX || is_no_plane(q);
}

static bool has_narrow_or_wide_planes(const question *q) {
  const int64_t width = pool_input(q)->dim[3];
  return !is_no_plane(q) && (width < 16 || width > 2048);
}

/* ---- others ---- */

static bool has_few_rows(const question *q) {
  return q->desc->arg[0].shape.dim[0] < 4;
}

static bool is_over_one_channel(const question *q) {
  return q->desc->u.lrn.size == 1 && !q->desc->u.lrn.within_channel;
}

static bool is_for_a_gradient(const question *q) {
  return is_present(q, 2);
}

static bool has_no_notes(const question *q) {
  return !is_present(q, 3);
}

static bool is_no_window_of_channels(const question *q) {
  return q->desc->u.lrn.within_channel || q->desc->u.lrn.size > 64;
}

static bool has_many_channels(const question *q) {
  return q->desc->arg[0].shape.dim[1] > 1024;
}

static bool is_not_in_blocks(const question *q) {
  return cr_dnnl_layout_order(q->held[0].layout).kind != CR_DNNL_BLOCKED;
}

static bool is_not_channels_last(const question *q) {
  return cr_dnnl_layout_order(q->held[0].layout).kind != CR_DNNL_LAST;
}

/* What the function or its derivative is computed from. */
static const cr_layout *layout_of_source(const question *q) {
  const cr_unary function = q->desc->u.unary.function;
  const bool by_value =
      function == CR_UNARY_SIGMOID || function == CR_UNARY_TANH || function == CR_UNARY_EXP;
  return q->held[by_value && q->desc->kind == CR_OP_UNARY_BWD ? 1 : 0].layout;
}

static bool is_source_plain(const question *q) {
  return layout_of_source(q) == NULL;
}

/* A layout with pads, of a function that is not known to keep them 0. */
static bool fills_pads(const question *q) {
  const double low = q->desc->u.unary.alpha, high = q->desc->u.unary.beta;
  const cr_layout *layout = layout_of_source(q);
  const size_t values = (size_t)op_count(&q->desc->arg[0].shape);
  if (layout == NULL || layout->bytes == values * crema_dtype_size(layout->type)) return false;
  switch (q->desc->u.unary.function) {
    case CR_UNARY_RELU:
    case CR_UNARY_TANH:
    case CR_UNARY_ABS:
    case CR_UNARY_ELU:
    case CR_UNARY_SWISH:
    case CR_UNARY_GELU:
    case CR_UNARY_GELU_TANH: return false;
    case CR_UNARY_CLIP: return q->desc->kind == CR_OP_UNARY_FWD && (low > 0 || high < 0);
    default: return true;
  }
}

static bool is_plain_tanh(const question *q) {
  return q->desc->u.unary.function == CR_UNARY_TANH && first_is_plain(q) && !has_short_values(q);
}

static bool has_no_derivative(const question *q) {
  const cr_unary function = q->desc->u.unary.function;
  return function != CR_UNARY_RELU && function != CR_UNARY_SIGMOID && function != CR_UNARY_TANH;
}

static bool is_no_function(const question *q) {
  return has_no_derivative(q) && q->desc->u.unary.function != CR_UNARY_CLIP;
}

static bool has_positions(const question *q) {
  return q->desc->arg[0].shape.dim[2] != 1;
}

static bool is_logistic(const question *q) {
  return q->desc->u.logistic;
}

static bool ignores_targets(const question *q) {
  return q->desc->u.nll.has_ignore;
}

static bool is_along_an_inner_axis(const question *q) {
  const crema_shape *shape = &q->desc->arg[0].shape;
  for (int a = q->desc->u.axis + 1; a < shape->axes; ++a) {
    if (shape->dim[a] != 1) return true;
  }
  return false;
}

static bool is_along_the_last_axis(const question *q) {
  return !is_along_an_inner_axis(q);
}

static bool is_not_along_channels(const question *q) {
  return q->desc->u.axis != 1;
}

static bool parts_blocks(const question *q) {
  for (int i = 0; i < q->desc->args; ++i) {
    if (q->desc->arg[i].shape.dim[1] % 8 != 0) return true;
  }
  return false;
}

static const reason reasons[] = {
    {"", "values of two types", has_short_values, false},
    {"", "products of ", has_short_values, false},
    {"", "no instructions for products of bf16", has_short_values, false},
    {"conv_", "an empty shape", is_empty, false},
    {"conv_fwd_dnnl", "a window over ", has_other_axes, true},
    {"conv_fwd_dnnl", "an empty shape", is_empty, true},
    {"conv_bwd_data_dnnl", "a window over ", has_other_axes, true},
    {"conv_bwd_data_dnnl", "an empty shape", is_empty, true},
    {"conv_bwd_weights_dnnl", "a window over ", has_other_axes, true},
    {"conv_bwd_weights_dnnl", "an empty shape", is_empty, true},
    {"conv_fwd_dnnl", "a window entirely in the padding", misses_input, false},
    {"conv_bwd_weights_dnnl", "weights that only see padding", has_columns_in_padding, false},
    {"conv_fwd_f32_border", "not a padded 1x1 convolution", is_no_padded_point, true},
    {"conv_fwd_f32_border", "the result is not in blocks of channels", is_possible, false},
    {"conv_fwd_cells", "a bias or post operations", has_bias_or_posts, true},
    {"conv_fwd_cells", "not held in plain order", first_is_private, true},
    {"conv_bwd_weights_cells", "a bias", has_bias_gradient, true},
    {"conv_fwd_cells", "not a dense window over two axes", is_no_dense_plane, true},
    {"conv_bwd_data_cells", "not a dense window over two axes", is_no_dense_plane, true},
    {"conv_bwd_weights_cells", "not a dense window over two axes", is_no_dense_plane, true},
    {"conv_fwd_cells", "a window that oneDNN is fast for", has_fast_windows, true},
    {"conv_bwd_data_cells", "a window that oneDNN is fast for", has_fast_windows, true},
    {"conv_bwd_weights_cells", "a window that oneDNN is fast for", has_fast_windows, true},
    {"conv_bwd_weights_depth", "not a dense window over two axes", is_no_dense_plane, true},
    {"conv_bwd_weights_depth", "not a window for each channel", is_not_depthwise, true},
    {"conv_bwd_weights_depth", "long strides, or a large window", has_other_strides, true},
    {"conv_bwd_weights_depth", "windows that oneDNN is fast for", has_3_by_3_windows, true},
    {"conv_fwd_planes", "not a dense window over two axes and all channels", is_no_whole_plane,
     true},
    {"conv_fwd_planes", "an image of many channels or other windows", is_no_image, true},
    {"conv_fwd_planes", "not held in plain order", first_is_private, true},
    {"conv_fwd_planes", "post operations other than limits", has_other_posts, true},
    {"conv_fwd_planes", "the result is not channels-last", is_possible, false},
    {"conv_fwd_points", "not over two axes and all channels", is_of_groups, true},
    {"conv_fwd_points", "not pointwise", is_no_point, true},
    {"conv_fwd_points", "other values than floats", has_short_values, true},
    {"conv_fwd_points", "few positions or outputs", has_few_positions_or_outputs, true},
    {"conv_fwd_points", "post operations other than limits", has_more_than_sum_and_limits, true},
    {"conv_fwd_points", "the source is not channels-last", is_possible, false},
    {"conv_fwd_points", "the result is not channels-last", is_possible, false},
    {"conv_fwd_windows", "not over two axes", is_not_over_two_axes, true},
    {"conv_fwd_windows", "an empty shape", is_empty, true},
    {"conv_fwd_windows", "few outputs", has_few_outputs_in_a_group, true},
    {"conv_fwd_windows", "post operations other than limits", has_more_than_sum_and_limits, true},
    {"conv_fwd_channels", "not over two axes", is_not_over_two_axes, true},
    {"conv_fwd_channels", "an empty shape", is_empty, true},
    {"conv_fwd_channels", "not a window for each channel", has_shared_windows, true},
    {"conv_fwd_channels", "post operations other than limits", has_more_than_sum_and_limits, true},
    {"ip_fwd_dnnl", "an empty shape", is_empty, true},
    {"ip_bwd_data_dnnl", "an empty shape", is_empty, true},
    {"ip_bwd_weights_dnnl", "an empty shape", is_empty, true},
    {"ip_fwd_dnnl_matmul", "a product of few rows", has_few_rows, true},
    {"lrn_fwd_dnnl", "LRN over one channel", is_over_one_channel, true},
    {"lrn_bwd_dnnl", "LRN over one channel", is_over_one_channel, true},
    {"lrn_fwd_dnnl", "held in plain memory", first_is_plain, true},
    {"lrn_bwd_dnnl", "held in plain memory", first_is_plain, true},
    {"lrn_fwd_last", "for a gradient", is_for_a_gradient, true},
    {"lrn_fwd_last", "a window other than of few channels", is_no_window_of_channels, true},
    {"lrn_fwd_last", "many channels", has_many_channels, true},
    {"lrn_fwd_last", "not held channels-last", is_not_channels_last, true},
    {"lrn_bwd_dnnl", "the forward pass left no data", has_no_notes, false},
    {"lrn_bwd_", "the forward pass ran in another way", is_possible, false},
    {"pool_fwd_dnnl", "average pooling past padding", averages_past_padding, true},
    {"pool_bwd_dnnl", "average pooling past padding", averages_past_padding, true},
    {"pool_", "windows outside the input", has_windows_outside, true},
    {"pool_fwd_average", "not averages", is_maximum, true},
    {"pool_bwd_average", "not averages", is_maximum, true},
    {"pool_fwd_average", "not two axes", is_no_plane, true},
    {"pool_bwd_average", "not two axes", is_no_plane, true},
    {"pool_fwd_average", "dilated or empty windows", has_windows_outside, true},
    {"pool_bwd_average", "dilated or empty windows", has_windows_outside, true},
    {"pool_fwd_average", "not 2 or 3 columns wide", has_no_short_windows, true},
    {"pool_bwd_average", "not 2 or 3 columns wide", has_no_short_windows, true},
    {"pool_fwd_average", "not in plain order", is_not_plain, true},
    {"pool_bwd_average", "not in plain order", is_not_plain, true},
    {"pool_fwd_rows", "not in plain order", is_not_plain, true},
    {"pool_bwd_rows", "not in plain order", is_not_plain, true},
    {"pool_bwd_rows", "not in plain order", is_no_maximum_of_planes, true},
    {"pool_fwd_rows", "not maxima", is_no_maximum_of_planes, true},
    {"pool_bwd_rows", "not maxima", is_no_maximum_of_planes, true},
    {"pool_fwd_rows", "not two axes", is_no_plane, true},
    {"pool_bwd_rows", "not two axes", is_no_plane, true},
    {"pool_fwd_rows", "dilated or empty windows", has_windows_outside, true},
    {"pool_bwd_rows", "dilated or empty windows", has_windows_outside, true},
    {"pool_fwd_rows", "not 2 or 3 columns wide", has_no_short_windows, true},
    {"pool_fwd_rows", "narrow or wide planes", has_narrow_or_wide_planes, true},
    {"pool_bwd_rows", "a large window", has_large_window, true},
    {"pool_fwd_channels", "not maxima", is_no_maximum_of_planes, true},
    {"pool_fwd_channels", "not two axes", is_no_plane, true},
    {"pool_fwd_channels", "dilated or empty windows", has_windows_outside, true},
    {"pool_fwd_channels", "for a gradient", is_for_a_gradient, true},
    {"pool_fwd_channels", "channels do not lie side by side", first_is_plain, true},
    {"pool_fwd_blocked", "dilated or empty windows", has_windows_outside, true},
    {"pool_bwd_blocked", "dilated or empty windows", has_windows_outside, true},
    {"pool_fwd_blocked", "not max pooling", is_no_held_maximum, true},
    {"pool_fwd_blocked", "not held in blocks of channels", is_not_in_blocks, true},
    {"pool_bwd_blocked", "not max pooling", is_no_held_maximum, true},
    {"pool_fwd_blocked", "not two axes", is_no_plane, true},
    {"pool_bwd_blocked", "not two axes", is_no_plane, true},
    {"pool_fwd_blocked", "a large window", has_large_window, true},
    {"pool_bwd_blocked", "a large window", has_large_window, true},
    {"unary_fwd_fast", "held in plain memory", is_source_plain, true},
    {"unary_bwd_fast", "held in plain memory", is_source_plain, true},
    {"unary_fwd_fast", "pads would not stay 0", fills_pads, true},
    {"unary_bwd_fast", "pads would not stay 0", fills_pads, true},
    {"unary_fwd_dnnl", "tanh of floats in plain order", is_plain_tanh, true},
    {"unary_fwd_dnnl", "function ", is_no_function, true},
    {"unary_bwd_dnnl", "function ", has_no_derivative, true},
    {"unary_fwd_dnnl", "an empty shape", is_empty, true},
    {"unary_bwd_dnnl", "an empty shape", is_empty, true},
    {"bn_", "held in plain memory", first_is_plain, true},
    {"bn_", "scales in ", has_short_scales, true},
    {"bn_", "rectified results", is_rectified, true},
    {"arg_max_fast", "not along rows", has_positions, true},
    {"row_loss_fast", "logistic losses", is_logistic, true},
    {"sigmoid_loss_fwd_fast", "targets to ignore", ignores_targets, true},
    {"softmax_bwd_dnnl", "softmax over an inner axis", is_along_an_inner_axis, true},
    {"softmax_bwd_dnnl", "an empty shape", is_empty, true},
    {"softmax_bwd_fast", "softmax over the last axis", is_along_the_last_axis, true},
    {"sum_", "held in plain memory", all_are_plain, true},
    {"copy_", "held in plain memory", first_is_plain, true},
    {"axpby_", "held in plain memory", second_is_plain, true},
    {"concat_", "held in plain memory", all_are_plain, true},
    {"concat_", "not along the channels", is_not_along_channels, true},
    {"concat_", "channels do not fill whole blocks", parts_blocks, true},
    {"slice_", "held in plain memory", first_is_plain, true},
    {"slice_", "not along the channels", is_not_along_channels, true},
    {"slice_", "channels do not fill whole blocks", parts_blocks, true},
    /* The op has other axes than the layout that its first argument is held in;
     * tests/ops/test_shuffle has what the row must take. */
    {"shuffle_", "other than channels held channels-last", is_possible, false},
    {"affine_", "not held in blocks of channels", first_is_plain, true},
};

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

void op_check_reasons(const op_problem *p, const cr_kernel *kernel, const cr_format *held,
                      op_outcome outcome, const char *text) {
  const question q = {p->desc, held};
  bool known = strstr(text, "implement") != NULL, impossible = false;
  if (op_table() != cr_backend_cpu.kernels || op_is_ref(kernel) || op_is_int8(kernel)) return;
  for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; ++i) {
    const reason *r = &reasons[i];
    if (!begins(kernel->name, r->row) || !r->holds(&q)) continue;
    known = known || begins(text, r->text);
    impossible = impossible || r->always;
  }
  if (outcome == OP_DECLINED && !known) {
    fail_msg("%s declines \"%s\" without a known reason: %s", kernel->name, p->test->label, text);
  }
  if (outcome == OP_RAN && impossible) {
    fail_msg("%s runs \"%s\", which it should decline", kernel->name, p->test->label);
  }
}
