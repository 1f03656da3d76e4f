"""Process-wide settings for nets created afterwards: device, arithmetic, random seed, log, and training processes."""
import atexit
import os
import sys
import warnings

from . import _core

TRAIN = 0
TEST = 1

_CPU, _CUDA, _SIM, _OPENCL = 0, 1, 2, 3
_MATH = {None: 0, "exact": 1, "fast": 2}


class _State:
    gpu = False
    kind, devices = None, None  # None: the program has selected none
    math = None
    graphs = False
    seed = None
    nets = 0
    solver_count = 1
    solver_rank = 0
    multiprocess = False
    root_solver = True


def whole_number(name, value):
    """`value` as an int. `name` begins the message of the error."""
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise type(error)("%s: expected a whole number, found %r" % (name, value)) from None


def set_mode_cpu():
    """Makes nets that are created afterwards run on the CPU."""
    _State.gpu = False


def set_mode_gpu():
    """Makes nets that are created afterwards run on a GPU. Without a GPU they run on the CPU, with a
    warning, unless set_device or set_devices selects a device: then creating a net fails."""
    _State.gpu = True


def _gpu_kind():
    """The type of GPUs without a prefix: OpenCL's if the environment variable CREMA_OPENCL selects them."""
    return _OPENCL if os.environ.get("CREMA_OPENCL") else _CUDA


def _parse_device(name, device):
    """The type and index of a device: 1 or "opencl:1"."""
    if isinstance(device, str) and device.startswith("opencl:"):
        return _OPENCL, whole_number(name, device[len("opencl:"):])
    return _gpu_kind(), whole_number(name, device)


def set_device(device):
    """Selects the GPU for nets that are created afterwards, in the mode of set_mode_gpu: a number, or
    ``'opencl:0'`` for a device of OpenCL."""
    kind, index = _parse_device("set_device", device)
    _State.kind, _State.devices = kind, (index,)


def set_devices(devices):
    """Selects several GPUs of one type, as set_device selects one. Solvers that are created afterwards train on
    all of them, and nets run on the first."""
    chosen = [_parse_device("set_devices", device) for device in devices]
    if not chosen:
        raise ValueError("set_devices() needs at least one device")
    if len({kind for kind, _ in chosen}) > 1:
        raise ValueError("set_devices() needs devices of one type")
    _State.kind, _State.devices = chosen[0][0], tuple(index for _, index in chosen)


def set_math(math):
    """Selects how CUDA devices compute for nets and solvers that are created afterwards. ``'exact'`` is float32
    arithmetic with the same bits in each run. ``'fast'`` allows TF32 and sums in any order. None, the default,
    is the field math of a solver file, and ``'exact'`` for nets. Other devices always compute exactly."""
    if math not in _MATH:
        raise ValueError("set_math: expected 'exact', 'fast' or None, found %r" % (math,))
    _State.math = math


def math_kind():
    """The number of the selected arithmetic."""
    return _MATH[_State.math]


def set_graphs(graphs):
    """Selects whether CUDA devices capture whole passes of nets and solvers that are created afterwards in CUDA
    graphs, which take fewer calls. The results are the same. Other devices ignore it."""
    _State.graphs = bool(graphs)


def graphs_wanted():
    """Whether passes are captured."""
    return _State.graphs


def set_random_seed(seed):
    """Seeds the random numbers of nets that are created afterwards. The n-th net after this call gets the
    same numbers in each run. A solver file's random_seed takes precedence."""
    _State.seed = whole_number("set_random_seed", seed)
    _State.nets = 0


def next_seed():
    """The seed of the next net; None: a different one in each run."""
    if _State.seed is None:
        return None
    _State.nets += 1
    return (_State.seed + 0x9E3779B97F4A7C15 * (_State.nets - 1)) % (1 << 63)


def device_kind():
    """The type and the indices of the selected devices."""
    if not _State.gpu:
        return _CPU, (0,)
    if _State.devices is None and _core.device_count(_gpu_kind()) == 0:
        warnings.warn("set_mode_gpu: there is no GPU; nets run on the CPU", RuntimeWarning, stacklevel=4)
        return _CPU, (0,)
    return (_gpu_kind(), (0,)) if _State.devices is None else (_State.kind, _State.devices)


def layer_type_list():
    """The names of all layer types."""
    return _core.layer_types()


def solver_count():
    """The number of solvers that train together, as set by set_solver_count."""
    return _State.solver_count


