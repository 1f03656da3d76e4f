"""What holds for all nets that are made afterwards: the device, the seed, the log."""
import atexit
import os
import sys

from . import _core

TRAIN = 0
TEST = 1

_CPU, _CUDA, _SIM = 0, 1, 2


class _State:
    gpu = False
    devices = (0,)
    seed = None
    nets = 0
    solver_count = 1
    solver_rank = 0
    multiprocess = False
    root_solver = True


def set_mode_cpu():
    """Nets made from now on run on the CPU."""
    _State.gpu = False


def set_mode_gpu():
    """Nets made from now on run on a GPU, where there is one (see set_device)."""
    _State.gpu = True


def set_device(device):
    """The GPU for nets made from now on."""
    _State.devices = (int(device),)


def set_devices(devices):
    """The GPUs on which solvers made from now on train together; nets run on the first."""
    _State.devices = tuple(int(d) for d in devices)
    if not _State.devices:
        raise ValueError("set_devices() needs at least one device")


def set_random_seed(seed):
    """Makes the random numbers of nets made from now on the same each time: the n-th net after this call
    has the same ones. A solver file's random_seed goes first."""
    _State.seed = int(seed)
    _State.nets = 0


def next_seed():
    """The seed of the net that is made next; None: another one in each run."""
    if _State.seed is None:
        return None
    _State.nets += 1
    return (_State.seed + 0x9E3779B97F4A7C15 * (_State.nets - 1)) % (1 << 63)


def device_kind():
    """(type, indices) of devices; type -1: whatever the file says, or the CPU."""
    if not _State.gpu:
        return _CPU, (0,)
    return _CUDA, _State.devices


def layer_type_list():
    """The names of all layer types that nets can have."""
    return _core.layer_types()


def solver_count():
    """How many solvers train together, as far as this program has said so."""
    return _State.solver_count


def set_solver_count(count):
    """Says how many solvers train together, each in a process of its own: those that are made from now on
    read their own share of the data, and join the others by caffe.NCCL."""
    _State.solver_count = int(count)


def solver_rank():
    """The number of this process's solver."""
    return _State.solver_rank


def set_solver_rank(rank):
    """Says which of the solvers this one is."""
    _State.solver_rank = int(rank)


def set_multiprocess(multiprocess):
    """Says whether the solvers are in processes of their own; nothing depends on it."""
    _State.multiprocess = bool(multiprocess)


def process_place():
    """The rank and the number of the processes that train together, for a solver that is made now."""
    return (_State.solver_rank, _State.solver_count) if _State.solver_count > 1 else (0, 1)


def root_solver():
    """Whether this process has the first solver."""
    return _State.solver_rank == 0


def init_log(level=None, stderr=True):
    """What crema logs on the standard error output: from 0 (information) to 3 (nothing but errors).
    Without this call the environment variable GLOG_minloglevel says so, which is 0 if not set."""
    number = int(os.environ.get("GLOG_minloglevel", "0") or 0) if level is None else int(level)
    _core.set_log(number + 1 if stderr else 4)


def log(text):
    """Writes a line of the program's own to the log."""
    frame = sys._getframe(1)
    _core.log(str(text), os.path.basename(frame.f_code.co_filename), frame.f_lineno)


def has_nccl():
    """Whether crema's CUDA plug-in and NCCL are there, so that caffe.NCCL can be used. No GPU is touched:
    processes may be forked afterwards."""
    try:
        _core.group_find()
    except RuntimeError:
        return False
    return True


class NCCL:
    """Makes a solver train together with those of other processes, each with a GPU of its own.

    ``set_solver_count`` and ``set_solver_rank`` have been called before the solver was made, and all
    processes give the same `uid`, which one has from ``NCCL.new_uid()``. From then on ``solver.step`` and
    ``solver.solve`` sum gradients over all processes, which therefore make the same calls. A process
    that fails, ends or drops its solver while others train makes their calls raise RuntimeError, at the
    latest after they have waited for `patience` seconds.
    """

    def __init__(self, solver, uid, patience=600.0):
        _need_nccl()
        if not hasattr(solver, "_join"):
            raise TypeError("a solver is needed, not %r" % type(solver).__name__)
        if process_place() != solver._place:
            raise RuntimeError("the solver was made as number %d of %d: call caffe.set_solver_count and "
                               "caffe.set_solver_rank before" % solver._place)
        solver._join(uid, patience)
        self._solver = solver

    def bcast(self):
        """The weights of the first process become those of all."""
        self._solver._broadcast()

    def check(self, solver):
        """Raises RuntimeError unless it was made for this solver."""
        if solver is not self._solver:
            raise RuntimeError("this NCCL was made for another solver")

    @staticmethod
    def new_uid():
        """What the processes know each other by: bytes. The process that has made it must live until all
        have joined."""
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
    """Measures time: start, stop, and then ms."""

    def __init__(self):
        self._start = self._time = None

    def start(self):
        """Begins."""
        import time
        self._time, self._start = None, time.perf_counter()

    def stop(self):
        """Ends."""
        import time
        if self._start is not None:
            self._time = time.perf_counter() - self._start

    @property
    def ms(self):
        """Milliseconds between start and stop, or until now."""
        if self._start is None:
            return 0.0
        if self._time is None:
            self.stop()
        return 1000.0 * self._time


init_log()
atexit.register(_core.close)
