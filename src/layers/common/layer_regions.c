#include "layers/common/layer_regions.h"

#include <inttypes.h>

#include "core/fail.h"
#include "layers/common/layer_shape.h"

static void read_regions(const Caffe__LocalConvParameter *p, cr_layer_regions *s) {
  const bool numbers = p->has_local_region_number_h || p->has_local_region_number_w;
  const bool ratios = p->has_local_region_ratio_h || p->has_local_region_ratio_w;
  const bool steps = p->has_local_region_step_h || p->has_local_region_step_w;
  s->number[0] = numbers ? p->local_region_number_h : p->local_region_number;
  s->number[1] = numbers ? p->local_region_number_w : p->local_region_number;
  s->ratio[0] = ratios ? p->local_region_ratio_h : p->local_region_ratio;
  s->ratio[1] = ratios ? p->local_region_ratio_w : p->local_region_ratio;
  s->step[0] = steps ? p->local_region_step_h : p->local_region_step;
  s->step[1] = steps ? p->local_region_step_w : p->local_region_step;
}

static void read_window(const Caffe__LocalConvParameter *p, cr_window *out) {
  const bool kernels = p->has_kernel_h || p->has_kernel_w;
  const bool strides = p->has_stride_h || p->has_stride_w, pads = p->has_pad_h || p->has_pad_w;
  out->axes = 2;
  out->kernel[0] = kernels ? p->kernel_h : p->kernel_size;
  out->kernel[1] = kernels ? p->kernel_w : p->kernel_size;
  out->stride[0] = strides ? p->stride_h : p->stride;
  out->stride[1] = strides ? p->stride_w : p->stride;
  out->pad[0] = pads ? p->pad_h : p->pad;
  out->pad[1] = pads ? p->pad_w : p->pad;
  for (int i = 0; i < 2; ++i) {
    out->dilation[i] = p->n_dilation == 0 ? 1 : p->dilation[p->n_dilation > 1 ? i : 0];
  }
}

static crema_status read_params(cr_layer *layer, cr_layer_regions *s) {
  const Caffe__LocalConvParameter *p = layer->param->local_conv_param;
  read_regions(p, s);
  read_window(p, &s->window);
  s->group = p->group;
  s->outputs = p->num_output;
  s->bias = p->bias_term;
  if (s->outputs >= 1 && s->group >= 1 && s->outputs % s->group == 0 && p->n_dilation <= 2) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "local_conv_param: num_output is %" PRId64
                       ", must be a multiple of group, %" PRId64
                       ", with at most 2 dilations, found %zu",
                       s->outputs, s->group, p->n_dilation);
}

/* Where region `i` begins along axis `axis` of the map. From the middle on they are mirrored. */
static int64_t offset_of(const cr_layer_regions *s, int axis, int64_t i) {
  const int64_t number = s->number[axis], rest = s->from.dim[2 + axis] - s->extent[axis];
  if (2 * i + 1 == number) return rest / 2;
  if (2 * i < number) return i * s->step[axis];
  return rest - (number - 1 - i) * s->step[axis];
}

static crema_status find_extents(cr_layer *layer, cr_layer_regions *s, int axis) {
  const int64_t side = s->from.dim[2 + axis], most = INT16_MAX;
  const cr_window *w = &s->window;
  if (w->kernel[axis] < 1 || w->kernel[axis] > most || w->stride[axis] < 1 ||
      w->stride[axis] > most || w->dilation[axis] < 1 || w->dilation[axis] > most ||
      w->pad[axis] > most || s->number[axis] < 1 || s->number[axis] > most ||
      s->step[axis] > most || !(s->ratio[axis] > 0 && s->ratio[axis] <= 1)) {
    return cr_layer_fail(
        layer, CREMA_E_RANGE,
        "local_conv_param: kernel, stride, dilation and local_region_number must be "
        "from 1 to %d, and local_region_ratio, %g, in (0, 1]",
        INT16_MAX, (double)s->ratio[axis]);
  }
  s->extent[axis] = (int64_t)((float)side * s->ratio[axis]);
  const int64_t room =
      s->extent[axis] + 2 * w->pad[axis] - (w->dilation[axis] * (w->kernel[axis] - 1) + 1);
  const int64_t last = (s->number[axis] / 2 - 1) * s->step[axis];
  if (s->extent[axis] < 1 || room < 0 || last + s->extent[axis] > side) {
    return cr_layer_fail(
        layer, CREMA_E_SHAPE,
        "%" PRId64 " regions of %" PRId64 " pixels, %" PRId64 " apart, with a kernel of %" PRId64
        " do not fit into axis %d of %" PRId64 " pixels",
        s->number[axis], s->extent[axis], s->step[axis], w->kernel[axis], 2 + axis, side);
  }
  s->out[axis] = room / w->stride[axis] + 1;
  return CREMA_OK;
}

