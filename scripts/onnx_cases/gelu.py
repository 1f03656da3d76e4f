"""GELU."""
import itertools

FORMS = {"exact": "", "tanh": "gelu_param { approximate: true }"}


def cases():
    """Both forms."""
    for (name, fields), shape in itertools.product(FORMS.items(), ((2, 3, 4, 5), (2, 7), (6,))):
        yield ("%s/%s" % (name, "x".join(map(str, shape))),
               "layer { name: 'gelu' type: 'GELU' bottom: 'x' top: 'y' %s }" % fields, {"x": shape})
