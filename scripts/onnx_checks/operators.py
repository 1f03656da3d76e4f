"""Models of single operators and patterns, made by the modules of scripts/onnx_cases, which the importer reads.

A module has a function models() that yields tuples (name, model, inputs) or (name, model, inputs, rejected):

- model: the onnx.ModelProto
- inputs: the arrays by name
- rejected: words of the rejection that the model must get

scripts/onnx_cases/rejected.txt lists further models that are rejected, because no layer computes exactly the same. Any
other rejection is a failure.
"""
import os
import pathlib

import onnx
from onnx import TensorProto, helper, numpy_helper

import numpy as np

from . import files, nets

LIST = pathlib.Path(__file__).resolve().parents[1] / "onnx_cases/rejected.txt"
IR_VERSIONS = {7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}


def tensor(name, values, kind=np.float32):
    """A constant of the file."""
    return numpy_helper.from_array(np.asarray(values, kind), name)


def integers(name, *values):
    """A constant list of integers."""
    return tensor(name, values, np.int64)


def model(nodes, inputs, outputs=("y",), constants=(), opset=13, batch=None):
    """A model. `inputs` maps names to shapes; the first extents are `batch` if it is given. The shapes of outputs
    are not stated."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, *shape[1:]] if batch else list(shape))
              for name, shape in inputs.items()]
    ends = [name if not isinstance(name, str) else helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
            for name in outputs]
    graph = helper.make_graph(list(nodes), "g", values, ends, list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSIONS[opset])


def arrays(label, inputs, low=None):
    """Random numbers for shapes by name; with `low`, from there on."""
    found = {}
    for name, shape in inputs.items():
        values = np.asarray(nets.random_of(label, name).standard_normal(shape), np.float32)
        found[name] = values if low is None else np.asarray(np.abs(values) + low, np.float32)
    return found


def load_models(modules):
    """Yields (family, name, model, inputs, rejected) of the modules that have models."""
    for family, module in modules:
        for name, one, inputs, *rejected in getattr(module, "models", lambda: ())():
            yield family, name, one, inputs, rejected[0] if rejected else None


def _compare(net, path, given):
    wanted = files.run_in_runtime(path, given)
    found = nets.run(net, {name: np.asarray(array, np.float32) for name, array in given.items()})
    extra = sorted(set(found) - set(wanted))
    if extra:
        raise nets.Failure("outputs that the file has not: %s" % ", ".join(extra))
    return nets.compare(found, {name: np.asarray(array) for name, array in wanted.items()},
                        files.RUNTIME_TOLERANCE, "crema")


def _check(one, path, inputs):
    """Compares a model and, if its batch is symbolic, also with a batch of twice the size."""
    onnx.save(one, path)
    net = files.read(path)
    given = {value.name: inputs[value.name] for value in one.graph.input}
    worst = _compare(net, path, given)
    if all(value.type.tensor_type.shape.dim[:1] and value.type.tensor_type.shape.dim[0].dim_param
           for value in one.graph.input):
        double = {name: np.concatenate([array, array[::-1]]) for name, array in given.items()}
        worst = max(worst, _compare(net, path, double))
    return worst


def check_operators(report, folder, modules, only):
    """All models, by module."""
    path = os.path.join(folder, "operator.onnx")
    listed = set(LIST.read_text().splitlines())
    count = 0
    for module, name, one, inputs, rejected in load_models(modules):
        if only in name:
            count += 1
            if rejected is None and "%s: %s" % (module, name) in listed:
                rejected = ""
            report.check(module, name, lambda o=one, i=inputs: _check(o, path, i), rejected)
    return count
