"""The names of pycaffe's extension module, for programs that import it directly."""
from ._containers import (BoolVec, DtypeVec, IntVec, LayerVec, NetVec, RawBlobVec,  # noqa: F401
                          StringVec)
from ._layer import BlobVec, Layer, LayerParameter  # noqa: F401
from ._mode import (NCCL, Timer, has_nccl, init_log, layer_type_list, log, root_solver,  # noqa: F401
                    set_device, set_devices, set_mode_cpu, set_mode_gpu, set_multiprocess, set_random_seed,
                    set_solver_count, set_solver_rank, solver_count, solver_rank)
from ._param import SolverParameter  # noqa: F401
from ._single import create_layer  # noqa: F401
from .pycaffe import (AdaDeltaSolver, AdaGradSolver, AdamSolver, Blob, NesterovSolver, Net,  # noqa: F401
                      RMSPropSolver, SGDSolver, Solver, get_solver)
