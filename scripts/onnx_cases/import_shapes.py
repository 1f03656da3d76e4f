"""Shapes, parts, reductions and the arithmetic of shapes, as exporters write them, for the importer."""
import itertools

import numpy as np
from onnx import TensorProto, helper

from onnx_checks import nets
from onnx_checks.operators import arrays, integers, model, tensor


def _one(name, op, shape, constants=(), opset=13, **attributes):
    """A model of one operator with x as its first input, and constants as the others."""
    ends = ["x"] + [one.name for one in constants]
    return (name, model([helper.make_node(op, ends, ["y"], **attributes)], {"x": shape}, constants=constants,
                        opset=opset), arrays(name, {"x": shape}))


def views():
    """The same numbers under another shape."""
    shapes = [(-1,), (0, -1), (2, 60), (0, 3, 20), (0, 0, -1), (4, -1), (1, 2, 3, 4, 5), (2, 3, 4, 5), (-1, 5),
              (3, 2, 20)]
    for shape, opset in itertools.product(shapes, (7, 14)):
        yield _one("Reshape/%s/%d" % (shape, opset), "Reshape", (2, 3, 4, 5), [integers("s", *shape)], opset)
    yield _one("Reshape/zero", "Reshape", (2, 3, 4), [integers("s", 2, 12)], 14, allowzero=1)
    for axis, opset in itertools.product(range(-4, 5), (7, 13)):
        if axis >= 0 or opset > 10:
            yield _one("Flatten/%d/%d" % (axis, opset), "Flatten", (2, 3, 4, 5), (), opset, axis=axis)
    for axes in ((0,), (1,), (2, 0), (-1,), (1, 3)):
        yield _one("Unsqueeze/%s" % (axes,), "Unsqueeze", (2, 3), [integers("a", *axes)])
        if min(axes) >= 0:
            yield _one("Unsqueeze/%s/7" % (axes,), "Unsqueeze", (2, 3), (), 7, axes=axes)
    for axes in ((1,), (3,), (1, 3), (-1,), ()):
        constants = [integers("a", *axes)] if axes else []
        yield _one("Squeeze/%s" % (axes,), "Squeeze", (2, 1, 3, 1), constants)
        if not axes or min(axes) >= 0:
            yield _one("Squeeze/%s/7" % (axes,), "Squeeze", (2, 1, 3, 1), (), 7, **({"axes": axes} if axes else {}))


def orders():
    """Exchanged axes."""
    for shape in ((2, 3, 4), (1, 3, 1), (2, 1, 4)):
        for order in itertools.permutations(range(3)):
            yield _one("Transpose/%s/%s" % (shape, order), "Transpose", shape, perm=order)
    yield _one("Transpose/default", "Transpose", (2, 3, 4, 5))
    for op, mode, block in itertools.product(("DepthToSpace", "SpaceToDepth"), ("DCR", "CRD"), (1, 2)):
        attributes = {"blocksize": block}
        if op == "DepthToSpace":
            attributes["mode"] = mode
        elif mode == "CRD":
            continue
        yield _one("%s/%s/%d" % (op, mode, block), op, (2, 8, 4, 6), **attributes)
    nodes = [helper.make_node("Reshape", ["x", "a"], ["p"]),
             helper.make_node("Transpose", ["p"], ["q"], perm=[0, 2, 1, 3, 4]),
             helper.make_node("Reshape", ["q", "b"], ["y"])]
    yield ("Shuffle", model(nodes, {"x": (2, 6, 4, 4)}, constants=[integers("a", 2, 2, 3, 4, 4),
                                                                   integers("b", 2, 6, 4, 4)]),
           arrays("shuffle", {"x": (2, 6, 4, 4)}))


def repetitions():
    """Expand and Tile."""
    for shape, to in [((2, 3), (4, 2, 3)), ((2, 1), (2, 3)), ((1, 3, 1), (2, 3, 4)), ((3, 1), (1, 1)),
                      ((3,), (2, 1, 3)),
                      ((1, 1), (5, 6)), ((2, 1, 4), (3, 1))]:
        yield _one("Expand/%s,%s" % (shape, to), "Expand", shape, [integers("s", *to)])
    for times in itertools.product((1, 2, 3), (1, 2), (1, 4)):
        yield _one("Tile/%s" % (times,), "Tile", (2, 3, 4), [integers("r", *times)])


