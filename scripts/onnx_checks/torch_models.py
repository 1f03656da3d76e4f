"""Models of torchvision with random weights, exported by torch.onnx: crema equals PyTorch."""
import os
import warnings

import numpy as np
import torch
import torchvision

from . import files, nets
from .nets import Failure, Rejected

# Side of the images: as small as the model allows, so that a run is short.
MODELS = {
    "alexnet": 224, "convnext_tiny": 64, "deeplabv3_mobilenet_v3_large": 65, "densenet121": 64, "efficientnet_b0": 64,
    "efficientnet_v2_s": 64, "fcn_resnet50": 64, "googlenet": 96, "inception_v3": 128, "lraspp_mobilenet_v3_large": 64,
    "mnasnet0_5": 64, "mobilenet_v2": 96, "mobilenet_v3_large": 96, "mobilenet_v3_small": 64, "regnet_x_400mf": 64,
    "regnet_y_400mf": 64, "resnet18": 96, "resnet50": 96, "resnext50_32x4d": 64, "shufflenet_v2_x1_0": 96,
    "squeezenet1_0": 96, "squeezenet1_1": 96, "vgg11_bn": 224, "vgg16": 224, "wide_resnet50_2": 64,
}
EXPORTERS = {"script": False, "dynamo": True}


class _Output(torch.nn.Module):
    """A model whose output is one tensor: segmentation models return a dictionary."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        found = self.model(x)
        return found["out"] if isinstance(found, dict) else found


def make(name, side):
    """A model in evaluation mode with random weights and statistics, and an input. Statistics of a few random images
    would be close to 0 in deep layers, and magnify the rounding."""
    torch.manual_seed(1)
    options = {"weights_backbone": None} if name.startswith(("deeplab", "fcn", "lraspp")) else {}
    if name in ("googlenet", "inception_v3"):
        options = {"init_weights": False, "aux_logits": False}
    model = torchvision.models.get_model(name, weights=None, **options)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return _Output(model).eval(), torch.randn(1, 3, side, side)


def export(model, x, path, dynamo):
    """Writes the model; with the newer exporter, a model that it cannot export raises Rejected."""
    options = {"opset_version": 18, "external_data": False} if dynamo else {"opset_version": 17}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], dynamo=dynamo, verbose=False,
                              **options)
        except Exception as error:  # of several classes, without a common base
            if dynamo:
                raise Rejected("torch.onnx: %s" % str(error).splitlines()[0]) from None
            raise


def _check(model, x, path, dynamo):
    export(model, x, path, dynamo)
    with torch.no_grad():
        wanted = {"y": model(x).numpy()}
    try:
        net = files.read(path)
    except Rejected as error:
        raise Failure(str(error)) from None
    found = nets.run(net, {"x": x.numpy().astype(np.float32)})
    return nets.compare(found, wanted, files.RUNTIME_TOLERANCE, "crema")


def check_torch_models(report, folder, only):
    """All models, with both exporters."""
    torch.set_num_threads(1)
    path = os.path.join(folder, "torch.onnx")
    for name, side in MODELS.items():
        if only not in name:
            continue
        model, x = make(name, side)
        for exporter, dynamo in EXPORTERS.items():
            report.check("torch.onnx, " + exporter, "%s (%s)" % (name, exporter),
                         lambda model=model, x=x, dynamo=dynamo: _check(model, x, path, dynamo))
