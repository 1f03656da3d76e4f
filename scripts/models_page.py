#!/usr/bin/env python3
"""Writes docs/models.md: a table of the nets in models/ with their costs, weights and data sets.

Usage: models_page.py CREMA [--check]

CREMA is the command, which computes parameters, multiply-adds and memory. Latencies come from
bench/results/inference.tsv. The other facts are in the table below. --check writes nothing and fails when the page
differs.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/models.md"
RESULTS = ROOT / "bench/results/inference.tsv"
THREADS = "2"

IMAGENET, CIFAR10, VOC = "ImageNet classes", "CIFAR-10 classes", "VOC"
ZOO = "[BVLC zoo][zoo]"
LISTED = "`train_val.prototxt`"
CIFAR10_RUN = "`examples/cifar10/run.sh`"

# Folder: (title, task, published accuracy in percent, its source, origin of weights, how to make the data set).
NETS = {
    "lenet": ("LeNet", "MNIST digits", "99.1", "crema, `make run`", "yours", "`make run`"),
    "cifar10_quick": ("CIFAR-10 quick", CIFAR10, "75.4 to 76.4", "crema, three seeds", "yours", CIFAR10_RUN),
    "cifar10_full": ("CIFAR-10 full", CIFAR10, "81.5", "crema, one seed", "yours", CIFAR10_RUN),
    "cifar10_resnet20": ("ResNet-20", CIFAR10, "91.25", "[paper][resnet], other shortcuts", "yours",
                         CIFAR10_RUN),
    "alexnet": ("AlexNet", IMAGENET, "57.1 / 80.2", ZOO + ", one crop", ZOO, LISTED),
    "caffenet": ("CaffeNet", IMAGENET, "57.4 / 80.4", ZOO + ", one crop", ZOO, LISTED),
    "vgg16": ("VGG-16", IMAGENET, "74.4 / 91.9", "[paper][vgg], table 3",
              ZOO, LISTED),
    "googlenet": ("GoogLeNet", IMAGENET, "68.7 / 88.9", ZOO + ", one crop", ZOO, LISTED),
    "squeezenet_v1.0": ("SqueezeNet 1.0", IMAGENET, "57.5 / 80.3",
                        "[paper][squeezenet], table 2", "bundled", LISTED),
    "squeezenet_v1.1": ("SqueezeNet 1.1", IMAGENET, "-", "-",
                        "[authors][forresti]", LISTED),
    "mobilenet_v1": ("MobileNet v1", IMAGENET, "70.8 / 89.9", "[weights][shicai], one crop",
                     "[shicai][shicai]", LISTED),
    "mobilenet_v2": ("MobileNet v2", IMAGENET, "72.0 / -", "[paper][mobilenet2], table 4",
                     "[shicai][shicai]", LISTED),
    "resnet18": ("ResNet-18", IMAGENET, "69.8 / 89.1", "[torchvision][vision], one crop",
                 "yours", LISTED),
    "resnet50": ("ResNet-50", IMAGENET, "75.3 / 92.2",
                 "[authors][he], one crop",
                 "[authors][he]", LISTED),
    "resnet152": ("ResNet-152", IMAGENET, "77.0 / 93.3",
                  "[authors][he], one crop",
                  "[authors][he]", LISTED),
    "densenet121": ("DenseNet-121", IMAGENET, "74.9 / 92.2", "[weights][dense], one crop",
                    "[shicai][dense]", LISTED),
    "ssd300_mobilenet": ("SSD300 MobileNet", f"{VOC} boxes", "-", "-", "yours", LISTED),
    "faster_rcnn_resnet50": ("Faster R-CNN ResNet-50", f"{VOC} boxes", "-", "-", "yours", LISTED),
    "fcn8s": ("FCN-8s", f"{VOC} segmentation", "65.5 mean IoU",
              "[authors][fcn], seg11valid",
              "[authors][fcn]", LISTED),
    "c3d": ("C3D", "UCF-101 actions", "-", "-", "yours", LISTED),
    "unet": ("U-Net", "cell segmentation", "92.0 IoU", "[paper][unet], PhC-U373", "yours",
             LISTED),
}

HEAD = """# Models

This page lists the {count} networks in `models/` with their costs, their accuracy, the origin of trained weights, and
the way to make their data sets. `scripts/models_page.py` writes it.

Each folder has three kinds of files:

* `deploy.prototxt` runs the net on its own input.
* `train_val.prototxt` or `train_test.prototxt` trains and tests it.
* `solver.prototxt` says how to train: `crema train -solver models/lenet/solver.prototxt`.

