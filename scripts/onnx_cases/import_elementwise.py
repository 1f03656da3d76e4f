"""Arithmetic and activations, as exporters and other tools write them, for the importer."""
import itertools
import math

import numpy as np
from onnx import helper

from onnx_checks import nets
from onnx_checks.operators import arrays, model, tensor

BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
# Shapes of x and of the other operand.
SHAPES = [((2, 3, 4, 5), shape) for shape in
          [(), (1,), (5,), (4, 1), (3, 1, 1), (1, 3, 1, 1), (2, 3, 1, 1), (2, 3, 4, 5), (1, 1, 4, 5), (2, 1, 4, 5),
           (2, 1, 1, 1), (3, 1, 5), (1, 1, 1, 1), (2, 1, 1, 5)]]
SHAPES += [((2, 6), (6,)), ((2, 6), (2, 1)), ((7,), (7,)), ((7,), (1,)), ((1, 3, 1, 1), (2, 3, 4, 5)),
           ((3, 1), (2, 1, 5)), ((1, 3, 4, 5), (1, 3, 1, 1)), ((2, 3, 4), (2, 3, 1)), ((5,), (2, 3, 4, 5))]


def _label(shape):
    return "x".join(map(str, shape)) or "scalar"


def constant_operands():
    """x and a constant, in both orders."""
    for op, (shape, other), swapped, opset in itertools.product(BINARY, SHAPES, (False, True), (7, 13)):
        if op in ("Max", "Min") and opset < 8 and shape != other:
            continue
        name = "%s/%s,%s%s/%d" % (op, _label(shape), _label(other), "/swapped" if swapped else "", opset)
        values = nets.random_of(name).uniform(0.5, 2, other) * (-1 if op in ("Max", "Min") else 1)
        ends = ["c", "x"] if swapped else ["x", "c"]
        low = 0.5 if op == "Div" else None
        yield (name, model([helper.make_node(op, ends, ["y"])], {"x": shape}, constants=[tensor("c", values)],
                           opset=opset), arrays(name, {"x": shape}, low))


def activations_of_two():
    """Two values of the net."""
    for op, (shape, other) in itertools.product(BINARY, SHAPES):
        for first, second in {(shape, other), (other, shape)}:
            name = "%s/both/%s,%s" % (op, _label(first), _label(second))
            inputs = {"a": first, "b": second}
            yield (name, model([helper.make_node(op, ["a", "b"], ["y"])], inputs),
                   arrays(name, inputs, 0.5 if op == "Div" else None))
    for op in ("Add", "Mul", "Sub"):
        yield ("%s/same" % op, model([helper.make_node("Relu", ["x"], ["r"]), helper.make_node(op, ["r", "r"], ["y"])],
                                     {"x": (2, 3)}), arrays(op, {"x": (2, 3)}))


def powers():
    """Powers."""
    for exponent, opset in itertools.product((-2, -1, -0.5, 0, 0.5, 1, 2, 3, 1.5), (7, 12, 13)):
        name = "Pow/%g/%d" % (exponent, opset)
        yield (name, model([helper.make_node("Pow", ["x", "c"], ["y"])], {"x": (2, 3)},
                           constants=[tensor("c", exponent)], opset=opset), arrays(name, {"x": (2, 3)}, 0.1))
    yield ("Pow/int", model([helper.make_node("Pow", ["x", "c"], ["y"])], {"x": (2, 3)},
                            constants=[tensor("c", 2, np.int64)], opset=13), arrays("p", {"x": (2, 3)}))
    for base in (2, 0.5, math.e):
        name = "Pow/base %g" % base
        yield (name, model([helper.make_node("Pow", ["c", "x"], ["y"])], {"x": (2, 3)},
                           constants=[tensor("c", base)]), arrays(name, {"x": (2, 3)}))


def many_inputs():
    """Sum, Mean, Max and Min of one to four inputs."""
    for op, count, shapes in itertools.product(("Sum", "Mean", "Max", "Min"), (1, 2, 3, 4), ("same", "mixed", "fixed")):
        name = "%s/%d/%s" % (op, count, shapes)
        inputs = {"x%d" % i: (2, 3, 4) if shapes != "mixed" or i % 2 == 0 else (3, 1) for i in range(count)}
        names, constants = list(inputs), []
        if shapes == "fixed":
            names = ["c"] + names
            constants = [tensor("c", nets.random_of(name).standard_normal((3, 1)))]
        yield name, model([helper.make_node(op, names, ["y"])], inputs, constants=constants), arrays(name, inputs)


