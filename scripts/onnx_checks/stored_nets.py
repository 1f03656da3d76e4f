"""The nets of models/ and of the golden cases."""
import contextlib
import os
import pathlib
import subprocess

import caffe
import numpy as np

from . import files, nets
from .nets import Failure

OPSET = 13

# Proposals are sorted by scores. In large images two of them are so close that one rounding swaps them.
SMALL_IMAGE = (160, 192)
# The only net of models/ that misses files.IMPORT_TOLERANCE: 1.3e-6 after ResNet-50, proposals and a Softmax.
PROPOSAL_TOLERANCE = 2e-6


def sources(path, net):
    """The numbers that the net had in the inputs of its file: also the tops of data layers."""
    return {name: np.array(net.blobs[name].data) for name in files.input_shapes(path)}


# ---- models ----------------------------------------------------------------------------------------------


def _check_model(path, folder, opset):
    net = caffe.Net(str(path), caffe.TEST)
    shapes = {name: tuple(net.blobs[name].shape) for name in net.inputs}
    for name, shape in shapes.items():
        size = SMALL_IMAGE if "im_info" in shapes and name == "data" else shape[2:]
        net.blobs[name].reshape(1, *shape[1:2], *size)
    net.reshape()
    nets.fill_parameters(net, path.parent.name)
    arrays = nets.input_arrays({name: tuple(net.blobs[name].shape) for name in net.inputs}, path.parent.name)
    if "im_info" in arrays:
        arrays["im_info"][...] = [[*arrays["data"].shape[2:], 1][:arrays["im_info"].shape[1]]]
    for name, array in arrays.items():
        net.blobs[name].data[...] = array
    nets.level_activations(net)
    outputs = nets.run(net, arrays)
    back = PROPOSAL_TOLERANCE if "im_info" in shapes else files.IMPORT_TOLERANCE
    return files.check_round(net, arrays, folder, opset, outputs, tolerances=(files.RUNTIME_TOLERANCE, back),
                             optimise=True)


def check_models(report, folder, root, only, opset=OPSET):
    """Every deploy file of models/, with random weights."""
    for path in sorted(pathlib.Path(root).glob("*/deploy.prototxt")):
        name = path.parent.name
        if only in name:
            report.check("models", "models/" + name, lambda path=path: _check_model(path, folder, opset), None)


# ---- golden cases ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _inside(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _read_case(path):
    """The inputs and parameters of a case.h5, by name."""
    import h5py
    if not path.exists():
        return {}, {}
    with h5py.File(path) as file:
        group = file.get("inputs", {})
        group = group.get("0", group)  # the first iteration of a training
        inputs = {name: np.array(values, np.float32) for name, values in group.items()
                  if isinstance(values, h5py.Dataset)}
        group = file.get("params", {})
        params = {layer: {int(index): np.array(values) for index, values in blobs.items() if index.isdigit()}
                  for layer, blobs in group.get("init", group).items()}
    return inputs, params


def _set_parameters(net, params):
    for layer, blobs in net.params.items():
        for index, blob in enumerate(blobs):
            if index in params.get(layer, {}):
                blob.data[...] = params[layer][index].reshape(tuple(blob.shape))


def _build(text, params, label):
    net = caffe.Net.from_text(text, source=label)
    nets.fill_parameters(net, label)
    _set_parameters(net, params)
    return net


def _check_golden(place, label, folder, opset):
    text = (place / "net.prototxt").read_text()
    inputs, params = _read_case(place / "case.h5")
    net = _build(text, params, label)
    arrays = nets.input_arrays({name: inputs.get(name, tuple(net.blobs[name].shape)) for name in net.inputs}, label)
    form = nets.inference_form(text)
    # Another net, since recurrent layers keep their state after a pass. Two nets cannot write one HDF5 file.
    compared = net if "HDF5Output" in text else _build(form or text, params, label)
    nets.copy_parameters(net, compared)
    try:
        nets.run(net, arrays)
    except caffe.Error:  # an input is a label or an index
        if inputs:
            raise
        arrays = {name: (array > 0).astype(np.float32) for name, array in arrays.items()}
        nets.run(net, arrays)
    # The bottoms of other losses are outputs of the file.
    outputs = nets.run(compared, arrays, list(compared.blobs))
    path = os.path.join(folder, "sources.onnx")
    files.export(net, path, opset)
    given = {name: arrays.get(name, values) for name, values in sources(path, net).items()}
    return files.check_round(net, given, folder, opset, outputs)


def _builds(place):
    """Whether the net of a folder can be built for phase TEST. Cases of rejected nets cannot, and nets whose
    databases are on another machine."""
    try:
        with _inside(place):
            caffe.Net("net.prototxt", caffe.TEST)
    except caffe.Error:
        return False
    return True


def check_golden(report, folder, archive, only, opset=OPSET):
    """Every net of the golden cases that can be built for phase TEST."""
    golden = pathlib.Path(folder, "golden")
    golden.mkdir()
    subprocess.run(["tar", "--zstd", "-xf", archive, "-C", golden], check=True)
    left_out = []
    for path in sorted(golden.rglob("net.prototxt")):
        place = path.parent
        label = str(place.relative_to(golden))
        if only not in label:
            continue
        if not _builds(place):
            left_out.append(label)
            continue
        group = "golden " + label.split("/")[0]

        def check(place=place, label=label):
            with _inside(place):
                return _check_golden(place, label, folder, opset)
        report.check(group, label, check)
    print("%d nets cannot be built for phase TEST: %s" % (len(left_out), ", ".join(left_out)))
    if not report.counts:
        raise Failure("no golden case was found")
