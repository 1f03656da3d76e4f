"""Single nodes with windows: convolutions, transposes, poolings, pads, resizing."""
import itertools

import numpy
from onnx import TensorProto, helper, numpy_helper

RANDOM = numpy.random.default_rng(5)


def array(*shape):
    return RANDOM.normal(0, 1, shape).astype(numpy.float32)


def node_model(op, inputs, constants, opset=13, outputs=1, **attributes):
    """A model of one node: `inputs` and `constants` are lists of arrays, None for an input that is not given."""
    names, feed, initializers = [], {}, []
    for i, values in enumerate(inputs):
        names.append(f"x{i}")
        feed[f"x{i}"] = values
    for i, values in enumerate(constants):
        names.append("" if values is None else f"c{i}")
        if values is not None:
            initializers.append(numpy_helper.from_array(numpy.asarray(values), f"c{i}"))
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name="node", **{k: v for k, v in attributes.items() if v is not None})
    return graph_model([node], feed, results, initializers, opset), feed


def graph_model(nodes, feed, results, initializers, opset):
    kinds = {numpy.dtype("float32"): TensorProto.FLOAT, numpy.dtype("int64"): TensorProto.INT64}
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info(k, kinds[v.dtype], v.shape) for k, v in feed.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def grid(**lists):
    """Dictionaries with one value of each list."""
    for values in itertools.product(*lists.values()):
        yield dict(zip(lists, values))


def label(op, settings):
    return op + " " + " ".join(f"{k}={v}" for k, v in settings.items() if v is not None)


