#!/usr/bin/env python3
"""make_cases.py: writes tests/onnx/cases.tar.zst, the cases of test_stored.c, with the Python packages of `make
test-onnx`: small ONNX files, written by torch.onnx or by hand, with inputs and the outputs of ONNX Runtime.

A case is a folder with model.onnx, perhaps files of external data, and case.txt: blocks "input NAME DIM..." and
"output NAME DIM...", each with a line of numbers, or a line "rejected TEXT" for each text that the import's error has.
"""
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

FLOAT = TensorProto.FLOAT
RANDOM = np.random.RandomState(7)


def values(*shape):
    """Random numbers with few bits, so that a case is small."""
    return (np.round(RANDOM.standard_normal(shape) * 16) / 16).astype(np.float32)


# ---- models by hand -------------------------------------------------------------------------------------


def constant(name, array):
    """An initializer."""
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, inputs, outputs, constants=(), opset=13):
    """A model of nodes, inputs by name and shape, names of outputs, and constants by name."""
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [one if isinstance(one, TensorProto) else constant(*one) for one in constants])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=min(8, 3 + opset // 3))
    return onnx.shape_inference.infer_shapes(made)


def single(op, shape, constants=(), opset=13, outputs=1, **attributes):
    """A model of one node: input x, constants as further inputs (None: not given), outputs y, y1, ..."""
    names = ["x"] + ["" if array is None else "c%d" % i for i, array in enumerate(constants)]
    tops = ["y"] + ["y%d" % i for i in range(1, outputs)]
    return model([helper.make_node(op, names, tops, name=op.lower(), **attributes)], {"x": shape}, tops,
                 [("c%d" % i, array) for i, array in enumerate(constants) if array is not None], opset)


def ints(*numbers):
    """A constant of integers."""
    return np.array(numbers, np.int64)


def by_hand():
    """Models of one node or a few: names and models."""
    w = values(4, 3, 3, 3)
    yield "conv_asymmetric", single("Conv", (1, 3, 7, 6), [w, values(4)], pads=[0, 1, 2, 0], strides=[2, 1])
    yield "conv_same_upper", single("Conv", (1, 3, 7, 6), [w], auto_pad="SAME_UPPER", strides=[2, 2])
    yield "conv_same_lower", single("Conv", (1, 3, 7, 6), [w], auto_pad="SAME_LOWER", strides=[2, 2])
    yield "conv_groups_1d", single("Conv", (2, 4, 9), [values(6, 2, 3)], group=2, dilations=[2])
    yield "conv_3d", single("Conv", (1, 2, 4, 5, 4), [values(3, 2, 2, 3, 2), values(3)], pads=[1, 1, 0, 1, 1, 0])
    yield "conv_half_weights", _half_weights()
    yield "transposed", single("ConvTranspose", (1, 3, 4, 5), [values(3, 2, 3, 3)], strides=[2, 2],
                               output_padding=[1, 1], pads=[1, 1, 1, 1])
    yield "max_pool_ceil", single("MaxPool", (1, 2, 7, 8), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    yield "average_pool_pads", single("AveragePool", (1, 2, 7, 8), kernel_shape=[3, 2], strides=[2, 2],
                                      pads=[1, 0, 1, 0])
    yield "gemm", single("Gemm", (3, 5), [values(4, 5), values(4)], alpha=0.5, beta=2.0, transB=1)
    yield "gemm_plain", single("Gemm", (3, 5), [values(5, 4)], transB=0)
    yield "softmax_11", single("Softmax", (2, 3, 4), opset=11, axis=1)
    yield "softmax_13", single("Softmax", (2, 3, 4), axis=1)
    yield "clip_6", single("Clip", (2, 9), opset=7, min=-0.5, max=1.0)
    yield "clip_13", single("Clip", (2, 9), [np.float32(-0.5), np.float32(1)])
    yield "batch_norm", single("BatchNormalization", (2, 3, 4), [values(3), values(3), values(3), np.abs(values(3)) + 1],
                               epsilon=0.01)
    yield "lrn", single("LRN", (1, 7, 3, 3), size=5, alpha=0.2, beta=0.6, bias=1.5)
    yield "focus", model(
        [helper.make_node("Slice", ["x", "s0", "e", "axes", "steps"], ["a"]),
         helper.make_node("Slice", ["x", "s1", "e", "axes", "steps"], ["b"]),
         helper.make_node("Concat", ["a", "b"], ["y"], axis=1)], {"x": (1, 2, 4, 6)}, ["y"],
        [("s0", ints(0, 0)), ("s1", ints(1, 1)), ("e", ints(1000, 1000)), ("axes", ints(2, 3)), ("steps", ints(2, 2))])
    yield "resize_nearest", single("Resize", (1, 2, 3, 4), [None, np.float32([1, 1, 2, 2])], mode="nearest",
                                   coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield "resize_linear", single("Resize", (1, 2, 3, 4), [None, None, ints(1, 2, 5, 7)], mode="linear",
                                  coordinate_transformation_mode="align_corners")
    yield "flatten_transpose", model(
        [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]), helper.make_node("Flatten", ["t"], ["y"], axis=2)],
        {"x": (2, 3, 4, 5)}, ["y"])
    yield "typed_data", _typed_data()
    yield "shape_arithmetic", _shape_arithmetic()


def _half_weights():
    nodes = [helper.make_node("Cast", ["h"], ["w"], to=FLOAT), helper.make_node("Conv", ["x", "w"], ["y"])]
    return model(nodes, {"x": (1, 3, 4, 4)}, ["y"], [("h", values(2, 3, 2, 2).astype(np.float16))])


def _typed_data():
    """Constants in typed fields instead of raw_data."""
    tensor = helper.make_tensor("c", FLOAT, [3], [0.5, -1.5, 2.0])
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [3, 2])
    return model([helper.make_node("Add", ["x", "c"], ["a"]), helper.make_node("Reshape", ["a", "s"], ["y"])],
                 {"x": (2, 3)}, ["y"], [tensor, shape])


