/* Parameter: a parameter as a blob.
 *
 * Formula: top = parameter 0, which starts with 0 and is learnt.
 * Shapes: no bottom -> top of the given shape.
 * Fields: parameter_param.
 * Caffe: the same.
 * Example:
 *   layer { name: "weights" type: "Parameter" top: "w"
 *     parameter_param { shape { dim: 2 dim: 3 } } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

typedef struct parameter_state {
  cr_layer_op add;
} parameter_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ParameterParameter *param = layer->param->parameter_param;
  crema_shape shape;
  (void)bottom, (void)top;
  if (param == NULL || param->shape == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "parameter_param with a shape is required");
  }
  CR_TRY(cr_layer_read_shape(layer, param->shape, &shape));
  CR_TRY(cr_layer_set_params(layer, 1));
  return cr_layer_add_param(layer, 0, &shape, NULL);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  parameter_state *s = layer->state;
  const crema_shape *shape = &layer->blob[0]->shape;
  (void)bottom;
  CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(cr_blob_share_data(top[0], layer->blob[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AXPBY);
  return CR_LAYER_MAKE(layer, &s->add, &desc, shape, shape);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  parameter_state *s = layer->state;
  cr_op_scalars add = {.alpha = 1, .beta = 1};
  (void)propagate_down, (void)bottom;
  if (!layer->param_propagate_down[0]) return CREMA_OK;
  return cr_layer_op_run(&s->add, context, (cr_tensor *[]){top[0]->diff, layer->blob[0]->diff},
                         &add);
}

const cr_layer_class cr_layer_parameter = {
    CR_LAYER_OF_OPS("Parameter", sizeof(parameter_state), setup, reshape, cr_layer_noop_forward,
                    backward),
    .bottoms = {0, 0},
    .tops = {1, 1},
    .memory.shares = CR_SHARES_DATA,
    .memory.persistent = cr_layer_always,
};
