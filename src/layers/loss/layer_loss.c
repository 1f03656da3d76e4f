#include "layers/loss/layer_loss.h"

#include "core/fail.h"

enum {
  FULL = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__FULL,
  VALID = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID,
  BATCH_SIZE = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE,
  PRE_FIXED = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__PRE_FIXED
};

crema_status cr_layer_loss_read(cr_layer *layer, cr_layer_loss *loss, int fallback) {
  const Caffe__LossParameter *param = layer->param->loss_param;
  loss->normalization = fallback;
  if (param == NULL) return CREMA_OK;
  if (param->label_smoothing != 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "label_smoothing is not supported");
  }
  loss->has_ignore = param->has_ignore_label;
  loss->ignore = param->ignore_label;
  if (param->has_normalization) {
    loss->normalization = (int)param->normalization;
  } else if (param->has_normalize) {
    loss->normalization = param->normalize ? VALID : BATCH_SIZE;
  }
  return CREMA_OK;
}

static crema_status make_top(cr_layer *layer, cr_layer_loss *loss, crema_blob *top) {
  const crema_shape scalar = cr_shape(0, NULL), one = cr_shape_1(1);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AXPBY);
  CR_TRY(crema_blob_reshape(top, &scalar));
  CR_TRY(cr_layer_tensor(layer, &loss->pair.own[0], cr_layer_arithmetic(layer), 1));
  CR_TRY(cr_layer_tensor(layer, &loss->pair.own[1], cr_layer_arithmetic(layer), 1));
  return CR_LAYER_MAKE(layer, &loss->scale, &desc, &one, &one);
}

crema_status cr_layer_loss_reshape(cr_layer *layer, cr_layer_loss *loss, crema_blob *top,
                                   int64_t outer, int64_t positions) {
  double n = 1;
  if (loss->normalization == FULL) n = (double)positions;
  if (loss->normalization == BATCH_SIZE) n = (double)outer;
  if (loss->normalization == VALID) n = (double)positions;
  if (loss->normalization == PRE_FIXED) {
    n = (double)layer->param->loss_param->pre_fixed_normalizer;
  }
  loss->divisor = n > 1 ? n : 1;
  if (loss->normalization == VALID && loss->has_ignore) loss->divisor = 0;
  return make_top(layer, loss, top);
}

crema_status cr_layer_loss_fix(cr_layer *layer, cr_layer_loss *loss, crema_blob *top,
                               double divisor) {
  loss->divisor = divisor > 0 ? divisor : 1;
  return make_top(layer, loss, top);
}

crema_status cr_layer_loss_divisor(const cr_layer_loss *loss, double *out) {
  double valid = 0;
  *out = loss->divisor;
  if (loss->divisor > 0) return CREMA_OK;
  CR_TRY(cr_tensor_host_value(loss->pair.own[1], &valid));
  *out = valid < 1 ? 1 : valid;
  return CREMA_OK;
}

crema_status cr_layer_loss_finish(cr_layer_loss *loss, crema_context *context, crema_blob *top) {
  double divisor = 1;
  CR_TRY(cr_layer_loss_divisor(loss, &divisor));
  cr_op_scalars scalars = {.alpha = 1 / divisor, .beta = 0};
  return cr_layer_op_run(&loss->scale, context, (cr_tensor *[]){loss->pair.own[0], top->data},
                         &scalars);
}

crema_status cr_layer_loss_factor(const cr_layer_loss *loss, crema_blob *top, double *out) {
  double weight = 0, divisor = 1;
  CR_TRY(cr_tensor_host_value(top->diff, &weight));
  CR_TRY(cr_layer_loss_divisor(loss, &divisor));
  *out = weight / divisor;
  return CREMA_OK;
}

static bool has_gradient(const cr_layer *layer, int bottom) {
  return !(layer->kind->no_gradient_bottoms >> bottom & 1u);
}

crema_status cr_layer_loss_difference(cr_layer_op *scale, crema_context *context, cr_tensor *from,
                                      double factor, const bool *propagate_down,
                                      crema_blob *const *bottom) {
  for (int i = 0; i < 2; ++i) {
    const cr_op_scalars scalars = {.alpha = i == 0 ? factor : -factor, .beta = 0};
    if (!propagate_down[i]) continue;
    CR_TRY(cr_layer_op_run(scale, context, (cr_tensor *[]){from, bottom[i]->diff}, &scalars));
  }
  return CREMA_OK;
}

crema_status cr_layer_loss_refuse(const cr_layer *layer, const bool *propagate_down) {
  for (int i = 0; i < layer->bottoms; ++i) {
    if (has_gradient(layer, i) || !propagate_down[i]) continue;
    return cr_layer_fail(
        layer, CREMA_E_UNSUPPORTED,
        "bottom %d has no gradient, but a layer that makes it learns; give this layer "
        "one propagate_down per bottom, false for bottom %d",
        i, i);
  }
  return CREMA_OK;
}

