"""Coordinate maps between tops, for cropping the tops of fully convolutional nets to each other.

A map is (axis, a, b). Coordinate x of a layer's top corresponds to coordinate (x - b) / a of its bottom, along all
spatial axes starting at `axis`. `axis` None means that the layer keeps coordinates.
"""
import numpy as np

from .net_spec import layers

PASS_THROUGH_LAYERS = ["AbsVal", "BatchNorm", "Bias", "BNLL", "Dropout", "Eltwise", "ELU", "Exp", "Log",
                       "LRN", "MVN", "Power", "PReLU", "ReLU", "Scale", "Sigmoid", "Split", "TanH",
                       "Threshold"]


class UndefinedMapException(Exception):
    """Raised for a layer that has no coordinate map."""


class AxisMismatchException(Exception):
    """Raised if two layers work along different axes."""


def conv_params(fn):
    """(axis, stride, extent of the dilated kernel, pad) of a convolution-like layer."""
    given = fn.params.get("convolution_param", fn.params)
    separate = {"pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w"} & set(fn.params)
    if separate:
        raise AssertionError("cropping does not support legacy _h/_w params")
    kernel = np.array(given["kernel_size"], ndmin=1)
    dilation = np.array(given.get("dilation", 1), ndmin=1)
    return (given.get("axis", 1), np.array(given.get("stride", 1), ndmin=1),
            (kernel - 1) * dilation + 1, np.array(given.get("pad", 0), ndmin=1))


def crop_params(fn):
    """(axis, offset) of a Crop layer."""
    given = fn.params.get("crop_param", fn.params)
    return given.get("axis", 2), np.array(given.get("offset", 0), ndmin=1)


def coord_map(fn):
    """The map of one layer. Raises UndefinedMapException if it has none."""
    if fn.type_name in ("Convolution", "Pooling", "Im2col"):
        axis, stride, extent, pad = conv_params(fn)
        return axis, 1 / stride, (pad - (extent - 1) / 2) / stride
    if fn.type_name == "Deconvolution":
        axis, stride, extent, pad = conv_params(fn)
        return axis, stride, (extent - 1) / 2 - pad
    if fn.type_name in PASS_THROUGH_LAYERS:
        return None, 1, 0
    if fn.type_name == "Crop":
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset
    raise UndefinedMapException(fn.type_name)


def compose(base_map, next_map):
    """The composition of two maps. Raises AxisMismatchException if their axes differ."""
    axis1, a1, b1 = base_map
    axis2, a2, b2 = next_map
    if axis1 is not None and axis2 is not None and axis1 != axis2:
        raise AxisMismatchException
    return axis2 if axis1 is None else axis1, a1 * a2, a1 * b2 + b1


def inverse(some_map):
    """The inverse of a map."""
    axis, a, b = some_map
    return axis, 1 / a, -b / a


def _bottoms(top):
    """The bottoms that determine a top's coordinates. For a Crop layer this is only the first one."""
    return top.fn.inputs[:1] if top.fn.type_name == "Crop" else top.fn.inputs


def _walk(start, found):
    """Visits the tops that `start` depends on and computes their maps from it, until `found(top, maps)` is true.
    Returns the last top and the maps."""
    maps, frontier = {start: (None, 1, 0)}, {start}
    while frontier:
        top = frontier.pop()
        if found(top, maps):
            return top, maps
        try:
            through = coord_map(top.fn)
        except UndefinedMapException:
            continue
        for bottom in _bottoms(top):
            maps[bottom] = compose(maps[top], through)
            frontier.add(bottom)
    return None, maps


def coord_map_from_to(top_from, top_to):
    """The map between two tops that have a common ancestor. Raises RuntimeError if they have none."""
    _, from_maps = _walk(top_from, lambda top, maps: False)
    common, to_maps = _walk(top_to, lambda top, maps: top in from_maps)
    if common is None:
        raise RuntimeError("Could not compute map between tops; are they connected by spatial layers?")
    return compose(to_maps[common], inverse(from_maps[common]))


def crop(top_from, top_to):
    """A Crop layer that crops `top_from` to the area of `top_to`."""
    axis, a, b = coord_map_from_to(top_from, top_to)
    if not np.all(np.asarray(a) == 1):
        raise AssertionError("scale mismatch on crop (a = {})".format(a))
    if not np.all(np.asarray(b) <= 0):
        raise AssertionError("cannot crop negative offset (b = {})".format(b))
    if not np.all(np.round(b) == b):
        raise AssertionError("cannot crop noninteger offset (b = {})".format(b))
    offset = [int(-x) for x in np.atleast_1d(np.round(b))]
    return layers.Crop(top_from, top_to, crop_param=dict(axis=axis + 1, offset=offset))