def joined():
    """Concat and Split."""
    for axis, count, fixed in itertools.product(range(-3, 3), (1, 2, 3), (False, True)):
        name = "Concat/%d/%d%s" % (axis, count, "/fixed" if fixed else "")
        inputs = {"x%d" % i: tuple(2 + i if k == axis % 3 else 2 + k for k in range(3)) for i in range(count)}
        names, constants = list(inputs), []
        if fixed:
            constants = [tensor("c", nets.random_of(name).standard_normal(inputs["x0"]))]
            names = ["c"] + names
        yield (name, model([helper.make_node("Concat", names, ["y"], axis=axis)], inputs, constants=constants),
               arrays(name, inputs))
    for axis, sizes, opset in itertools.product((1, -1), (None, (2, 4), (1, 2, 3)), (7, 13, 18)):
        if axis < 0 and opset < 11:
            continue
        outputs = ["y%d" % i for i in range(len(sizes) if sizes else 3)]
        attributes, constants, ends = {"axis": axis}, [], ["x"]
        if sizes and opset < 13:
            attributes["split"] = sizes
        elif sizes:
            constants, ends = [integers("s", *sizes)], ["x", "s"]
        elif opset >= 18:
            attributes["num_outputs"] = 3
        name = "Split/%d/%s/%d" % (axis, sizes, opset)
        shape = {"x": (2, 6) if axis < 0 else (2, 6, 3)}
        for wanted in (outputs, outputs[1:]):
            yield ("%s/%d" % (name, len(wanted)), model([helper.make_node("Split", ends, outputs, **attributes)], shape,
                                                        wanted, constants, opset), arrays(name, shape))
    yield ("Split/uneven", model([helper.make_node("Split", ["x"], ["y0", "y1", "y2"], axis=1, num_outputs=3)],
                                 {"x": (2, 7)}, ["y0", "y1", "y2"], opset=18), arrays("u", {"x": (2, 7)}))


def parts():
    """Slice and Gather."""
    far = 2 ** 31 - 1
    lists = [((0,), (2,), (1,), None), ((1,), (far,), (-1,), None), ((-3,), (-1,), (3,), None),
             ((0, 1), (1, 3), None, None),
             ((0,), (far,), (2,), (2,)), ((1,), (far,), (3,), (2,)), ((1,), (far,), (3,), (3,)),
             ((0,), (far,), (3,), (3,)),
             ((1, 0), (far, far), (2, 3), (2, 2)), ((-1,), (-far,), (1,), (-1,)), ((-1,), (-far,), (3,), (-2,)),
             ((4,), (0,), (3,), (-1,)), ((3,), (-far,), (0,), (-1,)), ((-1, -1), (-far, -far), (2, 3), (-1, -1)),
             ((5,), (far,), (3,), (1,)), ((2,), (3,), (2,), (5,)), ((0,), (far,), (0,), (3,))]
    for number, (starts, ends, axes, steps) in enumerate(lists):
        constants = [integers("s", *starts), integers("e", *ends)]
        if axes or steps:
            constants.append(integers("a", *(axes or range(len(starts)))))
        if steps:
            constants.append(integers("t", *steps))
        for opset in (10, 13):
            yield _one("Slice/%d/%d" % (number, opset), "Slice", (4, 3, 4, 7), constants, opset)
        if not steps:
            yield _one("Slice/%d/7" % number, "Slice", (4, 3, 4, 7), (), 7, starts=starts, ends=ends,
                       **({"axes": axes} if axes else {}))
    node, x = helper.make_node, {"x": (1, 3, 8, 8)}
    nodes, names = [], []
    for i, (row, column) in enumerate(itertools.product((0, 1), (0, 1))):
        nodes += [node("Slice", ["x", "b%d" % row, "far", "a2", "two"], ["r%d" % i]),
                  node("Slice", ["r%d" % i, "b%d" % column, "far", "a3", "two"], ["p%d" % i])]
        names.append("p%d" % i)
    constants = [integers("b0", 0), integers("b1", 1), integers("far", far), integers("a2", 2), integers("a3", 3),
                 integers("two", 2)]
    yield ("Slice/focus", model(nodes + [node("Concat", names, ["y"], axis=1)], x, constants=constants),
           arrays("focus", x))
    for axis, index in itertools.product((0, 1, -1), (0, -1, [1], [0, 1], [2, 1, 0], [0, 0, 2], [-1, 0],
                                                      [[0, 2], [1, 1]])):
        yield _one("Gather/%d/%s" % (axis, index), "Gather", (3, 4, 5), [tensor("i", index, np.int64)], axis=axis)
    for table, shape in (((7, 4), (2, 3)), ((7, 4), (5,)), ((7, 2, 3), (2,)), ((7,), (2, 3))):
        name = "Gather/table %s,%s" % (table, shape)
        one = model([node("Gather", ["c", "i"], ["y"])], {"i": shape},
                    constants=[tensor("c", nets.random_of(name).standard_normal(table))])
        one.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
        yield name, one, {"i": nets.random_of(name, "i").randint(0, 7, shape).astype(np.int64)}


