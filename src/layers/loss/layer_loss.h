/* The common part of losses: a sum over positions, divided by a normaliser, in a scalar top.
 *
 * Most are one op forward, which writes CR_LOSS_SUM and, where labels can be ignored,
 * CR_LOSS_COUNT, and one op backward, which reads the top's diff and is scaled by 1 / divisor. */
#ifndef CR_LAYERS_LAYER_LOSS_H
#define CR_LAYERS_LAYER_LOSS_H

#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

/* Operands of a loss's ops: the sum of the pass, and the number of counted positions. */
#define CR_LOSS_SUM CR_OWN0
#define CR_LOSS_COUNT CR_OWN1

typedef struct cr_layer_loss {
  cr_layer_pair pair; /* pair.own[0]: the sum, own[1]: the count of the pass */
  bool has_ignore;
  int ignore;
  int normalization; /* CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__... */
  double divisor;    /* if it does not depend on the labels, else 0 */
  cr_layer_op scale;
} cr_layer_loss;

/* A loss of scores via their softmax. A second top gets the probabilities. */
typedef struct cr_softmax_loss {
  cr_layer_loss loss;
  cr_tensor *prob; /* NULL: there is no second top */
  cr_layer_op forward, backward;
} cr_softmax_loss;

/* Reads loss_param: ignore_label, normalization, the legacy normalize; `fallback` is the
 * normalisation when neither is given. Errors: CREMA_E_UNSUPPORTED for label_smoothing. */
crema_status cr_layer_loss_read(cr_layer *layer, cr_layer_loss *loss, int fallback) CREMA_MUST_USE;

/* Shapes `top` as a scalar; `outer` and `positions` are the numbers that BATCH_SIZE and FULL
 * divide by. */
crema_status cr_layer_loss_reshape(cr_layer *layer, cr_layer_loss *loss, crema_blob *top,
                                   int64_t outer, int64_t positions) CREMA_MUST_USE;

/* As cr_layer_loss_reshape for a loss that always divides by `divisor`. */
crema_status cr_layer_loss_fix(cr_layer *layer, cr_layer_loss *loss, crema_blob *top,
                               double divisor) CREMA_MUST_USE;

/* The divisor of the pass whose counts are in loss->count; never below 1 unless it was fixed. */
crema_status cr_layer_loss_divisor(const cr_layer_loss *loss, double *out) CREMA_MUST_USE;

/* top = loss->sum / divisor. */
crema_status cr_layer_loss_finish(cr_layer_loss *loss, crema_context *context,
                                  crema_blob *top) CREMA_MUST_USE;

/* The loss weight that the net has put into the diff of the scalar `top`, over the divisor. */
crema_status cr_layer_loss_factor(const cr_layer_loss *loss, crema_blob *top,
                                  double *out) CREMA_MUST_USE;

/* The gradients of a loss of the difference of two bottoms: `factor` times `from` for the first,
 * and for the second the same below 0. `scale` is an op CR_OP_AXPBY. */
crema_status cr_layer_loss_difference(cr_layer_op *scale, crema_context *context, cr_tensor *from,
                                      double factor, const bool *propagate_down,
                                      crema_blob *const *bottom) CREMA_MUST_USE;

/* Fails if the gradient of a bottom that has none (class->no_gradient_bottoms) is required. */
crema_status cr_layer_loss_refuse(const cr_layer *layer, const bool *propagate_down) CREMA_MUST_USE;

/* Scores of shape (outer, C, inner) around `axis` need one label per position and, when both have
 * axes, the same first extent. */
crema_status cr_layer_loss_labels(const cr_layer *layer, const crema_shape *scores,
                                  const crema_shape *labels,
                                  const crema_shape *folded) CREMA_MUST_USE;

/* Checks the scores (bottom 0) and labels (bottom 1) of a softmax loss over `axis`, shapes the
 * first two tops and makes both ops. `gains`: of a matrix with a weight for each pair of classes;
 * `each`: with the loss of each position. */
crema_status cr_softmax_loss_make(cr_layer *layer, crema_blob *const *bottom,
                                  crema_blob *const *top, int axis, bool gains,
                                  bool each) CREMA_MUST_USE;

/* Both passes. `gain`, the sums of its rows, and `each` are NULL if cr_softmax_loss_make got false
 * for them. */
crema_status cr_softmax_loss_run(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                                 crema_blob *const *top, cr_tensor *gain,
                                 cr_tensor *each) CREMA_MUST_USE;
crema_status cr_softmax_loss_run_back(cr_layer *layer, crema_context *context,
                                      crema_blob *const *top, const bool *propagate_down,
                                      crema_blob *const *bottom, cr_tensor *gain,
                                      cr_tensor *sums) CREMA_MUST_USE;

/* Class functions. */
cr_layer_forward_fn cr_layer_loss_forward;
/* If two bottoms have a gradient, the second gradient is the op's result times -1. */
cr_layer_backward_fn cr_layer_loss_backward;
bool cr_layer_loss_uses_bottom(const cr_layer *layer, int bottom);
/* The backward pass of a softmax loss reads its second top, or without one the scores. */
bool cr_softmax_loss_uses_bottom(const cr_layer *layer, int bottom);
cr_value_use cr_softmax_loss_uses_tops(const cr_layer *layer, bool in_place);

/* The members that classes of losses set. */
#define CR_LAYER_LOSS(type_name, least_bottoms, most_bottoms, most_tops)               \
  .type = type_name, .bottoms = {least_bottoms, most_bottoms}, .tops = {1, most_tops}, \
  .graph.auto_tops = true, .loss = true

/* The same for losses of one op forward and one op backward. */
#define CR_LAYER_LOSS_PAIR(type_name, count, table)                                          \
  CR_LAYER_LOSS(type_name, count, count, 1),                                                 \
      .state_size = sizeof(cr_layer_loss), .pair = &table, .forward = cr_layer_loss_forward, \
      .backward = cr_layer_loss_backward, .uses_bottom = cr_layer_loss_uses_bottom

/* The same for losses of scores via their softmax. */
#define CR_LAYER_SOFTMAX_LOSS(type_name, most_bottoms, most_tops)                           \
  CR_LAYER_LOSS(type_name, 2, most_bottoms, most_tops),                                     \
      .graph.reads_loss_param = true, .uses_tops = cr_softmax_loss_uses_tops,               \
      .uses_bottom = cr_softmax_loss_uses_bottom, .no_gradient_bottoms = 1u << 1 | 1u << 2, \
      .graph.integer_bottoms = 1u << 1

#endif
