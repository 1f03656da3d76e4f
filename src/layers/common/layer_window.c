#include "layers/common/layer_window.h"

#include <stdio.h>
#include <string.h>

#include "core/fail.h"

crema_status cr_layer_read_extents(const cr_layer *layer, const cr_window_field *field, int axes,
                                   int64_t *out) {
  bool pair = field->has_h || field->has_w;
  const int stem = (int)strcspn(field->name, "_"); /* kernel_size has kernel_h and kernel_w */
  if (pair && axes != 2) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "%.*s_h and %.*s_w need two spatial axes, the bottom has %d", stem,
                         field->name, stem, field->name, axes);
  }
  if (pair && field->listed) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "either %s or %.*s_h and %.*s_w can be given, not both", field->name, stem,
                         field->name, stem, field->name);
  }
  if (field->both && field->has_h != field->has_w) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%.*s_h and %.*s_w can only be given together",
                         stem, field->name, stem, field->name);
  }
  size_t expected = (size_t)axes;
  bool optional = field->fallback >= 0;
  if (!optional && !pair && field->listed == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s is required, as in %s: 3", field->name,
                         field->name);
  }
  if (!pair && field->listed != 1 && field->listed != expected && !(optional && !field->listed)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "%s must be given once or once per spatial axis (%d); found %zu",
                         field->name, axes, field->listed);
  }
  for (int i = 0; i < axes; ++i) {
    if (pair) {
      out[i] = i == 0 ? field->h : field->w;
    } else if (field->listed) {
      out[i] = field->list[field->listed == 1 ? 0 : i];
    } else {
      out[i] = field->fallback;
    }
    /* The upper bound keeps the span of a dilated kernel within 64 bits. */
    if (out[i] < field->least || out[i] > INT32_MAX) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "%s is %lld for spatial axis %d, must be %lld to %lld", field->name,
                           (long long)out[i], i, (long long)field->least, (long long)INT32_MAX);
    }
  }
  return CREMA_OK;
}

crema_status cr_layer_read_window(const cr_layer *layer, const Caffe__ConvolutionParameter *param,
                                  int axes, cr_window *out) {
  const cr_window_field kernel = {.name = "kernel_size",
                                  .list = param->kernel_size,
                                  .listed = param->n_kernel_size,
                                  .has_h = param->has_kernel_h,
                                  .has_w = param->has_kernel_w,
                                  .h = param->kernel_h,
                                  .w = param->kernel_w,
                                  .fallback = -1,
                                  .least = 1};
  const cr_window_field stride = {.name = "stride",
                                  .list = param->stride,
                                  .listed = param->n_stride,
                                  .has_h = param->has_stride_h,
                                  .has_w = param->has_stride_w,
                                  .h = param->stride_h,
                                  .w = param->stride_w,
                                  .fallback = 1,
                                  .least = 1};
  const cr_window_field pad = {.name = "pad",
                               .list = param->pad,
                               .listed = param->n_pad,
                               .has_h = param->has_pad_h,
                               .has_w = param->has_pad_w,
                               .h = param->pad_h,
                               .w = param->pad_w,
                               .fallback = 0,
                               .least = 0};
  const cr_window_field dilation = {.name = "dilation",
                                    .list = param->dilation,
                                    .listed = param->n_dilation,
                                    .fallback = 1,
                                    .least = 1};
  if (axes > CR_MAX_SPATIAL) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "%d spatial axes, at most %d are supported",
                         axes, CR_MAX_SPATIAL);
  }
  out->axes = axes;
  CR_TRY(cr_layer_read_extents(layer, &kernel, axes, out->kernel));
  CR_TRY(cr_layer_read_extents(layer, &stride, axes, out->stride));
  CR_TRY(cr_layer_read_extents(layer, &pad, axes, out->pad));
  return cr_layer_read_extents(layer, &dilation, axes, out->dilation);
}

/* A field of one value, of one per axis (`list`) or, for two axes, of _h and _w. */
static crema_status read_pool_extents(const cr_layer *layer, cr_window_field field,
                                      const uint32_t *one, bool has_one, int axes, int64_t *out) {
  if (has_one && field.listed > 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "either %s or %s_3d can be given, not both",
                         field.name, field.name);
  }
  field.both = true;
  if (has_one) field.list = one, field.listed = 1;
  return cr_layer_read_extents(layer, &field, axes, out);
}

crema_status cr_layer_read_pool_window(const cr_layer *layer, const Caffe__PoolingParameter *param,
                                       int axes, cr_window *out) {
  const cr_window_field pad = {.name = "pad",
                               .list = param->pad_3d,
                               .listed = param->n_pad_3d,
                               .has_h = param->has_pad_h,
                               .has_w = param->has_pad_w,
                               .h = param->pad_h,
                               .w = param->pad_w};
  const cr_window_field stride = {.name = "stride",
                                  .list = param->stride_3d,
                                  .listed = param->n_stride_3d,
                                  .has_h = param->has_stride_h,
                                  .has_w = param->has_stride_w,
                                  .h = param->stride_h,
                                  .w = param->stride_w,
                                  .fallback = 1,
                                  .least = 1};
  /* The schema calls the pair kernel_h and kernel_w. */
  const cr_window_field kernel = {.name = "kernel_size",
                                  .list = param->kernel_size_3d,
                                  .listed = param->n_kernel_size_3d,
                                  .has_h = param->has_kernel_h,
                                  .has_w = param->has_kernel_w,
                                  .h = param->kernel_h,
                                  .w = param->kernel_w,
                                  .fallback = param->global_pooling ? 0 : -1,
                                  .least = param->global_pooling ? 0 : 1};
  out->axes = axes;
  for (int i = 0; i < axes; ++i) out->dilation[i] = 1;
  CR_TRY(read_pool_extents(layer, pad, &param->pad, param->has_pad, axes, out->pad));
  CR_TRY(read_pool_extents(layer, stride, &param->stride, param->has_stride, axes, out->stride));
  return read_pool_extents(layer, kernel, &param->kernel_size, param->has_kernel_size, axes,
                           out->kernel);
}

int64_t cr_layer_pool_extent(int64_t size, int64_t kernel, int64_t stride, int64_t pad, bool padded,
                             bool floor) {
  int64_t room = size + 2 * pad - kernel;
  /* C's division rounds towards zero: that is up for a negative room. */
  int64_t steps = room / stride;
  if (floor && room < 0 && room % stride != 0) --steps;
  if (!floor && room > 0 && room % stride != 0) ++steps;
  int64_t positions = steps + 1;
  if (padded && (positions - 1) * stride >= size + pad) --positions;
  return positions;
}

crema_status cr_layer_fail_kernel(const cr_layer *layer, const cr_window *window, int axis,
                                  int64_t size) {
  static const char *const sides[] = {"height", "width"};
  char side[32], dilation[48] = "";
  snprintf(side, sizeof side, "extent %d", axis);
  if (window->axes == 2) snprintf(side, sizeof side, "%s", sides[axis]);
  if (window->dilation[axis] > 1) {
    snprintf(dilation, sizeof dilation, " with dilation %lld", (long long)window->dilation[axis]);
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "kernel %s %lld%s exceeds input %s %lld + 2*%lld padding", side,
                       (long long)window->kernel[axis], dilation, side, (long long)size,
                       (long long)window->pad[axis]);
}