/* The numbers of positions are floats. */
static crema_status check_plane(const cr_layer *layer, const crema_shape *bottom) {
  enum { MOST = 1 << 24 };
  const int64_t plane = bottom->dim[2] * bottom->dim[3];
  if (plane <= MOST) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "a map of %" PRId64 " positions has more than %d, the most with regions",
                       plane, MOST);
}

crema_status cr_layer_regions_setup(cr_layer *layer, cr_layer_regions *s,
                                    const crema_shape *bottom) {
  const Caffe__LocalConvParameter *p = layer->param->local_conv_param;
  char text[128];
  CR_TRY(read_params(layer, s));
  if (bottom->axes != 4 || bottom->dim[1] < 1 || bottom->dim[1] % s->group != 0) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottom must be a map of 4 axes with a multiple of %" PRId64
                         " channels, found shape %s",
                         s->group, crema_shape_text(bottom, text, sizeof text));
  }
  s->from = *bottom;
  CR_TRY(check_plane(layer, bottom));
  for (int i = 0; i < 2; ++i) CR_TRY(find_extents(layer, s, i));
  const int64_t regions = s->number[0] * s->number[1];
  crema_shape weights = cr_shape_4(regions, s->outputs, s->window.kernel[0], s->window.kernel[1]);
  const crema_shape bias = cr_shape_4(regions, s->outputs, 1, 1);
  CR_TRY(cr_layer_multiply(layer, bottom->dim[1] / s->group, &weights.dim[1]));
  CR_TRY(crema_shape_check(&weights));
  return cr_layer_weights_add(layer, &weights, p->weight_filler, s->bias ? &bias : NULL,
                              p->bias_filler);
}

/* The positions of all regions' pixels in the map. */
static crema_status fill_index(cr_layer *layer, cr_layer_regions *s) {
  const int64_t regions = s->number[0] * s->number[1], plane = s->extent[0] * s->extent[1];
  float *index = NULL;
  CR_TRY(cr_layer_tensor(layer, &s->index, cr_layer_arithmetic(layer), regions * plane));
  CR_TRY(cr_tensor_host_write_floats(s->index, &index));
  for (int64_t i = 0; i < regions * plane; ++i) {
    const int64_t region = i / plane, pixel = i % plane;
    const int64_t y = offset_of(s, 0, region / s->number[1]) + pixel / s->extent[1];
    const int64_t x = offset_of(s, 1, region % s->number[1]) + pixel % s->extent[1];
    index[i] = (float)(y * s->from.dim[3] + x);
  }
  return CREMA_OK;
}

/* A permutation and its inverse. */
static crema_status make_turns(cr_layer *layer, cr_layer_op *there, cr_layer_op *back,
                               const crema_shape *from, const int *order) {
  cr_op_desc forward = cr_layer_op_desc(CR_OP_PERMUTE), inverse = forward;
  crema_shape to = {.axes = from->axes};
  for (int i = 0; i < from->axes; ++i) {
    forward.u.order[i] = order[i];
    inverse.u.order[order[i]] = i;
    to.dim[i] = from->dim[order[i]];
  }
  CR_TRY(CR_LAYER_MAKE(layer, there, &forward, from, &to));
  return CR_LAYER_MAKE(layer, back, &inverse, &to, from);
}

/* The regions of N samples as channels (N, L C, h, w), via rows of one position each. */
static crema_status make_stack(cr_layer *layer, cr_layer_regions *s, int64_t samples) {
  const int64_t regions = s->number[0] * s->number[1], channels = s->from.dim[1];
  const int64_t pixels = s->extent[0] * s->extent[1], plane = s->from.dim[2] * s->from.dim[3];
  const crema_shape x = cr_shape_2(samples * channels, plane);
  const crema_shape rows = cr_shape_2(plane, samples * channels);
  const crema_shape index = cr_shape_1(regions * pixels);
  const crema_shape picked = cr_shape_2(regions * pixels, samples * channels);
  const crema_shape split = cr_shape_4(regions, pixels, samples, channels);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
  CR_TRY(make_turns(layer, &s->turn, &s->unturn, &x, (const int[]){1, 0}));
  CR_TRY(CR_LAYER_MAKE(layer, &s->pick, &desc, &rows, &index, &picked));
  desc.kind = CR_OP_GATHER_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->unpick, &desc, &picked, &index, &rows));
  return make_turns(layer, &s->stack, &s->unstack, &split, (const int[]){2, 0, 3, 1});
}

