/* DummyData: blobs filled by fillers, for tests and constants.
 *
 * Formula: top i = values of data_filler i. Constants are filled once, all else is drawn anew in
 * each forward pass.
 * Shapes: no bottom -> tops of the given shapes: `shape`, or num, channels, height and width; one
 * for all tops, or one per top.
 * Fields: dummy_data_param.
 * Caffe: the same, but for the random generator.
 * Example:
 *   layer { name: "noise" type: "DummyData" top: "x"
 *     dummy_data_param { shape { dim: 2 dim: 3 } data_filler { type: "gaussian" std: 0.1 } } } */
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_shape.h"
#include "layers/data/adapters/input_base.h"

/* The filler of top i; NULL: constant 0. */
static const Caffe__FillerParameter *filler_of(const Caffe__DummyDataParameter *param, int i) {
  if (param->n_data_filler == 0) return NULL;
  return param->data_filler[param->n_data_filler == 1 ? 0 : i];
}

static bool is_constant(const Caffe__FillerParameter *filler) {
  return filler == NULL || filler->type == NULL || strcmp(filler->type, "constant") == 0;
}

static crema_status check_count(const cr_layer *layer, const char *field, size_t count,
                                bool optional) {
  if (count == 1 || count == (size_t)layer->tops || (optional && count == 0)) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "%s must be given once or once per top (%d); found %zu", field, layer->tops,
                       count);
}

static crema_status check_counts(const cr_layer *layer, const Caffe__DummyDataParameter *param) {
  size_t legacy = param->n_num + param->n_channels + param->n_height + param->n_width;
  CR_TRY(check_count(layer, "data_filler", param->n_data_filler, true));
  if (legacy == 0) return check_count(layer, "shape", param->n_shape, false);
  if (param->n_shape > 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "either shape or num, channels, height and width can be given, not both");
  }
  CR_TRY(check_count(layer, "num", param->n_num, false));
  CR_TRY(check_count(layer, "channels", param->n_channels, false));
  CR_TRY(check_count(layer, "height", param->n_height, false));
  return check_count(layer, "width", param->n_width, false);
}

static crema_status shape_of(const cr_layer *layer, const Caffe__DummyDataParameter *param, int i,
                             crema_shape *out) {
  if (param->n_shape > 0) {
    return cr_layer_read_shape(layer, param->shape[param->n_shape == 1 ? 0 : i], out);
  }
  *out = cr_shape_4(
      param->num[param->n_num == 1 ? 0 : i], param->channels[param->n_channels == 1 ? 0 : i],
      param->height[param->n_height == 1 ? 0 : i], param->width[param->n_width == 1 ? 0 : i]);
  return crema_shape_check(out);
}

/* Fills the tops whose filler is constant (or is not). */
static crema_status fill(cr_layer *layer, crema_context *context, crema_blob *const *top,
                         bool constant) {
  static const Caffe__FillerParameter zero = CAFFE__FILLER_PARAMETER__INIT;
  const Caffe__DummyDataParameter *param = layer->param->dummy_data_param;
  for (int i = 0; i < layer->tops; ++i) {
    const Caffe__FillerParameter *filler = filler_of(param, i);
    if (is_constant(filler) != constant) continue;
    CR_TRY(cr_fail_in(cr_fill(filler ? filler : &zero, context, top[i]), "layer '%s' (%s): top %d",
                      layer->name, layer->kind->type, i));
  }
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__DummyDataParameter *param = layer->param->dummy_data_param;
  (void)bottom;
  if (param == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "dummy_data_param with a shape is required");
  }
  CR_TRY(check_counts(layer, param));
  for (int i = 0; i < layer->tops; ++i) {
    crema_shape shape;
    CR_TRY(shape_of(layer, param, i, &shape));
    CR_TRY(crema_blob_reshape(top[i], &shape));
  }
  return fill(layer, layer->context, top, true);
}

/* Every solver has its own tops. */
static crema_status join(cr_layer *layer, crema_blob *const *top) {
  return fill(layer, layer->context, top, true);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  (void)bottom;
  return fill(layer, context, top, false);
}

static bool persistent(const cr_layer *layer, int top) {
  return is_constant(filler_of(layer->param->dummy_data_param, top));
}

static const cr_input_class input = {.join = join};

const cr_layer_class cr_layer_dummy_data = {
    CR_LAYER_INPUT("DummyData", 0, 1, CR_ANY),
    .input = &input,
    .graph.integer_tops = true,
    .graph.shareable = true,
    .setup = setup,
    .forward = forward,
    .memory.persistent = persistent,
};
