/* What losses have in common: a sum over places, divided by a normaliser, in a scalar top. */
#ifndef CR_LAYERS_LAYER_LOSS_H
#define CR_LAYERS_LAYER_LOSS_H

#include "layers/common/layer_op.h"

typedef struct cr_layer_loss {
  bool has_ignore;
  int ignore;
  int normalization;      /* CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__... */
  double divisor;         /* when it does not depend on the labels, else 0 */
  cr_tensor *sum, *count; /* of the pass: what the loss's op writes */
  cr_layer_op scale;
} cr_layer_loss;

/* Reads loss_param: ignore_label, normalization, the legacy normalize; `fallback` is the
 * normalisation when neither is given. Errors: CREMA_E_UNSUPPORTED for label_smoothing. */
crema_status cr_layer_loss_read(cr_layer *layer, cr_layer_loss *loss, int fallback) CREMA_MUST_USE;

/* Shapes `top` as a scalar; `outer` and `places` are the numbers that BATCH_SIZE and FULL
 * divide by. */
crema_status cr_layer_loss_reshape(cr_layer *layer, cr_layer_loss *loss, crema_blob *top,
                                   int64_t outer, int64_t places) CREMA_MUST_USE;

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
                                  float *out) CREMA_MUST_USE;

/* Fails when a gradient of bottom `index` is asked for. */
crema_status cr_layer_loss_refuse(const cr_layer *layer, const bool *propagate_down,
                                  int index) CREMA_MUST_USE;

/* Scores of shape (outer, C, inner) around `axis` need one label a place and, when both have axes,
 * the same first extent. */
crema_status cr_layer_loss_labels(const cr_layer *layer, const crema_shape *scores,
                                  const crema_shape *labels,
                                  const crema_shape *folded) CREMA_MUST_USE;

#endif
