"""Maps sampled at positions that another blob moves, and maps compared at displacements."""
import itertools

import numpy as np


def warped():
    """FlowWarp and SpatialTransformer."""
    for fill, size, shape in itertools.product(("ZERO", "NOT_A_NUMBER"), (0.5, 3, 9), ((2, 3, 5, 6), (1, 1, 1, 7))):
        flow = size * np.random.RandomState(1).standard_normal((shape[0], 2, *shape[2:]))
        yield ("flow of %g in %s, fill %s" % (size, shape, fill),
               "layer { name: 'w' type: 'FlowWarp' bottom: 'x' bottom: 'flow' top: 'y' flow_warp_param { fill_value: %s } }"
               % fill, {"x": shape, "flow": flow.astype(np.float32)})
    for fields, entries in (("", 6), ("output_H: 3 output_W: 8", 6), ("theta_1_1: 0.7 theta_2_2: 1.2", 4),
                            ("theta_1_2: 0 theta_2_1: 0 theta_1_1: 1 theta_2_2: 1", 2),
                            ("output_H: 1 output_W: 1", 6), ("theta_2_3: -0.3", 5)):
        for shape in ((2, 3, 5, 6), (1, 2, 1, 4)):
            yield ("transformed %s by %s" % (shape, fields),
                   "layer { name: 's' type: 'SpatialTransformer' bottom: 'x' bottom: 'theta' top: 'y' st_param { %s } }"
                   % fields, {"x": shape, "theta": (shape[0], entries)})


def deformed():
    """DeformableConvolution."""
    for kernel, stride, pad, dilation, group, own in itertools.product(
            (1, 3), (1, 2), (0, 1), (1, 2), (1, 2), (1, 2)):
        extent = (6 + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        yield ("deformed %d stride %d pad %d dilation %d group %d own %d" % (kernel, stride, pad, dilation, group, own),
               "layer { name: 'd' type: 'DeformableConvolution' bottom: 'x' bottom: 'shift' top: 'y' "
               "deformable_convolution_param { num_output: 4 kernel_size: %d stride: %d pad: %d dilation: %d group: %d "
               "deformable_group: %d bias_term: %s weight_filler { type: 'xavier' } } }"
               % (kernel, stride, pad, dilation, group, own, "true" if stride == 1 else "false"),
               {"x": (2, 4, 6, 6), "shift": (2, 2 * own * kernel * kernel, extent, extent)})


def compared():
    """Correlation and Correlation1D."""
    for kind, pad, kernel, most, first, second in itertools.product(
            ("MULTIPLY", "SUBTRACT"), (0, 2, 5), (1, 3), (0, 2), (1, 2), (1, 2)):
        if 9 + 2 * pad - 2 * most - kernel + 1 < 1:
            continue
        yield ("correlation %s pad %d kernel %d displacement %d strides %d %d" % (kind, pad, kernel, most, first, second),
               "layer { name: 'c' type: 'Correlation' bottom: 'a' bottom: 'b' top: 'y' correlation_param { pad: %d "
               "kernel_size: %d max_displacement: %d stride_1: %d stride_2: %d correlation_type: %s } }"
               % (pad, kernel, most, first, second, kind), {"a": (2, 3, 9, 10), "b": (2, 3, 9, 10)})
    for direction, pad, kernel, first, second in itertools.product((-1, 0, 1), (0, 3), (1, 3), (1, 2), (1, 2)):
        yield ("rows %d pad %d kernel %d strides %d %d" % (direction, pad, kernel, first, second),
               "layer { name: 'c' type: 'Correlation1D' bottom: 'a' bottom: 'b' top: 'y' correlation_param { pad: %d "
               "kernel_size: %d max_displacement: 3 stride_1: %d stride_2: %d single_direction: %d } }"
               % (pad, kernel, first, second, direction), {"a": (2, 2, 8, 11), "b": (2, 2, 8, 11)})


def cases():
    """All cases of the family."""
    yield from warped()
    yield from deformed()
    yield from compared()
