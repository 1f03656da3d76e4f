#!/usr/bin/env python3
"""Writes the deep models under models/: deploy.prototxt, train_val.prototxt and solver.prototxt.

Usage: write_models.py [-check]

Their hundreds of layers follow from a few numbers in each paper, which stand in the tables below.
Layers have the names that published weights have. -check writes nothing and fails when a file
differs from what would be written.
"""
import pathlib
import sys

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"

# How to make the data sets that the nets read: comments at the head of their files.
IMAGENET = """\
# The databases are made from the images of ILSVRC 2012 (https://image-net.org), with one folder per class:
#   mkdir -p examples/imagenet
#   examples/datasets/imagenet.py train/ train.txt
#   crema convert_imageset -resize_height 256 -resize_width 256 -shuffle train/ train.txt \\
#     examples/imagenet/ilsvrc12_train_lmdb
#   examples/datasets/imagenet.py val/ val.txt
#   crema convert_imageset -resize_height 256 -resize_width 256 val/ val.txt examples/imagenet/ilsvrc12_val_lmdb"""
# The preprocessing in a deploy file, in fields that every Caffe reads.
IMAGENET_IMAGES = [
    "  # Images are resized to 256 x 256 pixels and cropped; the mean is in the order blue, green, red.",
    "  image_data_param { new_height: 256 new_width: 256 }",
    "  transform_param { mean_value: 104 mean_value: 117 mean_value: 123 }"]
RESNET20_IMAGES = ['  transform_param { scale: 0.0078125 mean_file: "examples/cifar10/mean.binaryproto" }']
CIFAR10 = """# The databases and the mean: examples/cifar10/run.sh makes them from cifar-10-binary.tar.gz
# (https://www.cs.toronto.edu/~kriz/cifar.html)."""


