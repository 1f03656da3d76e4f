"""Convolutions, deconvolutions, products with weights."""

from itertools import product


def window(kernel, stride, pad, dilation):
    return f"kernel_size: {kernel} stride: {stride} pad: {pad} dilation: {dilation}"


def layer(kind, fields, bottoms=("x",), tops=("y",)):
    names = " ".join([f'bottom: "{b}"' for b in bottoms] + [f'top: "{t}"' for t in tops])
    return f'layer {{ name: "conv" type: "{kind}" {names} convolution_param {{ {fields} }} }}'


def windows():
    """Two spatial axes: groups and windows."""
    grid = product((1, 3), (1, 2), (0, 1), (1, 2), (1, 2, 4), (True, False))
    for kernel, stride, pad, dilation, group, bias in grid:
        fields = window(kernel, stride, pad, dilation)
        fields += f" num_output: 8 group: {group} bias_term: {str(bias).lower()}"
        name = f"k{kernel}s{stride}p{pad}d{dilation}g{group}b{int(bias)}"
        yield "conv-" + name, layer("Convolution", fields), {"x": (2, 4, 9, 8)}
        if pad < kernel:
            yield "deconv-" + name, layer("Deconvolution", fields), {"x": (2, 4, 5, 6)}


def axes():
    """One to three spatial axes, none, and other places of the channels."""
    shapes = {
        "1d": ((2, 4, 11), 1),
        "3d": ((1, 4, 5, 6, 4), 1),
        "0d": ((3, 4), 1),
        "axis0": ((4, 7, 6), 0),
        "axis2": ((2, 3, 4, 7), 2),
        "axis2-2d": ((2, 2, 4, 6, 5), 2),
        "axis-3": ((2, 4, 7, 6), -3),
        "axis-2": ((2, 3, 4, 7), -2),
        "axis3": ((2, 1, 3, 4), 3),
    }
    for (name, (shape, axis)), kind in product(shapes.items(), ("Convolution", "Deconvolution")):
        for kernel, stride, pad, dilation, group in ((1, 1, 0, 1, 1), (3, 2, 1, 1, 2), (2, 1, 0, 2, 2)):
            if shape[axis] != 4:
                raise ValueError(name)
            fields = window(kernel, stride, pad, dilation)
            fields += f" num_output: 6 group: {group} axis: {axis}"
            if name in ("0d", "axis3"):
                fields = f"kernel_size: 1 num_output: 6 group: {group} axis: {axis}"
            yield f"{kind.lower()}-{name}-k{kernel}", layer(kind, fields), {"x": shape}


def rectangles():
    """A window with different extents."""
    for kind in ("Convolution", "Deconvolution"):
        grid = product(((1, 3), (3, 2)), ((1, 2), (2, 1)), ((0, 1), (1, 0)), ("pairs", "lists"))
        for kernel, stride, pad, form in grid:
            pad = tuple(min(p, k - 1) for p, k in zip(pad, kernel))
            if form == "pairs":
                fields = (f"kernel_h: {kernel[0]} kernel_w: {kernel[1]} stride_h: {stride[0]} "
                          f"stride_w: {stride[1]} pad_h: {pad[0]} pad_w: {pad[1]}")
            else:
                fields = " ".join(
                    f"{name}: {a} {name}: {b}" for name, (a, b) in
                    (("kernel_size", kernel), ("stride", stride), ("pad", pad), ("dilation", (2, 1))))
            name = "".join(map(str, kernel + stride + pad)) + form
            yield (f"{kind.lower()}-{name}", layer(kind, fields + " num_output: 3"),
                   {"x": (2, 3, 8, 7)})


def depthwise():
    for kernel, stride, pad, bias in product((1, 3, 5), (1, 2), (0, 2), ("true", "false")):
        if pad >= kernel:
            continue
        fields = f"kernel_size: {kernel} stride: {stride} pad: {pad} bias_term: {bias}"
        name = f"k{kernel}s{stride}p{pad}{bias}"
        yield ("convolutiondepthwise-" + name, layer("ConvolutionDepthwise", fields),
               {"x": (2, 5, 7, 8)})
        yield ("depthwiseconvolution-" + name,
               layer("DepthwiseConvolution", fields + " num_output: 10 group: 5"),
               {"x": (2, 5, 7, 8)})


def several():
    """Several bottoms with the same weights."""
    for kind, count in product(("Convolution", "Deconvolution"), (2, 3)):
        bottoms = [f"x{i}" for i in range(count)]
        tops = [f"y{i}" for i in range(count)]
        yield (f"{kind.lower()}-bottoms{count}",
               layer(kind, "num_output: 4 kernel_size: 3 pad: 1", bottoms, tops),
               {b: (2, 3, 6, 5) for b in bottoms})


def inner_products():
    shapes = ((3, 8), (3, 2, 4), (3, 2, 3, 4), (2, 3, 2, 2, 3))
    for shape, transpose, bias in product(shapes, ("true", "false"), ("true", "false")):
        for axis in range(-1, len(shape)):
            fields = (f"num_output: 5 axis: {axis} transpose: {transpose} bias_term: {bias}")
            yield (f"ip-{len(shape)}-{axis}-{transpose}-{bias}",
                   f'layer {{ name: "ip" type: "InnerProduct" bottom: "x" top: "y" '
                   f'inner_product_param {{ {fields} }} }}', {"x": shape})


def cases():
    for family in (windows, axes, rectangles, depthwise, several, inner_products):
        yield from family()