def set_solver_count(count):
    """Sets the number of solvers that train together, each in its own process. Solvers that are created
    afterwards read only their share of the data. Connect them with caffe.NCCL."""
    _State.solver_count = whole_number("set_solver_count", count)


def solver_rank():
    """The rank of this process's solver, as set by set_solver_rank."""
    return _State.solver_rank


def set_solver_rank(rank):
    """Sets the rank of this process's solver, starting at 0."""
    _State.solver_rank = whole_number("set_solver_rank", rank)


def set_multiprocess(multiprocess):
    """Accepted for compatibility with pycaffe; it has no effect."""
    _State.multiprocess = bool(multiprocess)


def process_place():
    """The rank and the number of the processes that train together, for a new solver."""
    return (_State.solver_rank, _State.solver_count) if _State.solver_count > 1 else (0, 1)


def root_solver():
    """Whether this process has the solver of rank 0."""
    return _State.solver_rank == 0


def init_log(level=None, stderr=True):
    """Sets the lowest level that crema logs to standard error: 0 information, 1 warnings, 2 errors, 3 nothing.
    The default is the environment variable GLOG_minloglevel, or 0. `stderr` false turns the log off. In the
    command ``crema``, whose flags control its log, this has no effect."""
    if hasattr(sys, "crema_command"):
        return
    if level is None:
        number = whole_number("GLOG_minloglevel", os.environ.get("GLOG_minloglevel") or 0)
    else:
        number = whole_number("init_log", level)
    _core.set_log(number + 1 if stderr else 4)


def log(text):
    """Writes a line to the log, with the caller's file and line."""
    frame = sys._getframe(1)
    _core.log(str(text), os.path.basename(frame.f_code.co_filename), frame.f_lineno)


def has_nccl():
    """Whether caffe.NCCL works: crema's CUDA plug-in and NCCL are installed. It does not initialise any GPU,
    so the program may still fork."""
    try:
        _core.group_find()
    except RuntimeError:
        return False
    return True


class NCCL:
    """Connects a solver with the solvers of other processes, each with its own GPU, to train together.

    Call ``set_solver_count`` and ``set_solver_rank`` first, and then create the solver. One process calls
    ``NCCL.new_uid()`` and passes the result to all processes as `uid`.

    Afterwards ``solver.step`` and ``solver.solve`` sum the gradients of all processes, so all processes must
    make the same calls. If one process fails, ends or drops its solver, the calls of the other processes
    raise RuntimeError, after at most `patience` seconds.
    """

    def __init__(self, solver, uid, patience=600.0):
        _need_nccl()
        if not hasattr(solver, "_join"):
            raise TypeError("expected a solver, found %r" % type(solver).__name__)
        if process_place() != solver._place:
            raise RuntimeError("the solver was made as number %d of %d: call caffe.set_solver_count and "
                               "caffe.set_solver_rank before" % solver._place)
        solver._join(uid, patience)
        self._solver = solver

    def bcast(self):
        """Copies the weights of the first process to all processes."""
        self._solver._broadcast()

    def check(self, solver):
        """Raises RuntimeError if this object belongs to a different solver."""
        if solver is not self._solver:
            raise RuntimeError("this NCCL was made for another solver")

    @staticmethod
    def new_uid():
        """Creates an identifier of a group of processes, as bytes. The calling process must live until all
        processes have joined."""
        _need_nccl()
        return _core.group_make_id()


def _need_nccl():
    try:
        _core.group_find()
    except RuntimeError as error:
        raise RuntimeError("%s; without NCCL, several devices train in one process (call caffe.set_devices("
                           "[0, 1]) before the solver is made), or processes that mpirun starts (mpirun -n "
                           "2 crema train ...)" % error) from None


class Timer:
    """Measures wall time in milliseconds: call start and stop, then read ms."""

    def __init__(self):
        self._start = self._time = None

    def start(self):
        """Starts the timer."""
        import time
        self._time, self._start = None, time.perf_counter()

    def stop(self):
        """Stops the timer."""
        import time
        if self._start is not None:
            self._time = time.perf_counter() - self._start

    @property
    def ms(self):
        """The milliseconds between start and stop. Stops a running timer."""
        if self._start is None:
            return 0.0
        if self._time is None:
            self.stop()
        return 1000.0 * self._time


init_log()
atexit.register(_core.close)
