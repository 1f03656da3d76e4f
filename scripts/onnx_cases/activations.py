"""Functions of one value at a time, also in place and in chains."""

from itertools import product

import numpy as np

SHAPES = ((2, 3), (2, 3, 4, 5))


def layer(kind, fields="", bottom="x", top="y", name="act"):
    return f'layer {{ name: "{name}" type: "{kind}" bottom: "{bottom}" top: "{top}" {fields} }}'


def values(shape, low, high):
    """Numbers between two bounds, without the bounds."""
    count = int(np.prod(shape))
    return (low + (high - low) * (np.arange(count) * 7919 % count + 0.5) / count).reshape(shape)


PLAIN = ("ReLU", "ReLU6", "Sigmoid", "TanH", "AbsVal", "BNLL", "SeLu", "ELU", "Swish", "Threshold",
         "PReLU", "Power", "Exp")
FIELDS = {
    "ReLU": [f"relu_param {{ negative_slope: {slope} }}" for slope in (0, 0.01, 0.3, 1, -0.5)],
    "ELU": [f"elu_param {{ alpha: {a} lambda: {b} }}" for a, b in product((0.3, 1, 2), (1, 1.5))],
    "PReLU": [f"prelu_param {{ channel_shared: {shared} }}" for shared in ("true", "false")],
    "Power": [f"power_param {{ power: {p} scale: {a} shift: {b} }}"
              for p, a, b in product((0, 1, 2, 3), (0, 1, -0.5), (0, 0.25))],
    "Exp": [f"exp_param {{ base: {p} scale: {a} shift: {b} }}"
            for p, a, b in product((-1, 2, 0.5), (1, -0.5), (0, 0.25))],
    "Threshold": [f"threshold_param {{ threshold: {t} }}" for t in (-0.5, 0, 0.3)],
    "Clip": [f"clip_param {{ min: {a} max: {b} }}" for a, b in ((-1, 1), (0, 6), (0.2, 0.2), (-0.5, 3))],
    "Swish": [f"swish_param {{ beta: {beta} }}" for beta in (0.5, 1, 1.702, -1)],
}


def grid():
    for kind, shape in product(PLAIN, SHAPES + ((4,), (2, 3, 2, 2, 2))):
        if kind == "PReLU" and len(shape) < 2:
            continue
        yield f"{kind}-{len(shape)}axes", layer(kind), {"x": values(shape, -3, 4)}
    for kind, fields in FIELDS.items():
        for (i, field), shape in product(enumerate(fields), SHAPES):
            yield f"{kind}-fields{i}-{len(shape)}axes", layer(kind, field), {"x": values(shape, -3, 4)}


def positive():
    """Functions of positive numbers."""
    for p, a, b in product((-1, 2, 10), (1, 0.5), (0, 0.25)):
        yield (f"log-{p}-{a}-{b}", layer("Log", f"log_param {{ base: {p} scale: {a} shift: {b} }}"),
               {"x": values((2, 3, 4), 0.2, 9)})
    for p, a, b in product((0.5, -1, -0.75, 2.5), (1, 2), (0, 0.25)):
        yield (f"power-{p}-{a}-{b}", layer("Power", f"power_param {{ power: {p} scale: {a} shift: {b} }}"),
               {"x": values((2, 3, 4), 0.5, 4)})


def in_place():
    """Chains on one blob, with the first value read by another layer."""
    for kind in PLAIN + ("Dropout",):
        for name, first in (("ip", 'layer { name: "first" type: "InnerProduct" bottom: "x" top: "a" '
                                   "inner_product_param { num_output: 4 } }"),
                            ("power", layer("Power", "power_param { scale: 0.7 }", top="a", name="first"))):
            chain = first + layer(kind, bottom="a", top="a") + layer("TanH", bottom="a", top="a", name="last")
            yield f"place-{kind}-{name}", chain, {"x": (3, 4)}
            yield (f"place-read-{kind}-{name}",
                   first + layer(kind, bottom="a", top="a") + layer("Sigmoid", bottom="a", top="b", name="two") +
                   layer("AbsVal", bottom="a", top="c", name="three"), {"x": (3, 4)})
    for kind in ("ReLU", "Sigmoid", "Dropout"):
        yield f"place-input-{kind}", layer(kind, top="x") + layer("TanH", name="t"), {"x": (3, 4)}


def identities():
    """Layers that do nothing in phase TEST."""
    kinds = {
        "Dropout": "", "SpatialDropout": "", "SeLuDropout": "", "GradientScaler": "", "MnActivation": "",
        "Noise": "noise_param { gaussian_std: 1 }",
    }
    for kind, fields in kinds.items():
        yield f"{kind}-output", layer("TanH", top="t", name="t") + layer(kind, fields, bottom="t"), {"x": (3, 4, 2)}
        yield f"{kind}-input", layer(kind, fields), {"x": (3, 4, 2)}
        yield (f"{kind}-middle", layer(kind, fields, top="d") + layer("TanH", bottom="d", name="t"),
               {"x": (3, 4, 2)})
        if kind != "MnActivation":
            yield (f"{kind}-place", layer("TanH", top="y", name="t") + layer(kind, fields, bottom="y", top="y"),
                   {"x": (3, 4, 2)})
    yield ("dropout-twice", layer("TanH", top="t", name="t") + layer("Dropout", bottom="t", top="d", name="d") +
           layer("Dropout", bottom="d", top="y", name="e") + layer("AbsVal", bottom="d", top="z", name="a"),
           {"x": (3, 4)})


def rejected():
    """Layers that draw random numbers in phase TEST."""
    yield ("dropout-samples", layer("Dropout", "dropout_param { sample_weights_test: true }"), {"x": (3, 4)},
           {"rejected": "random numbers"})


def cases():
    for family in (grid, positive, in_place, identities, rejected):
        yield from family()
