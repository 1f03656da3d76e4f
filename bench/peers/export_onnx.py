#!/usr/bin/env python3
"""Writes a net of Caffe as ONNX for other runtimes: export_onnx.py NET.prototxt OUT.onnx [WEIGHTS]

Without WEIGHTS, the parameters are random. Each layer becomes the node that it is, BatchNorm and
Scale one BatchNormalization: what can be folded or fused is left to the runtime. The batch is
free. With another net than those under models/, a layer may not be known here.
"""
import math
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import crema
import prototxt

EPSILON = 1e-5


class Graph:
    def __init__(self, net, params):
        self.net, self.params = net, params
        self.nodes, self.constants, self.name_of = [], [], {}
        self.versions = {}
        self.fold = {}  # BatchNorm's top -> its parameters, until the Scale behind it comes

    def read(self, blob):
        """The ONNX name of what the blob holds now: layers in place give a new one."""
        return self.name_of[blob]

    def write(self, blob):
        self.versions[blob] = self.versions.get(blob, 0) + 1
        self.name_of[blob] = blob if self.versions[blob] == 1 else f"{blob}#{self.versions[blob]}"
        return self.name_of[blob]

    def constant(self, name, values):
        self.constants.append(numpy_helper.from_array(numpy.ascontiguousarray(values), name))
        return name

    def add(self, kind, layer, inputs, **attributes):
        inputs = [self.read(b) for b in layer["bottom"]] + inputs
        self.nodes.append(helper.make_node(kind, inputs, [self.write(layer.one("top"))],
                                           name=layer.one("name"), **attributes))

    def weights(self, layer):
        name = layer.one("name")
        return [self.constant(f"{name}.{i}", blob.read().copy())
                for i, blob in enumerate(self.params.get(name, []))]


def pair(param, name, default):
    """Height and width from kernel_size, kernel_h and so on."""
    short = {"kernel_size": "kernel"}.get(name, name)
    both = param.get(name, [default])
    both = [both[0], both[-1]]
    return [param.one(f"{short}_h", both[0]), param.one(f"{short}_w", both[1])]


def convolution(graph, layer):
    param = layer.part("convolution_param")
    pads = pair(param, "pad", 0)
    graph.add("Conv", layer, graph.weights(layer), kernel_shape=pair(param, "kernel_size", 1), pads=pads + pads,
              strides=pair(param, "stride", 1), dilations=pair(param, "dilation", 1), group=param.one("group", 1))


def inner_product(graph, layer):
    bottom, weights = layer.one("bottom"), graph.weights(layer)
    if len(graph.net.blob(bottom).shape) > 2:
        flat = graph.read(bottom) + ".flat"
        graph.nodes.append(helper.make_node("Flatten", [graph.read(bottom)], [flat], axis=1))
        graph.name_of[bottom] = flat
    graph.add("Gemm", layer, weights, transB=1)


def extra_end(size, kernel, stride, pad):
    """Caffe rounds the number of windows up, so that the last may reach beyond the padding."""
    windows = math.ceil((size + 2 * pad - kernel) / stride) + 1
    if pad > 0 and (windows - 1) * stride >= size + pad:
        windows -= 1
    return max(0, (windows - 1) * stride + kernel - size - 2 * pad)


def pooling(graph, layer):
    param = layer.part("pooling_param")
    largest = param.one("pool", "MAX") == "MAX"
    if param.one("global_pooling", False):
        graph.add("GlobalMaxPool" if largest else "GlobalAveragePool", layer, [])
        return
    kernel, stride, pad = pair(param, "kernel_size", 1), pair(param, "stride", 1), pair(param, "pad", 0)
    sizes = graph.net.blob(layer.one("bottom")).shape[2:]
    extra = [extra_end(sizes[i], kernel[i], stride[i], pad[i]) for i in range(2)]
    more = {} if largest else {"count_include_pad": 1}
    if not largest and any(extra):
        raise NotImplementedError("average over windows that are cut off")
    graph.add("MaxPool" if largest else "AveragePool", layer, [], kernel_shape=kernel, strides=stride,
              pads=pad + [pad[i] + extra[i] for i in range(2)], **more)


def batch_norm(graph, layer):
    mean, variance, factor = (blob.read().ravel().copy() for blob in graph.params[layer.one("name")])
    factor = 1 / factor[0] if factor[0] != 0 else 0
    graph.fold[layer.one("top")] = (mean * factor, variance * factor, layer)
    graph.name_of[layer.one("top")] = graph.read(layer.one("bottom"))


def scale(graph, layer):
    mean, variance, norm = graph.fold.pop(layer.one("bottom"))
    name = norm.one("name")
    gamma, beta = graph.weights(layer)
    inputs = [gamma, beta, graph.constant(f"{name}.mean", mean), graph.constant(f"{name}.variance", variance)]
    graph.add("BatchNormalization", layer, inputs, epsilon=norm.part("batch_norm_param").one("eps", EPSILON))


def clip(graph, layer):
    param, name = layer.part("clip_param"), layer.one("name")
    graph.add("Clip", layer, [graph.constant(f"{name}.{end}", numpy.float32(param.one(end))) for end in ("min", "max")])


def lrn(graph, layer):
    param = layer.part("lrn_param")
    graph.add("LRN", layer, [], size=param.one("local_size", 5), alpha=float(param.one("alpha", 1)),
              beta=float(param.one("beta", 0.75)), bias=float(param.one("k", 1)))


def eltwise(graph, layer):
    param = layer.part("eltwise_param")
    if param.one("operation", "SUM") != "SUM" or "coeff" in param:
        raise NotImplementedError("Eltwise other than a plain sum")
    graph.add("Add", layer, [])


def dropout(graph, layer):
    graph.name_of[layer.one("top")] = graph.read(layer.one("bottom"))


LAYERS = {"Convolution": convolution, "InnerProduct": inner_product, "Pooling": pooling, "BatchNorm": batch_norm,
          "Scale": scale, "Clip": clip, "LRN": lrn, "Eltwise": eltwise, "Dropout": dropout,
          "ReLU": lambda graph, layer: graph.add("Relu", layer, []),
          "Concat": lambda graph, layer: graph.add("Concat", layer, [], axis=1),
          "Softmax": lambda graph, layer: graph.add("Softmax", layer, [], axis=1)}


def export(path, net, out):
    """`net` is a crema.Net of the file at `path`, which gives shapes and weights."""
    text = prototxt.read_net(path)
    graph = Graph(net, net.params())
    for layer in text["layer"]:
        kind = layer.one("type")
        if kind == "Input":
            graph.write(layer.one("top"))
        else:
            LAYERS[kind](graph, layer)
    blob, last = text["layer"][0].one("top"), text["layer"][-1].one("top")
    shape, result = ["batch", *net.input().shape[1:]], ["batch", *net.output().shape[1:]]
    model = helper.make_model(
        helper.make_graph(graph.nodes, text.one("name"),
                          [helper.make_tensor_value_info(blob, TensorProto.FLOAT, shape)],
                          [helper.make_tensor_value_info(graph.read(last), TensorProto.FLOAT, result)], graph.constants),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, out)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    net = crema.Net(sys.argv[1], sys.argv[3] if len(sys.argv) == 4 else None)
    if len(sys.argv) == 3:
        crema.randomise(net, sys.argv[1])
    export(sys.argv[1], net, sys.argv[2])


if __name__ == "__main__":
    main()
