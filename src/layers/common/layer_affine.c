#include "layers/common/layer_affine.h"

#include "core/dtype.h"
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_shape.h"

static crema_blob *operand_of(const cr_layer *layer, crema_blob *const *bottom) {
  return layer->bottoms > 1 ? bottom[1] : layer->blob[0];
}

static crema_blob *scale_of(const cr_layer *layer, crema_blob *const *bottom) {
  const cr_layer_affine *s = layer->state;
  return s->scale ? operand_of(layer, bottom) : NULL;
}

static crema_blob *bias_of(const cr_layer *layer, crema_blob *const *bottom) {
  const cr_layer_affine *s = layer->state;
  if (!s->bias) return NULL;
  return s->scale ? layer->blob[layer->params - 1] : operand_of(layer, bottom);
}

crema_status cr_layer_affine_shape(const cr_layer *layer, crema_blob *const *bottom, int num_axes,
                                   crema_shape *out) {
  const cr_layer_affine *s = layer->state;
  if (layer->bottoms == 1) {
    return cr_layer_read_span(layer, &bottom[0]->shape, s->axis, num_axes, out);
  }
  *out = bottom[1]->shape;
  return CREMA_OK;
}

/* The gradients of scale and bias; x is the bottom and c the operand, folded. */
static crema_status make_backward(cr_layer *layer, const crema_shape *x, const crema_shape *c) {
  cr_layer_affine *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_BWD_BIAS);
  if (s->bias) {
    CR_TRY(CR_LAYER_MAKE(layer, &s->backward_bias, &desc, x, c));
  }
  desc.kind = CR_OP_COPY;
  if (!s->scale) {
    return CR_LAYER_MAKE(layer, &s->backward_data, &desc, x, x);
  }
  desc.kind = CR_OP_AFFINE_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &desc, x, c, x));
  desc.kind = CR_OP_AFFINE_BWD_SCALE;
  return CR_LAYER_MAKE(layer, &s->backward_scale, &desc, x, x, c);
}

crema_status cr_layer_affine_reshape(cr_layer *layer, crema_blob *const *bottom,
                                     crema_blob *const *top) {
  cr_layer_affine *s = layer->state;
  const crema_shape *operand = &operand_of(layer, bottom)->shape;
  crema_shape x;
  CR_TRY(cr_layer_fit_span(layer, s->scale ? "scale" : "bias", &bottom[0]->shape, operand, s->axis,
                           &x));
  if (s->scale && s->bias) {
    CR_TRY(cr_layer_same_shape(layer, "the scale", &bias_of(layer, bottom)->shape, operand));
  }
  const crema_shape c = cr_shape_1(x.dim[1]);
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], &bottom[0]->shape));
  if (s->scale) CR_TRY(cr_layer_keep_make(layer, &s->keep, bottom[0]));
  const bool rounds = !cr_dtype_is_floating(layer->types.forward);
  const bool integers = !cr_dtype_is_floating(cr_tensor_type(bottom[0]->data));
  cr_op_desc desc = cr_layer_op_desc(integers ? CR_OP_AFFINE_INT8
                                     : rounds ? CR_OP_QUANTIZE
                                              : CR_OP_AFFINE_FWD);
  desc.u.affine = layer->posts;
  CR_TRY(
      CR_LAYER_MAKE(layer, &s->forward, &desc, &x, s->scale ? &c : NULL, s->bias ? &c : NULL, &x));
  return rounds || integers ? CREMA_OK : make_backward(layer, &x, &c);
}

crema_status cr_layer_affine_forward(cr_layer *layer, crema_context *context,
                                     crema_blob *const *bottom, crema_blob *const *top) {
  cr_layer_affine *s = layer->state;
  const crema_blob *scale = scale_of(layer, bottom), *bias = bias_of(layer, bottom);
  cr_tensor *input = bottom[0]->data;
  if (layer->maker == NULL && cr_layer_affine_uses_bottom(layer, 0)) {
    CR_TRY(cr_layer_keep_forward(layer, &s->keep, context, bottom[0], top[0], &input));
  }
  return CR_LAYER_RUN(&s->forward, context, input, scale == NULL ? NULL : scale->data,
                      bias == NULL ? NULL : bias->data, top[0]->data);
}

/* Whether the gradient of `part` is required. A parameter's accumulates; a bottom's is overwritten.
 */
static bool begin_gradient(const cr_layer *layer, crema_blob *part, const bool *propagate_down,
                           crema_blob *const *bottom) {
  if (part == NULL) return false;
  if (layer->bottoms == 1 || part != bottom[1]) {
    return layer->param_propagate_down[part == layer->blob[0] ? 0 : 1];
  }
  if (propagate_down[1]) cr_tensor_set_zero(part->diff);
  return propagate_down[1];
}

crema_status cr_layer_affine_backward(cr_layer *layer, crema_context *context,
                                      crema_blob *const *top, const bool *propagate_down,
                                      crema_blob *const *bottom) {
  cr_layer_affine *s = layer->state;
  crema_blob *scale = scale_of(layer, bottom), *bias = bias_of(layer, bottom);
  cr_tensor *from = top[0]->diff, *to = bottom[0]->diff;
  if (begin_gradient(layer, bias, propagate_down, bottom)) {
    CR_TRY(CR_LAYER_RUN(&s->backward_bias, context, from, bias->diff));
  }
  if (begin_gradient(layer, scale, propagate_down, bottom)) {
    cr_tensor *input = cr_layer_keep_input(&s->keep, bottom[0], top[0]);
    if (layer->maker != NULL) CR_TRY(cr_layer_make_again(layer->maker, context, input));
    CR_TRY(CR_LAYER_RUN(&s->backward_scale, context, input, from, scale->diff));
  }
  if (!propagate_down[0]) return CREMA_OK;
  if (s->scale) {
    return CR_LAYER_RUN(&s->backward_data, context, from, scale->data, to);
  }
  return from == to ? CREMA_OK : CR_LAYER_RUN(&s->backward_data, context, from, to);
}

bool cr_layer_affine_uses_bottom(const cr_layer *layer, int bottom) {
  const cr_layer_affine *s = layer->state;
  return s->scale && (bottom == 1 || layer->bottoms > 1 || layer->param_propagate_down[0]);
}

bool cr_layer_affine_scales_channels(const cr_layer *layer) {
  const cr_layer_affine *s = layer->state;
  return layer->bottoms == 1 && s->axis == 1 && layer->blob[0]->shape.axes == 1 &&
         cr_posts_count(&layer->posts) == 0;
}

/* A second bottom has no samples. */
cr_layer_reach cr_layer_affine_reach(int bottoms, int axis) {
  return bottoms > 1 ? CR_REACHES_ANY : cr_layer_reach_from(axis);
}
