"""Nets of crema with random parameters and inputs, and how their numbers are compared."""
import hashlib

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from google.protobuf import text_format

# Layers of training, and the layer that a deploy file has in their place.
INFERENCE_FORMS = {"InfogainLoss": "Softmax", "SoftmaxWithLoss": "Softmax", "SoftmaxWithLossOHEM": "Softmax",
                   "WeightedSoftmaxWithLoss": "Softmax", "SigmoidCrossEntropyLoss": "Sigmoid"}


class Failure(Exception):
    """A wrong number, or a file that is not valid."""


class Rejected(Exception):
    """ONNX cannot express the net, or crema the file."""


def random_of(*names):
    """A generator of random numbers for these names."""
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return np.random.RandomState(int.from_bytes(digest[:4], "little"))


# ---- building ----------------------------------------------------------------------------------------


def input_layers(inputs):
    """The text of the Input layers for shapes or arrays by name."""
    lines = []
    for name, value in inputs.items():
        shape = value.shape if isinstance(value, np.ndarray) else value
        dims = " ".join("dim: %d" % extent for extent in shape)
        lines.append("layer { name: '%s' type: 'Input' top: '%s' input_param { shape { %s } } }" % (name, name, dims))
    return "\n".join(lines) + "\n"


def input_arrays(inputs, label):
    """An array for each input: the given one, or random numbers of the given shape."""
    return {name: np.asarray(value, np.float32) if isinstance(value, np.ndarray) else
            random_of(label, name).standard_normal(value).astype(np.float32) for name, value in inputs.items()}


def inference_form(text):
    """The text of a net with the losses replaced by the layers that they become in an ONNX file, or None if it has
    no such loss. Without a top for them, the probabilities are named "prob"."""
    net = text_format.Parse(text, caffe_pb2.NetParameter())
    taken = {top for layer in net.layer for top in layer.top}
    changed = False
    for layer in net.layer:
        form = INFERENCE_FORMS.get(layer.type)
        if form is None:
            continue
        changed = True
        layer.type = form
        if layer.HasField("infogain_loss_param"):
            layer.softmax_param.axis = layer.infogain_loss_param.axis
        layer.ClearField("loss_param")
        layer.ClearField("loss_weight")
        del layer.bottom[1:]
        name = layer.top[1] if len(layer.top) > 1 else "prob"
        if len(layer.top) < 2 and name in taken:
            name = "%s/prob" % (layer.top[0] if layer.top else layer.name)
        taken.add(name)
        layer.top[:] = [name]
    return text_format.MessageToString(net) if changed else None


def _parameter(kind, index, shape, random):
    """Random values for parameter `index` of a layer of type `kind`."""
    if kind == "BatchNorm" and index < 3:
        scale = np.float32(1.25)  # the other two are divided by it
        if index == 2:
            return np.full(shape, scale)
        return scale * (random.uniform(0.3, 1.5, shape) if index else 0.3 * random.standard_normal(shape))
    if kind in ("Scale", "Normalize", "GroupNorm") and index == 0:
        return random.uniform(0.5, 1.5, shape)
    if len(shape) >= 2:
        return random.standard_normal(shape) * 1.4 / np.sqrt(max(1, np.prod(shape[1:])))
    return 0.3 * random.standard_normal(shape)


def fill_parameters(net, label):
    """Gives all parameters random values: the same for the same label."""
    kinds = dict(zip(net._layer_names, net._layer_types))
    for name, blobs in net.params.items():
        for index, blob in enumerate(blobs):
            shape = tuple(blob.shape)
            values = _parameter(kinds[name], index, shape, random_of(label, name, index))
            blob.data[...] = np.asarray(values, np.float32).reshape(shape)


def level_activations(net):
    """Scales the weights of convolutions and inner products so that each output has a variance of 1. Deep nets with
    random weights overflow, or saturate their softmax, without this step."""
    for index, (name, kind) in enumerate(zip(net._layer_names, net._layer_types)):
        net._forward(index, index)
        if kind not in ("Convolution", "InnerProduct", "Deconvolution"):
            continue
        spread = float(np.std(net.blobs[net.top_names[name][0]].data))
        if 0 < spread < np.inf:
            for blob in net.params[name]:
                blob.data[...] /= spread
            net._forward(index, index)


def copy_parameters(source, target):
    """Copies the parameters of all layers that both nets have."""
    found = source.params
    for name, blobs in target.params.items():
        for blob, other in zip(blobs, found[name]):
            blob.data[...] = other.data


def run(net, arrays, blobs=()):
    """The outputs of a net, and the blobs listed in `blobs`, by name. Inputs take the shapes of the arrays."""
    for name, array in arrays.items():
        if name in net.inputs:
            net.blobs[name].reshape(*array.shape)
    net.reshape()
    for name, array in arrays.items():
        if name in net.inputs:
            net.blobs[name].data[...] = array
    return {name: np.array(values) for name, values in net.forward(blobs=blobs).items()}


# ---- comparing -----------------------------------------------------------------------------------------


def difference(found, wanted):
    """The largest difference over the largest finite value of `wanted`; infinite if shapes or NaNs differ."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    if found.shape != wanted.shape or (np.isnan(found) != np.isnan(wanted)).any():
        return np.inf
    same = (found == wanted) | np.isnan(wanted)
    if same.all():
        return 0.0
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = finite.max() if finite.size else 0.0
    return float(np.abs(found - wanted)[~same].max() / (largest or 1.0))


def compare(found, wanted, tolerance, what):
    """Raises Failure if an output of `wanted` is missing in `found` or differs. Returns the largest difference."""
    worst = 0.0
    for name, values in wanted.items():
        if name not in found:
            raise Failure("%s: output '%s' is missing; there are %s" % (what, name, ", ".join(found) or "none"))
        other = np.asarray(found[name])
        if other.shape != values.shape:
            raise Failure("%s: '%s' has the shape %s instead of %s" % (what, name, other.shape, values.shape))
        relative = difference(other, values)
        if not relative <= tolerance:
            at = np.unravel_index(np.nanargmax(np.abs(np.asarray(other, np.float64) - values)), values.shape) \
                if values.size and not np.isinf(relative) else ()
            raise Failure("%s: '%s' differs by %.2g of its largest value%s" % (
                what, name, relative, " at %s: %g instead of %g" % (tuple(map(int, at)), other[at], values[at])
                if at else ""))
        worst = max(worst, relative)
    return worst




