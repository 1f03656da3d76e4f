/* The gradients of weights and bias; the solver may need either, both or none. */
#ifndef CR_LAYERS_LAYER_WEIGHTS_H
#define CR_LAYERS_LAYER_WEIGHTS_H

#include "layers/common/layer_op.h"

/* Ops for layers whose parameter 0 is the weights and parameter 1, if there is one, a bias with
 * one value per channel of the top. Zero-initialised: none yet. */
typedef struct cr_layer_weights {
  /* The op's source is the top and its result the bottom (Deconvolution): set before the ops are
   * made. */
  bool transposed;
  cr_layer_op both;    /* of weights and bias; not if transposed */
  cr_layer_op weights; /* of the weights only */
  cr_layer_op bias;    /* of the bias only */
} cr_layer_weights;

/* Gives a layer parameter 0 and, unless `bias` is NULL, parameter 1, with their fillers. */
crema_status cr_layer_weights_add(cr_layer *layer, const crema_shape *weights,
                                  const Caffe__FillerParameter *weight_filler,
                                  const crema_shape *bias,
                                  const Caffe__FillerParameter *bias_filler) CREMA_MUST_USE;

/* The op for the gradient of the bias only, from the top's gradient (N, O, S...). Its run adds to
 * the diff of parameter 1 if layer->param_propagate_down requests it. */
crema_status cr_layer_weights_make_bias(cr_layer *layer, cr_layer_op *op, const crema_shape *top,
                                        const crema_shape *bias) CREMA_MUST_USE;
crema_status cr_layer_weights_run_bias(cr_layer *layer, cr_layer_op *op, crema_context *context,
                                       cr_tensor *diff_top) CREMA_MUST_USE;

/* Makes the ops. `desc` describes the layer's weight gradient (arguments src, diff_dst,
 * diff_weights, diff_bias or absent); the top is (N, O, S...); bias NULL: there is none. */
crema_status cr_layer_weights_make(cr_layer *layer, cr_layer_weights *ops, const cr_op_desc *desc,
                                   const crema_shape *src, const crema_shape *dst,
                                   const crema_shape *weights,
                                   const crema_shape *bias) CREMA_MUST_USE;

/* Adds to the diffs of the parameters in layer->param_propagate_down, except to a bias whose
 * gradient the layer's `rectifier` computes. */
crema_status cr_layer_weights_run(cr_layer_weights *ops, cr_layer *layer, crema_context *context,
                                  cr_tensor *src, cr_tensor *diff_dst) CREMA_MUST_USE;

/* Class function: backward reads the bottoms for the weights' gradient. */
bool cr_layer_weights_uses_bottom(const cr_layer *layer, int bottom);

#endif
