"""The node tests of the package onnx: each has one operator, inputs and outputs."""
import os
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.version_converter

from . import files, nets
from .nets import Rejected

LAST_OPSET = 21
FLOAT = onnx.TensorProto.FLOAT

# Tests whose outputs have four digits.
ROUNDED = {"test_roialign_aligned_false", "test_roialign_aligned_true", "test_roialign_mode_max"}


def _element_type(value):
    return value.type.tensor_type.elem_type if value.type.HasField("tensor_type") else None


def load():
    """Yields (name, model, inputs, outputs) for the tests with one node and numbers of type float. Inputs after the
    first may have any type of number: they hold shapes, axes or masks."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        import onnx.backend.test.loader
        tests = onnx.backend.test.loader.load_model_tests(kind="node")
        for test in tests:
            model = test.model or onnx.load(os.path.join(test.model_dir, "model.onnx"))
            graph = model.graph
            types = [_element_type(value) for value in [*graph.input, *graph.output]]
            floats = [_element_type(value) == FLOAT for value in [*graph.input[:1], *graph.output]]
            if len(graph.node) == 1 and None not in types and all(floats) and test.data_sets:
                yield test.name, model, *test.data_sets[0]


def _with_constants(model, inputs):
    """A copy of the model in which the inputs after the first are constants."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value, array in zip(copy.graph.input[1:], inputs[1:]):
        copy.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), value.name))
    del copy.graph.input[1:]
    return copy


def _in_supported_set(model):
    """The model in operator set 21 if its own is newer. Raises Rejected if its operator is newer."""
    versions = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    if not versions or versions[0] <= LAST_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, LAST_OPSET)
    except Exception as error:  # the converter raises RuntimeError and others
        raise Rejected("operator set %d: %s" % (versions[0], str(error).strip()[:200])) from None


def _run(model, path, inputs, outputs, tolerance):
    onnx.save(model, path)
    net = files.read(path)
    names = [value.name for value in model.graph.input]
    found = nets.run(net, dict(zip(names, [np.asarray(array, np.float32) for array in inputs])))
    wanted = {value.name: np.asarray(array) for value, array in zip(model.graph.output, outputs)}
    return nets.compare(found, wanted, tolerance, "crema")


def _check(model, path, inputs, outputs, tolerance):
    """Runs a test as it is and, if that is rejected, with constants."""
    model = _in_supported_set(model)
    numbers = all(_element_type(value) == FLOAT for value in model.graph.input)
    try:
        if numbers:
            return _run(model, path, inputs, outputs, tolerance)
    except Rejected:
        if len(inputs) < 2:
            raise
    return _run(_with_constants(model, inputs), path, inputs[:1], outputs, tolerance)


def check_nodes(report, folder, only):
    """All node tests, grouped by operator."""
    path = os.path.join(folder, "node.onnx")
    for name, model, inputs, outputs in load():
        if only in name:
            tolerance = 1e-4 if name in ROUNDED else files.RUNTIME_TOLERANCE
            report.check(model.graph.node[0].op_type, name,
                         lambda m=model, i=inputs, o=outputs, t=tolerance: _check(m, path, i, o, t))
