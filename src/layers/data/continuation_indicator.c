/* ContinuationIndicator: the second bottom of recurrent layers if each column of the batch is
 * one sequence.
 *
 * Formula: y = 0 in the first row, 1 in all other rows.
 * Shapes: no bottom -> y (time_step, batch_size).
 * Fields: continuation_indicator_param.
 * Caffe: as in the forks for CRNN.
 * Example:
 *   layer { name: "cont" type: "ContinuationIndicator" top: "y"
 *     continuation_indicator_param { time_step: 3 batch_size: 2 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ContinuationIndicatorParameter *param = layer->param->continuation_indicator_param;
  (void)bottom;
  if (param == NULL || param->time_step == 0 || param->batch_size == 0) {
    return cr_layer_fail(
        layer, CREMA_E_ARGUMENT,
        "continuation_indicator_param needs a time_step and a batch_size of 1 or more");
  }
  const crema_shape shape = cr_shape_2(param->time_step, param->batch_size);
  CR_TRY(crema_shape_check(&shape));
  return crema_blob_reshape(top[0], &shape);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  const int64_t batch = top[0]->shape.dim[1], count = crema_blob_count(top[0]);
  float *value = NULL;
  (void)layer, (void)context, (void)bottom;
  CR_TRY(cr_tensor_host_write_floats(top[0]->data, &value));
  for (int64_t i = 0; i < count; ++i) value[i] = i < batch ? 0 : 1;
  return CREMA_OK;
}

const cr_layer_class cr_layer_continuation_indicator = {
    .type = "ContinuationIndicator",
    .bottoms = {0, 0},
    .tops = {1, 1},
    .setup = setup,
    .reshape = cr_layer_noop,
    .forward = forward,
};