class Net:
    """Text of one net; a method for each kind of layer returns the name of the layer's top."""

    def __init__(self, title, size, train, rules):
        self.train, self.rules, self.lines = train, rules, [f'name: "{title}"']
        if train:
            self.lines.insert(0, IMAGENET)
            for phase, mirror, batch in (("TRAIN", "mirror: true ", rules["batch"]), ("TEST", "", 50)):
                name = "train" if phase == "TRAIN" else "val"
                self.lines += [
                    'layer {', '  name: "data" type: "Data" top: "data" top: "label"',
                    f'  include {{ phase: {phase} }}',
                    f'  transform_param {{ {mirror}crop_size: {size} mean_value: 104 mean_value: 117 '
                    'mean_value: 123 }',
                    f'  data_param {{ source: "examples/imagenet/ilsvrc12_{name}_lmdb" '
                    f'batch_size: {batch} backend: LMDB }}', '}']
        else:
            self.lines += ['layer {', '  name: "data" type: "Input" top: "data"',
                           f'  input_param {{ shape {{ dim: 1 dim: 3 dim: {size} dim: {size} }} }}',
                           *rules.get("preprocessing", IMAGENET_IMAGES), '}']

    def layer(self, name, kind, bottoms, top, *fields):
        """Fields of more than a few words get a line each."""
        bottoms = [bottoms] if isinstance(bottoms, str) else bottoms
        head = f'name: "{name}" type: "{kind}" ' + "".join(f'bottom: "{b}" ' for b in bottoms) + f'top: "{top}"'
        fields = [f for f in fields if f]
        line = " ".join(["layer {", head, *fields, "}"])
        if len(line) <= 110:
            self.lines.append(line)
        else:
            self.lines += ["layer {", "  " + head, *("  " + f for f in fields), "}"]
        return top

    def conv(self, name, bottom, *shape, **more):
        return self.layer(name, "Convolution", bottom, name, *self.conv_fields(*shape, **more))

    def conv_fields(self, outputs, kernel, stride=1, pad=0, group=1, bias=False, filler=None, start=None):
        words = [f"num_output: {outputs}", f"kernel_size: {kernel}"]
        words += [f"stride: {stride}"] if stride != 1 else []
        words += [f"pad: {pad}"] if pad != 0 else []
        words += [f"group: {group}"] if group != 1 else []
        words += [] if bias else ["bias_term: false"]
        if self.train:
            words.append(f'weight_filler {{ {filler or self.rules["filler"]} }}')
            words += [] if start is None else [f'bias_filler {{ type: "constant" value: {start} }}']
        return [self.rates(bias), "convolution_param { " + " ".join(words) + " }"]

    def rates(self, bias):
        """Biases learn at twice the rate and do not decay."""
        if not self.train or not bias:
            return ""
        return "param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }"

    def norm(self, norm, scale, blob, top=None):
        top = self.layer(norm, "BatchNorm", blob, top or blob)
        return self.layer(scale, "Scale", top, top, "scale_param { bias_term: true }")

    def relu(self, name, blob, six=False):
        if six:
            return self.layer(name, "Clip", blob, blob, "clip_param { min: 0 max: 6 }")
        return self.layer(name, "ReLU", blob, blob)

    def pool(self, name, bottom, text):
        return self.layer(name, "Pooling", bottom, name, "pooling_param { " + text + " }")

    def classes(self, name, bottom):
        return self.full(name, bottom, 1000)

    def full(self, name, bottom, outputs, filler=None, start=None):
        words = f"num_output: {outputs}"
        if self.train:
            words += f' weight_filler {{ {filler or self.rules["filler"]} }}'
            words += "" if start is None else f' bias_filler {{ type: "constant" value: {start} }}'
        return self.layer(name, "InnerProduct", bottom, name, self.rates(True),
                          "inner_product_param { " + words + " }")

    def finish(self, scores):
        if not self.train:
            self.layer("prob", "Softmax", scores, "prob")
            return
        self.layer("loss", "SoftmaxWithLoss", [scores, "label"], "loss")
        self.layer("accuracy_top1", "Accuracy", [scores, "label"], "accuracy_top1", "include { phase: TEST }")
        self.layer("accuracy_top5", "Accuracy", [scores, "label"], "accuracy_top5",
                   "include { phase: TEST }", "accuracy_param { top_k: 5 }")


def caffenet(net):
    """AlexNet with each pooling before its normalisation, as Caffe's own reference net."""
    def conv(number, bottom, outputs, kernel, start, **more):
        return net.relu(f"relu{number}", net.conv(
            f"conv{number}", bottom, outputs, kernel, bias=True, start=start, **more))

    def shrink(number, blob):
        blob = net.pool(f"pool{number}", blob, "pool: MAX kernel_size: 3 stride: 2")
        return net.layer(f"norm{number}", "LRN", blob, f"norm{number}",
                         "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }")

    blob = shrink(1, conv(1, "data", 96, 11, 0, stride=4))
    blob = shrink(2, conv(2, blob, 256, 5, 1, pad=2, group=2))
    blob = conv(3, blob, 384, 3, 0, pad=1)
    blob = conv(4, blob, 384, 3, 1, pad=1, group=2)
    blob = net.pool("pool5", conv(5, blob, 256, 3, 1, pad=1, group=2), "pool: MAX kernel_size: 3 stride: 2")
    for number in (6, 7):
        blob = net.relu(f"relu{number}", net.full(f"fc{number}", blob, 4096, 'type: "gaussian" std: 0.005', 1))
        blob = net.layer(f"drop{number}", "Dropout", blob, blob, "dropout_param { dropout_ratio: 0.5 }")
    net.finish(net.full("fc8", blob, 1000))


