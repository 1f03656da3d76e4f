"""Values moved between axes, windows of values, pyramids, and channels scaled and added."""
import itertools


def channels():
    """ShuffleChannel, Reorg and Axpy."""
    for group, shape in itertools.product((1, 2, 3, 6), ((2, 6), (2, 6, 3), (1, 12, 3, 4), (2, 6, 2, 2, 2))):
        yield ("shuffle %d groups of %s" % (group, "x".join(map(str, shape))),
               "layer { name: 's' type: 'ShuffleChannel' bottom: 'x' top: 'y' shuffle_channel_param { group: %d } }"
               % group, {"x": shape})
    for stride, reverse, factor in itertools.product((1, 2, 3), ("false", "true"), (1, 2)):
        side = 1 if reverse == "true" else stride
        yield ("reorg %d, reverse %s, factor %d" % (stride, reverse, factor),
               "layer { name: 'r' type: 'Reorg' bottom: 'x' top: 'y' reorg_param { stride: %d reverse: %s } }"
               % (stride, reverse), {"x": (2, factor * stride * stride, 2 * side, 3 * side)})
    for scale, shape in (((2, 3), (2, 3, 4, 4)), ((2, 3, 1, 1), (2, 3, 4, 4)), ((2, 3), (2, 3)), ((2, 3), (2, 3, 5)),
                         ((2, 3, 1), (2, 3, 2, 2, 2))):
        yield ("axpy %s of %s" % ("x".join(map(str, scale)), "x".join(map(str, shape))),
               "layer { name: 'a' type: 'Axpy' bottom: 'a' bottom: 'x' bottom: 'z' top: 'y' }",
               {"a": scale, "x": shape, "z": shape})


def windows():
    """Im2col and Local."""
    for kernel, stride, pad, dilation in itertools.product((1, 2, 3), (1, 2), (0, 1), (1, 2)):
        yield ("im2col %d stride %d pad %d dilation %d" % (kernel, stride, pad, dilation),
               "layer { name: 'c' type: 'Im2col' bottom: 'x' top: 'y' convolution_param { kernel_size: %d stride: %d "
               "pad: %d dilation: %d } }" % (kernel, stride, pad, dilation), {"x": (2, 3, 7, 6)})
    for axis, shape, kernel in ((1, (2, 3, 9), 1), (1, (1, 2, 4, 5, 4), 3), (2, (2, 2, 3, 6, 5), 2), (-2, (2, 3, 6), 1),
                                (-3, (2, 2, 3, 5, 5), 2), (0, (3, 6, 5), 2)):
        yield ("im2col of axis %d in %d axes" % (axis, len(shape)),
               "layer { name: 'c' type: 'Im2col' bottom: 'x' top: 'y' convolution_param { axis: %d %s } }"
               % (axis, "kernel_size: 2 " * kernel), {"x": shape})
    yield ("im2col over 4 axes",
           "layer { name: 'c' type: 'Im2col' bottom: 'x' top: 'y' convolution_param { kernel_size: 2 } }",
           {"x": (1, 1, 3, 3, 3, 3)}, {"rejected": "Conv has no window"})
    for kind, kernel, stride, pad, bias in itertools.product(
            (("Local", "local_param"), ("LocalConvolution", "local_convolution_param")), (1, 3), (1, 2), (0, 1),
            ("true", "false")):
        yield ("%s %d stride %d pad %d bias %s" % (kind[0], kernel, stride, pad, bias),
               "layer { name: 'l' type: '%s' bottom: 'x' top: 'y' %s { num_output: 4 kernel_size: %d stride: %d "
               "pad: %d bias_term: %s weight_filler { type: 'xavier' } } }" % (*kind, kernel, stride, pad, bias),
               {"x": (2, 3, 6, 5)})
    yield ("regions with their own weights",
           "layer { name: 'l' type: 'LocalConvolution' bottom: 'x' top: 'y' local_conv_param { num_output: 2 "
           "kernel_size: 3 local_region_number: 2 local_region_ratio: 0.5 local_region_step: 3 } }",
           {"x": (1, 2, 8, 8)}, {"rejected": "local_convolution_param"})


def pyramids():
    """SPP."""
    for height, pool, shape in itertools.product((1, 2, 3), ("MAX", "AVE"), ((2, 3, 9, 9), (1, 2, 8, 8), (2, 2, 7, 10),
                                                                             (1, 3, 12, 7))):
        yield ("pyramid of %d levels, %s, %s" % (height, pool, "x".join(map(str, shape))),
               "layer { name: 's' type: 'SPP' bottom: 'x' top: 'y' spp_param { pyramid_height: %d pool: %s } }"
               % (height, pool), {"x": shape})


def cases():
    """All cases of the family."""
    yield from channels()
    yield from windows()
    yield from pyramids()
