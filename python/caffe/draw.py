"""Diagrams of nets, drawn with Graphviz.

    draw_net_to_file(net_param, 'net.png', 'LR')

`net_param` is a caffe_pb2.NetParameter, for example from text_format or NetSpec.to_proto.
"""
import os
import subprocess

LAYER_STYLE_DEFAULT = {"shape": "record", "fillcolor": "#6495ED", "style": "filled"}
NEURON_LAYER_STYLE = {"shape": "record", "fillcolor": "#90EE90", "style": "filled"}
BLOB_STYLE = {"shape": "octagon", "fillcolor": "#E0E0E0", "style": "filled"}

_COLOURS = {"Convolution": "#FF5050", "Deconvolution": "#FF5050", "Pooling": "#FF9900",
            "InnerProduct": "#CC33FF"}


def get_pooling_types_dict():
    """A dictionary of the names of pooling methods by number."""
    from .proto import caffe_pb2
    return {number: name for name, number in caffe_pb2.PoolingParameter.PoolMethod.items()}


def get_edge_label(layer):
    """The label of the arrow from a layer to its top."""
    if layer.type == "Data":
        return "Batch %d" % layer.data_param.batch_size
    if layer.type in ("Convolution", "Deconvolution"):
        return str(layer.convolution_param.num_output)
    if layer.type == "InnerProduct":
        return str(layer.inner_product_param.num_output)
    return ""


def _first(values, single, default):
    """An extent: the first value of the repeated field, or the value of the field for a single axis."""
    return values[0] if len(values) else single or default


def get_layer_lr_mult(layer):
    """The learning rate multipliers of a layer's weights and biases. Raises ValueError for layers other than
    convolutions and inner products."""
    if layer.type not in ("Convolution", "Deconvolution", "InnerProduct"):
        raise ValueError("%s layers do not have a learning rate multiplier" % layer.type)
    if len(layer.param) > 2:
        raise ValueError("Could not parse the learning rate multiplier")
    factors = [param.lr_mult for param in layer.param] + [1.0, 1.0]
    return factors[0], factors[1]


def get_layer_label(layer, rankdir, display_lrm=False):
    """The label of a layer's box: several lines if the diagram is vertical (`rankdir` TB or BT), else one
    line."""
    separator = "\\n" if rankdir in ("TB", "BT") else " "
    lines = [layer.name, "(%s)" % layer.type]
    if layer.type in ("Convolution", "Deconvolution"):
        param = layer.convolution_param
        lines += ["kernel size: %d" % _first(param.kernel_size, param.kernel_h, 1),
                  "stride: %d" % _first(param.stride, param.stride_h, 1),
                  "pad: %d" % _first(param.pad, param.pad_h, 0)]
    elif layer.type == "Pooling":
        param = layer.pooling_param
        lines += ["%s pooling" % get_pooling_types_dict()[param.pool],
                  "kernel size: %d" % _first(param.kernel_size_3d, param.kernel_size or param.kernel_h, 0),
                  "stride: %d" % _first(param.stride_3d, param.stride, 1),
                  "pad: %d" % _first(param.pad_3d, param.pad, 0)]
    if display_lrm and layer.type in ("Convolution", "Deconvolution", "InnerProduct"):
        factors = get_layer_lr_mult(layer)
        if any(factors):
            lines.append("lr mult: %.1f, %.1f" % factors)
    return separator.join(lines)


def choose_color_by_layertype(layertype):
    """The colour of the box of a layer."""
    return _COLOURS.get(layertype, LAYER_STYLE_DEFAULT["fillcolor"])


def _in_phase(layer, phase):
    """Whether the layer's rules include it in `phase`; None: in any phase."""
    if phase is None:
        return True
    if len(layer.include):
        return any(not rule.HasField("phase") or rule.phase == phase for rule in layer.include)
    return not any(rule.HasField("phase") and rule.phase == phase for rule in layer.exclude)


def _quoted(text):
    return '"%s"' % text.replace('"', '\\"')


def _node(name, label, style):
    fields = ["label=%s" % _quoted(label)] + ["%s=%s" % (key, _quoted(value))
                                              for key, value in sorted(style.items())]
    return "  %s [%s];" % (_quoted(name), ", ".join(fields))


def get_dot(caffe_net, rankdir="LR", label_edges=True, phase=None, display_lrm=False):
    """The diagram in Graphviz's dot language."""
    lines = ["digraph %s {" % _quoted(caffe_net.name or "Net"), "  rankdir=%s;" % rankdir]
    blobs, edges = [], []
    for name in caffe_net.input:
        blobs.append(name)
    for layer in caffe_net.layer:
        if not _in_phase(layer, phase):
            continue
        node = "%s_%s" % (layer.name, layer.type)
        in_place = len(layer.bottom) == 1 and list(layer.bottom) == list(layer.top)
        style = dict(NEURON_LAYER_STYLE if in_place else LAYER_STYLE_DEFAULT)
        if not in_place:
            style["fillcolor"] = choose_color_by_layertype(layer.type)
        lines.append(_node(node, get_layer_label(layer, rankdir, display_lrm), style))
        for bottom in layer.bottom:
            blobs.append(bottom)
            edges.append((bottom + "_blob", node, ""))
        for top in layer.top:
            blobs.append(top)
            edges.append((node, top + "_blob", get_edge_label(layer) if label_edges else ""))
    lines += [_node(name + "_blob", name, BLOB_STYLE) for name in dict.fromkeys(blobs)]
    for source, target, label in edges:
        lines.append("  %s -> %s%s;" % (_quoted(source), _quoted(target),
                                        " [label=%s]" % _quoted(label) if label else ""))
    return "\n".join(lines + ["}"]) + "\n"


def get_pydot_graph(caffe_net, rankdir, label_edges=True, phase=None, display_lrm=False):
    """The diagram as a graph of the package pydot."""
    import pydot
    return pydot.graph_from_dot_data(get_dot(caffe_net, rankdir, label_edges, phase, display_lrm))[0]


def draw_net(caffe_net, rankdir, ext="png", phase=None, display_lrm=False):
    """The diagram as the bytes of a file of format `ext`: png, svg, pdf or dot. Only dot works without
    Graphviz."""
    text = get_dot(caffe_net, rankdir, True, phase, display_lrm).encode()
    if ext in ("dot", "raw", "gv"):
        return text
    try:
        return subprocess.run(["dot", "-T" + ext], input=text, stdout=subprocess.PIPE, check=True).stdout
    except FileNotFoundError:
        raise RuntimeError("drawing needs the program `dot` of Graphviz, which is not installed") from None


def draw_net_to_file(caffe_net, filename, rankdir="LR", phase=None, display_lrm=False):
    """Writes the diagram to a file. The extension of its name selects the format."""
    ext = os.path.splitext(filename)[1][1:] or "png"
    picture = draw_net(caffe_net, rankdir, ext, phase, display_lrm)
    with open(filename, "wb") as file:
        file.write(picture)
