/* Input: blobs that the caller fills.
 *
 * Formula: none: the caller writes the values; at first they are 0.
 * Shapes: no bottom -> tops of the given shapes: one for all, or one per top.
 * Fields: input_param, transform_param, image_data_param.
 * Caffe: the same. transform_param, and new_height, new_width and short_side of image_data_param,
 * have no effect on the layer: crema_preprocessing_create gives them to programs that load images.
 * Example:
 *   layer { name: "input" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } } */
#include "core/fail.h"
#include "layers/common/layer_shape.h"
#include "layers/data/adapters/input_base.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__InputParameter *param = layer->param->input_param;
  size_t shapes = param ? param->n_shape : 0;
  (void)bottom;
  if (shapes > 1 && shapes != (size_t)layer->tops) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "shape must be given once, once per top (%d) or not at all; found %zu",
                         layer->tops, shapes);
  }
  for (int i = 0; i < layer->tops && shapes > 0; ++i) {
    crema_shape shape;
    CR_TRY(cr_layer_read_shape(layer, param->shape[shapes > 1 ? i : 0], &shape));
    CR_TRY(crema_blob_reshape(top[i], &shape));
  }
  return CREMA_OK;
}

static const cr_input_class input = {.net_input = true};

const cr_layer_class cr_layer_input = {
    CR_LAYER_INPUT("Input", 0, 1, CR_ANY),
    .input = &input,
    .graph.integer_tops = true,
    .graph.shareable = true,
    .setup = setup,
    .forward = cr_layer_noop_forward,
    .fusion.reach = cr_layer_reaches_sample,
};
