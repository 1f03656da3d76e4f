/* CenterLoss: draws the features of a class to the class's centre (Wen, Zhang, Li and Qiao, "A
 * discriminative feature learning approach for deep face recognition", 2016).
 *
 * Formula: loss = 1 / (2 N) * sum over samples of |x - c[label]|^2. The gradient of a centre is the
 * sum of (c - x) over the samples of its class, divided by 1 + their number. It does not depend on
 * loss_weight.
 * Shapes: x (N, ...), labels (N) -> loss (a scalar). Parameter: centres (num_output, K), with K the
 * number of values from `axis` on, filled with 0 unless center_filler says otherwise.
 * Fields: center_loss_param.
 * Caffe: as in caffe-face on the CPU. There a label without a centre reads outside the memory; here
 * it is an error.
 * Example, x 4 5, label 4:
 *   layer { name: "loss" type: "CenterLoss" bottom: "x" bottom: "label" top: "loss"
 *     center_loss_param { num_output: 10 center_filler { type: "xavier" } } } */
#include "core/fail.h"
#include "layers/loss/layer_loss.h"
#include "layers/loss/loss_ops.h"

typedef struct center_state {
  cr_layer_loss loss; /* has to be the first member */
  cr_tensor *pull;    /* c - x of each sample */
  /* Of the gradient of the centres: ones, the classes' sizes and paces, and each sample's pace. */
  cr_tensor *one, *size, *pace, *scaled, *share, *move;
  cr_layer_op gather, subtract, square, scale;
  cr_layer_op fill, count, divide, weigh, pick, slow, add;
} center_state;

static const Caffe__CenterLossParameter *param_of(const cr_layer *layer) {
  static const Caffe__CenterLossParameter defaults = CAFFE__CENTER_LOSS_PARAMETER__INIT;
  return layer->param->center_loss_param ? layer->param->center_loss_param : &defaults;
}

/* The features as rows (N, K, 1). */
static crema_status rows_of(const cr_layer *layer, const crema_shape *x, crema_shape *out) {
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, x, param_of(layer)->axis, "axis", &axis));
  *out = cr_layer_fold(x, axis, x->axes);
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__CenterLossParameter *param = param_of(layer);
  crema_shape rows;
  (void)top;
  if (param->num_output == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "center_loss_param needs a num_output of 1 or more");
  }
  CR_TRY(rows_of(layer, &bottom[0]->shape, &rows));
  const crema_shape centres = cr_shape_2(param->num_output, rows.dim[1]);
  CR_TRY(cr_layer_set_params(layer, 1));
  return cr_layer_add_param(layer, 0, &centres, param->center_filler);
}

static crema_status make_tensors(cr_layer *layer, int64_t samples, int64_t width, int64_t classes) {
  center_state *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(cr_layer_pass_tensor(layer, &s->pull, type, samples * width));
  CR_TRY(cr_layer_tensor(layer, &s->one, type, samples));
  CR_TRY(cr_layer_tensor(layer, &s->size, type, classes));
  CR_TRY(cr_layer_tensor(layer, &s->pace, type, classes));
  CR_TRY(cr_layer_tensor(layer, &s->scaled, type, classes));
  CR_TRY(cr_layer_tensor(layer, &s->share, type, samples));
  return cr_layer_tensor(layer, &s->move, type, samples * width);
}

