/* Correlation1D: compares the patches of two maps in the same rows (Mayer et al., "A Large Dataset
 * to Train Convolutional Networks for Disparity, Optical Flow, and Scene Flow Estimation", 2016).
 *
 * Formula: y[d] at (i, j) = mean over channels and the kernel_size^2 positions of a patch of a b
 * or, with SUBTRACT, |a - b|. The patch of a begins at (stride_1 i, stride_1 j + max_displacement -
 * pad). The patch of b is displaced by d columns. Outside the maps there are zeros.
 * With r = floor(max_displacement / stride_2), d / stride_2 goes from -r to r. With
 * single_direction 1 it goes from 0 to r, and with -1 from -r - 1 to -1.
 * Shapes: a (N, C, H, W), b (as a) -> y (N, D, H', W'), with D = 2 r + 1, or r + 1 with a
 * single_direction. H' = ceil((H - kernel_size + 1) / stride_1), W' = ceil((W + 2 pad - 2
 * max_displacement - kernel_size + 1) / stride_1).
 * Fields: correlation_param.
 * Caffe: as in DispNet and FlowNet 2.0. If a displacement leaves the padded row, they read from the
 * end of the row above; here there are zeros. Their SUBTRACT has another gradient: the sign of
 * a - b at one position.
 * Example, a 1 2 6 6, b 1 2 6 6:
 *   layer { name: "corr" type: "Correlation1D" bottom: "a" bottom: "b" top: "y"
 *     correlation_param { pad: 2 kernel_size: 1 max_displacement: 2 single_direction: -1 } } */
#include "layers/common/layer_correlation.h"

const cr_layer_class cr_layer_correlation_1d = {
    CR_LAYER_CORRELATION("Correlation1D", cr_layer_correlation_1d_setup),
};
