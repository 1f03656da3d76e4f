/* Embed: looks up rows of a learnt table.
 *
 * Formula: y = table[index] + bias.
 * Shapes: index (any), whole numbers from 0 to input_dim - 1 -> y (as index, and num_output).
 * Parameters: table (input_dim, num_output), bias (num_output).
 * Fields: embed_param.
 * Caffe: the same; an index that is out of range is an error.
 * Example, index 4:
 *   layer { name: "embed" type: "Embed" bottom: "index" top: "y"
 *     embed_param { num_output: 5 input_dim: 10 weight_filler { type: "uniform" } } } */
#include "core/fail.h"
#include "layers/common/layer_weights.h"

typedef struct embed_state {
  int64_t rows, width;
  bool bias;
  cr_layer_op forward, backward, backward_bias;
} embed_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  embed_state *s = layer->state;
  const Caffe__EmbedParameter *param = layer->param->embed_param;
  (void)bottom, (void)top;
  if (param == NULL || param->num_output == 0 || param->input_dim == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "embed_param needs a num_output and an input_dim of 1 or more");
  }
  s->rows = param->input_dim;
  s->width = param->num_output;
  s->bias = param->bias_term;
  crema_shape table = cr_shape_2(s->rows, s->width), bias = cr_shape_1(s->width);
  return cr_layer_weights_add(layer, &table, param->weight_filler, s->bias ? &bias : NULL,
                              param->bias_filler);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  embed_state *s = layer->state;
  const crema_shape index = cr_shape_1(crema_blob_count(bottom[0]));
  const crema_shape *table = &layer->blob[0]->shape;
  const crema_shape y = cr_shape_2(index.dim[0], s->width), c = cr_shape_1(s->width);
  crema_shape to = bottom[0]->shape;
  if (to.axes == CREMA_MAX_AXES) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom has %d axes, one too many", to.axes);
  }
  to.dim[to.axes++] = s->width;
  CR_TRY(crema_blob_reshape(top[0], &to));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, table, &index, &y, s->bias ? &c : NULL));
  desc.kind = CR_OP_GATHER_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward, &desc, &y, &index, table));
  return cr_layer_weights_make_bias(layer, &s->backward_bias, &y, &c);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  embed_state *s = layer->state;
  cr_tensor *bias = s->bias ? layer->blob[1]->data : NULL;
  return CR_LAYER_RUN(&s->forward, context, layer->blob[0]->data, bottom[0]->data, top[0]->data,
                      bias);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  embed_state *s = layer->state;
  if (propagate_down[0]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "indices (bottom 0) have no gradient");
  }
  if (layer->param_propagate_down[0]) {
    CR_TRY(
        CR_LAYER_RUN(&s->backward, context, top[0]->diff, bottom[0]->data, layer->blob[0]->diff));
  }
  return cr_layer_weights_run_bias(layer, &s->backward_bias, context, top[0]->diff);
}

const cr_layer_class cr_layer_embed = {
    CR_LAYER_OF_OPS("Embed", sizeof(embed_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .graph.integer_bottoms = 1u << 0,
    .no_gradient_bottoms = 1u << 0,
};
