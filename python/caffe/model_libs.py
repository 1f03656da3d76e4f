"""Parts of nets for SSD's scripts: bodies (VGG, ZF, ResNet, Inception) and heads of detectors.

    from caffe.model_libs import *
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[1, 3, 300, 300]))
    VGGNetBody(net, from_layer='data', fully_conv=True, reduced=True, dilated=True, dropout=False)
    mbox = CreateMultiBoxHead(net, num_classes=21, from_layers=['conv4_3', 'fc7'], min_sizes=[30, 60],
                              use_batchnorm=False)

Each function adds layers to a NetSpec. The layers have the names of the published models.
"""
import os

import caffe  # noqa: F401
from caffe import layers as L
from caffe import params as P
from caffe.proto import caffe_pb2


def check_if_exist(path):
    """Whether a file or folder exists."""
    return os.path.exists(path)


def make_if_not_exist(path):
    """Creates a folder and its parents, unless they exist."""
    os.makedirs(path, exist_ok=True)


def UnpackVariable(var, num):
    """A list of `num` values: the list `var`, or the value `var` repeated."""
    values = list(var) if isinstance(var, (list, tuple)) else [var]
    if len(values) == num:
        return values
    if len(values) != 1:
        raise ValueError("expected one value or %d values, found %r" % (num, var))
    return values * num


def _listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _rates(*pairs):
    """The `param` field of a layer, from pairs of lr_mult and decay_mult."""
    return [dict(lr_mult=rate, decay_mult=decay) for rate, decay in pairs]


def _constant(value):
    return dict(type="constant", value=value)


def _plain(lr_mult=1):
    """The common parameters of convolutions without batch normalisation."""
    return dict(param=_rates((lr_mult, 1), (2 * lr_mult, 0)), weight_filler=dict(type="xavier"),
                bias_filler=_constant(0))


def _batch_norm(net, conv, names, use_scale, lr_mult, bn_params):
    """Adds BatchNorm and then Scale or Bias, in place. `names` has the names of the three layers."""
    kwargs = dict(param=_rates((0, 0), (0, 0), (0, 0)), eps=bn_params.get("eps", 0.001))
    if bn_params.get("use_global_stats", False):
        kwargs["use_global_stats"] = True
        lr_mult = 0  # scale and bias must match the fixed statistics
    else:
        kwargs["moving_average_fraction"] = bn_params.get("moving_average_fraction", 0.999)
    norm, scale, bias = names
    net[norm] = L.BatchNorm(net[conv], in_place=True, **kwargs)
    if use_scale:
        net[scale] = L.Scale(net[norm], in_place=True, bias_term=True, filler=_constant(1.0),
                             bias_filler=_constant(0.0), param=_rates((lr_mult, 0), (lr_mult, 0)))
    else:
        net[bias] = L.Bias(net[norm], in_place=True, filler=_constant(0.0), param=_rates((lr_mult, 0)))


def ConvBNLayer(net, from_layer, out_layer, use_bn, use_relu, num_output, kernel_size, pad, stride,
                dilation=1, use_scale=True, lr_mult=1, conv_prefix="", conv_postfix="", bn_prefix="",
                bn_postfix="_bn", scale_prefix="", scale_postfix="_scale", bias_prefix="",
                bias_postfix="_bias", **bn_params):
    """Adds a convolution.

    `use_bn` adds batch normalisation, with scale and bias if `use_scale` is true, else with bias only. `use_relu`
    adds a ReLU. `kernel_size`, `pad` and `stride` are a number or [height, width]. `bn_params` can have eps,
    moving_average_fraction and use_global_stats.
    """
    name = conv_prefix + out_layer + conv_postfix
    kwargs = _plain(lr_mult)
    if use_bn:
        kwargs = dict(param=_rates((lr_mult, 1)), weight_filler=dict(type="gaussian", std=0.01),
                      bias_term=False)
    sizes = [UnpackVariable(value, 2) for value in (kernel_size, pad, stride)]
    if sizes[0][0] == sizes[0][1]:
        kwargs.update(zip(("kernel_size", "pad", "stride"), (size[0] for size in sizes)))
    else:
        for key, (height, width) in zip(("kernel", "pad", "stride"), sizes):
            kwargs.update({key + "_h": height, key + "_w": width})
    if dilation > 1:
        kwargs["dilation"] = dilation
    net[name] = L.Convolution(net[from_layer], num_output=num_output, **kwargs)
    if use_bn:
        names = (bn_prefix + out_layer + bn_postfix, scale_prefix + out_layer + scale_postfix,
                 bias_prefix + out_layer + bias_postfix)
        _batch_norm(net, name, names, use_scale, lr_mult, bn_params)
    if use_relu:
        net[name + "_relu"] = L.ReLU(net[name], in_place=True)