def vgg_convolutions(net, first_pad=1):
    """The thirteen convolutions of VGG-16: configuration D of the paper's table 1."""
    blob = "data"
    for group, (count, outputs) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), 1):
        for number in range(1, count + 1):
            name = f"{group}_{number}"
            pad = first_pad if name == "1_1" else 1
            blob = net.relu(f"relu{name}", net.conv(f"conv{name}", blob, outputs, 3, pad=pad, bias=True))
        blob = net.pool(f"pool{group}", blob, "pool: MAX kernel_size: 2 stride: 2")
    return blob


def vgg16(net):
    blob = vgg_convolutions(net)
    for number in (6, 7):
        blob = net.relu(f"relu{number}", net.full(f"fc{number}", blob, 4096))
        blob = net.layer(f"drop{number}", "Dropout", blob, blob, "dropout_param { dropout_ratio: 0.5 }")
    net.finish(net.full("fc8", blob, 1000))


def squeezenet_first(net):
    """SqueezeNet 1.0: a larger first convolution and later pools. Layers have the names of the weights in its folder."""
    def conv(name, top, bottom, outputs, kernel, **more):
        blob = net.layer(name, "Convolution", bottom, top, *net.conv_fields(outputs, kernel, bias=True, **more))
        return net.relu(f"{name}/relu", blob)

    blob = conv("conv1", "conv1", "data", 96, 7, stride=2)
    blob = net.pool("pool1", blob, "pool: MAX kernel_size: 3 stride: 2")
    for number, squeeze, expand in ((2, 16, 64), (3, 16, 64), (4, 32, 128), (5, 32, 128),
                                    (6, 48, 192), (7, 48, 192), (8, 64, 256), (9, 64, 256)):
        fire = f"fire{number}"
        small = conv(f"{fire}/conv1x1_1", f"{fire}/squeeze", blob, squeeze, 1)
        tops = [conv(f"{fire}/conv1x1_2", f"{fire}/expand1", small, expand, 1),
                conv(f"{fire}/conv3x3_2", f"{fire}/expand3", small, expand, 3, pad=1)]
        blob = net.layer(f"{fire}/concat", "Concat", tops, f"{fire}/concat")
        if number in (4, 8):
            blob = net.pool(f"pool{number}", blob, "pool: MAX kernel_size: 3 stride: 2")
    blob = net.layer("drop9", "Dropout", blob, blob, "dropout_param { dropout_ratio: 0.5 }")
    blob = conv("conv_final", "conv_final", blob, 1000, 1, pad=1, filler='type: "gaussian" std: 0.01')
    net.finish(net.pool("pool_final", blob, "pool: AVE global_pooling: true"))


def squeezenet(net):
    """SqueezeNet 1.1: the squeezed and expanded channels of the eight fire modules."""
    def conv(name, relu, bottom, *shape, **more):
        return net.relu(relu, net.conv(name, bottom, *shape, bias=True, **more))

    blob = conv("conv1", "relu_conv1", "data", 64, 3, 2)
    blob = net.pool("pool1", blob, "pool: MAX kernel_size: 3 stride: 2")
    for number, squeeze, expand in ((2, 16, 64), (3, 16, 64), (4, 32, 128), (5, 32, 128),
                                    (6, 48, 192), (7, 48, 192), (8, 64, 256), (9, 64, 256)):
        fire = f"fire{number}"
        small = conv(f"{fire}/squeeze1x1", f"{fire}/relu_squeeze1x1", blob, squeeze, 1)
        tops = [conv(f"{fire}/expand1x1", f"{fire}/relu_expand1x1", small, expand, 1),
                conv(f"{fire}/expand3x3", f"{fire}/relu_expand3x3", small, expand, 3, pad=1)]
        blob = net.layer(f"{fire}/concat", "Concat", tops, f"{fire}/concat")
        if number in (3, 5):
            blob = net.pool(f"pool{number}", blob, "pool: MAX kernel_size: 3 stride: 2")
    blob = net.layer("drop9", "Dropout", blob, blob, "dropout_param { dropout_ratio: 0.5 }")
    blob = conv("conv10", "relu_conv10", blob, 1000, 1, filler='type: "gaussian" std: 0.01')
    net.finish(net.pool("pool10", blob, "pool: AVE global_pooling: true"))


