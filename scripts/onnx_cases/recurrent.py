"""Recurrent layers: their steps, marks of sequences, static inputs and exposed states."""
import itertools

import numpy as np


def marks(steps, batch, kind):
    """Marks of the starts of sequences: 0 at a start, else 1."""
    if kind == "start":
        cont = np.ones((steps, batch))
        cont[0] = 0
    elif kind == "fractions":
        cont = np.random.RandomState(3).uniform(0, 1, (steps, batch))
    else:
        cont = np.random.RandomState(2).randint(0, 2, (steps, batch))
    if kind != "exposed":
        cont[0] = 0  # the states of the pass before take no part
    return cont.astype(np.float32)


def unrolled():
    """LSTM and RNN."""
    for kind, (steps, batch, units), cont, static, exposed in itertools.product(
            ("LSTM", "RNN"), ((1, 1, 1), (1, 3, 4), (4, 2, 5), (6, 3, 2)), ("start", "random", "fractions"),
            (False, True), (False, True)):
        states = ["h", "c"][:2 if kind == "LSTM" else 1] if exposed else []
        inputs = {"x": (steps, batch, 3), "cont": marks(steps, batch, "exposed" if exposed else cont)}
        if static:
            inputs["s"] = (batch, 2)
        inputs.update({name: (1, batch, units) for name in states})
        bottoms = " ".join("bottom: '%s'" % name for name in inputs)
        tops = " ".join("top: '%s_out'" % name for name in ["y"] + states)
        yield ("%s of %d steps, %d sequences, %d units, %s%s%s" % (kind, steps, batch, units, cont, ", static" * static,
                                                                  ", exposed" * exposed),
               "layer { name: 'r' type: '%s' %s %s recurrent_param { num_output: %d expose_hidden: %s weight_filler { "
               "type: 'uniform' min: -0.5 max: 0.5 } } }" % (kind, bottoms, tops, units, "true" if exposed else "false"),
               inputs)
    for kind in ("LSTM", "RNN"):
        yield ("%s of maps, two layers" % kind,
               "layer { name: 'r' type: '%s' bottom: 'x' bottom: 'cont' top: 'h' recurrent_param { num_output: 3 "
               "weight_filler { type: 'xavier' } } } layer { name: 's' type: '%s' bottom: 'h' bottom: 'cont' top: 'y' "
               "recurrent_param { num_output: 2 weight_filler { type: 'xavier' } } }" % (kind, kind),
               {"x": (5, 2, 2, 3), "cont": marks(5, 2, "random")})


def units():
    """LSTMUnit."""
    for batch, cells, kind in itertools.product((1, 3), (1, 4), ("exposed", "fractions")):
        yield ("unit of %d sequences, %d cells, %s" % (batch, cells, kind),
               "layer { name: 'u' type: 'LSTMUnit' bottom: 'c' bottom: 'x' bottom: 'cont' top: 'c_out' top: 'h_out' }",
               {"c": (1, batch, cells), "x": (1, batch, 4 * cells), "cont": marks(1, batch, kind)})


def cases():
    """All cases of the family."""
    yield from unrolled()
    yield from units()
