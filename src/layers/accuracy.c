/* Accuracy: the fraction of samples whose class is among the best scores. It has no gradient.
 *
 * Formula: accuracy = share of the labels whose class is among the top_k best scores along axis;
 * labels equal to ignore_label do not count.
 * Shapes: scores (outer, C, inner), labels (outer, inner), whole numbers as floats -> accuracy (a
 * scalar) and, optionally, the share for each class (C).
 * Fields: accuracy_param.
 * Caffe: as in BVLC Caffe 1.0: a score that equals the right class's counts as better, and without
 * labels that count the result is 0. Older versions and forks that follow them prefer the higher
 * class of equal ones, and give nan.
 * Example, scores 4 10, label 4:
 *   layer { name: "accuracy" type: "Accuracy" bottom: "scores" bottom: "label" top: "accuracy"
 *     accuracy_param { top_k: 5 } } */
#include "core/fail.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_ACCURACY, {CR_X0, CR_X1, CR_Y, CR_Y1}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__AccuracyParameter *param = layer->param->accuracy_param;
  (void)bottom, (void)top;
  if (param && (param->top_k == 0 || param->top_k > INT32_MAX)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "top_k is %u, must be 1 or more", param->top_k);
  }
  return CREMA_OK;
}

static crema_status check_shapes(const cr_layer *layer, const crema_shape *scores,
                                 const crema_shape *labels, const crema_shape *folded, int top_k) {
  char a[128], b[128];
  int64_t positions = folded->dim[0] * folded->dim[2];
  if (top_k > folded->dim[1]) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "top_k is %d, but there are %lld classes", top_k,
                         (long long)folded->dim[1]);
  }
  if (positions == crema_shape_count(labels, 0, labels->axes)) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "scores of shape %s need %lld labels, found labels of shape %s",
                       crema_shape_text(scores, a, sizeof a), (long long)positions,
                       crema_shape_text(labels, b, sizeof b));
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__AccuracyParameter defaults = CAFFE__ACCURACY_PARAMETER__INIT;
  const Caffe__AccuracyParameter *param =
      layer->param->accuracy_param ? layer->param->accuracy_param : &defaults;
  const crema_shape *scores = &bottom[0]->shape;
  const crema_shape scalar = cr_shape(0, NULL), one = cr_shape_1(1);
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, scores, param->axis, "axis", &axis));
  const crema_shape folded = cr_layer_fold(scores, axis, axis + 1);
  CR_TRY(check_shapes(layer, scores, &bottom[1]->shape, &folded, (int)param->top_k));
  const crema_shape labels = cr_shape_2(folded.dim[0], folded.dim[2]);
  const crema_shape classes = cr_shape_1(folded.dim[1]);
  CR_TRY(crema_blob_reshape(top[0], &scalar));
  if (layer->tops > 1) CR_TRY(crema_blob_reshape(top[1], &classes));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_ACCURACY);
  desc.u.accuracy.top_k = (int)param->top_k;
  desc.u.accuracy.has_ignore = param->has_ignore_label;
  desc.u.accuracy.ignore = param->ignore_label;
  return cr_layer_pair_make(layer, bottom, top, &desc,
                            &(cr_pair_shapes){.x = {&folded, &labels}, .y = &one});
}

/* The labels that count, of all classes or of each. */
static crema_status weigh(const cr_layer *layer, crema_blob *const *bottom, int top,
                          double *weight) {
  const Caffe__AccuracyParameter *param = layer->param->accuracy_param;
  const crema_shape *scores = &bottom[0]->shape;
  const float *label = NULL;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, scores, param == NULL ? 1 : param->axis, "axis", &axis));
  const int64_t classes = top == 0 ? 1 : scores->dim[axis];
  for (int64_t c = 0; c < classes; ++c) weight[c] = 0;
  CR_TRY(crema_blob_cpu_data(bottom[1], &label));
  for (int64_t i = 0; i < crema_blob_count(bottom[1]); ++i) {
    const int64_t class = (int64_t)label[i];
    if (param != NULL && param->has_ignore_label && class == param->ignore_label) continue;
    if (top == 0) weight[0] += 1;
    else if (class >= 0 && class < classes) weight[class] += 1;
  }
  return CREMA_OK;
}

const cr_layer_class cr_layer_accuracy = {
    .type = "Accuracy",
    .state_size = sizeof(cr_layer_pair),
    .bottoms = {2, 2},
    .tops = {1, 2},
    .graph.integer_bottoms = 1u << 1,
    .graph.wide_tops = true,
    .graph.weigh = weigh,
    .pair = &pair,
    .setup = setup,
    .reshape = reshape,
    .forward = cr_layer_pair_forward,
};
