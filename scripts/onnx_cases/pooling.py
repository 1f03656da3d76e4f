"""Pooling."""

from itertools import product


def layer(fields, tops=("y",), bottom="x"):
    names = " ".join(f'top: "{t}"' for t in tops)
    return (f'layer {{ name: "pool" type: "Pooling" bottom: "{bottom}" {names} '
            f'pooling_param {{ {fields} }} }}')


def fits(size, kernel, stride, pad, floor):
    """Whether no window is outside the input."""
    room = size + 2 * pad - kernel
    if room < 0 or pad >= kernel:
        return False
    positions = (room // stride if floor else -(-room // stride)) + 1
    if pad and (positions - 1) * stride >= size + pad:
        positions -= 1
    return (positions - 1) * stride - pad < size


def squares():
    """Sizes that windows fill or do not fill."""
    grid = product(("MAX", "AVE"), (2, 3, 5), (1, 2, 3), (0, 1, 2), (6, 7, 10), ("CEIL", "FLOOR"))
    for method, kernel, stride, pad, size, rounding in grid:
        if not fits(size, kernel, stride, pad, rounding == "FLOOR"):
            continue
        fields = f"pool: {method} kernel_size: {kernel} stride: {stride} pad: {pad}"
        fields += "" if rounding == "CEIL" else " round_mode: FLOOR"
        yield (f"pool-{method}-k{kernel}s{stride}p{pad}n{size}{rounding}", layer(fields),
               {"x": (2, 3, size, size + 2)} if fits(size + 2, kernel, stride, pad,
                                                     rounding == "FLOOR")
               else {"x": (2, 3, size, size)})


def inside():
    """Averages of the input's values only."""
    for kernel, stride, pad, rounding in product((2, 3, 4), (1, 2), (0, 1), ("CEIL", "FLOOR")):
        fields = (f"pool: AVE kernel_size: {kernel} stride: {stride} pad: {pad} "
                  f"avg_include_pad: false round_mode: {rounding}")
        yield f"pool-inside-k{kernel}s{stride}p{pad}{rounding}", layer(fields), {"x": (2, 3, 8, 9)}


def rectangles():
    grid = product(("MAX", "AVE"), ((2, 3), (3, 1)), ((1, 2), (2, 2)), ((0, 1), (1, 0), (0, 0)))
    for method, kernel, stride, pad in grid:
        if any(p >= k for p, k in zip(pad, kernel)):
            continue
        fields = (f"pool: {method} kernel_h: {kernel[0]} kernel_w: {kernel[1]} "
                  f"stride_h: {stride[0]} stride_w: {stride[1]} pad_h: {pad[0]} pad_w: {pad[1]}")
        name = "".join(map(str, kernel + stride + pad))
        yield f"pool-{method}-{name}", layer(fields), {"x": (2, 3, 8, 7)}


def axes():
    """One and three spatial axes."""
    for shape, method in product(((2, 3, 9), (2, 2, 4, 5, 6)), ("MAX", "AVE")):
        for kernel, stride, pad in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
            fields = f"pool: {method} kernel_size: {kernel} stride: {stride} pad: {pad}"
            yield f"pool-{method}-{len(shape)}axes-k{kernel}s{stride}p{pad}", layer(fields), {"x": shape}
        yield f"pool-{method}-{len(shape)}axes-global", layer(f"pool: {method} global_pooling: true"), {"x": shape}
    for method in ("MAX", "AVE"):
        lists = "kernel_size_3d: 1 kernel_size_3d: 2 kernel_size_3d: 3 stride_3d: 1 stride_3d: 2 stride_3d: 2"
        yield f"pool-{method}-lists", layer(f"pool: {method} {lists}"), {"x": (1, 2, 4, 5, 6)}


def whole():
    for method, shape in product(("MAX", "AVE"), ((1, 1, 1, 1), (2, 3, 5, 4), (3, 2, 7, 7))):
        name = "x".join(map(str, shape))
        yield f"pool-{method}-global-{name}", layer(f"pool: {method} global_pooling: true"), {"x": shape}


def masks():
    """The positions of the maxima."""
    for kernel, stride, pad in product((2, 3), (1, 2), (0, 1)):
        fields = f"pool: MAX kernel_size: {kernel} stride: {stride} pad: {pad}"
        for shape in ((2, 3, 6, 7), (2, 3, 8), (2, 2, 4, 4, 3)):
            yield (f"pool-mask-{len(shape)}axes-k{kernel}s{stride}p{pad}", layer(fields, ("y", "mask")),
                   {"x": shape})
    yield "pool-mask-global", layer("pool: MAX global_pooling: true", ("y", "mask")), {"x": (2, 3, 5, 6)}


def chains():
    """Rounding up twice, and a concatenation of different pools of one map."""
    for method in ("MAX", "AVE"):
        fields = f"pool: {method} kernel_size: 3 stride: 2"
        text = layer(fields, ("a",)).replace('"pool"', '"first"') + layer(fields, bottom="a")
        yield f"pool-twice-{method}", text, {"x": (2, 3, 14, 15)}
    text = "".join(
        layer(f"pool: {method} kernel_size: {kernel} pad: {kernel // 2}", (f"a{kernel}{method}",))
        .replace('"pool"', f'"pool{kernel}{method}"')
        for method, kernel in product(("MAX", "AVE"), (3, 5)))
    bottoms = " ".join(f'bottom: "a{k}{m}"' for m, k in product(("MAX", "AVE"), (3, 5)))
    yield "pool-inception", text + f'layer {{ name: "all" type: "Concat" {bottoms} top: "y" }}', {"x": (2, 2, 7, 6)}


def rejected():
    """Pooling that ONNX cannot express."""
    yield ("pool-stochastic", layer("pool: STOCHASTIC kernel_size: 2"), {"x": (1, 2, 4, 4)},
           {"rejected": "stochastic"})
    yield ("pool-outside", layer("pool: MAX kernel_size: 1 stride: 3"), {"x": (1, 2, 5, 5)},
           {"rejected": "outside the input"})


def cases():
    for family in (squares, inside, rectangles, axes, whole, masks, chains, rejected):
        yield from family()
