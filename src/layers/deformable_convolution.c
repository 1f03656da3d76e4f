/* DeformableConvolution: a convolution whose window takes its values from places that a second
 * bottom shifts (Dai et al., "Deformable convolutional networks", 2017).
 *
 * Formula: y = conv(x), but element k of the window at p reads x at p * stride - pad + k * dilation
 * + offset[p][k], interpolated between four pixels; 0 outside of the image.
 * Shapes: x (N, C, H, W), offsets (N, 2 deformable_group kh kw, H', W') -> y (N, num_output, H',
 * W'). Each deformable group of channels has pairs of offsets, down and to the right, for each
 * element of the window. Parameters: as of Convolution.
 * Fields: deformable_convolution_param.
 * Caffe: as in the forks. Places below row H - 1 or after column W - 1 count as the border. Places
 * from H or W on, or below 0, are outside. torchvision differs there. Without deformable_group, the
 * channels of the offsets give it: the default is 4 in some forks and 1 in others. In one fork, only
 * the gradient of a batch's first sample is correct, and the offsets need the extents of x.
 * Example, x 2 4 6 5, offset 2 18 6 5:
 *   layer { name: "conv" type: "DeformableConvolution" bottom: "x" bottom: "offset" top: "y"
 *     deformable_convolution_param { num_output: 3 kernel_size: 3 pad: 1
 *       weight_filler { type: "xavier" } } } */
#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_weights.h"
#include "layers/common/layer_window.h"

typedef struct deformable_state {
  cr_window window;
  int64_t outputs, deformable; /* channels of the top, groups of channels with own offsets */
  crema_shape x, columns, y;
  cr_tensor *column, *diff_column;
  cr_layer_op multiply, back;
  cr_layer_weights gradients;
} deformable_state;

static const Caffe__ConvolutionParameter *param_of(const cr_layer *layer) {
  return layer->param->deformable_convolution_param;
}

static int64_t window_size(const deformable_state *s) {
  return s->window.kernel[0] * s->window.kernel[1];
}

/* Fields of ConvolutionParameter that only other layers have. */
static crema_status check_fields(const cr_layer *layer, const crema_shape *x) {
  const Caffe__ConvolutionParameter *p = param_of(layer);
  const struct {
    const char *name;
    bool given;
  } fields[] = {{"relu", p->has_relu},
                {"negative_slope", p->has_negative_slope},
                {"hole", p->has_hole || p->has_hole_h || p->has_hole_w},
                {"coeff", p->n_coeff > 0},
                {"fusion_type", p->has_fusion_type},
                {"pad_shape", p->pad_shape != NULL},
                {"kernel_shape", p->kernel_shape != NULL},
                {"stride_shape", p->stride_shape != NULL},
                {"kernel_depth", p->has_kernel_depth},
                {"temporal_stride", p->has_temporal_stride},
                {"temporal_pad", p->has_temporal_pad},
                {"filter_group", p->has_filter_group}};
  int axis = 0;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
    if (!fields[i].given) continue;
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "deformable_convolution_param has no %s",
                         fields[i].name);
  }
  CR_TRY(cr_layer_axis(layer, x, p->axis, "axis", &axis));
  if (axis == 1) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "axis is %d, must be 1", p->axis);
}

/* The groups with their own offsets: deformable_group or, without it, as many as the offsets have
 * channels for. */
static int64_t count_deformable(const cr_layer *layer, const crema_shape *offset) {
  const deformable_state *s = layer->state;
  const Caffe__ConvolutionParameter *p = param_of(layer);
  const int64_t each = 2 * window_size(s);
  const bool found = !p->has_deformable_group && offset->axes == 4 && offset->dim[1] >= each &&
                     offset->dim[1] % each == 0;
  return found ? offset->dim[1] / each : p->deformable_group;
}

