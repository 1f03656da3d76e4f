/* Permute: exchanges axes.
 *
 * Formula: axis i of y = axis order[i] of x; axes that order does not name follow in their old
 * order.
 * Shapes: x (any) -> y: the extents of x in that order.
 * Fields: permute_param.
 * Caffe: as in Caffe-SSD.
 * Example, x 2 3 4 5:
 *   layer { name: "nhwc" type: "Permute" bottom: "x" top: "y"
 *     permute_param { order: 0 order: 2 order: 3 order: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_op.h"

typedef struct permute_state {
  cr_layer_op forward, backward;
} permute_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__PermuteParameter *param = layer->param->permute_param;
  uint32_t seen = 0;
  (void)top;
  for (size_t i = 0; param && i < param->n_order; ++i) {
    uint32_t axis = param->order[i];
    if (axis >= (uint32_t)bottom[0]->shape.axes) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "order names axis %u of a blob of %d axes", axis,
                           bottom[0]->shape.axes);
    }
    if (seen >> axis & 1u) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT, "order names axis %u twice", axis);
    }
    seen |= 1u << axis;
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  permute_state *s = layer->state;
  const Caffe__PermuteParameter *param = layer->param->permute_param;
  const crema_shape *from = &bottom[0]->shape;
  cr_op_desc there = cr_layer_op_desc(CR_OP_PERMUTE), back = there;
  crema_shape to = *from;
  uint32_t seen = 0;
  int axes = 0;
  for (size_t i = 0; param && i < param->n_order; ++i) {
    if (param->order[i] >= (uint32_t)from->axes) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "order names axis %u of a blob of %d axes",
                           param->order[i], from->axes);
    }
    there.u.order[axes++] = (int)param->order[i];
    seen |= 1u << param->order[i];
  }
  for (int a = 0; a < from->axes; ++a) {
    if (!(seen >> a & 1u)) there.u.order[axes++] = a;
  }
  for (int a = 0; a < axes; ++a) {
    to.dim[a] = from->dim[there.u.order[a]];
    back.u.order[there.u.order[a]] = a;
  }
  CR_TRY(crema_blob_reshape(top[0], &to));
  CR_TRY(cr_layer_op_make(layer, &s->forward, &there, 2, (const crema_shape *[]){from, &to}, NULL));
  return cr_layer_op_make(layer, &s->backward, &back, 2, (const crema_shape *[]){&to, from}, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  permute_state *s = layer->state;
  return cr_layer_op_run(&s->forward, context, (cr_tensor *[]){bottom[0]->data, top[0]->data},
                         NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  permute_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  return cr_layer_op_run(&s->backward, context, (cr_tensor *[]){top[0]->diff, bottom[0]->diff},
                         NULL);
}

const cr_layer_class cr_layer_permute = {
    .type = "Permute",
    .state_size = sizeof(permute_state),
    .min_bottoms = 1,
    .max_bottoms = 1,
    .min_tops = 1,
    .max_tops = 1,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