def _shape_arithmetic():
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "first"], ["n"], axis=0),
             helper.make_node("Concat", ["n", "rest"], ["to"], axis=0), helper.make_node("Reshape", ["x", "to"], ["y"])]
    return model(nodes, {"x": (2, 3, 4)}, ["y"], [("first", ints(0)), ("rest", ints(-1))])


def rejected():
    """Names, models, and texts of their rejections."""
    yield "matmul_of_two", model([helper.make_node("MatMul", ["x", "z"], ["y"], name="product")],
                                 {"x": (2, 3), "z": (3, 4)}, ["y"]), ["node 'product' (MatMul): "]
    two = [helper.make_node("NonZero", ["x"], ["p"], name="first"), helper.make_node("Det", ["x"], ["q"], name="second")]
    made = helper.make_model(helper.make_graph(
        two, "graph", [helper.make_tensor_value_info("x", FLOAT, (3, 3))],
        [helper.make_tensor_value_info("p", TensorProto.INT64, None), helper.make_tensor_value_info("q", FLOAT, None)]),
        opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    yield "two_at_once", made, ["2 nodes cannot be imported:", "\n  node 'first' (NonZero): ", "\n  node 'second' (Det): "]
    quantised = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "scale"], ["q"], name="quantise"),
         helper.make_node("DequantizeLinear", ["q", "scale"], ["y"], name="dequantise")], "graph",
        [helper.make_tensor_value_info("x", FLOAT, (2, 3))], [helper.make_tensor_value_info("y", FLOAT, (2, 3))],
        [constant("scale", np.float32(0.1))])
    yield "quantised", helper.make_model(quantised, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), [
        "node 'quantise' (QuantizeLinear): "]
    branch = [helper.make_graph([helper.make_node(op, ["x"], [op])], op, [],
                                [helper.make_tensor_value_info(op, FLOAT, (2, 3))]) for op in ("Relu", "Neg")]
    control = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch[0], else_branch=branch[1])], "graph",
        [helper.make_tensor_value_info("x", FLOAT, (2, 3)), helper.make_tensor_value_info("c", TensorProto.BOOL, ())],
        [helper.make_tensor_value_info("y", FLOAT, (2, 3))])
    yield "control_flow", helper.make_model(control, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), [
        "node 'choice' (If): "]


# ---- models of torch.onnx ---------------------------------------------------------------------------------


class Gate(nn.Module):
    """A block of MobileNet v3: squeeze, excite, and hard activations."""

    def __init__(self):
        super().__init__()
        self.expand, self.norm = nn.Conv2d(3, 6, 1, bias=False), nn.BatchNorm2d(6)
        self.depth = nn.Conv2d(6, 6, 3, 2, 1, groups=6)
        self.down, self.up = nn.Conv2d(6, 2, 1), nn.Conv2d(2, 6, 1)

    def forward(self, x):
        x = nn.functional.hardswish(self.norm(self.expand(x)))
        x = self.depth(x)
        gate = nn.functional.hardsigmoid(self.up(torch.relu(self.down(nn.functional.adaptive_avg_pool2d(x, 1)))))
        return nn.functional.silu(x * gate)


