/* InfogainLoss: the logistic loss, with a weight for each pair of classes.
 *
 * Formula: loss = mean of -sum over k of H[label][k] * log(softmax(scores)[k]) over all positions
 * whose label is not ignored; loss_param chooses the divisor. If there is neither a third bottom
 * nor a source, class_weighting of loss_param is the diagonal of H, which is 0 elsewhere.
 * Shapes: scores (outer, C, inner), labels (outer, inner), optionally the matrix H of C * C values
 * -> loss (a scalar) and, optionally, the probabilities (as scores).
 * Fields: infogain_loss_param, loss_param.
 * Caffe: as in BVLC Caffe 1.0 and Intel Caffe. Older versions and forks (SSD, NVIDIA,
 * py-faster-rcnn, R-FCN, PSPNet, SegNet) expect probabilities as bottom 0. Connect this layer to
 * the bottom of their Softmax layer instead. The NVIDIA dialect's label_smoothing is refused.
 * Example, scores 4 3, label 4, gain 1 1 3 3:
 *   layer { name: "loss" type: "InfogainLoss" bottom: "scores" bottom: "label" bottom: "gain"
 *     top: "loss" } */
#include <stdlib.h>

#include "core/fail.h"
#include "core/file.h"
#include "layers/common/layer_host.h"
#include "layers/loss/layer_loss.h"

enum { MOST_WEIGHTED = 8192 }; /* classes of a diagonal matrix, which is created in full */

typedef struct infogain_state {
  cr_softmax_loss loss; /* must be the first member */
  cr_layer_op add_rows;
  cr_tensor *sums;  /* of the rows of the matrix */
  crema_blob *gain; /* from the fields; NULL: bottom 2 */
  bool diagonal;    /* of it class_weighting gives the diagonal */
} infogain_state;

static crema_status make_gain(cr_layer *layer, size_t count, cr_host_results *to) {
  infogain_state *s = layer->state;
  const crema_shape shape = cr_shape_1((int64_t)count);
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(cr_blob_create_typed(&shape, type, type, &s->gain));
  return cr_host_write(s->gain->data, to);
}

/* Takes the matrix from a BlobProto; its number of values must be a square. */
static crema_status take_gain(cr_layer *layer, const Caffe__BlobProto *proto) {
  const size_t count = proto->n_data ? proto->n_data : proto->n_double_data;
  cr_host_results to;
  CR_TRY(make_gain(layer, count, &to));
  for (size_t i = 0; i < count; ++i) {
    cr_host_put(&to, (int64_t)i, proto->n_data ? (double)proto->data[i] : proto->double_data[i]);
  }
  return CREMA_OK;
}

/* A matrix with a weight for each label: loss = mean of -weight[label] log(softmax(scores)[label]).
 */
static crema_status weight_classes(cr_layer *layer, const Caffe__LossParameter *param) {
  const size_t classes = param->n_class_weighting;
  infogain_state *s = layer->state;
  cr_host_results to;
  if (classes > MOST_WEIGHTED) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "class_weighting has %zu values, %d are the most",
                         classes, MOST_WEIGHTED);
  }
  s->diagonal = true;
  CR_TRY(make_gain(layer, classes * classes, &to));
  for (size_t i = 0; i < classes * classes; ++i) {
    const size_t row = i / classes;
    cr_host_put(&to, (int64_t)i, row == i % classes ? (double)param->class_weighting[row] : 0);
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
  return cr_fail_in(status, "layer '%s' (%s): the infogain matrix", layer->name, layer->kind->type);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__InfogainLossParameter *param = layer->param->infogain_loss_param;
  const Caffe__LossParameter *loss = layer->param->loss_param;
  (void)bottom, (void)top;
  CR_TRY(cr_layer_loss_read(layer, layer->state, CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID));
  if (layer->bottoms > 2) return CREMA_OK;
  if (param != NULL && param->source != NULL && *param->source != '\0') {
    return read_gain(layer, param->source);
  }
  if (loss != NULL && loss->n_class_weighting > 0) return weight_classes(layer, loss);
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "the infogain matrix is missing: give it as third bottom, as source or, for "
                       "a diagonal one, as class_weighting");
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
  return CR_LAYER_MAKE(layer, &s->add_rows, &desc, &gain, &sums);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__InfogainLossParameter *param = layer->param->infogain_loss_param;
  const infogain_state *s = layer->state;
  const crema_shape *scores = &bottom[0]->shape;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, scores, param ? param->axis : 1, "axis", &axis));
  const int64_t classes = scores->dim[axis], gains = crema_blob_count(gain_of(layer, bottom));
  CR_TRY(cr_softmax_loss_make(layer, bottom, top, axis, true, false));
  if (gains != classes * classes && s->diagonal) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "class_weighting has %zu values for %lld classes",
                         layer->param->loss_param->n_class_weighting, (long long)classes);
  }
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
    CR_TRY(CR_LAYER_RUN(&s->add_rows, context, gain, s->sums));
  }
  return cr_softmax_loss_run_back(layer, context, top, propagate_down, bottom, gain, s->sums);
}

static void destroy(cr_layer *layer) {
  infogain_state *s = layer->state;
  crema_blob_destroy(s->gain);
}

const cr_layer_class cr_layer_infogain_loss = {
    CR_LAYER_SOFTMAX_LOSS("InfogainLoss", 3, 2),
    .graph.takes_softmax = true,
    .state_size = sizeof(infogain_state),
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
