/* WeightedSoftmaxWithLoss: SoftmaxWithLoss with a weight for each position, or for classes.
 *
 * Formula: loss = sum of -w * log(softmax(scores)[label]) over all positions whose label is not
 * ignored, divided as loss_param says (VALID: by their number, whatever their weights). The weight
 * w is the third bottom's or, without one, pos_mult of the class pos_cid, and 1 for other classes.
 * Shapes: scores (outer, C, inner), labels (outer, inner), optionally weights (outer, inner) ->
 * loss (a scalar) and, optionally, the probabilities (as scores).
 * Fields: softmax_param, loss_param.
 * Caffe: as in the forks. A SoftmaxWithLoss with three bottoms is read as this layer. Some forks
 * divide by the sum of the weights. Several classes may have weights: pos_mult and pos_cid repeat.
 * Example, scores 2 3 4 4, label 2 4 4, weight 2 4 4:
 *   layer { name: "loss" type: "WeightedSoftmaxWithLoss" bottom: "scores" bottom: "label"
 *     bottom: "weight" top: "loss" } */
#include "core/fail.h"
#include "layers/loss/loss_ops.h"
#include "layers/loss/position_loss.h"

/* Finds the positions of a class: those between two thresholds. */
typedef struct class_weight {
  cr_layer_op from, to, subtract, add;
} class_weight;

typedef struct weighted_state {
  cr_position_loss base; /* has to be the first member */
  cr_tensor *above, *beyond;
  size_t classes;
  class_weight *of; /* `classes` of them */
  cr_layer_op ones, copy, weigh;
} weighted_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  weighted_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  void *memory = NULL;
  CR_TRY(cr_position_loss_setup(layer, bottom, top));
  if (param == NULL || layer->bottoms > 2) return CREMA_OK;
  /* One number may be missing: both are 1 by default. */
  s->classes = param->n_pos_mult;
  if (param->n_pos_cid != s->classes && !(param->n_pos_cid == 0 && s->classes == 1)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "softmax_param has %zu pos_mult for %zu pos_cid",
                         param->n_pos_mult, param->n_pos_cid);
  }
  CR_TRY(cr_layer_memory(layer, (s->classes + 1) * sizeof *s->of, &memory));
  s->of = memory;
  return CREMA_OK;
}

static crema_status make_class(cr_layer *layer, size_t index) {
  weighted_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  const double class = param->n_pos_cid > 0 ? (double)param->pos_cid[index] : 1;
  const double bound[2][3] = {{class - 0.001}, {class + 0.999}};
  const crema_shape shape = cr_shape_1(s->base.positions);
  class_weight *w = &s->of[index];
  CR_TRY(cr_loss_make_function(layer, &w->from, CR_UNARY_THRESHOLD, bound[0], s->base.positions));
  CR_TRY(cr_loss_make_function(layer, &w->to, CR_UNARY_THRESHOLD, bound[1], s->base.positions));
  CR_TRY(cr_loss_make_sum(layer, &w->subtract, 1, -1, &shape));
  return cr_loss_make_sum(layer, &w->add, 1, param->pos_mult[index] - 1, &shape);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  weighted_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  const crema_dtype type = cr_layer_arithmetic(layer);
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, &bottom[0]->shape, param ? param->axis : 1, "softmax_param axis",
                       &axis));
  CR_TRY(cr_position_loss_make(layer, bottom, top, axis));
  const crema_shape shape = cr_shape_1(s->base.positions);
  if (layer->bottoms > 2 && crema_blob_count(bottom[2]) != s->base.positions) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld labels need as many weights, found %lld",
                         (long long)s->base.positions, (long long)crema_blob_count(bottom[2]));
  }
  CR_TRY(cr_layer_tensor(layer, &s->above, type, s->base.positions));
  CR_TRY(cr_layer_tensor(layer, &s->beyond, type, s->base.positions));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SET);
  desc.u.value = 1;
  CR_TRY(CR_LAYER_MAKE(layer, &s->ones, &desc, &shape));
  CR_TRY(cr_loss_make_scale(layer, &s->copy, &shape));
  CR_TRY(cr_loss_make_product(layer, &s->weigh, 2, &shape));
  for (size_t i = 0; i < s->classes; ++i) CR_TRY(make_class(layer, i));
  return CREMA_OK;
}

/* The weights of the positions are the slopes. */
static crema_status find_weights(cr_layer *layer, crema_context *context,
                                 crema_blob *const *bottom) {
  weighted_state *s = layer->state;
  cr_tensor *weight = s->base.slope;
  if (layer->bottoms > 2) {
    return cr_loss_run_scale(&s->copy, context, 1, bottom[2]->data, weight);
  }
  CR_TRY(CR_LAYER_RUN(&s->ones, context, weight));
  for (size_t i = 0; i < s->classes; ++i) {
    class_weight *w = &s->of[i];
    CR_TRY(CR_LAYER_RUN(&w->from, context, bottom[1]->data, s->above));
    CR_TRY(CR_LAYER_RUN(&w->to, context, bottom[1]->data, s->beyond));
    CR_TRY(CR_LAYER_RUN(&w->subtract, context, s->above, s->beyond, s->above));
    CR_TRY(CR_LAYER_RUN(&w->add, context, weight, s->above, weight));
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  weighted_state *s = layer->state;
  CR_TRY(cr_position_loss_find(layer, context, bottom, top));
  CR_TRY(find_weights(layer, context, bottom));
  CR_TRY(CR_LAYER_RUN(&s->weigh, context, s->base.each, s->base.slope, s->base.term));
  return cr_position_loss_finish(layer, context, top);
}

const cr_layer_class cr_layer_weighted_softmax_loss = {
    CR_LAYER_SOFTMAX_LOSS("WeightedSoftmaxWithLoss", 3, 2),
    .state_size = sizeof(weighted_state),
    .graph.takes_softmax = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = cr_position_loss_backward,
};