def resnet_conv(net, name, bottom, *shape, relu=True, **more):
    """A convolution with its normalisation; `name` is that of a place in a block, or conv1."""
    blob = net.conv("res" + name if name != "conv1" else name, bottom, *shape, **more)
    end = name if name != "conv1" else "_conv1"
    net.norm("bn" + end, "scale" + end, blob)
    if relu:
        net.relu("conv1_relu" if name == "conv1" else f"res{name}_relu", blob)
    return blob


def resnet_stem(net):
    return net.pool("pool1", resnet_conv(net, "conv1", "data", 64, 7, 2, 3), "pool: MAX kernel_size: 3 stride: 2")


def bottlenecks(net, blob, blocks, first=0):
    """Groups of blocks of three convolutions, from group `first` on."""
    for group, count in enumerate(blocks, first):
        inner = 64 << group
        for block in range(count):
            letter = chr(ord("a") + block) if count <= 6 else "a" if block == 0 else f"b{block}"
            name, stride = f"{group + 2}{letter}", 2 if group > 0 and block == 0 else 1
            short = blob
            if block == 0:
                short = resnet_conv(net, f"{name}_branch1", blob, 4 * inner, 1, stride, relu=False)
            blob = resnet_conv(net, f"{name}_branch2a", blob, inner, 1, stride)
            blob = resnet_conv(net, f"{name}_branch2b", blob, inner, 3, 1, 1)
            blob = resnet_conv(net, f"{name}_branch2c", blob, 4 * inner, 1, relu=False)
            blob = net.layer(f"res{name}", "Eltwise", [short, blob], f"res{name}")
            net.relu(f"res{name}_relu", blob)
    return blob


def resnet(net, blocks):
    """The bottleneck nets of the paper's table 1: `blocks` in each of the four groups."""
    blob = bottlenecks(net, resnet_stem(net), blocks)
    blob = net.pool("pool5", blob, "pool: AVE global_pooling: true")
    net.finish(net.classes("fc1000", blob))


def resnet18(net):
    """Two 3 x 3 convolutions in each block, two blocks in each of the four groups."""
    blob = resnet_stem(net)
    for group in range(4):
        for letter in "ab":
            outputs, name = 64 << group, f"{group + 2}{letter}"
            stride, short = 2 if group > 0 and letter == "a" else 1, blob
            if stride == 2:
                short = resnet_conv(net, f"{name}_branch1", blob, outputs, 1, stride, relu=False)
            blob = resnet_conv(net, f"{name}_branch2a", blob, outputs, 3, stride, 1)
            blob = resnet_conv(net, f"{name}_branch2b", blob, outputs, 3, 1, 1, relu=False)
            blob = net.layer(f"res{name}", "Eltwise", [short, blob], f"res{name}")
            net.relu(f"res{name}_relu", blob)
    net.finish(net.classes("fc1000", net.pool("pool5", blob, "pool: AVE global_pooling: true")))


def mobilenet_v1_body(net):
    """Depthwise and pointwise convolutions in turn: outputs and stride of each pair."""
    def conv(name, bottom, *shape, **more):
        blob = net.conv(name, bottom, *shape, **more)
        net.norm(f"{name}/bn", f"{name}/scale", blob)
        return net.relu(f"relu{name[4:]}", blob)

    blob, inputs = conv("conv1", "data", 32, 3, 2, 1), 32
    for name, outputs, stride in (("2_1", 64, 1), ("2_2", 128, 2), ("3_1", 128, 1), ("3_2", 256, 2),
                                  ("4_1", 256, 1), ("4_2", 512, 2), ("5_1", 512, 1), ("5_2", 512, 1),
                                  ("5_3", 512, 1), ("5_4", 512, 1), ("5_5", 512, 1), ("5_6", 1024, 2),
                                  ("6", 1024, 1)):
        blob = conv(f"conv{name}/dw", blob, inputs, 3, stride, 1, group=inputs)
        blob, inputs = conv(f"conv{name}/sep", blob, outputs, 1), outputs
    return blob