static crema_status check_groups(const cr_layer *layer, int64_t channels) {
  const deformable_state *s = layer->state;
  const Caffe__ConvolutionParameter *p = param_of(layer);
  const int64_t group = p->group, deformable = s->deformable;
  if (group >= 1 && deformable >= 1 && channels % group == 0 && channels % deformable == 0 &&
      p->num_output % group == 0) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "group %lld and deformable_group %lld do not divide %lld channels and "
                       "num_output %u",
                       (long long)group, (long long)deformable, (long long)channels, p->num_output);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  deformable_state *s = layer->state;
  const Caffe__ConvolutionParameter *p = param_of(layer);
  char text[128];
  (void)top;
  if (p == NULL || p->num_output == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "deformable_convolution_param needs a num_output of 1 or more");
  }
  if (bottom[0]->shape.axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must have 4 axes, found shape %s",
                         crema_shape_text(&bottom[0]->shape, text, sizeof text));
  }
  const int64_t channels = bottom[0]->shape.dim[1];
  CR_TRY(check_fields(layer, &bottom[0]->shape));
  CR_TRY(cr_layer_read_window(layer, p, 2, &s->window));
  s->outputs = p->num_output;
  s->deformable = count_deformable(layer, &bottom[1]->shape);
  CR_TRY(check_groups(layer, channels));
  const crema_shape weights =
      cr_shape_4(s->outputs, channels / p->group, s->window.kernel[0], s->window.kernel[1]);
  const crema_shape bias = cr_shape_1(s->outputs);
  return cr_layer_weights_add(layer, &weights, p->weight_filler, p->bias_term ? &bias : NULL,
                              p->bias_filler);
}

static crema_status find_shapes(cr_layer *layer, const crema_shape *x, const crema_shape *offset) {
  deformable_state *s = layer->state;
  int64_t extent[2];
  char text[2][128];
  if (x->axes != 4 || x->dim[1] != layer->blob[0]->shape.dim[1] * param_of(layer)->group) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "weights of shape %s do not fit shape %s",
                         crema_shape_text(&layer->blob[0]->shape, text[0], sizeof text[0]),
                         crema_shape_text(x, text[1], sizeof text[1]));
  }
  for (int a = 0; a < 2; ++a) {
    const cr_window *w = &s->window;
    const int64_t reach = w->dilation[a] * (w->kernel[a] - 1) + 1;
    const int64_t room = x->dim[2 + a] + 2 * w->pad[a] - reach;
    if (room < 0) return cr_layer_fail_kernel(layer, w, a, x->dim[2 + a]);
    extent[a] = room / w->stride[a] + 1;
  }
  const crema_shape wanted =
      cr_shape_4(x->dim[0], 2 * s->deformable * window_size(s), extent[0], extent[1]);
  CR_TRY(cr_layer_same_shape(layer, "bottom 1 (offsets)", &wanted, offset));
  s->x = *x;
  s->columns = cr_shape_4(x->dim[0], x->dim[1] * window_size(s), extent[0], extent[1]);
  s->y = cr_shape_4(x->dim[0], s->outputs, extent[0], extent[1]);
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  deformable_state *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(find_shapes(layer, &bottom[0]->shape, &bottom[1]->shape));
  CR_TRY(crema_blob_reshape(top[0], &s->y));
  const int64_t columns = crema_shape_count(&s->columns, 0, 4);
  CR_TRY(cr_layer_pass_tensor(layer, &s->column, type, columns));
  CR_TRY(cr_layer_tensor(layer, &s->diff_column, type, columns));
  const int64_t group = param_of(layer)->group;
  const crema_shape weights = cr_shape_4(s->outputs, s->columns.dim[1] / group, 1, 1);
  const crema_shape bias = cr_shape_1(s->outputs);
  const crema_shape *with_bias = layer->params > 1 ? &bias : NULL;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONV_FWD);
  desc.u.conv.window = (cr_window){2, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
  desc.u.conv.group = group;
  CR_TRY(CR_LAYER_MAKE(layer, &s->multiply, &desc, &s->columns, &weights, with_bias, &s->y, NULL));
  desc.kind = CR_OP_CONV_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->back, &desc, &s->y, &weights, &s->columns));
  desc.kind = CR_OP_CONV_BWD_WEIGHTS;
  return cr_layer_weights_make(layer, &s->gradients, &desc, &s->columns, &s->y, &weights,
                               with_bias);
}

