/* InnerProduct: a fully connected layer.
 *
 * Formula: y = weights * x + bias, all axes of x from axis on being one vector of K values.
 * Shapes: x (M..., K...) -> y (M..., num_output). Parameters: weights (num_output, K) or, with
 * transpose, (K, num_output); bias (num_output).
 * Fields: inner_product_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y"
 *     inner_product_param { num_output: 10 weight_filler { type: "xavier" } } } */
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_int8.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_weights.h"

typedef struct inner_product_state {
  int64_t outputs, inputs; /* N, K */
  bool bias, transpose;
  cr_layer_op forward, backward_data;
  cr_layer_rounded rounded;
  cr_layer_weights backward_weights;
} inner_product_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  inner_product_state *s = layer->state;
  const Caffe__InnerProductParameter *param = layer->param->inner_product_param;
  int axis = 0;
  (void)top;
  if (param == NULL || param->num_output == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "inner_product_param needs a num_output of 1 or more");
  }
  CR_TRY(cr_layer_axis(layer, &bottom[0]->shape, param->axis, "axis", &axis));
  s->outputs = param->num_output;
  s->inputs = crema_shape_count(&bottom[0]->shape, axis, bottom[0]->shape.axes);
  s->bias = param->bias_term;
  s->transpose = param->transpose;
  if (s->inputs == 0) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom has no values from axis %d on", axis);
  }
  crema_shape weights =
      s->transpose ? cr_shape_2(s->inputs, s->outputs) : cr_shape_2(s->outputs, s->inputs);
  crema_shape bias = cr_shape_1(s->outputs);
  return cr_layer_weights_add(layer, &weights, param->weight_filler, s->bias ? &bias : NULL,
                              param->bias_filler);
}

static crema_status make_ops(cr_layer *layer, const crema_blob *bottom, const crema_shape *src,
                             const crema_shape *dst) {
  inner_product_state *s = layer->state;
  const crema_shape *weights = &layer->blob[0]->shape;
  const crema_shape *bias = s->bias ? &layer->blob[1]->shape : NULL;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_IP_FWD);
  desc.u.ip.transpose = s->transpose;
  desc.u.ip.posts = layer->posts;
  const crema_shape *addend = cr_posts_add(&layer->posts) ? dst : NULL;
  const crema_shape *shape[] = {src, weights, bias, dst, addend};
  if (layer->int8 != NULL) {
    return cr_layer_int8_make(layer, &s->rounded, &s->forward, &desc, shape, bottom);
  }
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, 5, shape));
  desc.kind = CR_OP_IP_BWD_DATA;
  memset(&desc.u.ip.posts, 0, sizeof desc.u.ip.posts);
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &desc, dst, weights, src));
  desc.kind = CR_OP_IP_BWD_WEIGHTS;
  return cr_layer_weights_make(layer, &s->backward_weights, &desc, src, dst, weights, bias);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  inner_product_state *s = layer->state;
  const crema_shape *from = &bottom[0]->shape;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, from, layer->param->inner_product_param->axis, "axis", &axis));
  int64_t inputs = crema_shape_count(from, axis, from->axes);
  if (inputs != s->inputs) {
    char text[128];
    return cr_layer_fail(
        layer, CREMA_E_SHAPE, "needs %lld values from axis %d on, found %lld in shape %s",
        (long long)s->inputs, axis, (long long)inputs, crema_shape_text(from, text, sizeof text));
  }
  crema_shape to = cr_shape(axis, from->dim);
  to.dim[to.axes++] = s->outputs;
  /* The op's src keeps the trailing extents, so that an image in a library's own layout can be
   * multiplied without a reorder. */
  crema_shape src = cr_shape_1(crema_shape_count(from, 0, axis));
  for (int i = axis; i < from->axes; ++i) src.dim[src.axes++] = from->dim[i];
  crema_shape dst = cr_shape_2(src.dim[0], s->outputs);
  CR_TRY(cr_layer_check_addend(layer, bottom, &to));
  CR_TRY(crema_blob_reshape(top[0], &to));
  return make_ops(layer, bottom[0], &src, &dst);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  inner_product_state *s = layer->state;
  cr_tensor *bias = s->bias ? layer->blob[1]->data : NULL;
  cr_tensor *addend = cr_layer_own_bottoms(layer) < layer->bottoms ? bottom[1]->data : NULL;
  cr_tensor *source = bottom[0]->data;
  CR_TRY(cr_layer_int8_round(&s->rounded, context, &source));
  return CR_LAYER_RUN(&s->forward, context, source, layer->blob[0]->data, bias, top[0]->data,
                      addend);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  inner_product_state *s = layer->state;
  CR_TRY(cr_layer_weights_run(&s->backward_weights, layer, context, bottom[0]->data, top[0]->diff));
  if (!propagate_down[0]) return CREMA_OK;
  return CR_LAYER_RUN(&s->backward_data, context, top[0]->diff, layer->blob[0]->data,
                      bottom[0]->diff);
}

static cr_layer_reach reach(const Caffe__LayerParameter *param, int bottoms) {
  (void)bottoms;
  return cr_layer_reach_from(param->inner_product_param->axis);
}

const cr_layer_class cr_layer_inner_product = {
    CR_LAYER_OF_OPS("InnerProduct", sizeof(inner_product_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .fusion.fuses_posts = true,
    .int8.takes_bf16 = true,
    .int8.takes_int8 = true,
    .fusion.product = CR_PRODUCT_INNER,
    .memory.runs_ops = true,
    .uses_bottom = cr_layer_weights_uses_bottom,
    .fusion.reach = reach,
};