def mobilenet_v1(net):
    blob = net.pool("pool6", mobilenet_v1_body(net), "pool: AVE global_pooling: true")
    net.finish(net.classes("fc7", blob))


def mobilenet_v2(net):
    """Inverted residuals, the paper's table 2: expansion, outputs, repeats, stride."""
    def conv(name, bottom, *shape, relu=True, **more):
        blob = net.conv(name, bottom, *shape, **more)
        net.norm(f"{name}/bn", f"{name}/scale", blob)
        return net.relu(f"relu{name[4:]}", blob, six=True) if relu else blob

    blob, inputs = conv("conv1", "data", 32, 3, 2, 1), 32
    for stage, (expansion, outputs, repeats, first) in enumerate((
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)), 2):
        for block in range(1, repeats + 1):
            name, stride, short = f"conv{stage}_{block}", first if block == 1 else 1, blob
            if expansion > 1:
                blob = conv(f"{name}/expand", blob, expansion * inputs, 1)
            blob = conv(f"{name}/dwise", blob, expansion * inputs, 3, stride, 1, group=expansion * inputs)
            blob = conv(f"{name}/linear", blob, outputs, 1, relu=False)
            if stride == 1 and inputs == outputs:
                blob = net.layer(f"block_{stage}_{block}", "Eltwise", [short, blob], f"block_{stage}_{block}")
            inputs = outputs
    blob = conv("conv9", blob, 1280, 1)
    net.finish(net.classes("fc10", net.pool("pool9", blob, "pool: AVE global_pooling: true")))


def densenet(net):
    """Dense blocks of 6, 12, 24 and 16 layers, each of which adds 32 channels."""
    growth, channels = 32, 64
    blob = net.conv("conv1", "data", channels, 7, 2, 3)
    net.norm("conv1/bn", "conv1/scale", blob)
    blob = net.pool("pool1", net.relu("relu1", blob), "pool: MAX kernel_size: 3 stride: 2")

    def half(name, blob, *shape, **more):
        """Normalisation and ReLU come before the convolution, and the blob itself is kept."""
        top = net.norm(f"{name}/bn", f"{name}/scale", blob, f"{name}/bn")
        return net.conv(name, net.relu(f"relu{name[4:]}", top), *shape, **more)

    for block, layers in enumerate((6, 12, 24, 16), 2):
        for layer in range(1, layers + 1):
            name = f"conv{block}_{layer}"
            new = half(f"{name}/x1", blob, 4 * growth, 1)
            new = half(f"{name}/x2", new, growth, 3, pad=1)
            blob = net.layer(f"concat_{block}_{layer}", "Concat", [blob, new], f"concat_{block}_{layer}")
        channels += layers * growth
        if block < 5:
            channels //= 2
            blob = half(f"conv{block}_blk", blob, channels, 1)
            blob = net.pool(f"pool{block}", blob, "pool: AVE kernel_size: 2 stride: 2")
    top = net.norm("conv5_blk/bn", "conv5_blk/scale", blob, "conv5_blk/bn")
    blob = net.pool("pool5", net.relu("relu5_blk", top), "pool: AVE global_pooling: true")
    net.finish(net.classes("fc6", blob))


