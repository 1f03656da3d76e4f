"""Maps of another size: interpolated, repeated, resampled and unpooled."""
import itertools

import numpy as np


def text(shape):
    """A shape in the name of a case."""
    return "x".join(map(str, shape))


def layer(kind, fields, bottoms=("x",)):
    """A layer from the bottoms to y."""
    return "layer { name: 'l' type: '%s' %s top: 'y' %s }" % (
        kind, " ".join("bottom: '%s'" % name for name in bottoms), fields)


def interpolated():
    """Interp."""
    shapes = ((2, 3, 5, 7), (1, 2, 1, 4), (1, 1, 9, 9))
    for fields in ("zoom_factor: 2", "zoom_factor: 3", "shrink_factor: 2", "height: 8 width: 3", "height: 1 width: 1",
                   "height: 11 width: 13", "zoom_factor: 3 shrink_factor: 2", "height: 5 width: 7"):
        for shape in shapes:
            yield "interp %s of %s" % (fields, text(shape)), layer("Interp", "interp_param { %s }" % fields), {"x": shape}
    for begin, end in ((-1, 0), (0, -2), (-1, -1)):
        yield ("interp cut %d %d" % (begin, end),
               layer("Interp", "interp_param { height: 6 width: 9 pad_beg: %d pad_end: %d }" % (begin, end)),
               {"x": (2, 3, 6, 5)})
    yield ("interp like a blob", layer("Interp", "", ("x", "like")), {"x": (2, 3, 4, 5), "like": (2, 1, 7, 9)})


def repeated():
    """Upsample."""
    for fields in ("scale: 1", "scale: 2", "scale: 3", "scale_h: 2 scale_w: 5"):
        yield "upsample %s" % fields, layer("Upsample", "upsample_param { %s }" % fields), {"x": (2, 3, 4, 5)}
    for fields, rows, columns in (("scale: 2", 6, 8), ("scale: 2 upsample_h: 7 upsample_w: 9", 7, 9),
                                  ("scale: 3 pad_out_h: true pad_out_w: true", 8, 11)):
        random = np.random.RandomState(rows)
        mask = random.randint(0, rows * columns, (2, 3, 3, 4)).astype(np.float32)
        yield ("upsample by a mask, %s" % fields,
               layer("Upsample", "upsample_param { %s }" % fields, ("x", "mask")),
               {"x": (2, 3, 3, 4), "mask": mask})


def resampled():
    """Resample."""
    for kind, smooth, shape, (rows, columns) in itertools.product(
            ("NEAREST", "LINEAR", "CUBIC"), ("true", "false"), ((2, 3, 6, 7), (1, 2, 9, 4)),
            ((6, 7), (3, 2), (12, 14), (5, 11), (1, 1))):
        yield ("resample %s, antialias %s, %s to %d x %d" % (kind, smooth, text(shape), rows, columns),
               layer("Resample", "resample_param { type: %s antialias: %s height: %d width: %d }"
                     % (kind, smooth, rows, columns)), {"x": shape})
    yield ("resample like a blob", layer("Resample", "resample_param { type: CUBIC }", ("x", "like")),
           {"x": (2, 3, 5, 6), "like": (2, 1, 7, 4)})


def unpooled():
    """Unpooling."""
    for method, kernel, stride, size in itertools.product(("MAX", "AVE", "TILE"), (1, 2, 3), (1, 2, 3), (0, 5, 8)):
        fields = "unpool: %s kernel_size: %d stride: %d%s" % (method, kernel, stride,
                                                             " unpool_size: %d" % size if size else "")
        yield "unpool %s" % fields, layer("Unpooling", "unpooling_param { %s }" % fields), {"x": (2, 2, 3, 3)}
    yield ("unpool with fields for each axis",
           layer("Unpooling", "unpooling_param { unpool: TILE kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 unpool_h: 9 "
                 "unpool_w: 4 }"), {"x": (1, 2, 4, 3)})
    mask = np.random.RandomState(0).randint(0, 36, (2, 2, 3, 3)).astype(np.float32)
    yield ("unpool by a mask", layer("Unpooling", "unpooling_param { kernel_size: 2 stride: 2 unpool_size: 6 }",
                                     ("x", "mask")), {"x": (2, 2, 3, 3), "mask": mask})


def cases():
    """All cases of the family."""
    yield from interpolated()
    yield from repeated()
    yield from resampled()
    yield from unpooled()
