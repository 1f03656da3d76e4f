/* SoftmaxWithLoss: the mean of -log(softmax(scores)[label]) over all places whose label is not
 * ignored. Bottoms: scores (outer, C, inner), labels (outer, inner) as whole numbers in float.
 * Tops: the loss (a scalar) and, optionally, the probabilities. */
#include "core/fail.h"
#include "layers/layer_op.h"

typedef struct loss_state {
  bool has_ignore;
  int ignore;
  int normalization;
  double normalizer; /* when it does not depend on the labels, else 0 */
  cr_layer_op softmax, forward, scale, backward;
  cr_tensor *prob;
  cr_tensor *sum, *count; /* of -log p, of places counted */
} loss_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__LossParameter defaults = CAFFE__LOSS_PARAMETER__INIT;
  loss_state *s = layer->state;
  const Caffe__LossParameter *param =
      layer->param->loss_param ? layer->param->loss_param : &defaults;
  (void)bottom;
  (void)top;
  if (param->label_smoothing != 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "label_smoothing is not supported");
  }
  s->has_ignore = param->has_ignore_label;
  s->ignore = param->ignore_label;
  s->normalization = (int)param->normalization;
  if (!param->has_normalization && param->has_normalize) {
    s->normalization = param->normalize ? CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID
                                        : CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE;
  }
  return CREMA_OK;
}

static crema_status check_shapes(const cr_layer *layer, const crema_shape *scores,
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

/* The divisor of the loss where `valid` places count; never below 1, so that a batch without
 * labels gives loss 0. Places that are not counted are known before the pass only when no label
 * is ignored. */
static double find_normalizer(const loss_state *s, const crema_shape *folded, double valid) {
  double n = 1;
  switch (s->normalization) {
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__FULL:
      n = (double)folded->dim[0] * (double)folded->dim[2];
      break;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID: n = valid; break;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE: n = (double)folded->dim[0]; break;
    default: break;
  }
  return n < 1 ? 1 : n;
}

static crema_status make_ops(loss_state *s, const crema_shape *scores, int axis,
                             const crema_shape *folded) {
  const crema_shape labels = cr_shape_2(folded->dim[0], folded->dim[2]);
  const crema_shape one = cr_shape_1(1);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SOFTMAX_FWD);
  desc.u.axis = axis;
  CR_TRY(cr_layer_op_make(&s->softmax, &desc, 2, (const crema_shape *[]){scores, scores}, NULL));
  desc = cr_layer_op_desc(CR_OP_NLL_FWD);
  desc.u.nll.has_ignore = s->has_ignore;
  desc.u.nll.ignore = s->ignore;
  CR_TRY(cr_layer_op_make(&s->forward, &desc, 4,
                          (const crema_shape *[]){folded, &labels, &one, &one}, NULL));
  desc.kind = CR_OP_NLL_BWD;
  CR_TRY(cr_layer_op_make(&s->backward, &desc, 3, (const crema_shape *[]){folded, &labels, folded},
                          NULL));
  desc = cr_layer_op_desc(CR_OP_AXPBY);
  return cr_layer_op_make(&s->scale, &desc, 2, (const crema_shape *[]){&one, &one}, NULL);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  loss_state *s = layer->state;
  const Caffe__SoftmaxParameter *param = layer->param->softmax_param;
  const crema_shape *scores = &bottom[0]->shape;
  const crema_shape scalar = cr_shape(0, NULL);
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, scores, param ? param->axis : 1, "softmax_param axis", &axis));
  const crema_shape folded = cr_layer_fold(scores, axis, axis + 1);
  CR_TRY(check_shapes(layer, scores, &bottom[1]->shape, &folded));
  double places = (double)folded.dim[0] * (double)folded.dim[2];
  bool fixed =
      !s->has_ignore || s->normalization != CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID;
  s->normalizer = fixed ? find_normalizer(s, &folded, places) : 0;
  CR_TRY(crema_blob_reshape(top[0], &scalar));
  CR_TRY(cr_layer_tensor(&s->prob, CREMA_F32, crema_blob_count(bottom[0])));
  CR_TRY(cr_layer_tensor(&s->sum, CREMA_F32, 1));
  CR_TRY(cr_layer_tensor(&s->count, CREMA_F32, 1));
  if (layer->tops > 1) {
    CR_TRY(crema_blob_reshape(top[1], scores));
    CR_TRY(cr_tensor_share(top[1]->data, s->prob));
  }
  return make_ops(s, scores, axis, &folded);
}

/* The divisor of the pass whose counts are in s->count. Read on the host: a control value. */
static crema_status current_normalizer(const loss_state *s, double *out) {
  const void *memory = NULL;
  *out = s->normalizer;
  if (s->normalizer > 0) return CREMA_OK;
  CR_TRY(cr_tensor_host_read(s->count, &memory));
  double valid = (double)*(const float *)memory;
  *out = valid < 1 ? 1 : valid;
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  loss_state *s = layer->state;
  double normalizer = 1;
  CR_TRY(cr_layer_op_run(&s->softmax, context, (cr_tensor *[]){bottom[0]->data, s->prob}, NULL));
  CR_TRY(cr_layer_op_run(&s->forward, context,
                         (cr_tensor *[]){s->prob, bottom[1]->data, s->sum, s->count}, NULL));
  CR_TRY(current_normalizer(s, &normalizer));
  cr_op_scalars scalars = {.alpha = (float)(1 / normalizer), .beta = 0};
  return cr_layer_op_run(&s->scale, context, (cr_tensor *[]){s->sum, top[0]->data}, &scalars);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  loss_state *s = layer->state;
  const void *weight = NULL;
  double normalizer = 1;
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "labels (bottom 1) have no gradient");
  }
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_tensor_host_read(top[0]->diff, &weight));
  CR_TRY(current_normalizer(s, &normalizer));
  cr_op_scalars scalars = {.alpha = (float)((double)*(const float *)weight / normalizer)};
  return cr_layer_op_run(&s->backward, context,
                         (cr_tensor *[]){s->prob, bottom[1]->data, bottom[0]->diff}, &scalars);
}

static void destroy(cr_layer *layer) {
  loss_state *s = layer->state;
  cr_layer_op_free(&s->backward);
  cr_layer_op_free(&s->scale);
  cr_layer_op_free(&s->forward);
  cr_layer_op_free(&s->softmax);
  cr_tensor_destroy(s->count);
  cr_tensor_destroy(s->sum);
  cr_tensor_destroy(s->prob);
}

const cr_layer_class cr_layer_softmax_loss = {
    .type = "SoftmaxWithLoss",
    .state_size = sizeof(loss_state),
    .min_bottoms = 2,
    .max_bottoms = 2,
    .min_tops = 1,
    .max_tops = 2,
    .auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 1,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