def resnet20(train):
    """The paper's net for CIFAR-10: three groups of three blocks of two convolutions, 16, 32 and 64 channels.
    Where a group begins with a step of 2, a 1 x 1 convolution takes the short way, which the paper's nets for
    ImageNet have."""
    net = Net("CIFAR10 ResNet-20", 32, False, {"filler": MSRA, "preprocessing": RESNET20_IMAGES})
    if train:
        net.train, net.lines = True, [CIFAR10, 'name: "CIFAR10 ResNet-20"']
        for phase, mirror, batch in (("TRAIN", "mirror: true ", 128), ("TEST", "", 100)):
            net.lines += ['layer {', '  name: "data" type: "Data" top: "data" top: "label"',
                          f'  include {{ phase: {phase} }}',
                          f'  transform_param {{ {mirror}scale: 0.0078125 mean_file: '
                          '"examples/cifar10/mean.binaryproto" }',
                          f'  data_param {{ source: "examples/cifar10/cifar10_{"train" if mirror else "test"}_lmdb" '
                          f'batch_size: {batch} backend: LMDB }}', '}']

    def conv(name, bottom, *shape, relu=True):
        blob = net.conv(name, bottom, *shape)
        net.norm(f"{name}/bn", f"{name}/scale", blob)
        return net.relu(f"{name}/relu", blob) if relu else blob

    blob = conv("conv1", "data", 16, 3, 1, 1)
    for group in range(3):
        for block in range(1, 4):
            outputs, name = 16 << group, f"conv{group + 2}_{block}"
            stride, short = 2 if group > 0 and block == 1 else 1, blob
            if stride == 2:
                short = conv(f"{name}/short", blob, outputs, 1, stride, relu=False)
            blob = conv(f"{name}/a", blob, outputs, 3, stride, 1)
            blob = conv(f"{name}/b", blob, outputs, 3, 1, 1, relu=False)
            blob = net.relu(f"{name}/relu", net.layer(name, "Eltwise", [short, blob], name))
    score = net.full("fc10", net.pool("pool5", blob, "pool: AVE global_pooling: true"), 10)
    if not train:
        net.layer("prob", "Softmax", score, "prob")
    else:
        net.layer("loss", "SoftmaxWithLoss", [score, "label"], "loss")
        net.layer("accuracy", "Accuracy", [score, "label"], "accuracy", "include { phase: TEST }")
    return "\n".join(net.lines) + "\n"


RESNET20_SOLVER = """# The paper's 64,000 iterations; a tenth of the rate after 32,000 and after 48,000.
net: "models/cifar10_resnet20/train_test.prototxt"
test_iter: 100
test_interval: 1000
display: 100
base_lr: 0.1
lr_policy: "multistep"
gamma: 0.1
stepvalue: 32000
stepvalue: 48000
max_iter: 64000
momentum: 0.9
weight_decay: 0.0001
snapshot: 16000
snapshot_prefix: "models/cifar10_resnet20/cifar10_resnet20"
"""

MSRA = 'type: "msra"'

UCF101 = """\
# The clips are made from the videos of UCF-101 (https://www.crcv.ucf.edu/data/UCF101.php):
#   for video in UCF-101/*/*.avi; do
#     folder=examples/ucf101/$(basename "$video" .avi)
#     mkdir -p "$folder" && ffmpeg -i "$video" -q:v 2 "$folder/image_%04d.jpg"
#   done
# A line of the lists examples/ucf101/train.txt and test.txt has a folder, the clip's first frame and its label:
#   v_ApplyEyeMakeup_g08_c01 17 0"""