crema_status cr_layer_loss_labels(const cr_layer *layer, const crema_shape *scores,
                                  const crema_shape *labels, const crema_shape *folded) {
  char a[128], b[128];
  int64_t positions = folded->dim[0] * folded->dim[2];
  int64_t found = crema_shape_count(labels, 0, labels->axes);
  if (labels->axes > 0 && scores->dim[0] == labels->dim[0] && positions == found) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "scores of shape %s need %lld labels and the same first extent, found "
                       "labels of shape %s",
                       crema_shape_text(scores, a, sizeof a), (long long)positions,
                       crema_shape_text(labels, b, sizeof b));
}

crema_status cr_layer_loss_forward(cr_layer *layer, crema_context *context,
                                   crema_blob *const *bottom, crema_blob *const *top) {
  CR_TRY(cr_layer_pair_run(layer, context, bottom, top, NULL));
  return cr_layer_loss_finish(layer->state, context, top[0]);
}

crema_status cr_layer_loss_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                    const bool *propagate_down, crema_blob *const *bottom) {
  double divisor = 1;
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  for (int i = 0; i < layer->bottoms; ++i) {
    if (!propagate_down[i]) continue;
    CR_TRY(cr_layer_loss_divisor(layer->state, &divisor));
    cr_op_scalars scalars = {.alpha = i == 0 ? 1 / divisor : -1 / divisor};
    CR_TRY(cr_layer_pair_run_back(layer, context, top, bottom, i, &scalars));
  }
  return CREMA_OK;
}

bool cr_layer_loss_uses_bottom(const cr_layer *layer, int bottom) {
  return has_gradient(layer, bottom);
}

static crema_status make_ops(cr_layer *layer, const crema_shape *scores, bool gains, bool each) {
  cr_softmax_loss *s = layer->state;
  const crema_shape labels = cr_shape_2(scores->dim[0], scores->dim[2]), one = cr_shape_1(1);
  const crema_shape gain = cr_shape_2(scores->dim[1], scores->dim[1]);
  const crema_shape sums = cr_shape_1(scores->dim[1]);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SOFTMAX_LOSS_FWD);
  desc.u.nll.has_ignore = s->loss.has_ignore;
  desc.u.nll.ignore = s->loss.ignore;
  desc.u.nll.of_scores = layer->tops < 2;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, scores, &labels, layer->tops < 2 ? NULL : scores,
                       &one, &one, gains ? &gain : NULL, each ? &labels : NULL));
  desc.kind = CR_OP_SOFTMAX_LOSS_BWD;
  return CR_LAYER_MAKE(layer, &s->backward, &desc, scores, &labels, scores, gains ? &gain : NULL,
                       gains ? &sums : NULL);
}

crema_status cr_softmax_loss_make(cr_layer *layer, crema_blob *const *bottom,
                                  crema_blob *const *top, int axis, bool gains, bool each) {
  cr_softmax_loss *s = layer->state;
  const crema_shape *scores = &bottom[0]->shape, folded = cr_layer_fold(scores, axis, axis + 1);
  CR_TRY(cr_layer_loss_labels(layer, scores, &bottom[1]->shape, &folded));
  CR_TRY(
      cr_layer_loss_reshape(layer, &s->loss, top[0], folded.dim[0], folded.dim[0] * folded.dim[2]));
  if (layer->tops > 1) {
    CR_TRY(cr_layer_pass_tensor(layer, &s->prob, cr_layer_arithmetic(layer),
                                crema_blob_count(bottom[0])));
    CR_TRY(crema_blob_reshape(top[1], scores));
    CR_TRY(cr_tensor_share(top[1]->data, s->prob));
  }
  return make_ops(layer, &folded, gains, each);
}

crema_status cr_softmax_loss_run(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                                 crema_blob *const *top, cr_tensor *gain, cr_tensor *each) {
  cr_softmax_loss *s = layer->state;
  cr_tensor **sums = s->loss.pair.own;
  CR_TRY(CR_LAYER_RUN(&s->forward, context, bottom[0]->data, bottom[1]->data, s->prob, sums[0],
                      sums[1], gain, each));
  return cr_layer_loss_finish(&s->loss, context, top[0]);
}

crema_status cr_softmax_loss_run_back(cr_layer *layer, crema_context *context,
                                      crema_blob *const *top, const bool *propagate_down,
                                      crema_blob *const *bottom, cr_tensor *gain, cr_tensor *sums) {
  cr_softmax_loss *s = layer->state;
  cr_op_scalars scalars = {0};
  CR_TRY(cr_layer_loss_refuse(layer, propagate_down));
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_layer_loss_factor(&s->loss, top[0], &scalars.alpha));
  return cr_layer_op_run(&s->backward, context,
                         (cr_tensor *[]){s->prob != NULL ? s->prob : bottom[0]->data,
                                         bottom[1]->data, bottom[0]->diff, gain, sums},
                         &scalars);
}

/* Labels and gains are also read. */
bool cr_softmax_loss_uses_bottom(const cr_layer *layer, int bottom) {
  return bottom > 0 || layer->tops < 2;
}

cr_value_use cr_softmax_loss_uses_tops(const cr_layer *layer, bool in_place) {
  (void)in_place;
  return layer->tops > 1 ? CR_VALUES_ALL : CR_VALUES_NONE;
}
