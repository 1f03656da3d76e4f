"""Descriptions of nets in Python.

    from caffe import layers as L, params as P
    n = caffe.NetSpec()
    n.data, n.label = L.DummyData(shape=[dict(dim=[8, 3, 32, 32]), dict(dim=[8])], ntop=2)
    n.conv1 = L.Convolution(n.data, num_output=16, kernel_size=3, weight_filler=dict(type='xavier'))
    n.relu1 = L.ReLU(n.conv1, in_place=True)
    n.pool1 = L.Pooling(n.relu1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.loss = L.SoftmaxWithLoss(n.pool1, n.label)
    print(n.to_proto())

Layers and tops get their names from the attributes that they are assigned to. A top without an assignment is
named after its layer's type, with a number.
"""
from collections import Counter, OrderedDict


def _pb2():
    from .proto import caffe_pb2
    return caffe_pb2


_param_names = {}
# Types whose parameters have the name of another message or type.
_SHARED = dict.fromkeys(("Deconvolution", "Im2col", "ConvolutionDepthwise", "DepthwiseConvolution"), "convolution")
_SHARED.update(Noise="noise", LocalConvolution="local_convolution", SpatialTransformer="st")


def param_name_dict():
    """A dictionary from each layer type to the field of LayerParameter with its parameters:
    {'Convolution': 'convolution', ...}."""
    if not _param_names:
        for field in _pb2().LayerParameter.DESCRIPTOR.fields:
            if field.message_type is None or not field.name.endswith("_param"):
                continue
            kind = field.message_type.name
            if kind.endswith("Parameter"):
                _param_names.setdefault(kind[:-len("Parameter")], field.name[:-len("_param")])
    return _param_names


def to_proto(*tops):
    """The net that computes the given tops, as a NetParameter."""
    made, names = OrderedDict(), Counter()
    for top in tops:
        top.fn._to_proto(made, {}, names)
    net = _pb2().NetParameter()
    net.layer.extend(made.values())
    return net


def assign_proto(proto, name, val):
    """Sets the field `name` of a message: a submessage from a dict, a repeated field from a list."""
    field = getattr(proto, name)
    is_repeated = hasattr(field, "extend")
    if is_repeated and not isinstance(val, (list, tuple)) and not _is_array(val):
        val = [val]
    if isinstance(val, (list, tuple)) or _is_array(val):
        if not is_repeated and hasattr(proto, name + "_3d"):
            # One value per axis, as crema's text format takes it: kernel_size, stride and pad of Pooling.
            return assign_proto(proto, name + "_3d", val)
        if not is_repeated:
            raise TypeError("%s takes one value, not a list" % name)
        if len(val) > 0 and isinstance(val[0], dict):
            for item in val:
                message = field.add()
                for key, value in item.items():
                    assign_proto(message, key, value)
        else:
            field.extend([_whole(proto, name, item) for item in val])
    elif isinstance(val, dict):
        if not val:
            field.SetInParent()
        for key, value in val.items():
            assign_proto(field, key, value)
    elif hasattr(val, "DESCRIPTOR"):
        field.CopyFrom(val)
    else:
        setattr(proto, name, _whole(proto, name, val))


def _whole(proto, name, value):
    """Converts integral floats, such as results of `/`, for integer fields."""
    field = proto.DESCRIPTOR.fields_by_name[name]
    if isinstance(value, float) and value.is_integer() and \
            field.cpp_type not in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return int(value)
    return value


def _is_array(value):
    return hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1


class Top:
    """A top of a layer."""

    def __init__(self, fn, n):
        self.fn = fn
        self.n = n

    def to_proto(self):
        """The net that computes this top, as a NetParameter."""
        return to_proto(self)

    def update(self, params):
        """Adds `params` to the layer's parameters."""
        self.fn._update(params)

    def _to_proto(self, layers, names, autonames):
        return self.fn._to_proto(layers, names, autonames)


