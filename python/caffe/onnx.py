"""ONNX: nets out to files of the Open Neural Network Exchange, and files in as nets.

    caffe.onnx.export('deploy.prototxt', 'net.onnx', weights='net.caffemodel')
    net = caffe.onnx.load('net.onnx')

``caffe.Net`` and ``caffe.Model`` read files whose names end in .onnx directly. docs/onnx.md lists the layers and
operators.
"""
import os
from typing import NamedTuple

from . import _core
from ._mode import TEST, whole_number
from .pycaffe import Net


class Comparison(NamedTuple):
    """The result of compare: the largest `difference` of an output, relative to the largest absolute value of
    that output, and the name of the `output`; '' if all are equal."""
    difference: float
    output: str


def _read_batch(batch):
    """The argument `batch` as a number (None: the net's) and whether it is symbolic."""
    if batch is None or batch == "dynamic":
        return None, batch is not None
    if isinstance(batch, str):
        raise ValueError("batch: expected a number above 0 or 'dynamic', found %r" % batch)
    size = whole_number("batch", batch)
    if size < 1:
        raise ValueError("batch: expected a number above 0 or 'dynamic', found %d" % size)
    return size, False


def _set_shapes(net, shapes):
    for name, shape in shapes.items():
        net.blobs[name].reshape(*shape)
    net.reshape()


def export(net, path, weights=None, opset=13, batch=None):
    """Writes `net`, a Net of phase TEST or the path of its file, to the ONNX file `path`.

    `weights` is a file to load into the net first. `opset` is the version of ONNX's operators, 11 to 21. `batch` is
    the batch size: a number, ``'dynamic'`` for a symbolic one, or None for the net's; the net keeps its own.
    A layer that ONNX cannot express raises caffe.Error, whose text lists all such layers.
    """
    size, symbolic = _read_batch(batch)
    opset = whole_number("opset", opset)
    if not isinstance(net, Net):
        net = Net(net, TEST)
    if weights is not None:
        net.copy_from(weights)
    kept = {name: tuple(net.blobs[name].shape) for name in net.inputs}
    if size is None:
        _core.onnx_export(net, os.fspath(path), opset, symbolic)
        return
    try:
        _set_shapes(net, {name: (size,) + shape[1:] for name, shape in kept.items() if shape})
        _core.onnx_export(net, os.fspath(path), opset, False)
    finally:
        _set_shapes(net, kept)


def load(path, phase=TEST):
    """Builds a Net, with its weights, from the ONNX file `path`. The name of the file must end in .onnx."""
    if not os.fsdecode(path).endswith(".onnx"):
        raise ValueError("%s: the name of an ONNX file must end in .onnx" % os.fsdecode(path))
    return Net(path, phase)


def convert(path, net_path, weights_path):
    """Writes the ONNX file `path` as a net in prototxt at `net_path` and its weights at `weights_path`."""
    _core.onnx_import(os.fspath(path), os.fspath(net_path), os.fspath(weights_path))


def compare(net, path):
    """Runs `net` and the ONNX file `path` on the same random inputs and compares their outputs. Returns a
    Comparison. The inputs of `net` keep the random numbers."""
    return Comparison(*_core.onnx_compare(net, os.fspath(path)))
