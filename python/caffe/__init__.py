"""Loads, runs, trains and edits Caffe networks, with the interface of pycaffe.

    import caffe
    net = caffe.Net('deploy.prototxt', 'weights.caffemodel', caffe.TEST)
    net.blobs['data'].data[...] = image
    print(net.forward()['prob'])
"""
from . import io  # noqa: F401
from ._core import Error, version as _version
from ._layer import BlobVec, Layer, LayerParameter
from ._mode import (NCCL, TEST, TRAIN, Timer, has_nccl, init_log, layer_type_list, log, root_solver,
                    set_device, set_devices, set_graphs, set_math, set_mode_cpu, set_mode_gpu, set_multiprocess,
                    set_random_seed, set_solver_count, set_solver_rank, solver_count, solver_rank)
from ._param import SolverParameter
from ._single import SingleLayer, create_layer
from .classifier import Classifier
from .detector import Detector
from .model import Model, Prediction
from . import layers
from .net_spec import NetSpec, params, to_proto
from .pycaffe import (AdaDeltaSolver, AdaGradSolver, AdamSolver, Blob, NesterovSolver, Net,
                      RMSPropSolver, SGDSolver, Solver, get_solver)

__version__ = _version()
__all__ = [name for name in dir() if not name.startswith("_")] + ["__version__"]


def __getattr__(name):
    """Imports a submodule at its first use."""
    if name in ("_caffe", "coord_map", "draw", "model_libs", "onnx", "plot", "proto"):
        import importlib
        return importlib.import_module("." + name, __name__)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
