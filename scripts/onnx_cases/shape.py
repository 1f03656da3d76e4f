"""Layers that move values."""

from itertools import permutations, product

import numpy as np

SHAPES = ((6,), (3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 3))


def layer(kind, fields="", bottoms=("x",), tops=("y",), name="op"):
    names = " ".join([f'bottom: "{b}"' for b in bottoms] + [f'top: "{t}"' for t in tops])
    return f'layer {{ name: "{name}" type: "{kind}" {names} {fields} }}'


def flatten():
    for shape in SHAPES:
        for axis in range(len(shape)):
            for end in (-1, *range(axis, len(shape))):
                fields = f"flatten_param {{ axis: {axis} end_axis: {end} }}"
                yield f"flatten-{len(shape)}axes-{axis}-{end}", layer("Flatten", fields), {"x": shape}
    yield "flatten-default", layer("Flatten"), {"x": (2, 3, 4, 5)}
    yield "flatten-negative", layer("Flatten", "flatten_param { axis: -3 end_axis: -2 }"), {"x": (2, 3, 4, 5)}


def reshape():
    forms = (((2, 3, 4, 5), "dim: 0 dim: -1", ""), ((2, 3, 4, 5), "dim: 0 dim: 0 dim: -1", ""),
             ((2, 3, 4, 5), "dim: -1", ""), ((2, 3, 4, 5), "dim: 120", ""), ((2, 3, 4, 5), "dim: -1 dim: 0", ""),
             ((2, 3, 4, 5), "dim: 0 dim: 4 dim: -1 dim: 5", ""), ((2, 3, 4, 5), "dim: 6 dim: -1", "num_axes: 2"),
             ((2, 3, 4, 5), "dim: -1", "axis: 1 num_axes: 2"), ((2, 3, 4, 5), "dim: 2 dim: -1", "axis: 2 num_axes: 1"),
             ((2, 3, 4, 5), "dim: 1", "axis: 2 num_axes: 0"), ((2, 3, 4, 5), "dim: 1", "axis: -1 num_axes: 0"),
             ((2, 3, 4, 5), "dim: 1", "axis: 0 num_axes: 0"), ((2, 3, 4, 5), "dim: 0 dim: -1", "axis: 1"),
             ((2, 3, 4, 5), "dim: 5 dim: 4", "axis: -3 num_axes: 2"), ((6,), "dim: 2 dim: 3", ""),
             ((6,), "dim: -1 dim: 1", ""), ((2, 12), "dim: 0 dim: 3 dim: 2 dim: -1", ""),
             ((2, 3, 4), "dim: 0 dim: 0 dim: -1 dim: 1", "axis: 0 num_axes: 3"),
             ((2, 3, 4), "dim: 4 dim: -1 dim: 2", ""))
    for i, (shape, dims, more) in enumerate(forms):
        fields = f"reshape_param {{ shape {{ {dims} }} {more} }}"
        yield f"reshape-{i}", layer("Reshape", fields), {"x": shape}
        yield (f"reshape-ip-{i}", layer("TanH", "", ("x",), ("t",), "t") + layer("Reshape", fields, ("t",), ("r",)) +
               layer("InnerProduct", "inner_product_param { num_output: 2 axis: -1 }", ("r",), ("y",), "ip"),
               {"x": shape})


def orders():
    for axes in (2, 3, 4):
        for order in permutations(range(axes)):
            shape = (2, 3, 4, 5)[:axes]
            name = "".join(map(str, order))
            dims = " ".join(f"order: {i}" for i in order)
            yield f"permute-{name}", layer("Permute", f"permute_param {{ {dims} }}"), {"x": shape}
            dims = dims.replace("order", "dim")
            yield f"transpose-{name}", layer("Transpose", f"transpose_param {{ {dims} }}"), {"x": shape}
    for order in ("order: 2", "order: 0 order: 3", "order: 0 order: 2", ""):
        yield f"permute-part-{order}".replace(" ", ""), layer("Permute", f"permute_param {{ {order} }}"), {"x": (2, 3, 4, 5)}
    for shape in ((3, 4), (2, 3, 4), (2, 3, 4, 5)):
        yield f"transpose-rows-{len(shape)}", layer("Transpose"), {"x": shape}