def functions():
    """Functions of one number."""
    table = [("Relu", {}, 7), ("LeakyRelu", {}, 7), ("LeakyRelu", {"alpha": 0.3}, 16), ("Elu", {}, 7),
             ("Elu", {"alpha": 0.4}, 13), ("Selu", {}, 7), ("Selu", {"alpha": 2.0, "gamma": 0.7}, 13), ("Celu", {}, 12),
             ("Celu", {"alpha": 2.5}, 13), ("Sigmoid", {}, 7), ("Tanh", {}, 7), ("Softplus", {}, 7),
             ("Softsign", {}, 7), ("HardSigmoid", {}, 7), ("HardSigmoid", {"alpha": 0.4, "beta": 0.3}, 13),
             ("HardSwish", {}, 14), ("Mish", {}, 18), ("ThresholdedRelu", {}, 10),
             ("ThresholdedRelu", {"alpha": -0.5}, 13), ("Exp", {}, 7), ("Abs", {}, 7), ("Neg", {}, 7),
             ("Identity", {}, 7), ("Clip", {"min": -0.5, "max": 0.75}, 7), ("Clip", {"min": 0.0}, 8),
             ("Clip", {"max": 0.5}, 10), ("Clip", {}, 7), ("Dropout", {}, 7), ("Dropout", {"ratio": 0.3}, 10)]
    for (op, attributes, opset), shape in itertools.product(table, ((2, 3, 4, 5), (2, 5), (6,))):
        name = "%s/%s/%d/%s" % (op, ",".join("%s=%g" % item for item in attributes.items()), opset, _label(shape))
        yield (name, model([helper.make_node(op, ["x"], ["y"], **attributes)], {"x": shape}, opset=opset),
               arrays(name, {"x": shape}))
    for op in ("Log", "Sqrt", "Reciprocal"):
        yield op, model([helper.make_node(op, ["x"], ["y"])], {"x": (2, 3)}), arrays(op, {"x": (2, 3)}, 0.2)
    for low, high in ((-0.5, 0.75), (0, 6), (0, None), (None, 1), (None, None)):
        ends = ["x", "" if low is None else "low", "" if high is None else "high"]
        constants = [tensor(n, v) for n, v in (("low", low), ("high", high)) if v is not None]
        yield ("Clip/%s,%s" % (low, high), model([helper.make_node("Clip", ends, ["y"])], {"x": (2, 3)},
                                                 constants=constants), arrays("clip", {"x": (2, 3)}))


def slopes():
    """PRelu."""
    for shape, slope in [((2, 3, 4, 5), s) for s in ((1,), (3, 1, 1), (1, 3, 1, 1), (5,), (4, 5), (3, 4, 5), ())] + \
            [((2, 3), (3,)), ((2, 3), (1,)), ((2, 3, 4), (3, 1))]:
        name = "PRelu/%s,%s" % (_label(shape), _label(slope))
        values = nets.random_of(name).standard_normal(slope)
        yield (name, model([helper.make_node("PRelu", ["x", "s"], ["y"])], {"x": shape},
                           constants=[tensor("s", values)]), arrays(name, {"x": shape}))
        yield (name + "/net", model([helper.make_node("PRelu", ["x", "s"], ["y"])], {"x": shape, "s": slope}),
               arrays(name, {"x": shape, "s": slope}))


def softmaxes():
    """Softmax and LogSoftmax along each axis, and with joined axes before operator set 13."""
    for op, shape, opset in itertools.product(("Softmax", "LogSoftmax"), ((2, 3, 4, 5), (2, 5), (6,), (2, 3, 4)),
                                              (7, 11, 13, 21)):
        for axis in [None, *range(-len(shape) if opset > 10 else 0, len(shape))]:
            if axis is None and len(shape) == 1 and opset < 13:
                continue
            name = "%s/%s/%s/%d" % (op, _label(shape), axis, opset)
            attributes = {} if axis is None else {"axis": axis}
            given = arrays(name, {"x": shape})
            given["x"] *= 60  # rows in which a probability is rounded to 0
            yield name, model([helper.make_node(op, ["x"], ["y"], **attributes)], {"x": shape}, opset=opset), given