def ResBody(net, from_layer, block_name, out2a, out2b, out2c, stride, use_branch1, dilation=1, **bn_param):
    """Adds a ResNet block: three convolutions with out2a, out2b and out2c outputs. Their result is added to the
    input or, with `use_branch1`, to a convolution of the input."""
    def convolve(source, branch, outputs, kernel, stride, relu, dilation=1):
        ConvBNLayer(net, source, branch, use_bn=True, use_relu=relu, num_output=outputs, kernel_size=kernel,
                    pad=dilation * (kernel - 1) // 2, stride=stride, dilation=dilation,
                    conv_prefix="res%s_" % block_name, bn_prefix="bn%s_" % block_name, bn_postfix="",
                    scale_prefix="scale%s_" % block_name, scale_postfix="", **bn_param)
        return "res%s_%s" % (block_name, branch)
    shortcut = from_layer
    if use_branch1:
        shortcut = convolve(from_layer, "branch1", out2c, 1, stride, False)
    inner = convolve(from_layer, "branch2a", out2a, 1, stride, True)
    inner = convolve(inner, "branch2b", out2b, 3, 1, True, dilation)
    inner = convolve(inner, "branch2c", out2c, 1, 1, False)
    name = "res" + block_name
    net[name] = L.Eltwise(net[shortcut], net[inner])
    net[name + "_relu"] = L.ReLU(net[name], in_place=True)


def InceptionTower(net, from_layer, tower_name, layer_params, **bn_param):
    """Adds a chain of layers and returns the last top. Each entry of `layer_params` is a dictionary with a `name`
    and the parameters of ConvBNLayer, or of Pooling if the name contains "pool"."""
    for given in layer_params:
        kwargs = {key: value for key, value in given.items() if key != "name"}
        name = "%s/%s" % (tower_name, given["name"])
        if "pool" in name:
            net[name] = L.Pooling(net[from_layer], **kwargs)
        else:
            kwargs.update(bn_param)
            ConvBNLayer(net, from_layer, name, use_bn=True, use_relu=True, use_scale=False, **kwargs)
        from_layer = name
    return net[from_layer]


def CreateAnnotatedDataLayer(source, batch_size=32, backend=P.Data.LMDB, output_label=True, train=True,
                             label_map_file="", anno_type=None, transform_param=None, batch_sampler=({},)):
    """Creates an AnnotatedData layer for phase TRAIN or TEST. Returns its top, or two tops with `output_label`."""
    annotated = dict(label_map_file=label_map_file, batch_sampler=batch_sampler)
    if anno_type is not None:
        annotated["anno_type"] = anno_type
    return L.AnnotatedData(
        name="data", ntop=2 if output_label else 1, transform_param=transform_param or {},
        include=dict(phase=caffe_pb2.Phase.Value("TRAIN" if train else "TEST")),
        annotated_data_param=annotated,
        data_param=dict(batch_size=batch_size, backend=backend, source=source))


def _freeze(net, names):
    for name in names:
        if name in net.keys():
            net.update(name, dict(param=_rates((0, 0), (0, 0))))


def _need(net, from_layer):
    if from_layer not in net.keys():
        raise ValueError("the net has no top %r" % from_layer)


def _classifier(net, from_layer, first, convolutions, reduced, dropout):
    """Adds fc6 and fc7, as convolutions if `convolutions` is true. `first` has the parameters of fc6 then."""
    outputs = 1024 if reduced and convolutions else 4096
    net.fc6 = (L.Convolution(net[from_layer], num_output=outputs, **first, **_plain()) if convolutions
               else L.InnerProduct(net[from_layer], num_output=outputs))
    net.relu6 = L.ReLU(net.fc6, in_place=True)
    if dropout:
        net.drop6 = L.Dropout(net.relu6, dropout_ratio=0.5, in_place=True)
    net.fc7 = (L.Convolution(net.relu6, num_output=outputs, kernel_size=1, **_plain()) if convolutions
               else L.InnerProduct(net.relu6, num_output=outputs))
    net.relu7 = L.ReLU(net.fc7, in_place=True)
    if dropout:
        net.drop7 = L.Dropout(net.relu7, dropout_ratio=0.5, in_place=True)


