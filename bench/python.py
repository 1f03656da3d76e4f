#!/usr/bin/env python3
"""What the Python package costs beside the library: one number a line, with its limit.

Usage: PYTHONPATH=build/python bench/python.py [crema [solver.prototxt]]

With the command `crema` and a solver file (LeNet's without it), training by solver.step is compared with
`crema train`.
"""
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("GLOG_minloglevel", "2")

import numpy as np  # noqa: E402

START = time.perf_counter()
import caffe  # noqa: E402

IMPORTED = time.perf_counter() - START

NET = """
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 32 dim: 32 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 10 } }
layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }
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


def calls():
    """Single calls."""
    net = caffe.Net.from_text(NET)
    last = len(net._layer_names) - 1
    net.forward()
    plain = each(lambda: net._forward(0, last))
    line("net.forward() beyond the call of the library", each(net.forward) - plain, "us", 20)
    blob = net.blobs["data"]
    line("np.asarray(blob.data)", each(lambda: np.asarray(blob.data)), "us", 1)
    held = blob.data
    line("np.asarray(blob.data), one held", each(lambda: np.asarray(blob.data)), "us", 1)
    del held


def preprocessing():
    """A picture for a net of 224 x 224."""
    transformer = caffe.io.Transformer({"data": (1, 3, 224, 224)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", np.array([104.0, 117, 123]))
    picture = np.random.rand(300, 451, 3).astype(np.float32)
    line("Transformer.preprocess, 451 x 300 to 224 x 224", each(
        lambda: transformer.preprocess("data", picture), 20) / 1000, "ms", "pycaffe's")


def training(crema, solver_file):
    """Seconds of training by both, in turn."""
    ratios = []
    for _ in range(3):
        begin = time.perf_counter()
        subprocess.run([crema, "train", "-solver", solver_file], check=True, stderr=subprocess.DEVNULL)
        command = time.perf_counter() - begin
        begin = time.perf_counter()
        caffe.get_solver(solver_file).solve(progress=False)
        ratios.append((time.perf_counter() - begin) / command)
    line("solver.solve() beside `crema train`", 100 * (statistics.median(ratios) - 1), "%", 2)


def main():
    """Prints the table."""
    line("import caffe beyond NumPy", 1000 * IMPORTED, "ms", 60)
    calls()
    preprocessing()
    if len(sys.argv) > 1:
        training(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "models/lenet/lenet_solver.prototxt")


if __name__ == "__main__":
    main()
