"""``layers.Type(*inputs, **parameters)`` creates a layer of type Type (see caffe.net_spec.Layers). The packages in
this folder have layers written in Python, which nets name as their module."""
from ..net_spec import layers as _layers


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return getattr(_layers, name)
