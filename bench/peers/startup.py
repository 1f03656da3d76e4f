#!/usr/bin/env python3
"""Time and memory from the start of a process to the first output of a net, in crema, ONNX Runtime and OpenVINO.

Each round starts one process per runtime, in turn. The process imports NumPy and the runtime, reads the net
and its weights, and computes once, on one image. The times are medians and include Python and NumPy; the row "python"
is Python and NumPy only. The memory is the peak of resident memory.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import inference
import results

KINDS = ("crema", "onnxruntime", "openvino")


def run_child(name, kind, threads, folder):
    import numpy  # noqa: F401
    if kind != "python":
        files = inference.Files(folder, name)
        runner = inference.make(kind, files, threads, inference.input_values(files, 1))
        runner.run()
    print(json.dumps(inference.memory_of("VmHWM")))


def measure(name, args, folder):
    """{kind: (milliseconds, MiB)}, medians."""
    kinds = ("python", *KINDS)
    found = {kind: [] for kind in kinds}
    for _ in range(args.rounds):
        for kind in kinds:
            command = [sys.executable, __file__, "-files", folder, "-child", name, kind, "-threads", str(args.threads)]
            start = time.perf_counter()
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[kind].append(((time.perf_counter() - start) * 1e3, json.loads(done.stdout)))
    return {kind: tuple(map(statistics.median, zip(*rows))) for kind, rows in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=("squeezenet_v1.1", "resnet50"), help="folders under models/")
    parser.add_argument("-threads", type=int, default=2)
    parser.add_argument("-rounds", type=int, default=7)
    parser.add_argument("-files", help="folder in which weights and ONNX files are kept")
    parser.add_argument("-output", type=pathlib.Path, help="file to store the results in")
    parser.add_argument("-child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.files or temporary
        if args.child:
            run_child(*args.child, args.threads, folder)
            return
        table = results.Table(args.output, ("net", "threads", "runtime", "ms", "MiB"))
        print(f"{'net':16} {'runtime':12} {'ms':>8} {'MiB':>6}")
        for name in args.nets:
            inference.make_files(folder, name, KINDS)
            for kind, (ms, mib) in measure(name, args, folder).items():
                print(f"{name:16} {kind:12} {ms:8.0f} {mib:6.0f}", flush=True)
                table.add(name, args.threads, kind, ms, mib)


if __name__ == "__main__":
    main()