/* Sizes of the classes, paces 1 / (1 + size), and the pace of each sample's class. */
static crema_status make_paces(cr_layer *layer, int64_t samples, int64_t classes) {
  center_state *s = layer->state;
  const crema_shape labels = cr_shape_1(samples), column = cr_shape_2(samples, 1);
  const crema_shape table = cr_shape_2(classes, 1), sizes = cr_shape_1(classes);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SET);
  desc.u.value = 1;
  CR_TRY(CR_LAYER_MAKE(layer, &s->fill, &desc, &labels));
  desc = cr_layer_op_desc(CR_OP_GATHER_BWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->count, &desc, &column, &labels, &table));
  CR_TRY(cr_loss_make_function(layer, &s->divide, CR_UNARY_POWER, (const double[]){-1, 1, 1},
                               classes));
  CR_TRY(cr_loss_make_scale(layer, &s->weigh, &sizes));
  desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
  return CR_LAYER_MAKE(layer, &s->pick, &desc, &table, &labels, &column, NULL);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  center_state *s = layer->state;
  const crema_shape *centres = &layer->blob[0]->shape;
  crema_shape folded;
  CR_TRY(rows_of(layer, &bottom[0]->shape, &folded));
  CR_TRY(cr_layer_loss_labels(layer, &bottom[0]->shape, &bottom[1]->shape, &folded));
  const crema_shape rows = cr_shape_2(folded.dim[0], folded.dim[1]),
                    labels = cr_shape_1(rows.dim[0]);
  if (rows.dim[1] != centres->dim[1]) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "centres have %lld values, samples have %lld",
                         (long long)centres->dim[1], (long long)rows.dim[1]);
  }
  CR_TRY(cr_layer_loss_fix(layer, &s->loss, top[0], 2 * (double)rows.dim[0]));
  CR_TRY(make_tensors(layer, rows.dim[0], rows.dim[1], centres->dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->gather, &desc, centres, &labels, &rows, NULL));
  CR_TRY(cr_loss_make_sum(layer, &s->subtract, 1, -1, &rows));
  CR_TRY(cr_loss_make_rows(layer, &s->square, CR_REDUCE_SUMSQ, 1, rows.dim[0] * rows.dim[1]));
  CR_TRY(cr_loss_make_scale(layer, &s->scale, &rows));
  CR_TRY(make_paces(layer, rows.dim[0], centres->dim[0]));
  CR_TRY(cr_loss_make_scaled_rows(layer, &s->slow, rows.dim[0], rows.dim[1]));
  desc = cr_layer_op_desc(CR_OP_GATHER_BWD);
  return CR_LAYER_MAKE(layer, &s->add, &desc, &rows, &labels, centres);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  center_state *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->gather, context, layer->blob[0]->data, bottom[1]->data, s->move, NULL));
  CR_TRY(CR_LAYER_RUN(&s->subtract, context, s->move, bottom[0]->data, s->pull));
  CR_TRY(CR_LAYER_RUN(&s->square, context, s->pull, s->loss.pair.own[0]));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

/* `factor`: the net's factor of all gradients. */
static crema_status move_centres(cr_layer *layer, crema_context *context, cr_tensor *labels,
                                 double factor) {
  center_state *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->fill, context, s->one));
  cr_tensor_set_zero(s->size);
  CR_TRY(CR_LAYER_RUN(&s->count, context, s->one, labels, s->size));
  CR_TRY(CR_LAYER_RUN(&s->divide, context, s->size, s->pace));
  CR_TRY(cr_loss_run_scale(&s->weigh, context, factor, s->pace, s->scaled));
  CR_TRY(CR_LAYER_RUN(&s->pick, context, s->scaled, labels, s->share, NULL));
  CR_TRY(CR_LAYER_RUN(&s->slow, context, s->pull, s->share, NULL, s->move));
  return CR_LAYER_RUN(&s->add, context, s->move, labels, layer->blob[0]->diff);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  center_state *s = layer->state;
  const double weight = (double)layer->loss_weight[0];
  double diff = 0, factor = 0;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  CR_TRY(cr_tensor_host_value(top[0]->diff, &diff));
  CR_TRY(cr_layer_loss_factor(&s->loss, top[0], &factor));
  if (propagate_down[0]) {
    CR_TRY(cr_loss_run_scale(&s->scale, context, -2 * factor, s->pull, bottom[0]->diff));
  }
  if (!layer->param_propagate_down[0]) return CREMA_OK;
  return move_centres(layer, context, bottom[1]->data, weight != 0 ? diff / weight : 1);
}

const cr_layer_class cr_layer_center_loss = {
    CR_LAYER_LOSS("CenterLoss", 2, 2, 1),
    .state_size = sizeof(center_state),
    .no_gradient_bottoms = 1u << 1,
    .graph.integer_bottoms = 1u << 1,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
};
