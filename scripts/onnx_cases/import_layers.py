"""Single nodes without windows: products, normalizations, recurrent layers."""
import itertools

import numpy
from import_windows import array, grid, label, node_model


def products():
    for c in grid(a=("x", "c"), trans_a=(0, 1), trans_b=(0, 1), alpha=(1.0, 0.5), beta=(1.0, 0.25, 0.0),
                  c=(None, (7,), (1, 7), (1,), (), (5, 7), (5, 1))):
        a = array(6, 5) if c["trans_a"] else array(5, 6)
        b = array(7, 6) if c["trans_b"] else array(6, 7)
        addend = [] if c["c"] is None else [array(*c["c"])]
        attributes = {"transA": c["trans_a"], "transB": c["trans_b"], "alpha": c["alpha"], "beta": c["beta"]}
        model, feed = node_model("Gemm", [a], [b] + addend, **attributes)
        if c["a"] == "c":  # the inputs exchange their places
            model, feed = node_model("Gemm", [b], [a] + addend, **attributes)
            node = model.graph.node[0]
            node.input[0], node.input[1] = node.input[1], node.input[0]
        yield label("Gemm", c), model, feed
    right = [((2, 6), (6, 3)), ((2, 3, 6), (6, 4)), ((2, 3, 4, 6), (6, 5)), ((6,), (6, 5)), ((2, 3, 6), (6,)),
             ((2, 3, 6), (1, 6, 2)), ((2, 3, 6), (2, 6, 2))]
    for x, weights in right:
        yield (label("MatMul", {"x": x, "right": weights}), *node_model("MatMul", [array(*x)], [array(*weights)]))
    for weights, x in (((5, 6), (6, 3)), ((5, 6), (2, 6, 3)), ((5, 6), (2, 3, 6, 4)), ((6,), (2, 6, 3)), ((6,), (6, 3)), ((1, 5, 6), (2, 6, 3))):
        model, feed = node_model("MatMul", [array(*x)], [array(*weights)])
        model.graph.node[0].input[:] = ["c0", "x0"]
        yield label("MatMul", {"left": weights, "x": x}), model, feed
    yield "MatMul activations", *node_model("MatMul", [array(2, 3, 4), array(2, 4, 5)], [])


def normalizations():
    for shape, opset in itertools.product(((2, 6), (2, 6, 5), (2, 6, 5, 4), (2, 6, 3, 4, 5)), (7, 9, 14, 15)):
        values = [array(6), array(6), array(6), numpy.abs(array(6)) + 0.1]
        yield (label("BatchNormalization", {"shape": shape, "opset": opset}),
               *node_model("BatchNormalization", [array(*shape)], values, opset=opset, epsilon=0.01))
        if len(shape) > 2:
            yield (label("InstanceNormalization", {"shape": shape}),
                   *node_model("InstanceNormalization", [array(*shape)], values[:2], epsilon=0.001))
            for axes in (None, [2, 3], [1, 2, 3], [0, 2, 3], [0, 1]):
                if len(shape) == 4:
                    yield (label("MeanVarianceNormalization", {"axes": axes}),
                           *node_model("MeanVarianceNormalization", [array(*shape)], [], axes=axes))
            for groups, version in itertools.product((1, 2, 3, 6), (18, 21)):
                size = groups if version == 18 else 6
                yield (label("GroupNormalization", {"shape": shape, "groups": groups, "opset": version}),
                       *node_model("GroupNormalization", [array(*shape)], [array(size), array(size)], opset=version,
                                   num_groups=groups))
            for size, alpha in itertools.product((1, 2, 3, 5), (0.1, 1.0)):
                if len(shape) == 4:
                    yield (label("LRN", {"shape": shape, "size": size, "alpha": alpha}),
                           *node_model("LRN", [array(*shape)], [], size=size, alpha=alpha, bias=2.0, beta=0.5))
        for axis in range(-1, len(shape)):
            size = shape[axis:]
            for bias in (0, 1):
                yield (label("LayerNormalization", {"shape": shape, "axis": axis, "bias": bias}),
                       *node_model("LayerNormalization", [array(*shape)], [array(*size)] * (1 + bias), opset=17, axis=axis))
            for p in (1, 2):
                yield (label("LpNormalization", {"shape": shape, "axis": axis, "p": p}),
                       *node_model("LpNormalization", [array(*shape)], [], axis=axis, p=p))


def recurrent():
    for c in grid(direction=("forward", "reverse", "bidirectional"), steps=(1, 4), bias=(0, 1), states=(0, 1)):
        both = 2 if c["direction"] == "bidirectional" else 1
        constants = [array(both, 20, 3), array(both, 20, 5), array(both, 40) if c["bias"] else None]
        if c["states"]:
            constants += [numpy.full(2, c["steps"], numpy.int32), array(both, 2, 5), array(both, 2, 5)]
        yield (label("LSTM", c), *node_model("LSTM", [array(c["steps"], 2, 3)], constants, outputs=3, hidden_size=5,
                                             direction=c["direction"]))
    constants = [array(1, 20, 3), array(1, 20, 5)]
    yield ("LSTM activations", *node_model("LSTM", [array(3, 2, 3)], constants, hidden_size=5, activations=["Sigmoid", "Tanh", "Relu"]))
    yield ("LSTM standard", *node_model("LSTM", [array(3, 2, 3)], constants, hidden_size=5, activations=["Sigmoid", "Tanh", "Tanh"]))
    yield ("LSTM clip", *node_model("LSTM", [array(3, 2, 3)], constants, hidden_size=5, clip=1.0))


def regions():
    corners = numpy.array([[0, 0, 5, 5], [2, 1, 9, 11], [3, 3, 3.5, 3.2], [4.6, 2.2, 12, 12]], numpy.float32)
    images = numpy.array([0, 1, 1, 0])
    for c in grid(pooled=((1, 1), (2, 3), (4, 4)), scale=(1.0, 0.5)):
        boxes = numpy.concatenate([images[:, None].astype(numpy.float32), corners], 1)
        yield (label("MaxRoiPool", c), *node_model("MaxRoiPool", [array(2, 3, 12, 12)], [boxes], pooled_shape=c["pooled"],
                                                   spatial_scale=c["scale"]))
        for ratio, opset in itertools.product((0, 1, 2), (10, 16)):
            mode = "output_half_pixel" if opset == 16 else None
            yield (label("RoiAlign", {**c, "ratio": ratio, "opset": opset}),
                   *node_model("RoiAlign", [array(2, 3, 12, 12)], [corners, images], output_height=c["pooled"][0], opset=opset,
                               output_width=c["pooled"][1], spatial_scale=c["scale"], sampling_ratio=ratio,
                               coordinate_transformation_mode=mode))


def models():
    yield from regions()
    yield from recurrent()
    yield from products()
    yield from normalizations()