The `deploy.prototxt` of each image classifier has the [preprocessing](deploy.md#images) of `train_val.prototxt`, and
`labels.txt` has the names of the classes. Weights from elsewhere can need other values: the published weights of
MobileNet and DenseNet were trained with `-mean_value 103.94,116.78,123.68 -scale 0.017`. CIFAR-10 quick and ResNet-20
subtract a mean image that `examples/cifar10/run.sh` makes.

One model comes with weights, so it works at once:

```sh
crema classify -top 1 examples/images/cat.jpg
crema summary models/lenet/deploy.prototxt
```

```text
...{cat}"
conv1 ...
```

## Costs of one forward pass

FLOPs count two for each multiply-add, and the cheaper arithmetic of biases, activations and pooling. Weights are the
file's size in float32. Values are the sum of all blobs of the pass. A compiled model reuses that memory and needs less:
`crema benchmark NET` measures it, and the latency on your machine. `crema summary -input data=8x3x224x224 NET`
computes the costs of another input.
{machine}
| net | task | input | parameters | multiply-adds | FLOPs | weights | values | latency |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""

MIDDLE = """
## Accuracy and weights

Accuracies are percentages of top-1 and top-5 on the validation or test set, unless a measure follows. The next column
names the source of the figure: a paper, the authors of the weights, or crema with the files in the folder.
There is a `-` if no figure is known for this very net.

Weights:

* *bundled*: the folder has them.
* *yours*: train them.
* A link: the layers have the same names as in these weights. Such files should work; only the bundled one is tested.

Data sets: a script makes them, or the comment at the head of the named file lists the commands. They use
`examples/datasets/imagenet.py` for ImageNet and `examples/datasets/voc.py` for PASCAL VOC.

| net | folder | accuracy | source | weights | data set |
| --- | --- | --- | --- | --- | --- |
"""

END = """
[zoo]: https://github.com/BVLC/caffe/wiki/Model-Zoo

[resnet]: https://arxiv.org/abs/1512.03385

[vgg]: https://arxiv.org/abs/1409.1556

[squeezenet]: https://arxiv.org/abs/1602.07360

[forresti]: https://github.com/forresti/SqueezeNet

[shicai]: https://github.com/shicai/MobileNet-Caffe

[mobilenet2]: https://arxiv.org/abs/1801.04381

[vision]: https://docs.pytorch.org/vision/stable/models.html

[he]: https://github.com/KaimingHe/deep-residual-networks

[dense]: https://github.com/shicai/DenseNet-Caffe

[fcn]: https://github.com/shelhamer/fcn.berkeleyvision.org

[unet]: https://arxiv.org/abs/1505.04597

The images of CIFAR-10 were stored as JPEG files for the figures of crema, which costs accuracy. CIFAR-10
quick and full are tested with averaged weights (`ema_decay` in their solvers).

## Licences

The network descriptions have crema's licence, BSD-2-Clause. The bundled weights of SqueezeNet 1.0 have their authors'
BSD licence (`models/squeezenet_v1.0/LICENSE`). The BVLC and FCN weights are for unrestricted use. For other weights,
read the licence at their source. ImageNet and PASCAL VOC have terms of use for their images.

## When a model is missing

Other Caffe networks run from their own `deploy.prototxt` and `.caffemodel`. [Migrating](migrating.md) lists the
dialects, and [troubleshooting](troubleshooting.md) explains the errors of a net that does not load.
"""


def shape_of(folder):
    """The shape of the net's data for one image."""
    text = (ROOT / "models" / folder / "deploy.prototxt").read_text()
    shape = re.findall(r"dim: *(\d+)", re.search(r"shape *\{(.*?)\}", text, re.S)[1])
    return ["1", *shape[1:]]


def sums(crema, folder):
    done = subprocess.run([crema, "summary", "-json", "-input", "data=" + "x".join(shape_of(folder)),
                           f"models/{folder}/deploy.prototxt"], cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)["sum"]


def latencies():
    """Milliseconds of each net at batch 1, and the comments at the head of the results."""
    if not RESULTS.exists():
        return {}, {}
    lines = RESULTS.read_text().splitlines()
    notes = dict(re.findall(r"^# (\w+): (.*)$", "\n".join(lines), re.M))
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    found = [dict(zip(rows[0], row)) for row in rows[1:]]
    return {one["net"]: float(one["ms"]) for one in found
            if one["batch"] == "1" and one["threads"] == THREADS and one["runtime"] == "crema"}, notes


def number(value):
    """Three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def amount(value):
    """In thousands, millions or billions."""
    unit, name = next(one for one in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= 0.999 * one[0])
    return f"{number(value / unit)} {name}"


def page(crema):
    missing = {p.name for p in (ROOT / "models").iterdir() if p.is_dir()} ^ set(NETS)
    if missing:
        sys.exit(f"models_page.py: in models/ or in the table only: {', '.join(sorted(missing))}")
    times, notes = latencies()
    machine = ""
    if times:
        machine = (f"\nLatency is the time of a compiled model: float32, batch 1, {THREADS} threads.\n"
                   f"It was measured with {notes['versions'].split(',')[0]}.\nThe machine: {notes['machine']}.\n")
    text = [HEAD.format(count=len(NETS), machine=machine, cat="n02124075 Egyptian cat")]
    for folder, (title, task, *_) in NETS.items():
        found = sums(crema, folder)
        text.append(f"| {title} | {task} | {'x'.join(shape_of(folder)[1:])} | {amount(found['learned'])} "
                    f"| {amount(found['multiply_adds'])} | {amount(found['flops'])} "
                    f"| {number(found['parameter_bytes'] / 1e6)} MB | {number(found['value_bytes'] / 1e6)} MB "
                    f"| {number(times[folder]) + ' ms' if folder in times else '-'} |\n")
    text.append(MIDDLE)
    for folder, (title, _, *facts) in NETS.items():
        text.append(f"| {title} | `{folder}` | {' | '.join(facts)} |\n")
    return "".join([*text, END])


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    text = page(str(pathlib.Path(arguments[0]).resolve()))
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit("docs/models.md differs from what `scripts/models_page.py build/bin/crema` writes")


if __name__ == "__main__":
    main()
