"""Sums and products of blobs and parameters, reductions, tables."""

from itertools import product

import numpy as np


def layer(kind, fields="", bottoms=("x",), tops=("y",), name="op"):
    names = " ".join([f'bottom: "{b}"' for b in bottoms] + [f'top: "{t}"' for t in tops])
    return f'layer {{ name: "{name}" type: "{kind}" {names} {fields} }}'


def parameters():
    """Scale and Bias with parameters over any axes."""
    shapes = ((3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 2, 3))
    for kind, shape in product(("Scale", "Bias"), shapes):
        field = kind.lower() + "_param"
        for axis in range(-1, len(shape)):
            first = axis % len(shape)
            for count in (-1, 0, *range(1, len(shape) - first + 1)):
                biases = ("", " bias_term: true") if kind == "Scale" else ("",)
                for bias in biases:
                    fields = f"{field} {{ axis: {axis} num_axes: {count}{bias} }}"
                    yield (f"{kind}-{len(shape)}axes-{axis}-{count}-{len(bias) > 0}",
                           layer(kind, fields), {"x": shape})


def operands():
    """Scale and Bias with a second bottom."""
    pairs = (((2, 3, 4, 5), (3,), 1), ((2, 3, 4, 5), (2, 3), 0), ((2, 3, 4, 5), (3, 4, 5), 1),
             ((2, 3, 4, 5), (4, 5), 2), ((2, 3, 4, 5), (5,), -1), ((2, 3, 4, 5), (2, 3, 4, 5), 0),
             ((2, 3, 4, 5), (2,), 0), ((2, 3), (2,), 0), ((2, 3), (3,), 1), ((2, 3, 4), (3,), -2))
    for (x, operand, axis), kind in product(pairs, ("Scale", "Bias", "Scale+")):
        plus = kind.endswith("+")
        kind = kind.rstrip("+")
        fields = f"{kind.lower()}_param {{ axis: {axis}{' bias_term: true' if plus else ''} }}"
        yield (f"{kind}{'+' if plus else ''}-{len(x)}-{operand}-{axis}".replace(" ", ""),
               layer(kind, fields, ("x", "c")), {"x": x, "c": operand})


def eltwise():
    for count, operation, shape in product((2, 3, 4), ("SUM", "PROD", "MAX"), ((2, 3), (2, 3, 4, 5), (4,))):
        bottoms = [f"x{i}" for i in range(count)]
        inputs = {b: shape for b in bottoms}
        name = f"eltwise-{operation}-{count}-{len(shape)}axes"
        yield name, layer("Eltwise", f"eltwise_param {{ operation: {operation} }}", bottoms), inputs
        yield (name + "-place", layer("TanH", "", (bottoms[0],), ("y",), "first") +
               layer("Eltwise", f"eltwise_param {{ operation: {operation} }}", ["y"] + bottoms[1:]), inputs) \
            if operation != "PROD" else (name + "-relu", layer("Eltwise", "eltwise_param { operation: PROD }", bottoms) +
                                         layer("ReLU", "", ("y",), ("y",), "relu"), inputs)
        if operation != "SUM":
            continue
        for coeffs in ((1, -1, 1, 1), (0.5, 2, -3, 1), (1, 1, 1, 1), (0, 1, 2, 0.25)):
            fields = " ".join(f"coeff: {c}" for c in coeffs[:count])
            yield (f"{name}-{coeffs[0]}-{coeffs[1]}", layer("Eltwise", f"eltwise_param {{ {fields} }}", bottoms),
                   inputs)
    for operation in ("SUM", "PROD", "MAX"):
        yield (f"eltwise-same-{operation}", layer("Eltwise", f"eltwise_param {{ operation: {operation} }}", ("x", "x")),
               {"x": (2, 3)})


def reductions():
    shapes = ((5,), (3, 4), (2, 3, 4, 5))
    for shape, operation, coeff in product(shapes, ("SUM", "ASUM", "SUMSQ", "MEAN"), (1, -0.5)):
        for axis in range(-1, len(shape)):
            fields = f"reduction_param {{ operation: {operation} axis: {axis} coeff: {coeff} }}"
            yield f"reduction-{len(shape)}axes-{operation}-{axis}-{coeff}", layer("Reduction", fields), {"x": shape}


def arg_max():
    equal = np.floor(np.arange(120) * 7919 % 120 / 20).reshape(2, 3, 4, 5)
    for name, x in (("equal", equal), ("random", (2, 3, 4, 5)), ("rows", (4, 7)), ("one", (6,))):
        axes = x.ndim if isinstance(x, np.ndarray) else len(x)
        for k, values in product((1, 2), ("true", "false")):
            for axis in (None, *range(-1, axes)):
                size = (x.shape if isinstance(x, np.ndarray) else x)[axis] if axis is not None else 9
                if k > size or (axes == 1 and axis is None and k > 1):
                    continue
                fields = f"argmax_param {{ top_k: {k} out_max_val: {values}" + \
                    (f" axis: {axis} }}" if axis is not None else " }")
                yield f"argmax-{name}-{k}-{values}-{axis}", layer("ArgMax", fields), {"x": x}


def tables():
    for shape, bias in product(((4,), (2, 3), (2, 2, 2)), ("true", "false")):
        index = (np.arange(int(np.prod(shape))) * 5 % 7).reshape(shape)
        fields = f"embed_param {{ num_output: 3 input_dim: 7 bias_term: {bias} }}"
        yield f"embed-{len(shape)}axes-{bias}", layer("Embed", fields), {"x": index}
    for shape in ((4,), (4, 3), (4, 2, 3), (4, 2, 3, 2)):
        yield (f"batchreindex-{len(shape)}axes", layer("BatchReindex", "", ("x", "index")),
               {"x": shape, "index": np.array([3, 0, 0, 2, 1, 3])})


def constants():
    for filler in ("", 'data_filler { type: "constant" value: 0.5 }'):
        yield (f"dummy-{len(filler) > 0}",
               layer("DummyData", f"dummy_data_param {{ shape {{ dim: 2 dim: 3 }} {filler} }}", (), ("w",), "w") +
               layer("Eltwise", "", ("x", "w")), {"x": (2, 3)})
    yield ("continuation",
           layer("ContinuationIndicator", "continuation_indicator_param { time_step: 3 batch_size: 2 }", (), ("c",), "c") +
           layer("Eltwise", "", ("x", "c")), {"x": (3, 2)})
    yield ("silence", layer("Slice", "", ("x",), ("y", "z"), "s") + layer("Silence", "", ("z",), (), "h"), {"x": (2, 4)})


def cases():
    for family in (parameters, operands, eltwise, reductions, arg_max, tables, constants):
        yield from family()