/* What threads read and write. */
typedef struct deformable_pass {
  const deformable_state *s;
  cr_host_values x, offset, diff; /* diff: of the columns */
  cr_host_results column, diff_x, diff_offset;
} deformable_pass;

/* A place between four pixels: their indices in the plane and weights; inside false: outside. */
typedef struct deformable_place {
  bool inside;
  int64_t at[4];
  double weight[4], down[4], right[4]; /* and the derivatives of the weights by the place */
} deformable_place;

/* One side: the two rows or columns around `at`, and the share of the second. */
static double split(double at, int64_t size, int64_t two[2], double *slope) {
  two[0] = (int64_t)at;
  two[1] = two[0] + 1 < size ? two[0] + 1 : two[0];
  *slope = two[1] > two[0] ? 1 : 0;
  return *slope > 0 ? at - (double)two[0] : 0;
}

/* Where element k of the window at output p of sample n reads, for a deformable group. */
static deformable_place place_of(const deformable_pass *pass, int64_t n, int64_t group, int64_t k,
                                 int64_t p) {
  const deformable_state *s = pass->s;
  const cr_window *w = &s->window;
  const int64_t height = s->x.dim[2], width = s->x.dim[3], plane = s->y.dim[2] * s->y.dim[3];
  const int64_t first = (n * s->deformable + group) * 2 * window_size(s) + 2 * k;
  const double y =
      (double)(p / s->y.dim[3] * w->stride[0] - w->pad[0] + k / w->kernel[1] * w->dilation[0]) +
      cr_host_get(&pass->offset, first * plane + p);
  const double x =
      (double)(p % s->y.dim[3] * w->stride[1] - w->pad[1] + k % w->kernel[1] * w->dilation[1]) +
      cr_host_get(&pass->offset, (first + 1) * plane + p);
  deformable_place out = {.inside = y >= 0 && x >= 0 && y < (double)height && x < (double)width};
  int64_t rows[2], columns[2];
  double slope[2];
  if (!out.inside) return out;
  const double down = split(y, height, rows, &slope[0]),
               right = split(x, width, columns, &slope[1]);
  for (int i = 0; i < 4; ++i) {
    const double v = i / 2 ? down : 1 - down, h = i % 2 ? right : 1 - right;
    out.at[i] = rows[i / 2] * width + columns[i % 2];
    out.weight[i] = v * h;
    out.down[i] = (i / 2 ? slope[0] : -slope[0]) * h;
    out.right[i] = (i % 2 ? slope[1] : -slope[1]) * v;
  }
  return out;
}

/* The columns of a channel of a sample. */
static crema_status fill_columns(void *state, int worker, int64_t index) {
  const deformable_pass *pass = state;
  const deformable_state *s = pass->s;
  const int64_t channels = s->x.dim[1], n = index / channels, c = index % channels;
  const int64_t size = s->x.dim[2] * s->x.dim[3], plane = s->y.dim[2] * s->y.dim[3];
  (void)worker;
  for (int64_t i = 0; i < window_size(s) * plane; ++i) {
    const deformable_place at =
        place_of(pass, n, c * s->deformable / channels, i / plane, i % plane);
    double sum = 0;
    for (int q = 0; at.inside && q < 4; ++q) {
      sum += at.weight[q] * cr_host_get(&pass->x, index * size + at.at[q]);
    }
    cr_host_put(&pass->column, index * window_size(s) * plane + i, sum);
  }
  return CREMA_OK;
}

/* The gradient of a channel of a sample. */
static crema_status fill_diff_x(void *state, int worker, int64_t index) {
  const deformable_pass *pass = state;
  const deformable_state *s = pass->s;
  const int64_t channels = s->x.dim[1], n = index / channels, c = index % channels;
  const int64_t size = s->x.dim[2] * s->x.dim[3], plane = s->y.dim[2] * s->y.dim[3];
  const cr_host_values sum = {pass->diff_x.wide, pass->diff_x.narrow};
  (void)worker;
  for (int64_t i = 0; i < size; ++i) cr_host_put(&pass->diff_x, index * size + i, 0);
  for (int64_t i = 0; i < window_size(s) * plane; ++i) {
    const deformable_place at =
        place_of(pass, n, c * s->deformable / channels, i / plane, i % plane);
    const double diff = cr_host_get(&pass->diff, index * window_size(s) * plane + i);
    for (int q = 0; at.inside && q < 4; ++q) {
      const int64_t to = index * size + at.at[q];
      cr_host_put(&pass->diff_x, to, cr_host_get(&sum, to) + at.weight[q] * diff);
    }
  }
  return CREMA_OK;
}

