"""Layers that subtract means or divide by lengths."""

from itertools import product

import numpy as np

SHAPES = ((3, 6), (2, 6, 5), (2, 6, 4, 5), (2, 6, 2, 3, 4))


def layer(kind, fields="", tops=("y",)):
    names = " ".join(f'top: "{t}"' for t in tops)
    return f'layer {{ name: "norm" type: "{kind}" bottom: "x" {names} {fields} }}'


def lrn():
    for shape, size, alpha, beta, k in product(SHAPES, (1, 3, 5), (0.1, 2), (0.75, 0.5), (1, 2.5)):
        fields = f"lrn_param {{ local_size: {size} alpha: {alpha} beta: {beta} k: {k} }}"
        yield f"lrn-{len(shape)}axes-{size}-{alpha}-{beta}-{k}", layer("LRN", fields), {"x": shape}
    for size, alpha, beta in product((1, 3, 5, 7), (0.1, 2), (0.75, 1)):
        fields = (f"lrn_param {{ local_size: {size} alpha: {alpha} beta: {beta} k: 3 "
                  "norm_region: WITHIN_CHANNEL }")
        yield f"lrn-within-{size}-{alpha}-{beta}", layer("LRN", fields), {"x": (2, 3, 6, 5)}


def batch_norm():
    for shape, eps, stats in product(SHAPES + ((7,),), (1e-5, 0.01), ("", "true", "false")):
        fields = f"eps: {eps}" + (f" use_global_stats: {stats}" if stats else "")
        name = f"{len(shape)}axes-{eps}-{stats}"
        yield "bn-" + name, layer("BatchNorm", f"batch_norm_param {{ {fields} }}"), {"x": shape}
        if eps == 0.01:
            yield ("bn-statistics-" + name,
                   layer("BatchNorm", f"batch_norm_param {{ {fields} }}", ("y", "mean", "variance")),
                   {"x": shape})
    for place in ("n", "y"):
        text = ('layer { name: "bn" type: "BatchNorm" bottom: "x" top: "n" }'
                'layer { name: "s" type: "Scale" bottom: "n" top: "%s" '
                "scale_param { bias_term: true } }" % place)
        yield "bn-scale-" + place, text, {"x": (2, 3, 4, 5)}


def mvn():
    for shape, across, variance, eps in product(SHAPES + ((7,),), ("true", "false"),
                                                ("true", "false"), (1e-9, 0.1)):
        if eps == 1e-9 and variance == "true" and len(shape) <= (1 if across == "true" else 2):
            continue  # 0 / 1e-9 after a difference of equal numbers
        fields = f"mvn_param {{ across_channels: {across} normalize_variance: {variance} eps: {eps} }}"
        yield (f"mvn-{len(shape)}axes-{across}-{variance}-{eps}", layer("MVN", fields), {"x": shape})


def group_norm():
    for shape, groups, form, eps in product(SHAPES, (1, 2, 3, 6), ("group", "group_num"), (1e-5, 0.1)):
        if shape == (3, 6) and groups == 6:
            continue
        fields = f"group_norm_param {{ {form}: {groups} eps: {eps} }}"
        yield (f"groupnorm-{len(shape)}axes-{groups}-{form}-{eps}", layer("GroupNorm", fields),
               {"x": shape})


def normalize():
    for shape, across, shared, eps in product(SHAPES, ("true", "false"), ("true", "false"), (1e-10, 0.1)):
        fields = f"norm_param {{ across_spatial: {across} channel_shared: {shared} eps: {eps} }}"
        yield (f"normalize-{len(shape)}axes-{across}-{shared}-{eps}", layer("Normalize", fields),
               {"x": shape})
    for shape, kind, tops in product(SHAPES, ("L1", "L2"), (("y",), ("y", "norm"))):
        fields = f'normalize_param {{ normalize_type: "{kind}" }}'
        yield f"normface-{len(shape)}axes-{kind}-{len(tops)}", layer("Normalize", fields, tops), {"x": shape}
    yield "normface-default", layer("Normalize", "", ("y", "norm")), {"x": (2, 3, 4, 4)}


def softmax():
    for shape in SHAPES + ((7,),):
        for axis in range(-len(shape), len(shape)):
            fields = f"softmax_param {{ axis: {axis} }}"
            yield f"softmax-{len(shape)}axes-{axis}", layer("Softmax", fields), {"x": shape}