def ZFNetBody(net, from_layer, need_fc=True, fully_conv=False, reduced=False, dilated=False, dropout=True,
              need_fc8=False, freeze_layers=()):
    """Adds the net of Zeiler and Fergus: conv1 to conv5.

    `need_fc` adds pool5, fc6 and fc7. `fully_conv` makes fc6 and fc7 convolutions, `reduced` makes them smaller, and
    `dilated` dilates fc6 because pool5 keeps the size. `need_fc8` adds fc8 and prob.
    """
    _need(net, from_layer)
    top = net[from_layer]
    for index, (outputs, kernel, pad, stride) in enumerate(
            ((96, 7, 3, 2), (256, 5, 2, 2), (384, 3, 1, 1), (384, 3, 1, 1), (256, 3, 1, 1)), 1):
        name = str(index)
        step = dict(stride=stride) if stride > 1 else {}
        net["conv" + name] = L.Convolution(top, num_output=outputs, pad=pad, kernel_size=kernel, **step,
                                           **_plain())
        top = net["relu" + name] = L.ReLU(net["conv" + name], in_place=True)
        if index <= 2:
            net["norm" + name] = L.LRN(top, local_size=3, alpha=0.00005, beta=0.75,
                                       norm_region=P.LRN.WITHIN_CHANNEL, engine=P.LRN.CAFFE)
            top = net["pool" + name] = L.Pooling(net["norm" + name], pool=P.Pooling.MAX, pad=1,
                                                 kernel_size=3, stride=2)
    if need_fc:
        net.pool5 = L.Pooling(top, pool=P.Pooling.MAX, pad=1, kernel_size=3, stride=1 if dilated else 2)
        first = {(False, False): dict(pad=2, kernel_size=6), (True, False): dict(pad=5, kernel_size=6, dilation=2),
                 (False, True): dict(pad=2, kernel_size=3, dilation=2),
                 (True, True): dict(pad=5, kernel_size=3, dilation=5)}[bool(dilated), bool(reduced)]
        _classifier(net, "pool5", first, fully_conv, reduced, dropout)
    if need_fc8:
        last = net[net.keys()[-1]]
        net.fc8 = (L.Convolution(last, num_output=1000, kernel_size=1, **_plain()) if fully_conv
                   else L.InnerProduct(last, num_output=1000))
        net.prob = L.Softmax(net.fc8)
    _freeze(net, freeze_layers)
    return net