/* The gradients of the offsets of a deformable group of a sample. */
static crema_status fill_diff_offset(void *state, int worker, int64_t index) {
  const deformable_pass *pass = state;
  const deformable_state *s = pass->s;
  const int64_t size = s->x.dim[2] * s->x.dim[3], plane = s->y.dim[2] * s->y.dim[3];
  const int64_t each = s->x.dim[1] / s->deformable, window = window_size(s);
  (void)worker;
  for (int64_t i = 0; i < window * plane; ++i) {
    const int64_t k = i / plane, p = i % plane, to = (index * window + k) * 2 * plane + p;
    const deformable_place at = place_of(pass, index / s->deformable, index % s->deformable, k, p);
    double down = 0, right = 0;
    for (int64_t c = index * each; at.inside && c < (index + 1) * each; ++c) {
      const double diff = cr_host_get(&pass->diff, c * window * plane + i);
      for (int q = 0; q < 4; ++q) {
        const double x = cr_host_get(&pass->x, c * size + at.at[q]);
        down += diff * at.down[q] * x;
        right += diff * at.right[q] * x;
      }
    }
    cr_host_put(&pass->diff_offset, to, down);
    cr_host_put(&pass->diff_offset, to + plane, right);
  }
  return CREMA_OK;
}

static crema_status run_host(const deformable_state *s, const crema_context *context, int64_t tasks,
                             cr_host_work *work, deformable_pass *pass) {
  /* A place takes as long as about 30 multiply-adds. */
  const double cost = 30.0 * (double)crema_shape_count(&s->columns, 0, 4);
  return cr_host_spread(cr_host_workers(context, cost), tasks, work, pass);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  deformable_state *s = layer->state;
  deformable_pass pass = {.s = s};
  CR_TRY(cr_host_read(bottom[0]->data, &pass.x));
  CR_TRY(cr_host_read(bottom[1]->data, &pass.offset));
  CR_TRY(cr_host_write(s->column, &pass.column));
  CR_TRY(run_host(s, context, s->x.dim[0] * s->x.dim[1], fill_columns, &pass));
  cr_tensor *bias = layer->params > 1 ? layer->blob[1]->data : NULL;
  return CR_LAYER_RUN(&s->multiply, context, s->column, layer->blob[0]->data, bias, top[0]->data,
                      NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  deformable_state *s = layer->state;
  deformable_pass pass = {.s = s};
  CR_TRY(cr_layer_weights_run(&s->gradients, layer, context, s->column, top[0]->diff));
  if (!propagate_down[0] && !propagate_down[1]) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->back, context, top[0]->diff, layer->blob[0]->data, s->diff_column));
  CR_TRY(cr_host_read(s->diff_column, &pass.diff));
  CR_TRY(cr_host_read(bottom[1]->data, &pass.offset));
  if (propagate_down[0]) {
    CR_TRY(cr_host_write(bottom[0]->diff, &pass.diff_x));
    CR_TRY(run_host(s, context, s->x.dim[0] * s->x.dim[1], fill_diff_x, &pass));
  }
  if (!propagate_down[1]) return CREMA_OK;
  CR_TRY(cr_host_read(bottom[0]->data, &pass.x));
  CR_TRY(cr_host_write(bottom[1]->diff, &pass.diff_offset));
  return run_host(s, context, s->x.dim[0] * s->deformable, fill_diff_offset, &pass);
}

const cr_layer_class cr_layer_deformable_convolution = {
    CR_LAYER_OF_OPS("DeformableConvolution", sizeof(deformable_state), setup, reshape, forward,
                    backward),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .uses_bottom = cr_layer_always,
};