def reductions():
    """Reductions along each set of axes."""
    ops = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
           "ReduceLogSum",
           "ReduceLogSumExp")
    sets = [None, (0,), (1,), (2, 3), (3,), (1, 2), (0, 2), (-1, 1), (1, 2, 3), (0, 1, 2, 3)]
    for op, axes, keep in itertools.product(ops, sets, (0, 1)):
        for opset in (11, 18):
            constants, attributes = [], {"keepdims": keep}
            if axes and (opset == 18 or (op == "ReduceSum" and opset > 12)):
                constants = [integers("a", *axes)]
            elif axes:
                attributes["axes"] = axes
            name = "%s/%s/%d/%d" % (op, axes, keep, opset)
            _, one, _ = _one(name, op, (2, 3, 4, 5), constants, opset, **attributes)
            yield name, one, arrays(name, {"x": (2, 3, 4, 5)}, 0.1 if op == "ReduceLogSum" else None)
    yield _one("ReduceSum/noop", "ReduceSum", (2, 3), [tensor("a", [], np.int64)], 13, noop_with_empty_axes=1)
    for op, axis, keep, last in itertools.product(("ArgMax", "ArgMin"), (0, 1, -1), (0, 1), (0, 1)):
        name = "%s/%d/%d/%d" % (op, axis, keep, last)
        _, one, _ = _one(name, op, (3, 4, 5), (), 13, axis=axis, keepdims=keep, select_last_index=last)
        one.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
        yield name, one, {"x": nets.random_of(name).randint(0, 3, (3, 4, 5)).astype(np.float32)}