def VGGNetBody(net, from_layer, need_fc=True, fully_conv=False, reduced=False, dilated=False, nopool=False,
               dropout=True, freeze_layers=(), dilate_pool4=False):
    """Adds VGG-16: conv1_1 to conv5_3.

    `need_fc` adds pool5, fc6 and fc7. `fully_conv` makes fc6 and fc7 convolutions, `reduced` makes them smaller, and
    `dilated` dilates fc6 because pool5 keeps the size. `nopool` uses convolutions of stride 2 instead of pooling.
    With `dilate_pool4`, pool4 keeps the size and later convolutions are dilated.
    """
    _need(net, from_layer)
    top, dilation = net[from_layer], 1
    for block, (count, outputs) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), 1):
        for index in range(1, count + 1):
            name = "%d_%d" % (block, index)
            kwargs = _plain()
            if block == 5:
                kwargs["dilation"] = dilation
            net["conv" + name] = L.Convolution(top, num_output=outputs, pad=dilation, kernel_size=3, **kwargs)
            top = net["relu" + name] = L.ReLU(net["conv" + name], in_place=True)
        last = block == 5
        if last and not need_fc:
            break
        name = "conv%d_%d" % (block, count + 1) if nopool else "pool%d" % block
        keeps = dilated if last else (block == 4 and dilate_pool4 and not nopool)
        if nopool:
            net[name] = L.Convolution(top, num_output=outputs, pad=1, kernel_size=3, stride=1 if keeps else 2,
                                      **_plain())
        elif keeps:
            net[name] = L.Pooling(top, pool=P.Pooling.MAX, pad=1, kernel_size=3, stride=1)
        else:
            net[name] = L.Pooling(top, pool=P.Pooling.MAX, kernel_size=2, stride=2)
        if keeps and not last:
            dilation = 2
        top = net[name]
    if need_fc:
        kernel = 3 if reduced else 7
        if dilated:
            dilation *= 6 if reduced else 2
        elif reduced:
            dilation *= 3
        first = dict(pad=dilation * (kernel - 1) // 2, kernel_size=kernel, dilation=dilation)
        _classifier(net, name, first, fully_conv, reduced, dropout)
    _freeze(net, freeze_layers)
    return net


def _resnet(net, from_layer, third, fourth, use_pool5, use_dilation_conv5, bn_param):
    """Adds a ResNet. `third` and `fourth` are the names of the blocks of stages 3 and 4; stages 2 and 5 have
    blocks a, b and c."""
    ConvBNLayer(net, from_layer, "conv1", use_bn=True, use_relu=True, num_output=64, kernel_size=7, pad=3,
                stride=2, bn_prefix="bn_", bn_postfix="", scale_prefix="scale_", scale_postfix="", **bn_param)
    net.pool1 = L.Pooling(net.conv1, pool=P.Pooling.MAX, kernel_size=3, stride=2)
    source = "pool1"
    for stage, names, width in ((2, "abc", 64), (3, third, 128), (4, fourth, 256), (5, "abc", 512)):
        dilation = 2 if stage == 5 and use_dilation_conv5 else 1
        for index, name in enumerate(names):
            block = "%d%s" % (stage, name)
            stride = 2 if index == 0 and stage > 2 and dilation == 1 else 1
            ResBody(net, source, block, width, width, 4 * width, stride, index == 0, dilation, **bn_param)
            source = "res" + block
    if use_pool5:
        net.pool5 = L.Pooling(net.res5c, pool=P.Pooling.AVE, global_pooling=True)
    return net


def _numbered(count):
    return ["a"] + ["b%d" % i for i in range(1, count)]


def ResNet50Body(net, from_layer, use_pool5=True, use_dilation_conv5=False, **bn_param):
    """Adds ResNet-50 up to res5c, or pool5. With `use_dilation_conv5` the last stage keeps the size."""
    return _resnet(net, from_layer, "abcd", "abcdef", use_pool5, use_dilation_conv5, bn_param)


def ResNet101Body(net, from_layer, use_pool5=True, use_dilation_conv5=False, **bn_param):
    """Adds ResNet-101 up to res5c, or pool5. With `use_dilation_conv5` the last stage keeps the size."""
    return _resnet(net, from_layer, _numbered(4), _numbered(23), use_pool5, use_dilation_conv5, bn_param)


def ResNet152Body(net, from_layer, use_pool5=True, use_dilation_conv5=False, **bn_param):
    """Adds ResNet-152 up to res5c, or pool5. With `use_dilation_conv5` the last stage keeps the size."""
    return _resnet(net, from_layer, _numbered(8), _numbered(36), use_pool5, use_dilation_conv5, bn_param)


# The modules of Inception v3 with their towers. Each layer of a tower is (outputs, kernel[, stride]), or "AVE" or
# "MAX" for pooling. With stride 1, padding keeps the size; otherwise there is no padding.
_MIXED = (
    [("mixed%s" % suffix, [[(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)], ["AVE", (last, 1)]])
     for suffix, last in (("", 32), ("_1", 64), ("_2", 64))] +
    [("mixed_3", [[(384, 3, 2)], [(64, 1), (96, 3), (96, 3, 2)], ["MAX"]])] +
    [("mixed_%d" % number, [
        [(192, 1)], [(n, 1), (n, (1, 7)), (192, (7, 1))],
        [(n, 1), (n, (7, 1)), (n, (1, 7)), (n, (7, 1)), (192, (1, 7))], ["AVE", (192, 1)]])
     for number, n in ((4, 128), (5, 160), (6, 160), (7, 192))] +
    [("mixed_8", [None, [(192, 1), (320, 3, 2)], [(192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2)],
                  ["MAX"]])])


def _tower_layers(rows):
    """The layers of a tower in the form of InceptionTower's layer_params."""
    found, convolutions = [], 0
    for row in rows:
        if isinstance(row, str):
            inner = dict(pad=1, stride=1) if len(rows) > 1 else dict(pad=0, stride=2)
            found.append(dict(name="pool", pool=getattr(P.Pooling, row), kernel_size=3, **inner))
            continue
        outputs, kernel, stride = row if len(row) == 3 else row + (1,)
        kernels = UnpackVariable(kernel, 2)
        pads = [(k - 1) // 2 if stride == 1 else 0 for k in kernels]
        square = kernels[0] == kernels[1]
        found.append(dict(name="conv_%d" % convolutions if convolutions else "conv", num_output=outputs,
                          kernel_size=kernels[0] if square else kernels, pad=pads[0] if square else pads,
                          stride=stride if square else [stride] * 2))
        convolutions += 1
    return found


def _split(net, source, tower, bn_param):
    """Adds a 1x3 and a 3x1 convolution in parallel and concatenates their results."""
    name = tower + "/mixed"
    tops = [InceptionTower(net, source, name, [dict(
        name=which, num_output=384, kernel_size=kernel, pad=[(k - 1) // 2 for k in kernel], stride=[1, 1])],
        **bn_param) for which, kernel in (("conv", [1, 3]), ("conv_1", [3, 1]))]
    net[name] = L.Concat(*tops, axis=1)
    return net[name]


def InceptionV3Body(net, from_layer, output_pred=False, **bn_param):
    """Adds Inception v3 up to mixed_10/join. `output_pred` adds the classifier for its 1,008 classes."""
    def convolve(source, name, outputs, kernel, pad, stride):
        ConvBNLayer(net, source, name, use_bn=True, use_relu=True, num_output=outputs, kernel_size=kernel,
                    pad=pad, stride=stride, use_scale=False, **bn_param)
        return name

    def pool(source, name):
        net[name] = L.Pooling(net[source], pool=P.Pooling.MAX, kernel_size=3, stride=2, pad=0)
        return name

    def tower_name(module, index):
        """The name of a tower: module, module/tower, module/tower_1 and so on."""
        return module + ("", "/tower", "/tower_1", "/tower_2")[index]
    source = convolve(from_layer, "conv", 32, 3, 0, 2)
    source = convolve(source, "conv_1", 32, 3, 0, 1)
    source = convolve(source, "conv_2", 64, 3, 1, 1)
    source = pool(source, "pool")
    source = convolve(source, "conv_3", 80, 1, 0, 1)
    source = convolve(source, "conv_4", 192, 3, 0, 1)
    source = pool(source, "pool_1")
    for module, towers in _MIXED:
        tops = []
        for index, rows in enumerate(towers):
            if rows is not None:
                name = module if rows == ["MAX"] else tower_name(module, index)
                tops.append(InceptionTower(net, source, name, _tower_layers(rows), **bn_param))
        source = module + "/join"
        net[source] = L.Concat(*tops, axis=1)
    for module, kind in (("mixed_9", "AVE"), ("mixed_10", "MAX")):
        names = [tower_name(module, index) for index in range(4)]
        tops = [InceptionTower(net, source, names[0], _tower_layers([(320, 1)]), **bn_param)]
        for name, rows, last in ((names[1], [(384, 1)], "conv"), (names[2], [(448, 1), (384, 3)], "conv_1")):
            InceptionTower(net, source, name, _tower_layers(rows), **bn_param)
            tops.append(_split(net, "%s/%s" % (name, last), name, bn_param))
        tops.append(InceptionTower(net, source, names[3], _tower_layers([kind, (192, 1)]), **bn_param))
        source = module + "/join"
        net[source] = L.Concat(*tops, axis=1)
    if output_pred:
        net.pool_3 = L.Pooling(net[source], pool=P.Pooling.AVE, kernel_size=8, pad=0, stride=1)
        net.softmax = L.InnerProduct(net.pool_3, num_output=1008)
        net.softmax_prob = L.Softmax(net.softmax)
    return net


def _same_length(from_layers, **lists):
    for name, values in lists.items():
        if values and len(values) != len(from_layers):
            raise ValueError("from_layers and %s should have same length" % name)


def _predict(net, from_layer, name, outputs, **conv):
    """Adds a convolution and flattens its values: one row per image, prior box by prior box."""
    ConvBNLayer(net, from_layer, name, use_relu=False, num_output=outputs, stride=1, **conv)
    net[name + "_perm"] = L.Permute(net[name], order=[0, 2, 3, 1])
    net[name + "_flat"] = L.Flatten(net[name + "_perm"], axis=1)
    return net[name + "_flat"]


def CreateMultiBoxHead(net, data_layer="data", num_classes=0, from_layers=(), use_objectness=False,
                       normalizations=(), use_batchnorm=True, lr_mult=1, use_scale=True, min_sizes=(),
                       max_sizes=(), prior_variance=(0.1,), aspect_ratios=(), steps=(), img_height=0,
                       img_width=0, share_location=True, flip=True, clip=True, offset=0.5,
                       inter_layer_depth=(), kernel_size=1, pad=0, conf_postfix="", loc_postfix="",
                       **bn_param):
    """Adds SSD's head: prior boxes on each of `from_layers`, and convolutions that predict the location and the
    class of an object for each prior box. Returns the tops mbox_loc, mbox_conf and mbox_priorbox, and
    mbox_objectness if `use_objectness` is true.

    These parameters have one entry per layer, each a value or a list:

    - `min_sizes` and `max_sizes`: sizes of the boxes in pixels
    - `aspect_ratios` and `steps`
    - `normalizations`: the scale of a Normalize layer, or -1 for none
    - `inter_layer_depth`: the number of outputs of an extra convolution, or 0 for none

    `use_scale` has no effect, as in SSD.
    """
    if not num_classes or num_classes < 0:
        raise ValueError("num_classes must be a positive number")
    if len(from_layers) != len(min_sizes):
        raise ValueError("from_layers and min_sizes should have same length")
    _same_length(from_layers, normalizations=normalizations, max_sizes=max_sizes, aspect_ratios=aspect_ratios,
                 steps=steps, inter_layer_depth=inter_layer_depth)
    _need(net, data_layer)
    conv = dict(use_bn=use_batchnorm, lr_mult=lr_mult, **bn_param)
    tops = dict(mbox_loc=[], mbox_conf=[], mbox_priorbox=[])
    if use_objectness:
        tops["mbox_objectness"] = []
    for index, layer in enumerate(from_layers):
        if normalizations and normalizations[index] != -1:
            net[layer + "_norm"] = L.Normalize(net[layer], scale_filler=_constant(normalizations[index]),
                                               across_spatial=False, channel_shared=False)
            layer += "_norm"
        if inter_layer_depth and inter_layer_depth[index] > 0:
            ConvBNLayer(net, layer, layer + "_inter", use_relu=True, num_output=inter_layer_depth[index],
                        kernel_size=3, pad=1, stride=1, **conv)
            layer += "_inter"
        smallest = _listed(min_sizes[index])
        largest = _listed(max_sizes[index]) if max_sizes else []
        ratios = _listed(aspect_ratios[index]) if aspect_ratios else []
        if largest and len(largest) != len(smallest):
            raise ValueError("max_size and min_size should have same length")
        boxes = len(smallest) * (1 + bool(largest) + len(ratios) * (2 if flip else 1))
        shape = dict(kernel_size=kernel_size, pad=pad, **conv)
        tops["mbox_loc"].append(_predict(net, layer, "%s_mbox_loc%s" % (layer, loc_postfix),
                                         4 * boxes * (1 if share_location else num_classes), **shape))
        tops["mbox_conf"].append(_predict(net, layer, "%s_mbox_conf%s" % (layer, conf_postfix),
                                          num_classes * boxes, **shape))
        prior = dict(min_size=smallest, clip=clip, variance=prior_variance, offset=offset)
        if largest:
            prior["max_size"] = largest
        if ratios:
            prior.update(aspect_ratio=ratios, flip=flip)
        if steps and steps[index]:
            prior["step"] = steps[index]
        if img_height and img_width:
            prior.update(dict(img_size=img_height) if img_height == img_width
                         else dict(img_h=img_height, img_w=img_width))
        net[layer + "_mbox_priorbox"] = L.PriorBox(net[layer], net[data_layer], **prior)
        tops["mbox_priorbox"].append(net[layer + "_mbox_priorbox"])
        if use_objectness:
            tops["mbox_objectness"].append(_predict(net, layer, layer + "_mbox_objectness", 2 * boxes, **shape))
    for name, parts in tops.items():
        net[name] = L.Concat(*parts, axis=2 if name == "mbox_priorbox" else 1)
    return [net[name] for name in tops]