def losses():
    """A loss becomes the probabilities of its scores; a loss without probabilities disappears."""
    labels = np.array([0, 2, 1])
    top = 'layer { name: "loss" type: "%s" bottom: "x" bottom: "label" %s %s }'
    weights = "loss_param { class_weighting: 1 class_weighting: 1 class_weighting: 2 }"
    for kind, prob in product(("SoftmaxWithLoss", "SoftmaxWithLossOHEM", "WeightedSoftmaxWithLoss",
                               "InfogainLoss", "FocalLoss"), ("", "p")):
        tops = 'top: "l"' + (f' top: "{prob}"' if prob else "")
        for axis, shape in ((1, (3, 3)), (2, (3, 1, 4))):
            field = {"InfogainLoss": "infogain_loss_param", "FocalLoss": "focal_loss_param"}.get(kind, "softmax_param")
            fields = f"{field} {{ axis: {axis} }} " + (weights if kind == "InfogainLoss" else "")
            if kind == "InfogainLoss" and axis == 2:
                fields = fields.replace("{ class_weighting: 1", "{ class_weighting: 1 class_weighting: 3")
            reference = (f'layer {{ name: "p" type: "Softmax" bottom: "x" top: "{prob or "prob"}" '
                         f"softmax_param {{ axis: {axis} }} }}")
            yield (f"loss-{kind}-{prob}{axis}", top % (kind, tops, fields), {"x": shape, "label": labels},
                   {"reference": reference})
    sigmoid = 'layer { name: "p" type: "Sigmoid" bottom: "x" top: "prob" }'
    for kind in ("SigmoidCrossEntropyLoss", "FocalLoss"):
        yield (f"loss-{kind}-each", top % (kind, 'top: "l"', ""), {"x": (3, 4), "label": (3, 4)},
               {"reference": sigmoid})
    tanh = 'layer { name: "r" type: "TanH" bottom: "x" top: "r" }'
    for kind in ("EuclideanLoss", "L1Loss", "SmoothL1Loss", "KLDivLoss"):
        yield (f"loss-{kind}", tanh + top.replace('"x"', '"r"') % (kind, 'top: "l"', ""),
               {"x": (3, 4), "label": (3, 4)}, {"reference": tanh})
    for kind in ("HingeLoss", "MultinomialLogisticLoss", "CenterLoss"):
        fields = "center_loss_param { num_output: 4 }" if kind == "CenterLoss" else ""
        yield (f"loss-{kind}", tanh + top.replace('"x"', '"r"') % (kind, 'top: "l"', fields),
               {"x": (3, 4), "label": labels}, {"reference": tanh})
    product_layer = 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "%s" inner_product_param { num_output: 3 } }'
    accuracy = 'layer { name: "accuracy" type: "Accuracy" bottom: "%s" bottom: "label" top: "accuracy" }'
    loss = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "%s" bottom: "label" top: "loss" }'
    for blob, prob in (("ip", "prob"), ("prob", "loss/prob")):
        yield (f"loss-accuracy-{blob}", "".join(text % blob for text in (product_layer, accuracy, loss)),
               {"x": (3, 5), "label": labels},
               {"reference": product_layer % blob +
                f'layer {{ name: "p" type: "Softmax" bottom: "{blob}" top: "{prob}" }}'})
    total = ('layer { name: "half" type: "Power" bottom: "loss" top: "half" power_param { scale: 0.5 } }'
             'layer { name: "h" type: "Silence" bottom: "half" }')
    yield ("loss-sum", product_layer % "ip" + loss % "ip" + total, {"x": (3, 5), "label": labels},
           {"reference": product_layer % "ip" + 'layer { name: "p" type: "Softmax" bottom: "ip" top: "prob" }'})


def rejected():
    """A net whose only layers are layers of training."""
    yield ("loss-only", 'layer { name: "loss" type: "EuclideanLoss" bottom: "x" bottom: "z" top: "y" }',
           {"x": (3, 4), "z": (3, 4)}, {"rejected": "layers of training"})


def cases():
    for family in (lrn, batch_norm, mvn, group_norm, normalize, softmax, losses, rejected):
        yield from family()
