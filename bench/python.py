#!/usr/bin/env python3
"""What the Python package costs beside the library: one number a line, with its limit.

Usage: PYTHONPATH=build/python bench/python.py [crema [solver.prototxt]]

With the command `crema` and a solver file (LeNet's without it), training by solver.step is compared with
`crema train`. Preprocessing is compared with what pycaffe's documentation says of it, in NumPy and, for
resizing, scikit-image or SciPy where they are installed.
"""
import ctypes
import glob
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("GLOG_minloglevel", "2")

import numpy as np  # noqa: E402

import caffe  # noqa: E402

NET = """
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 32 dim: 32 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 10 } }
layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }
"""


STEPS = """
import sys, time
import caffe
begin = time.process_time()
solver = caffe.get_solver(sys.argv[1])
solver.step(solver.max_iter)
print(time.process_time() - begin)
"""


def each(call, rounds=2000, repeats=7):
    """Microseconds of a call: the least of several means."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(rounds):
            call()
        best = min(best, (time.perf_counter() - begin) / rounds)
    return 1e6 * best


def line(name, value, unit, limit):
    """One row of the table."""
    print("%-52s %9.2f %-3s (at most %s)" % (name, value, unit, limit))


def importing():
    """Milliseconds of `import caffe` after NumPy's: the least of several processes."""
    program = ("import time, numpy; begin = time.perf_counter(); import caffe; "
               "print(time.perf_counter() - begin)")
    times = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(7)]
    line("import caffe beyond NumPy", 1000 * min(times), "ms", 60)


def library():
    """libcrema, called without the extension module."""
    folder = os.path.dirname(os.path.abspath(caffe.__file__))
    for pattern in ("lib/libcrema.so*", "../crema_caffe.libs/libcrema-*.so*", "../../lib/libcrema.so*"):
        for path in glob.glob(os.path.join(folder, pattern)):
            return ctypes.CDLL(path)
    raise SystemExit("libcrema is not found beside the package")


def forward_call():
    """Microseconds of crema_net_forward, without what a call by ctypes costs."""
    crema, net, loss = library(), ctypes.c_void_p(), ctypes.c_double()
    text = NET.encode()
    if crema.crema_net_parse(text, ctypes.c_size_t(len(text)), b"net", None, ctypes.byref(net)) != 0:
        raise SystemExit("the net cannot be built")
    result = ctypes.byref(loss)
    taken = each(lambda: crema.crema_net_forward(net, result))
    nothing = each(lambda: crema.crema_net_destroy(None, None))
    crema.crema_net_destroy(net)
    return taken - nothing


def calls():
    """Single calls."""
    net = caffe.Net.from_text(NET)
    net.forward()
    line("net.forward() beyond the call of the library", each(net.forward) - forward_call(), "us", 20)
    blob = net.blobs["data"]
    line("np.asarray(blob.data)", each(lambda: np.asarray(blob.data)), "us", 1)
    held = blob.data
    line("np.asarray(blob.data), one held", each(lambda: np.asarray(blob.data)), "us", 1)
    del held


def resizer():
    """(name, function) of what pycaffe resizes with; None where neither is installed."""
    try:
        from skimage.transform import resize
        return "scikit-image", lambda picture, size: resize(picture, size, order=1, mode="constant")
    except ImportError:
        pass
    try:
        from scipy.ndimage import zoom
    except ImportError:
        return None, None
    return "SciPy", lambda picture, size: zoom(
        picture, (size[0] / picture.shape[0], size[1] / picture.shape[1], 1), order=1)


def peer(picture, size, mean, resize):
    """The steps of preprocessing in the order that pycaffe gives for them."""
    values = picture.astype(np.float32, copy=False)
    if values.shape[:2] != size:
        low, high = values.min(), values.max()
        values = (resize((values - low) / (high - low), size) * (high - low) + low).astype(np.float32)
    values = values.transpose(2, 0, 1)[[2, 1, 0], :, :]
    values *= 255
    values -= mean
    return values


def preprocessing():
    """A picture for a net of 224 x 224, with and without resizing."""
    transformer = caffe.io.Transformer({"data": (1, 3, 224, 224)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", np.array([104.0, 117, 123]))
    mean = np.array([104.0, 117, 123], np.float32).reshape(3, 1, 1)
    name, resize = resizer()
    for height, width in ((224, 224), (300, 451)):
        picture = np.random.rand(height, width, 3).astype(np.float32)
        own = each(lambda: transformer.preprocess("data", picture), 10) / 1000
        limit = "pycaffe's, which needs scikit-image"
        if (height, width) == (224, 224) or resize:
            limit = "%.2f: pycaffe's steps%s" % (
                each(lambda: peer(picture, (224, 224), mean, resize), 10) / 1000,
                " with " + name if height != 224 else "")
        line("Transformer.preprocess, %d x %d to 224 x 224" % (width, height), own, "ms", limit)


def side_by_side(crema, solver_file):
    """Processor time of training by solver.step over that of the command. Both run at once and take turns on one
    processor, so that whatever else the machine does strikes both."""
    command = subprocess.Popen([crema, "train", "-solver", solver_file], stderr=subprocess.DEVNULL)
    program = subprocess.Popen([sys.executable, "-c", STEPS, solver_file], stdout=subprocess.PIPE)
    _, status, used = os.wait4(command.pid, 0)
    command.returncode = os.waitstatus_to_exitcode(status)
    seconds = program.communicate()[0]
    if command.returncode != 0 or program.returncode != 0:
        raise SystemExit("the training failed")
    return float(seconds) / (used.ru_utime + used.ru_stime)


def training(crema, solver_file):
    """Training by both, without tests and snapshots, by one thread each."""
    from google.protobuf import text_format
    with open(solver_file) as file:
        param = text_format.Parse(file.read(), caffe.proto.caffe_pb2.SolverParameter())
    for field in ("test_iter", "test_interval", "snapshot"):
        param.ClearField(field)
    param.max_iter, param.display, param.snapshot_after_train = 400, 0, False
    os.environ["OMP_NUM_THREADS"] = "1"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(str(param))
        file.flush()
        ratios = [side_by_side(crema, file.name) for _ in range(5)]
    line("solver.step beside `crema train`, processor time", 100 * (statistics.median(ratios) - 1), "%", 2)


def main():
    """Prints the table."""
    importing()
    calls()
    preprocessing()
    if len(sys.argv) > 1:
        training(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "models/lenet/solver.prototxt")


if __name__ == "__main__":
    main()
