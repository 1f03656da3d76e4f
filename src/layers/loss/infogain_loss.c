/* InfogainLoss: the logistic loss, with a weight for each pair of classes.
 *
 * Formula: loss = mean of -sum over k of H[label][k] * log(softmax(scores)[k]) over all positions
 * whose label is not ignored; loss_param chooses the divisor.
 * Shapes: scores (outer, C, inner), labels (outer, inner), optionally the matrix H of C * C values
 * -> loss (a scalar) and, optionally, the probabilities (as scores).
 * Fields: infogain_loss_param, loss_param.
 * Caffe: as in BVLC Caffe 1.0 and Intel Caffe. Before 1.0, and in the forks that are older (SSD's,
 * NVIDIA's, py-faster-rcnn, R-FCN's, PSPNet's, SegNet's), bottom 0 are the probabilities
 * themselves: there a Softmax layer makes them, which has to go. label_smoothing of the NVIDIA
 * dialect is refused.
 * Example, scores 4 3, label 4, gain 1 1 3 3:
 *   layer { name: "loss" type: "InfogainLoss" bottom: "scores" bottom: "label" bottom: "gain"
 *     top: "loss" } */
#include <stdlib.h>

#include "core/fail.h"
#include "core/file.h"
#include "layers/loss/layer_loss.h"

typedef struct infogain_state {
  cr_softmax_loss loss; /* has to be the first member */
  cr_layer_op add_rows;
  cr_tensor *sums;  /* of the rows of the matrix */
  crema_blob *gain; /* from the file; NULL: bottom 2 */
} infogain_state;

/* Takes the matrix from a BlobProto; its number of values must be a square. */
static crema_status take_gain(cr_layer *layer, const Caffe__BlobProto *proto) {
  infogain_state *s = layer->state;
  size_t count = proto->n_data ? proto->n_data : proto->n_double_data;
  crema_shape shape = cr_shape_1((int64_t)count);
  const crema_dtype type = cr_layer_arithmetic(layer);
  void *value = NULL;
  CR_TRY(cr_blob_create_typed(&shape, type, type, &s->gain));
  CR_TRY(cr_tensor_host_write(s->gain->data, &value));
  for (size_t i = 0; i < count; ++i) {
    const double gain = proto->n_data ? (double)proto->data[i] : proto->double_data[i];
    if (type == CREMA_F64) ((double *)value)[i] = gain;
    else ((float *)value)[i] = (float)gain;
  }
  return CREMA_OK;
}

static crema_status read_gain(cr_layer *layer, const char *source) {
  char *path = NULL;
  ProtobufCMessage *message = NULL;
  crema_status status;
  CR_TRY_GOTO(cr_file_resolve_input(layer->source_dir_file, source, &path), done);
  CR_TRY_GOTO(cr_message_read_binary(&caffe__blob_proto__descriptor, path, &message), done);
  CR_TRY_GOTO(take_gain(layer, (const Caffe__BlobProto *)message), done);
done:
  cr_message_free(message);
  free(path);
  return cr_fail_in(status, "layer '%s' (%s): the infogain matrix", layer->name,
                    layer->class->type);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__InfogainLossParameter *param = layer->param->infogain_loss_param;
  (void)bottom, (void)top;
  CR_TRY(cr_layer_loss_read(layer, layer->state, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID));
  if (layer->bottoms > 2) return CREMA_OK;
  if (param == NULL || param->source == NULL || *param->source == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "the infogain matrix is missing: give it as third bottom or as source");
  }
  return read_gain(layer, param->source);
}

static crema_blob *gain_of(const cr_layer *layer, crema_blob *const *bottom) {
  const infogain_state *s = layer->state;
  return s->gain ? s->gain : bottom[2];
}

static crema_status make_sums(cr_layer *layer, int64_t classes) {
  infogain_state *s = layer->state;
  const crema_shape gain = cr_shape_2(classes, classes), sums = cr_shape_1(classes);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_ROW_REDUCE_FWD);
  desc.u.rows.reduction = CR_REDUCE_SUM;
  desc.u.rows.coeff = 1;
  CR_TRY(cr_layer_tensor(layer, &s->sums, cr_layer_arithmetic(layer), classes));
  return cr_layer_op_make(layer, &s->add_rows, &desc, 2, (const crema_shape *[]){&gain, &sums});
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__InfogainLossParameter *param = layer->param->infogain_loss_param;
  const crema_shape *scores = &bottom[0]->shape;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, scores, param ? param->axis : 1, "axis", &axis));
  const int64_t classes = scores->dim[axis], gains = crema_blob_count(gain_of(layer, bottom));
  CR_TRY(cr_softmax_loss_make(layer, bottom, top, axis, true, false));
  if (gains != classes * classes) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "%lld classes need an infogain matrix of %lld values, found %lld",
                         (long long)classes, (long long)(classes * classes), (long long)gains);
  }
  return make_sums(layer, classes);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  return cr_softmax_loss_run(layer, context, bottom, top, gain_of(layer, bottom)->data, NULL);
}

/* d loss / d score c = (p_c sum_k H[label][k] - H[label][c]) weight / divisor. */
static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  infogain_state *s = layer->state;
  cr_tensor *gain = gain_of(layer, bottom)->data;
  if (propagate_down[0]) {
    CR_TRY(cr_layer_op_run(&s->add_rows, context, (cr_tensor *[]){gain, s->sums}, NULL));
  }
  return cr_softmax_loss_run_back(layer, context, top, propagate_down, bottom, gain, s->sums);
}

static void destroy(cr_layer *layer) {
  infogain_state *s = layer->state;
  crema_blob_destroy(s->gain);
}

const cr_layer_class cr_layer_infogain_loss = {
    CR_LAYER_SOFTMAX_LOSS("InfogainLoss", 3, 2),
    .takes_softmax = true,
    .state_size = sizeof(infogain_state),
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
