#include "layers/loss/layer_loss.h"

#include "core/fail.h"

enum {
  FULL = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__FULL,
  VALID = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID,
  BATCH_SIZE = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE
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
  CR_TRY(cr_layer_tensor(layer, &loss->sum, CREMA_F32, 1));
  CR_TRY(cr_layer_tensor(layer, &loss->count, CREMA_F32, 1));
  return cr_layer_op_make(layer, &loss->scale, &desc, 2, (const crema_shape *[]){&one, &one}, NULL);
}

crema_status cr_layer_loss_reshape(cr_layer *layer, cr_layer_loss *loss, crema_blob *top,
                                   int64_t outer, int64_t places) {
  double n = 1;
  if (loss->normalization == FULL) n = (double)places;
  if (loss->normalization == BATCH_SIZE) n = (double)outer;
  if (loss->normalization == VALID) n = (double)places;
  loss->divisor = n < 1 ? 1 : n;
  if (loss->normalization == VALID && loss->has_ignore) loss->divisor = 0;
  return make_top(layer, loss, top);
}

crema_status cr_layer_loss_fix(cr_layer *layer, cr_layer_loss *loss, crema_blob *top,
                               double divisor) {
  loss->divisor = divisor > 0 ? divisor : 1;
  return make_top(layer, loss, top);
}

crema_status cr_layer_loss_divisor(const cr_layer_loss *loss, double *out) {
  const void *memory = NULL;
  *out = loss->divisor;
  if (loss->divisor > 0) return CREMA_OK;
  CR_TRY(cr_tensor_host_read(loss->count, &memory));
  double valid = (double)*(const float *)memory;
  *out = valid < 1 ? 1 : valid;
  return CREMA_OK;
}

crema_status cr_layer_loss_finish(cr_layer_loss *loss, crema_context *context, crema_blob *top) {
  double divisor = 1;
  CR_TRY(cr_layer_loss_divisor(loss, &divisor));
  cr_op_scalars scalars = {.alpha = (float)(1 / divisor), .beta = 0};
  return cr_layer_op_run(&loss->scale, context, (cr_tensor *[]){loss->sum, top->data}, &scalars);
}

crema_status cr_layer_loss_factor(const cr_layer_loss *loss, crema_blob *top, float *out) {
  const void *weight = NULL;
  double divisor = 1;
  CR_TRY(cr_tensor_host_read(top->diff, &weight));
  CR_TRY(cr_layer_loss_divisor(loss, &divisor));
  *out = (float)((double)*(const float *)weight / divisor);
  return CREMA_OK;
}

crema_status cr_layer_loss_refuse(const cr_layer *layer, const bool *propagate_down, int index) {
  if (!propagate_down[index]) return CREMA_OK;
  return cr_layer_fail(
      layer, CREMA_E_UNSUPPORTED,
      "bottom %d has no gradient, but a layer that makes it learns; give this layer "
      "one propagate_down a bottom, false for bottom %d",
      index, index);
}

crema_status cr_layer_loss_labels(const cr_layer *layer, const crema_shape *scores,
                                  const crema_shape *labels, const crema_shape *folded) {
  char a[128], b[128];
  int64_t places = folded->dim[0] * folded->dim[2];
  int64_t found = crema_shape_count(labels, 0, labels->axes);
  if (labels->axes > 0 && scores->dim[0] == labels->dim[0] && places == found) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "scores of shape %s need %lld labels and the same first extent, found "
                       "labels of shape %s",
                       crema_shape_text(scores, a, sizeof a), (long long)places,
                       crema_shape_text(labels, b, sizeof b));
}