static crema_status make_products(cr_layer *layer, cr_layer_regions *s, int64_t samples) {
  const int64_t regions = s->number[0] * s->number[1], channels = s->from.dim[1];
  const crema_shape src = cr_shape_4(samples, regions * channels, s->extent[0], s->extent[1]);
  const crema_shape weights = cr_shape_4(regions * s->outputs, channels / s->group,
                                         s->window.kernel[0], s->window.kernel[1]);
  const crema_shape bias = cr_shape_1(regions * s->outputs);
  const crema_shape dst = cr_shape_4(samples, regions * s->outputs, s->out[0], s->out[1]);
  const crema_shape tiles = {
      .axes = 6, .dim = {samples, s->number[0], s->number[1], s->outputs, s->out[0], s->out[1]}};
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CONV_FWD);
  desc.u.conv.window = s->window;
  desc.u.conv.group = regions * s->group;
  CR_TRY(CR_LAYER_MAKE(layer, &s->convolve, &desc, &src, &weights, s->bias ? &bias : NULL, &dst));
  desc.kind = CR_OP_CONV_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->back, &desc, &dst, &weights, &src));
  desc.kind = CR_OP_CONV_BWD_WEIGHTS;
  CR_TRY(cr_layer_weights_make(layer, &s->weights, &desc, &src, &dst, &weights,
                               s->bias ? &bias : NULL));
  return make_turns(layer, &s->tile, &s->untile, &tiles, (const int[]){0, 3, 1, 4, 2, 5});
}

static crema_status make_tensors(cr_layer *layer, cr_layer_regions *s, int64_t samples) {
  const crema_dtype type = cr_layer_arithmetic(layer);
  const int64_t regions = s->number[0] * s->number[1];
  crema_shape rows = cr_shape_4(samples, s->from.dim[1], s->from.dim[2], s->from.dim[3]);
  crema_shape picked = {.axes = 5,
                        .dim = {samples, regions, s->from.dim[1], s->extent[0], s->extent[1]}};
  crema_shape products = {.axes = 5, .dim = {samples, regions, s->outputs, s->out[0], s->out[1]}};
  CR_TRY(crema_shape_check(&picked));
  CR_TRY(crema_shape_check(&products));
  const int64_t counts[3] = {crema_shape_count(&rows, 0, 4), crema_shape_count(&picked, 0, 5),
                             crema_shape_count(&products, 0, 5)};
  cr_tensor **const tensor[8] = {&s->rows,         &s->picked,       &s->stacked,
                                 &s->products,     &s->diff_rows,    &s->diff_picked,
                                 &s->diff_stacked, &s->diff_products};
  static const int size[8] = {0, 1, 1, 2, 0, 1, 1, 2};
  for (int i = 0; i < 8; ++i) {
    CR_TRY(cr_layer_pass_tensor(layer, tensor[i], type, counts[size[i]]));
  }
  return CREMA_OK;
}

crema_status cr_layer_regions_reshape(cr_layer *layer, cr_layer_regions *s,
                                      crema_blob *const *bottom, crema_blob *const *top) {
  crema_shape from = s->from;
  const int64_t samples = bottom[0]->shape.axes > 0 ? bottom[0]->shape.dim[0] : 0;
  const crema_shape to =
      cr_shape_4(samples, s->outputs, s->number[0] * s->out[0], s->number[1] * s->out[1]);
  from.dim[0] = samples;
  CR_TRY(cr_layer_same_shape(layer, "the bottom", &from, &bottom[0]->shape));
  CR_TRY(crema_shape_check(&to));
  CR_TRY(crema_blob_reshape(top[0], &to));
  CR_TRY(make_tensors(layer, s, samples));
  CR_TRY(fill_index(layer, s));
  CR_TRY(make_stack(layer, s, samples));
  return make_products(layer, s, samples);
}

crema_status cr_layer_regions_forward(cr_layer *layer, cr_layer_regions *s, crema_context *context,
                                      cr_tensor *x, cr_tensor *y) {
  CR_TRY(CR_LAYER_RUN(&s->turn, context, x, s->rows));
  CR_TRY(CR_LAYER_RUN(&s->pick, context, s->rows, s->index, s->picked));
  CR_TRY(CR_LAYER_RUN(&s->stack, context, s->picked, s->stacked));
  CR_TRY(CR_LAYER_RUN(&s->convolve, context, s->stacked, layer->blob[0]->data,
                      s->bias ? layer->blob[1]->data : NULL, s->products));
  return CR_LAYER_RUN(&s->tile, context, s->products, y);
}

crema_status cr_layer_regions_backward(cr_layer *layer, cr_layer_regions *s, crema_context *context,
                                       cr_tensor *diff_y, cr_tensor *diff_x) {
  CR_TRY(CR_LAYER_RUN(&s->untile, context, diff_y, s->diff_products));
  CR_TRY(cr_layer_weights_run(&s->weights, layer, context, s->stacked, s->diff_products));
  if (diff_x == NULL) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->back, context, s->diff_products, layer->blob[0]->data, s->diff_stacked));
  CR_TRY(CR_LAYER_RUN(&s->unstack, context, s->diff_stacked, s->diff_picked));
  /* A position in several regions gets the sum of their gradients. */
  cr_tensor_set_zero(s->diff_rows);
  CR_TRY(CR_LAYER_RUN(&s->unpick, context, s->diff_picked, s->index, s->diff_rows));
  return CR_LAYER_RUN(&s->unturn, context, s->diff_rows, diff_x);
}