class Function:
    """A layer: its type, bottoms, parameters and tops."""

    def __init__(self, type_name, inputs, params):
        self.type_name = type_name
        for index, item in enumerate(inputs):
            if not isinstance(item, Top):
                raise TypeError("%s input %d is not a Top (type is %s)" % (
                    type_name, index, type(item)))
        self.inputs = inputs
        self.params = dict(params)
        self.ntop = self.params.pop("ntop", 1)
        self.in_place = self.params.pop("in_place", False)
        self.tops = tuple(Top(self, n) for n in range(self.ntop))

    def _update(self, params):
        self.params.update(params)

    def _get_name(self, names, autonames):
        if self not in names and self.ntop > 0:
            names[self] = self._get_top_name(self.tops[0], names, autonames)
        elif self not in names:
            autonames[self.type_name] += 1
            names[self] = "%s%d" % (self.type_name, autonames[self.type_name])
        return names[self]

    def _get_top_name(self, top, names, autonames):
        if top not in names:
            autonames[top.fn.type_name] += 1
            names[top] = "%s%d" % (top.fn.type_name, autonames[top.fn.type_name])
        return names[top]

    def _to_proto(self, layers, names, autonames):
        if self in layers:
            return
        bottoms = []
        for item in self.inputs:
            item._to_proto(layers, names, autonames)
            bottoms.append(layers[item.fn].top[item.n])
        layer = _pb2().LayerParameter()
        layer.type = self.type_name
        layer.bottom.extend(bottoms)
        if self.in_place:
            layer.top.extend(layer.bottom)
        else:
            layer.top.extend(self._get_top_name(top, names, autonames) for top in self.tops)
        layer.name = self.params.get("name", self._get_name(names, autonames))
        for key, value in self.params.items():
            if key != "name":
                self._assign(layer, key, value)
        layers[self] = layer

    def _assign(self, layer, key, value):
        """Sets a field of the layer type's parameters, or else of the layer. `engine` exists in both."""
        own = _SHARED.get(self.type_name) or param_name_dict().get(self.type_name)
        name = (own or "") + "_param"
        if not key.endswith("param") and own and \
                key in layer.DESCRIPTOR.fields_by_name[name].message_type.fields_by_name:
            assign_proto(getattr(layer, name), key, value)
        elif key in layer.DESCRIPTOR.fields_by_name:
            assign_proto(layer, key, value)
        else:
            raise AttributeError("neither LayerParameter nor the parameters of layers of type %s have a field %r"
                                 % (self.type_name, key))


class NetSpec:
    """A net under construction. Setting an attribute names a top; ``to_proto()`` returns the net."""

    def __init__(self):
        super().__setattr__("tops", OrderedDict())

    def __setattr__(self, name, value):
        self.tops[name] = value

    def __getattr__(self, name):
        try:
            return self.__dict__["tops"][name]
        except KeyError:
            raise AttributeError("the net has no top %r" % name) from None

    def __setitem__(self, key, value):
        self.__setattr__(key, value)

    def __getitem__(self, item):
        return self.__getattr__(item)

    def __delattr__(self, name):
        del self.tops[name]

    def __delitem__(self, item):
        del self.tops[item]

    def __contains__(self, name):
        return name in self.tops

    def keys(self):
        """The names of the tops, in order of assignment."""
        return list(self.tops.keys())

    def vals(self):
        """The tops, in order of assignment."""
        return list(self.tops.values())

    def update(self, name, params):
        """Adds `params` to the parameters of the layer that computes the top `name`."""
        self.tops[name].update(params)

    def to_proto(self):
        """The net as a NetParameter."""
        names = {top: name for name, top in self.tops.items()}
        autonames, made = Counter(), OrderedDict()
        for top in self.tops.values():
            top._to_proto(made, names, autonames)
        net = _pb2().NetParameter()
        net.layer.extend(made.values())
        return net


class Layers:
    """``layers.Type(*inputs, **parameters)`` creates a layer of type Type. It returns the layer's top, a tuple of
    `ntop` tops, or the layer itself if `ntop` is 0."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def layer(*args, **kwargs):
            fn = Function(name, args, kwargs)
            if fn.ntop == 0:
                return fn
            return fn.tops[0] if fn.ntop == 1 else fn.tops
        layer.__name__ = name
        return layer


class Parameters:
    """The enum values of layer parameters, such as ``params.Pooling.MAX``."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        class Param:
            """The enum values of one message."""

            def __getattr__(self, value):
                return getattr(getattr(_pb2(), name + "Parameter"), value)
        return Param()


layers = Layers()
params = Parameters()