class Shuffle(nn.Module):
    """A unit of ShuffleNet v2: half of the channels, and the shuffle."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3, padding=1, groups=4)

    def forward(self, x):
        left, right = x.chunk(2, dim=1)
        x = torch.cat([left, self.two(torch.relu(self.one(right)))], dim=1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Up(nn.Module):
    """The decoder of a U-Net."""

    def __init__(self):
        super().__init__()
        self.deep, self.up, self.last = nn.Conv2d(2, 4, 3, 2, 1), nn.ConvTranspose2d(4, 3, 2, 2), nn.Conv2d(5, 1, 1)

    def forward(self, x):
        up = self.up(torch.relu(self.deep(x)))
        wide = nn.functional.interpolate(up, scale_factor=2, mode="nearest")
        return torch.sigmoid(self.last(torch.cat([x, up], dim=1))) + wide.mean()


class Norms(nn.Module):
    """A block of ConvNeXt, with an instance normalization."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.line = nn.InstanceNorm2d(4, affine=True), nn.LayerNorm(4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.line(self.norm(self.first(x).permute(0, 2, 3, 1)))
        return x + nn.functional.gelu(y).permute(0, 3, 1, 2)


def classifier():
    """A plain classifier."""
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, 1, 1),
                         nn.LeakyReLU(0.1), nn.AvgPool2d(2), nn.Dropout(), nn.Flatten(), nn.Linear(24, 5),
                         nn.LogSoftmax(dim=1))


TORCH = {"classifier": (classifier, (2, 1, 11, 11)), "gate": (Gate, (1, 3, 6, 6)), "shuffle": (Shuffle, (1, 8, 3, 4)),
         "up": (Up, (1, 2, 6, 6)), "norms": (Norms, (1, 4, 3, 5))}


def by_torch():
    """Names and models, from both exporters."""
    for name, (make, shape) in TORCH.items():
        torch.manual_seed(3)
        made = make()
        with torch.no_grad():
            made.train()(torch.randn(4, *shape[1:]))
        for exporter, options in (("script", {"dynamo": False, "opset_version": 17}),
                                  ("dynamo", {"dynamo": True, "opset_version": 18, "external_data": False})):
            file = io.BytesIO()
            torch.onnx.export(made.eval(), (torch.zeros(shape),), file, input_names=["x"], output_names=["y"],
                              verbose=False, **options)
            found = onnx.load_from_string(file.getvalue())
            del found.graph.value_info[:]
            for node in found.graph.node:
                del node.metadata_props[:]
                node.doc_string = ""
            yield "torch_%s_%s" % (name, exporter), found


# ---- the archive --------------------------------------------------------------------------------------------


def describe(kind, name, array):
    """A block of case.txt."""
    array = np.asarray(array, np.float32)
    return "%s %s%s\n%s\n" % (kind, name, "".join(" %d" % extent for extent in array.shape),
                              " ".join("%.9g" % value for value in array.ravel()))


def store(folder, name, made, texts=None, external=False):
    """Writes a case."""
    place = folder / name
    place.mkdir()
    path = str(place / "model.onnx")
    onnx.save(made, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    if texts is not None:
        lines = "".join("rejected %s\n" % text.replace("\n", "\\n") for text in texts)
        (place / "case.txt").write_text(lines)
        return
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {one.name: values(*one.shape) for one in session.get_inputs()}
    found = session.run(None, given)
    text = "".join(describe("input", *pair) for pair in given.items())
    text += "".join(describe("output", one.name, array) for one, array in zip(session.get_outputs(), found))
    (place / "case.txt").write_text(text)


def main():
    """Writes the archive next to this file."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work, "cases")
        folder.mkdir()
        for name, made in [*by_hand(), *by_torch()]:
            store(folder, name, made)
        for name, made, texts in rejected():
            store(folder, name, made, texts)
        store(folder, "external_data", single("Conv", (1, 2, 4, 4), [values(3, 2, 2, 2), values(3)]), external=True)
        tar = pathlib.Path(work, "cases.tar")
        with tarfile.open(tar, "w", format=tarfile.USTAR_FORMAT) as archive:
            for path in sorted(folder.rglob("*")):
                info = archive.gettarinfo(path, str(path.relative_to(folder)))
                info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
                with open(path, "rb") if path.is_file() else io.BytesIO() as file:
                    archive.addfile(info, file if path.is_file() else None)
        target = pathlib.Path(__file__).with_name("cases.tar.zst")
        subprocess.run(["zstd", "-q", "-19", "-f", str(tar), "-o", str(target)], check=True)
        print("%s: %d cases, %d bytes" % (target, len(list(folder.iterdir())), target.stat().st_size))
    return 0


if __name__ == "__main__":
    sys.exit(main())