def comparisons():
    """Truth values."""
    for op, swapped in itertools.product(("Greater", "Less", "GreaterOrEqual", "LessOrEqual"), (False, True)):
        nodes = [helper.make_node(op, ["c", "x"] if swapped else ["x", "c"], ["t"]),
                 helper.make_node("Not", ["t"], ["n"]), helper.make_node("Cast", ["t"], ["y"], to=1),
                 helper.make_node("Cast", ["n"], ["z"], to=1)]
        given = {"x": np.array([[-1, 0.25, 0.5], [0.75, 2, 0.5]], np.float32)}
        yield ("%s%s" % (op, "/swapped" if swapped else ""),
               model(nodes, {"x": (2, 3)}, ["y", "z"], [tensor("c", 0.5)], 16), given)


def patterns():
    """Operators that exporters write as several nodes."""
    node = helper.make_node
    x, given = {"x": (2, 5)}, arrays("patterns", {"x": (2, 5)})
    half, one, root = tensor("half", 0.5), tensor("one", 1), tensor("root", math.sqrt(2))
    yield "Swish", model([node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["y"])], x), given
    yield ("Swish/shared", model([node("Sigmoid", ["x"], ["s"]), node("Mul", ["s", "x"], ["y"]),
                                  node("Neg", ["s"], ["z"])], x, ["y", "z"]), given)
    yield ("HardSwish/clip", model([node("Add", ["x", "three"], ["a"]), node("Clip", ["a", "zero", "six"], ["b"]),
                                    node("Div", ["b", "six"], ["c"]), node("Mul", ["x", "c"], ["y"])], x,
                                   constants=[tensor("three", 3), tensor("zero", 0), tensor("six", 6)]), given)
    erf = [node("Div", ["x", "root"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"])]
    for order in range(3):
        tail = [[node("Mul", ["x", "c"], ["d"]), node("Mul", ["d", "half"], ["y"])],
                [node("Mul", ["x", "half"], ["d"]), node("Mul", ["d", "c"], ["y"])],
                [node("Mul", ["half", "c"], ["d"]), node("Mul", ["x", "d"], ["y"])]][order]
        yield "Gelu/erf/%d" % order, model(erf + tail, x, constants=[half, one, root]), given
    square = [node("Mul", ["x", "x"], ["m"]), node("Div", ["m", "root"], ["a"]), *erf[1:]]
    for order in (["m", "d"], ["d", "m"]):
        tail = [node("Mul", ["half", "c"], ["d"]), node("Mul", order, ["y"])]
        yield "Gelu/%s" % "".join(order), model(square + tail, x, constants=[half, one, root]), given
    cubes = ([node("Pow", ["x", "three"], ["p"])], [node("Mul", ["x", "x"], ["q"]), node("Mul", ["x", "q"], ["p"])])
    for number, cube in enumerate(cubes):
        nodes = cube + [node("Mul", ["p", "k"], ["a"]), node("Add", ["x", "a"], ["b"]), node("Mul", ["b", "f"], ["c"]),
                        node("Tanh", ["c"], ["d"]), node("Add", ["d", "one"], ["e"]), node("Mul", ["x", "half"], ["h"]),
                        node("Mul", ["h", "e"], ["y"])]
        yield ("Gelu/tanh/%d" % number,
               model(nodes, x, constants=[half, one, tensor("three", 3), tensor("k", 0.044715),
                                          tensor("f", math.sqrt(2 / math.pi))]), given)
    for approximate in ("none", "tanh"):
        yield ("Gelu/%s" % approximate, model([node("Gelu", ["x"], ["y"], approximate=approximate)], x, opset=20),
               given)
    yield ("Erf", model([node("Erf", ["x"], ["y"])], x), given, "Erf")


def models():
    """All models."""
    for family in (constant_operands, activations_of_two, powers, many_inputs, functions, slopes, softmaxes,
                   comparisons, patterns):
        yield from family()