def c3d(train):
    """The paper's net: 3 x 3 x 3 convolutions of 16 frames. The first pooling keeps the frames. Layers have the names of
    the authors' fine-tuned weights."""
    net = Net("C3D", 112, False, {"filler": 'type: "gaussian" std: 0.01', "preprocessing": []})  # clips
    if train:
        net.train, net.lines = True, [UCF101, 'name: "C3D"']
        for phase, more, batch in (("TRAIN", "mirror: true ", 30), ("TEST", "", 10)):
            name, shuffle = ("train", "shuffle: true ") if phase == "TRAIN" else ("test", "")
            net.lines += ['layer {', '  name: "data" type: "VideoClips" top: "data" top: "label"',
                          f'  include {{ phase: {phase} }}',
                          f'  transform_param {{ {more}crop_size: 112 mean_value: 90 mean_value: 98 mean_value: 102 }}',
                          f'  image_data_param {{ source: "examples/ucf101/{name}.txt" batch_size: {batch} {shuffle}'
                          'new_height: 128 new_width: 171 }', '  video_data_param { new_length: 16 }', '}']
    else:
        net.lines[3:4] = ['  input_param { shape { dim: 1 dim: 3 dim: 16 dim: 112 dim: 112 } }']
    blob = "data"
    for group, letters, outputs in ((1, "a", 64), (2, "a", 128), (3, "ab", 256), (4, "ab", 512), (5, "ab", 512)):
        for letter in letters:
            name = f"{group}{letter}"
            blob = net.relu(f"relu{name}", net.conv(f"conv{name}", blob, outputs, 3, pad=1, bias=True,
                                                    start=0 if group == 1 else 1))
        size = "kernel_size: [1, 2, 2] stride: [1, 2, 2]" if group == 1 else "kernel_size: 2 stride: 2"
        blob = net.pool(f"pool{group}", blob, f"pool: MAX {size}")
    for number in (6, 7):
        blob = net.relu(f"relu{number}", net.full(f"fc{number}", blob, 4096, 'type: "gaussian" std: 0.005', 1))
        blob = net.layer(f"drop{number}", "Dropout", blob, blob, "dropout_param { dropout_ratio: 0.5 }")
    score = net.full("fc8", blob, 101, start=0)
    if not train:
        net.layer("prob", "Softmax", score, "prob")
    else:
        net.layer("loss", "SoftmaxWithLoss", [score, "label"], "loss")
        net.layer("accuracy", "Accuracy", [score, "label"], "accuracy", "include { phase: TEST }")
    return "\n".join(net.lines) + "\n"


C3D_SOLVER = """# The authors' rule for UCF-101: a tenth of the rate after 20,000 and after 40,000 iterations.
net: "models/c3d/train_val.prototxt"
test_iter: 100
test_interval: 1000
display: 20
base_lr: 0.003
lr_policy: "step"
gamma: 0.1
stepsize: 20000
max_iter: 60000
momentum: 0.9
weight_decay: 0.005
snapshot: 5000
snapshot_prefix: "models/c3d/c3d_train"
"""

# How each paper trains: iter_size adds up its batch from smaller ones.
RESNET = dict(size=224, filler=MSRA, batch=32, rate=0.1, decay=0.0001, iterations=600000,
              policy='lr_policy: "multistep"\ngamma: 0.1\nstepvalue: 150000\nstepvalue: 300000\nstepvalue: 450000',
              words="The paper's rule: a tenth of the rate each time that the error stops falling; batches of 256.",
              sum=8)
