/* Correlation: compares the patches of two maps (Dosovitskiy et al., "FlowNet", 2015).
 *
 * Formula: y[d] at (i, j) = mean over channels and the kernel_size^2 positions of a patch of a b
 * or, with SUBTRACT, |a - b|. The patch of a begins at stride_1 (i, j) + max_displacement - pad.
 * The patch of b is displaced by d, in steps of stride_2 up to max_displacement to each side.
 * Outside the maps there are zeros.
 * Shapes: a (N, C, H, W), b (as a) -> y (N, D^2, H', W'), D = 2 floor(max_displacement / stride_2)
 * + 1, H' = ceil((H + 2 pad - 2 max_displacement - kernel_size + 1) / stride_1). W' is computed
 * alike.
 * Fields: correlation_param.
 * Caffe: as in FlowNet, where SUBTRACT has another gradient: the sign of a - b at one position.
 * Example, a 1 2 6 6, b 1 2 6 6:
 *   layer { name: "corr" type: "Correlation" bottom: "a" bottom: "b" top: "y"
 *     correlation_param { pad: 2 kernel_size: 1 max_displacement: 2 stride_2: 2 } } */
#include "layers/common/layer_correlation.h"

const cr_layer_class cr_layer_correlation = {
    CR_LAYER_CORRELATION("Correlation", cr_layer_correlation_setup),
};
