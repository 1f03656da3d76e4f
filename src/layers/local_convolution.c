/* LocalConvolution: a convolution with other weights at each position (Taigman et al.,
 * "DeepFace", 2014), or in each region of the map.
 *
 * Formula: with local_convolution_param, y[o][p] = bias[o][p] + sum over k of weights[o][k][p]
 * w[k][p]. The values w[k][p] are the window at position p, K = C kernel^2 of them.
 * With local_conv_param, the map has R_h x R_w regions of floor(ratio H) x floor(ratio W) pixels,
 * which may overlap. Along an axis they begin at 0, step, 2 step, ... in the first half, and are
 * mirrored in the second half; a middle region is in the middle. Region l is convolved with weights
 * l and bias l. The results are side by side in y, in the order of the regions.
 * Shapes: x (N, C, H, W) -> y (N, O, H', W'), as Convolution. Parameters: 0 weights (O, 1, K, P),
 * 1 bias (1, 1, O, P), with P = H' W'. With local_conv_param, y (N, O, R_h h', R_w w'), with h' and
 * w' as Convolution of a region. Parameters: 0 weights (R_h R_w, O C / group, kernel_h, kernel_w),
 * 1 bias (R_h R_w, O, 1, 1).
 * Fields: local_convolution_param, local_conv_param.
 * Caffe: as in the forks that have either field, for one bottom and, with the first, one group.
 * Example, x 2 3 5 5:
 *   layer { name: "local" type: "LocalConvolution" bottom: "x" top: "y"
 *     local_convolution_param { num_output: 4 kernel_size: 3 } } */
#include "core/fail.h"
#include "layers/common/layer_local.h"
#include "layers/common/layer_regions.h"

typedef struct local_state {
  cr_layer_local_conv positions; /* must be the first member */
  cr_layer_regions regions;
  bool in_regions;
} local_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  local_state *s = layer->state;
  const Caffe__LayerParameter *param = layer->param;
  (void)top;
  s->in_regions = param->local_conv_param != NULL;
  if (s->in_regions && param->local_convolution_param != NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "local_conv_param and local_convolution_param exclude each other");
  }
  if (s->in_regions) return cr_layer_regions_setup(layer, &s->regions, &bottom[0]->shape);
  return cr_layer_local_conv_setup(layer, bottom, "local_convolution_param",
                                   param->local_convolution_param);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  local_state *s = layer->state;
  if (s->in_regions) return cr_layer_regions_reshape(layer, &s->regions, bottom, top);
  return cr_layer_local_conv_reshape(layer, bottom, top);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  local_state *s = layer->state;
  if (!s->in_regions) return cr_layer_local_conv_forward(layer, context, bottom, top);
  return cr_layer_regions_forward(layer, &s->regions, context, bottom[0]->data, top[0]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  local_state *s = layer->state;
  if (!s->in_regions) {
    return cr_layer_local_conv_backward(layer, context, top, propagate_down, bottom);
  }
  return cr_layer_regions_backward(layer, &s->regions, context, top[0]->diff,
                                   propagate_down[0] ? bottom[0]->diff : NULL);
}

const cr_layer_class cr_layer_local_convolution = {
    CR_LAYER_OF_OPS("LocalConvolution", sizeof(local_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .fusion.reach = cr_layer_reaches_sample,
};
