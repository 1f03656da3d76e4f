"""ONNX files: exported, checked by the package onnx, run by ONNX Runtime, and imported."""
import os
import re

import caffe
import numpy as np
import onnx
import onnxruntime

from . import nets
from .nets import Failure, Rejected

RUNTIME_TOLERANCE = 1e-5  # against ONNX Runtime
IMPORT_TOLERANCE = 1e-6   # against crema itself


def export(net, path, opset, batch=None):
    """Writes a net. Raises Rejected if ONNX cannot express it."""
    try:
        caffe.onnx.export(net, path, opset=opset, batch=batch)
    except caffe.Error as error:
        if error.status == "E_UNSUPPORTED":
            raise Rejected(str(error)) from None
        raise Failure("export: %s" % error) from None


def check(path):
    """Raises Failure if the package onnx finds a fault in a file."""
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as error:  # of several classes, without a common base
        raise Failure("onnx.checker: %s" % str(error).strip().splitlines()[0]) from None


def input_shapes(path):
    """The shapes of a file's inputs by name; a symbolic extent is 1, and a symbolic shape is left out."""
    graph, shapes = onnx.load(path, load_external_data=False).graph, {}
    constants = {tensor.name for tensor in graph.initializer}
    for one in graph.input:
        if one.name not in constants and one.type.tensor_type.HasField("shape"):
            shapes[one.name] = tuple(dim.dim_value or 1 for dim in one.type.tensor_type.shape.dim)
    return shapes


def _session(path, optimise):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_in_runtime(path, arrays, optimise=False):
    """The outputs of a file by name, as ONNX Runtime computes them. Its optimiser is off for single layers: they
    are what is compared, and loading takes less time."""
    try:
        session = _session(path, optimise)
        given = {one.name for one in session.get_inputs()}
        names = [one.name for one in session.get_outputs()]
        feed = {name: array for name, array in arrays.items() if name in given}
        return dict(zip(names, session.run(names, feed)))
    except Exception as error:  # of several classes, without a common base
        raise Failure("ONNX Runtime: %s" % re.sub(r"\s+", " ", str(error))[:400]) from None


def read(path):
    """The net in a file. Raises Rejected if crema cannot import it."""
    try:
        return caffe.onnx.load(path)
    except caffe.Error as error:
        raise (Rejected if error.status == "E_UNSUPPORTED" else Failure)("import: %s" % error) from None


def read_own(path):
    """The net in a file that crema wrote, which it must be able to import."""
    try:
        return read(path)
    except Rejected as error:
        raise Failure(str(error)) from None


def _wanted(outputs, found):
    """The outputs of a net that its file must have. Layers without nodes, such as Accuracy, have none."""
    missing = [name for name in outputs if name not in found]
    wanted = {name: values for name, values in outputs.items() if name in found}
    if not wanted:
        raise Failure("the file has none of the outputs %s" % ", ".join(missing))
    return wanted


def check_file(path, arrays, outputs, tolerance=RUNTIME_TOLERANCE, optimise=False):
    """Compares a file, as ONNX Runtime runs it, with the outputs of its net. Returns the largest difference."""
    check(path)
    found = run_in_runtime(path, arrays, optimise)
    return nets.compare(found, _wanted(outputs, found), tolerance, "ONNX Runtime")


def check_back(path, arrays, outputs, tolerance=IMPORT_TOLERANCE):
    """Imports an exported file and compares it with the outputs of its net. Returns the imported net and its
    outputs."""
    net = read_own(path)
    found = nets.run(net, arrays)
    nets.compare(found, _wanted(outputs, found), tolerance, "import")
    return net, found


def check_again(net, path, opset, arrays, outputs, tolerances=(RUNTIME_TOLERANCE, IMPORT_TOLERANCE)):
    """Exports an imported net and compares the file like the first one."""
    try:
        export(net, path, opset)
        check_file(path, arrays, outputs, tolerances[0])
        check_back(path, arrays, outputs, tolerances[1])
    except (Failure, Rejected) as error:
        raise Failure("second export: %s" % error) from None


def check_round(net, arrays, folder, opset, outputs, *, tolerances=(RUNTIME_TOLERANCE, IMPORT_TOLERANCE),
                back=True, optimise=False):
    """Exports a net that has the given outputs, compares the file with ONNX Runtime and, with `back`, imports it and
    exports the imported net. Returns the largest difference to ONNX Runtime."""
    first, second = os.path.join(folder, "first.onnx"), os.path.join(folder, "second.onnx")
    export(net, first, opset)
    worst = check_file(first, arrays, outputs, tolerances[0], optimise)
    if back:
        imported, found = check_back(first, arrays, outputs, tolerances[1])
        check_again(imported, second, opset, arrays, found, tolerances)
    return worst


def check_symbolic_batch(net, arrays, folder, opset, tolerance=RUNTIME_TOLERANCE):
    """Exports a net with a symbolic batch and runs it with a batch of twice the size. Returns false if the net needs
    a fixed batch."""
    path = os.path.join(folder, "dynamic.onnx")
    sizes = {array.shape[:1] for array in arrays.values()}
    if len(sizes) != 1 or sizes == {()}:
        return False
    try:
        export(net, path, opset, batch="dynamic")
    except Rejected as error:
        if "it needs a fixed batch size" in str(error):
            return False
        raise
    double = {name: np.concatenate([array, array[::-1]]) for name, array in arrays.items()}
    try:
        outputs = nets.run(net, double)
    except caffe.Error:
        return False  # crema's net has no such batch
    finally:
        nets.run(net, arrays)
    try:
        check_file(path, double, outputs, tolerance)
    except Failure as error:
        raise Failure("symbolic batch: %s" % error) from None
    return True