def shape_arithmetic():
    """Shapes that nodes compute."""
    node = helper.make_node
    x, given = {"x": (2, 6, 4, 4)}, arrays("arithmetic", {"x": (2, 6, 4, 4)})
    zero, one = tensor("zero", 0, np.int64), tensor("one", 1, np.int64)
    head = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Gather", ["s", "one"], ["c"]),
            node("Unsqueeze", ["n", "first"], ["n1"])]
    first = integers("first", 0)
    yield ("flatten", model(head + [node("Concat", ["n1", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"])],
                            x, constants=[zero, one, first, integers("rest", -1)]), given)
    arithmetic = [node("Div", ["c", "two"], ["h"]), node("Mul", ["h", "two"], ["d"]), node("Sub", ["d", "h"], ["e"]),
                  node("Cast", ["e"], ["f"], to=1), node("Floor", ["f"], ["g"]), node("Cast", ["g"], ["i"], to=7),
                  node("Unsqueeze", ["i", "first"], ["i1"]), node("Concat", ["n1", "i1", "rest"], ["t"], axis=0),
                  node("Reshape", ["x", "t"], ["y"])]
    yield ("groups", model(head + arithmetic, x, constants=[zero, one, first, integers("rest", -1),
                                                            tensor("two", 2, np.int64)]),
           given)
    yield ("slices", model([node("Shape", ["x"], ["s"]), node("Slice", ["s", "zero1", "two1"], ["a"]),
                            node("Size", ["s"], ["k"]), node("Unsqueeze", ["k", "first"], ["k1"]),
                            node("ConstantOfShape", ["k1"], ["z"]), node("Cast", ["z"], ["zi"], to=7),
                            node("Concat", ["a", "rest"], ["t"], axis=0), node("Add", ["t", "zi3"], ["u"]),
                            node("Reshape", ["x", "u"], ["y"])], x,
                           constants=[integers("zero1", 0), integers("two1", 2), first, integers("rest", -1),
                                      integers("zi3", 0, 0, 0)]), given)
    yield ("grid", model([node("Range", ["zero", "four", "one"], ["r"]), node("Cast", ["r"], ["f"], to=1),
                          node("Reshape", ["f", "row"], ["a"]), node("Reshape", ["f", "column"], ["b"]),
                          node("Add", ["a", "b"], ["g"]), node("Where", ["w", "g", "g2"], ["h"]),
                          node("Mul", ["x", "h"], ["y"])], x,
                         constants=[zero, one, tensor("four", 4, np.int64), integers("row", 1, 4),
                                    integers("column", 4, 1),
                                    tensor("w", [[True, False, True, True]], np.bool_), tensor("g2", 2)]), given)
    yield ("equal", model([node("Shape", ["x"], ["s"]), node("Equal", ["s", "m"], ["q"]),
                           node("Where", ["q", "m1", "s"], ["t"]),
                           node("Expand", ["v", "t"], ["y0"]), node("Add", ["x", "y0"], ["y"])], x,
                          constants=[integers("m", 9, 9, 9, 9), integers("m1", 1, 1, 1, 1), tensor("v", 0.5)]), given)
    yield ("dead", model([node("Erf", ["x"], ["e"]), node("NonZero", ["e"], ["nz"]), node("Relu", ["x"], ["y"])], x),
           given)
    yield ("shared output", model([node("Relu", ["x"], ["y"]), node("Neg", ["y"], ["z"])], x, ["y", "z"]), given)
    yield ("same output", model([node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])], x, ["y", "z"]), given)
    yield ("unread input", model([node("Relu", ["x"], ["y"])], {"x": (2, 3), "u": (2, 3)}),
           arrays("u", {"x": (2, 3), "u": (2, 3)}))
    yield ("unknown after rejected", model([node("Erf", ["x"], ["e"]), node("Tan", ["e"], ["y"])], x), given,
           "2 nodes cannot be imported")
    yield ("large constant", model([node("ConstantOfShape", ["big"], ["c"]), node("Add", ["x", "c"], ["y"])],
                                   {"x": (1,)},
                                   constants=[integers("big", 30000, 30000)]), arrays("l", {"x": (1,)}), "too large")
    for batch in ("n",):
        nodes = head + [node("Concat", ["n1", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"])]
        yield ("symbolic batch", model(nodes, x, constants=[zero, one, first, integers("rest", -1)], batch=batch),
               given)
        yield ("symbolic shuffle", model([node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]),
                                          node("Unsqueeze", ["n", "first"], ["n1"]),
                                          node("Concat", ["n1", "groups"], ["t"], axis=0),
                                          node("Reshape", ["x", "t"], ["p"]),
                                          node("Transpose", ["p"], ["q"], perm=[0, 2, 1, 3, 4]),
                                          node("Concat", ["n1", "whole"], ["u"], axis=0),
                                          node("Reshape", ["q", "u"], ["r"]),
                                          node("ReduceMean", ["r"], ["m"], axes=[2, 3], keepdims=1),
                                          node("Mul", ["r", "m"], ["y"])], x,
                                         constants=[zero, first, integers("groups", 2, 3, 4, 4),
                                                    integers("whole", 6, 4, 4)],
                                         batch=batch), given)


def models():
    """All models."""
    for family in (views, orders, repetitions, joined, parts, reductions, shape_arithmetic):
        yield from family()