def convolutions():
    for c in grid(kernel=(1, 3, 4), stride=(1, 2, 3), dilation=(1, 2), pads=((0, 0), (1, 1), (0, 1), (2, 1), (0, 3), None),
                  group=(1, 2, 4)):
        same = c["pads"] is None
        pads = None if same else [c["pads"][0], 1, c["pads"][1], 1]
        weights = array(8, 4 // c["group"], c["kernel"], 3)
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID") if same else (None,):
            if same and c["dilation"] > 1:
                continue
            model, feed = node_model("Conv", [array(2, 4, 11, 12)], [weights] + [array(8)] * (c["kernel"] != 4),
                                     strides=[c["stride"], 2], dilations=[c["dilation"], 1], pads=pads, group=c["group"],
                                     auto_pad=auto)
            yield label("Conv", {**c, "auto": auto}), model, feed
    for axes, pads in itertools.product((1, 3), ((0, 0), (1, 1), (0, 2))):
        shape, kernel = (9, 8, 7)[:axes], (3, 2, 3)[:axes]
        model, feed = node_model("Conv", [array(2, 4, *shape)], [array(6, 2, *kernel), array(6)], opset=11, group=2,
                                 pads=[pads[0]] * axes + [pads[1]] * axes, strides=[2] * axes)
        yield label("Conv", {"axes": axes, "pads": pads}), model, feed


def transposes():
    for c in grid(kernel=(1, 2, 3, 4), stride=(1, 2, 3), dilation=(1, 2), pads=((0, 0), (1, 1), (0, 1), (2, 1)), extra=(0, 1),
                  group=(1, 2)):
        if c["extra"] >= c["stride"]:
            continue
        weights = array(4, 3, c["kernel"], 3)
        model, feed = node_model("ConvTranspose", [array(2, 4, 5, 6)], [weights] + [array(3 * c["group"])] * c["extra"],
                                 strides=[c["stride"], 2], dilations=[c["dilation"], 1], group=c["group"],
                                 pads=[c["pads"][0], 1, c["pads"][1], 1], output_padding=[c["extra"], 1])
        yield label("ConvTranspose", c), model, feed
    for c in grid(kernel=(2, 3, 4), stride=(1, 2, 3), auto=("SAME_UPPER", "SAME_LOWER", "VALID")):
        model, feed = node_model("ConvTranspose", [array(1, 2, 5, 6)], [array(2, 3, c["kernel"], c["kernel"])],
                                 strides=[c["stride"]] * 2, auto_pad=c["auto"])
        yield label("ConvTranspose", c), model, feed
    for c in grid(shape=((10, 12), (11, 12), (9, 13), (12, 14)), auto=(None, "SAME_UPPER", "SAME_LOWER")):
        model, feed = node_model("ConvTranspose", [array(1, 2, 5, 6)], [array(2, 3, 3, 3)], strides=[2, 2],
                                 output_shape=c["shape"], auto_pad=c["auto"])
        yield label("ConvTranspose", c), model, feed
    for axes in (1, 3):
        model, feed = node_model("ConvTranspose", [array(2, 4, *(5, 4, 3)[:axes])], [array(4, 2, *(3, 2, 3)[:axes]), array(2)],
                                 strides=[2] * axes, pads=[1] + [0] * (2 * axes - 1))
        yield label("ConvTranspose", {"axes": axes}), model, feed


def poolings():
    for op in ("MaxPool", "AveragePool"):
        average = op == "AveragePool"
        for c in grid(kernel=(1, 2, 3, 5), stride=(1, 2, 3), pads=((0, 0), (1, 1), (0, 1), (2, 1), (0, 2)), ceil=(0, 1),
                      dilation=(1, 2), counts=(0, 1) if average else (None,)):
            if max(c["pads"]) >= c["kernel"]:
                continue
            model, feed = node_model(op, [array(2, 3, 12, 11)], [], opset=19 if c["dilation"] > 1 else 12,
                                     kernel_shape=[c["kernel"], 3], strides=[c["stride"], 2], ceil_mode=c["ceil"],
                                     pads=[c["pads"][0], 1, c["pads"][1], 1], count_include_pad=c["counts"],
                                     dilations=[c["dilation"], 1] if c["dilation"] > 1 else None)
            yield label(op, c), model, feed
        for c in grid(kernel=(2, 3), stride=(1, 2, 3), auto=("SAME_UPPER", "SAME_LOWER", "VALID"), counts=(0, 1) if average else (None,)):
            model, feed = node_model(op, [array(2, 3, 8, 7)], [], kernel_shape=[c["kernel"]] * 2, strides=[c["stride"]] * 2,
                                     auto_pad=c["auto"], count_include_pad=c["counts"], opset=10)
            yield label(op, c), model, feed
        for axes, ceil in itertools.product((1, 3), (0, 1)):
            model, feed = node_model(op, [array(2, 3, *(8, 7, 6)[:axes])], [], kernel_shape=(3, 2, 2)[:axes],
                                     strides=[2] * axes, pads=[1] + [0] * (2 * axes - 1), ceil_mode=ceil)
            yield label(op, {"axes": axes, "ceil": ceil}), model, feed
        for axes in (1, 2, 3):
            model, feed = node_model("Global" + op, [array(2, 3, *(8, 7, 6)[:axes])], [])
            yield label("Global" + op, {"axes": axes}), model, feed


def pads():
    lists = ([0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 2, 0, 0, 1, 0], [0, 1, 0, 0, 0, 2, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0],
             [0, 0, -1, 0, 0, 0, 0, -2], [0, 0, -1, 2, 0, 0, 1, -2], [0] * 8)
    for c in grid(pads=lists, value=(None, 0.0, 1.5, -numpy.inf), opset=(7, 11, 18)):
        x = array(2, 3, 6, 7)
        if c["opset"] < 11:
            model, feed = node_model("Pad", [x], [], opset=c["opset"], pads=c["pads"], value=c["value"])
        else:
            value = [] if c["value"] is None else [numpy.float32(c["value"])]
            model, feed = node_model("Pad", [x], [numpy.array(c["pads"])] + value, opset=c["opset"])
        yield label("Pad", c), model, feed
    for mode in ("reflect", "edge"):
        model, feed = node_model("Pad", [array(1, 2, 4, 4)], [numpy.array([0, 0, 1, 1, 0, 0, 1, 1])], mode=mode)
        yield label("Pad", {"mode": mode}), model, feed
    model, feed = node_model("Pad", [array(1, 2, 4, 4)], [numpy.array([1, 2]), numpy.float32(0), numpy.array([-1])], opset=18)
    yield "Pad axes", model, feed
    yield from pads_before_windows()


def pads_before_windows():
    for c in grid(op=("Conv", "AveragePool", "MaxPool"), pads=((1, 1, 1, 1), (0, 0, 1, 1), (2, 1, 1, 2)), inner=(0, 1),
                  stride=(1, 2), counts=(0, 1), ceil=(0, 1)):
        pool = c["op"] != "Conv"
        if (not pool or c["op"] == "MaxPool") and c["counts"] or (not pool and c["ceil"]):
            continue
        feed = {"x": array(1, 4, 8, 9)}
        first = helper.make_node("Pad", ["x", "pads"], ["padded"])
        attributes = {"pads": [c["inner"]] * 4, "strides": [c["stride"]] * 2}
        names = ["padded"] + ["weights"] * (not pool)
        if pool:
            attributes.update(kernel_shape=[3, 3], ceil_mode=c["ceil"])
        if c["op"] == "AveragePool":
            attributes["count_include_pad"] = c["counts"]
        values = numpy.array([0, 0, c["pads"][0], c["pads"][1], 0, 0, c["pads"][2], c["pads"][3]])
        initializers = [numpy_helper.from_array(values, "pads"), numpy_helper.from_array(array(5, 4, 3, 3), "weights")]
        yield (label("Pad+", c), graph_model([first, helper.make_node(c["op"], names, ["y"], **attributes)], feed, ["y"],
                                             initializers, 13), feed)


def resizings():
    places = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
    for c in grid(mode=("nearest", "linear", "cubic"), place=places,
                  sizes=((8, 10), (12, 15), (5, 8), (2, 3), (9, 5), (3, 4), (1, 1), (4, 10), (7, 9))):
        roundings = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil") if c["mode"] == "nearest" else (None,)
        late = c["place"] == "half_pixel_symmetric"
        early = c["place"] == "tf_half_pixel_for_nn"
        for rounding in roundings:
            attributes = dict(mode=c["mode"], coordinate_transformation_mode=c["place"], nearest_mode=rounding,
                              opset=19 if late else 11 if early else 13)
            x = array(1, 2, 4, 5)
            scales = numpy.array([1, 1, c["sizes"][0] / 4, c["sizes"][1] / 5], numpy.float32)
            sizes = numpy.array((1, 2) + c["sizes"])
            empty = numpy.zeros(0, numpy.float32)
            model, feed = node_model("Resize", [x], [empty, empty, sizes] if early else [None, None, sizes], **attributes)
            yield label("Resize", {**c, "rounding": rounding}), model, feed
            model, feed = node_model("Resize", [x], [empty if early else None, scales], **attributes)
            yield label("Resize scales", {**c, "rounding": rounding}), model, feed
    for c in grid(mode=("nearest", "linear"), scales=((2.0, 2.0), (1.0, 3.0), (0.5, 0.5), (1.5, 2.5), (0.6, 0.3))):
        x, scales = array(2, 3, 6, 8), numpy.array((1.0, 1.0) + c["scales"], numpy.float32)
        if min(c["scales"]) >= 1:
            yield (label("Upsample 7", c), *node_model("Upsample", [x], [], opset=7, mode=c["mode"], scales=scales.tolist()))
            yield (label("Upsample 9", c), *node_model("Upsample", [x], [scales], opset=9, mode=c["mode"]))
        yield (label("Resize 10", c), *node_model("Resize", [x], [scales], opset=10, mode=c["mode"]))
    for c in grid(exclude=(0, 1), a=(-0.75, -0.5), sizes=((8, 7), (3, 3))):
        model, feed = node_model("Resize", [array(1, 2, 5, 5)], [None, None, numpy.array((1, 2) + c["sizes"])], mode="cubic",
                                 exclude_outside=c["exclude"], cubic_coeff_a=c["a"])
        yield label("Resize cubic", c), model, feed
    for axes in (1, 3):
        model, feed = node_model("Resize", [array(1, 2, *(4, 5, 6)[:axes])], [None, numpy.array([1, 1] + [2] * axes, numpy.float32)],
                                 mode="linear" if axes == 1 else "nearest")
        yield label("Resize", {"axes": axes}), model, feed
    yield ("Resize axes", *node_model("Resize", [array(1, 2, 5, 5)], [None, None, numpy.array([7, 8])], opset=18, axes=[2, 3]))
    yield ("Resize antialias", *node_model("Resize", [array(1, 2, 5, 5)], [None, None, numpy.array([1, 2, 3, 3])], opset=18,
                                           mode="linear", antialias=1))
    yield ("Resize crop", *node_model("Resize", [array(1, 2, 5, 5)], [numpy.array([0, 0, .2, .2, 1, 1, .8, .8], numpy.float32), None,
                                                                     numpy.array([1, 2, 3, 3])],
                                      mode="linear", coordinate_transformation_mode="tf_crop_and_resize"))


def models():
    yield from convolutions()
    yield from transposes()
    yield from poolings()
    yield from pads()
    yield from resizings()