NETS = {
    "caffenet": ("CaffeNet", caffenet, dict(
        size=227, filler='type: "gaussian" std: 0.01', batch=256, rate=0.01, decay=0.0005, iterations=450000,
        sum=1, policy='lr_policy: "step"\ngamma: 0.1\nstepsize: 100000',
        words="450,000 iterations at batch 256; the rate falls tenfold every 100,000.")),
    "vgg16": ("VGG-16", vgg16, dict(
        size=224, filler=MSRA, batch=32, rate=0.01, decay=0.0005, iterations=370000, sum=8,
        policy='lr_policy: "multistep"\ngamma: 0.1\nstepvalue: 150000\nstepvalue: 250000\nstepvalue: 330000',
        words="The paper's 370,000 iterations of 256 pictures; the rate falls tenfold three times.")),
    "resnet18": ("ResNet-18", resnet18, dict(
        size=224, filler=MSRA, batch=64, rate=0.1, decay=0.0001, iterations=600000, sum=4,
        policy='lr_policy: "multistep"\ngamma: 0.1\nstepvalue: 150000\nstepvalue: 300000\nstepvalue: 450000',
        words="The paper's rule: a tenth of the rate each time that the error stops falling; batches of 256.")),
    "squeezenet_v1.0": ("SqueezeNet 1.0", squeezenet_first, dict(
        size=227, filler='type: "xavier"', batch=32, rate=0.04, decay=0.0002, iterations=170000, sum=16,
        policy='lr_policy: "poly"\npower: 1', words="The rate falls linearly; batches of 512.",
        has_deploy=True)),
    "squeezenet_v1.1": ("SqueezeNet 1.1", squeezenet, dict(
        size=227, filler='type: "xavier"', batch=32, rate=0.04, decay=0.0002, iterations=170000, sum=16,
        policy='lr_policy: "poly"\npower: 1', words="The rate falls linearly; batches of 512.")),
    "resnet50": ("ResNet-50", lambda net: resnet(net, (3, 4, 6, 3)), RESNET),
    "resnet152": ("ResNet-152", lambda net: resnet(net, (3, 8, 36, 3)), RESNET),
    "mobilenet_v1": ("MobileNet v1", mobilenet_v1, dict(
        size=224, filler=MSRA, batch=64, rate=0.1, decay=0.00004, iterations=500000, sum=4,
        policy='lr_policy: "poly"\npower: 1', words="The rate falls linearly; batches of 256.")),
    "mobilenet_v2": ("MobileNet v2", mobilenet_v2, dict(
        size=224, filler=MSRA, batch=64, rate=0.05, decay=0.00004, iterations=500000, sum=4,
        policy='lr_policy: "poly"\npower: 1', words="The rate falls linearly; batches of 256.")),
    "densenet121": ("DenseNet-121", densenet, dict(
        size=224, filler=MSRA, batch=32, rate=0.1, decay=0.0001, iterations=450000, sum=8,
        policy='lr_policy: "multistep"\ngamma: 0.1\nstepvalue: 150000\nstepvalue: 300000',
        words="90 epochs; a tenth of the rate after 30 and 60; batches of 256.")),
}


def solver(folder, rules):
    return f"""# {rules["words"]}
net: "models/{folder}/train_val.prototxt"
test_iter: 1000
test_interval: 5000
test_initialization: false
display: 40
average_loss: 40
base_lr: {rules["rate"]}
{rules["policy"]}
max_iter: {rules["iterations"]}
iter_size: {rules["sum"]}
momentum: 0.9
weight_decay: {rules["decay"]:.5f}
snapshot: 10000
snapshot_prefix: "models/{folder}/{folder}_train"
"""


def texts_of_all():
    """The folder of each model and the texts of its files."""
    yield "cifar10_resnet20", {"deploy.prototxt": resnet20(False), "train_test.prototxt": resnet20(True),
                               "solver.prototxt": RESNET20_SOLVER}
    yield "c3d", {"deploy.prototxt": c3d(False), "train_val.prototxt": c3d(True), "solver.prototxt": C3D_SOLVER}
    for folder, (title, build, rules) in NETS.items():
        texts = {"solver.prototxt": solver(folder, rules)}
        for name, train in (("deploy", False), ("train_val", True)):
            if not train and rules.get("has_deploy"):  # it came with its weights
                continue
            net = Net(title, rules["size"], train, rules)
            build(net)
            texts[f"{name}.prototxt"] = "\n".join(net.lines) + "\n"
        yield folder, texts


def main():
    check, different = "-check" in sys.argv[1:], []
    for folder, texts in texts_of_all():
        for name, text in texts.items():
            path = MODELS / folder / name
            if check and (not path.exists() or path.read_text() != text):
                different.append(str(path))
            elif not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    if different:
        sys.exit("differ from what scripts/write_models.py writes: " + ", ".join(different))


if __name__ == "__main__":
    main()