def concat():
    for shape, count in product(SHAPES, (1, 2, 3)):
        for axis in range(-1, len(shape)):
            bottoms = [f"x{i}" for i in range(count)]
            shapes = {}
            for i, b in enumerate(bottoms):
                dims = list(shape)
                dims[axis] += i
                shapes[b] = tuple(dims)
            yield (f"concat-{len(shape)}axes-{count}-{axis}",
                   layer("Concat", f"concat_param {{ axis: {axis} }}", bottoms), shapes)
    yield "concat-dim", layer("Concat", "concat_param { concat_dim: 2 }", ("a", "b")), {"a": (2, 3, 1), "b": (2, 3, 2)}
    yield "concat-same", layer("Concat", "", ("a", "a", "b")), {"a": (2, 3, 1), "b": (2, 3, 1)}


def slices():
    for axis, shape in ((0, (6,)), (0, (6, 2)), (1, (2, 6)), (-1, (2, 3, 6)), (1, (2, 6, 3, 2)), (2, (2, 3, 6, 2)),
                        (3, (1, 2, 3, 6))):
        for points in ("", "slice_point: 1", "slice_point: 2 slice_point: 5", "slice_point: 1 slice_point: 2 slice_point: 3"):
            tops = [f"y{i}" for i in range(points.count(":") + 1 if points else 3)]
            yield (f"slice-{len(shape)}axes-{axis}-{len(points)}",
                   layer("Slice", f"slice_param {{ axis: {axis} {points} }}", ("x",), tops), {"x": shape})
    yield "slice-one", layer("Slice", "", ("x",), ("y",)), {"x": (2, 3)}
    yield "slice-dim", layer("Slice", "slice_param { slice_dim: 2 }", ("x",), ("y", "z")), {"x": (2, 3, 4)}
    yield "slice-place", (layer("Slice", "", ("x",), ("y", "z")) + layer("ReLU", "", ("y",), ("y",), "r")), {"x": (2, 4)}


def crops():
    for axis, offset in product((0, 1, 2, 3, -2), ("", "offset: 1", "list")):
        count = 4 - axis % 4
        reference = [6, 5, 8, 7]
        for i in range(axis % 4, 4):
            reference[i] -= 2
        fields = " ".join(f"offset: {i % 3}" for i in range(count)) if offset == "list" else offset
        yield (f"crop-{axis}-{offset}".replace(" ", ""),
               layer("Crop", f"crop_param {{ axis: {axis} {fields} }}", ("x", "r")),
               {"x": (6, 5, 8, 7), "r": tuple(reference)})
    yield "crop-default", layer("Crop", "", ("x", "r")), {"x": (2, 3, 8, 7), "r": (2, 3, 4, 5)}


def tiles():
    for shape in SHAPES:
        for axis, count in product(range(-1, len(shape)), (1, 3)):
            yield (f"tile-{len(shape)}axes-{axis}-{count}", layer("Tile", f"tile_param {{ axis: {axis} tiles: {count} }}"),
                   {"x": shape})


def reverses():
    for shape in SHAPES:
        for axis in range(-1, len(shape)):
            yield f"reverse-{len(shape)}axes-{axis}", layer("Reverse", f"reverse_param {{ axis: {axis} }}"), {"x": shape}
    yield "reverse-default", layer("Reverse"), {"x": (3, 2, 4)}
    yield "reverse-two", layer("Reverse", "reverse_param { axis: 0 axis: 2 }"), {"x": (3, 2, 4)}
    for height, width in product(("true", "false"), ("true", "false")):
        yield (f"flip-{height}-{width}", layer("Flip", f"flip_param {{ flip_height: {height} flip_width: {width} }}"),
               {"x": (2, 3, 4, 5)})


def rejected():
    """Shapes that depend on values."""
    marks = np.array([[-3, -3], [1, 1], [1, 1]])
    yield ("reverse-marks", layer("Reverse", "", ("m", "x")), {"m": marks, "x": (3, 2, 4)}, {"rejected": "marks"})
    yield ("filter", layer("Filter", "", ("x", "s")), {"x": (3, 2), "s": (3,)}, {"rejected": "Filter"})


def cases():
    for family in (flatten, reshape, orders, concat, slices, crops, tiles, reverses, rejected):
        yield from family()
