#!/usr/bin/env python3
"""Lists the convolutions of crema's training steps on a GPU: kernel, cuDNN's engine and time of each pass.

Rows are the convolutions of one net and mode with the same shapes, the slowest first. The modes are crema's modes of
training.py. TFLOP/s counts two operations for each multiplication and addition of a direct convolution.
"""
import argparse
import collections
import re
import sys
import tempfile

import kernels

# As the CUDA plug-in logs a choice.
ENGINE = re.compile(r"cuDNN, (?:gradient of )?(forward|source|weights), ([\dx]+) by ([\dx]+), .*?: engine (\d+), (\d+) bytes")
PASSES = {"conv_fwd": "forward", "conv_bwd_data": "data", "conv_bwd_weights": "weights"}


def dims_of(text):
    """The dimensions in a format such as "float16/ACBD:64x3x224x224"."""
    return [int(n) for n in text.rpartition(":")[2].split("x")]


def flops_of(op, inputs, output):
    """Operations of a convolution, from the shapes of its arguments in the log."""
    shapes = [dims_of(text) for text in inputs.split()] + [dims_of(text) for text in output.split()]
    large = [s for s in shapes if len(s) == 4]
    weights = {"conv_fwd": 1, "conv_bwd_data": 1, "conv_bwd_weights": -1}[op]
    maps = {"conv_fwd": large[-1], "conv_bwd_data": large[0], "conv_bwd_weights": large[1]}[op]
    w = large[weights]
    return 2 * maps[0] * maps[2] * maps[3] * w[0] * w[1] * w[2] * w[3]


def read_log(text):
    """Two dictionaries by (op, kernel, inputs, output): microseconds of each run, and the layers."""
    found, layers, fields = collections.defaultdict(list), collections.defaultdict(set), None
    for line in text.splitlines():
        words = line.split(",")
        if words[:3] == ["crema_verbose", "fields", "run"]:
            fields = words[2:]
        elif words[:2] == ["crema_verbose", "run"]:
            run = dict(zip(fields, words[1:]))
            if run["op"] in PASSES:
                key = run["op"], run["kernel"], run["in"], run["out"]
                found[key].append(float(run["run_us"]))
                layers[key].add(run["layer"])
    return found, layers


def read_engines(text):
    """cuDNN's engines in the log: (op, dimensions of image and weights) -> number and bytes of scratch memory."""
    engines = {}
    for what, image, weights, engine, scratch in ENGINE.findall(text):
        op = {"forward": "conv_fwd", "source": "conv_bwd_data", "weights": "conv_bwd_weights"}[what]
        engines[op, image, weights] = f"{engine}, {int(scratch) / 2**20:.1f} MiB"
    return engines


def engine_of(engines, op, inputs, output):
    shapes = [text.rpartition(":")[2] for text in (inputs + " " + output).split()]
    image, weights = {"conv_fwd": (0, 1), "conv_bwd_data": (2, 1), "conv_bwd_weights": (0, 2)}[op]
    return engines.get((op, shapes[image], shapes[weights]), "-")


def print_table(name, mode, args, folder):
    net = kernels.write_net(name, mode, args.batch, folder)
    text = kernels.run(kernels.time_command(net, mode, args.gpu, args.iterations) + ["-v", "1"], CREMA_VERBOSE="1")
    found, layers = read_log(text)
    engines = read_engines(text)
    print(f"\n{name} {mode}\n{'pass':8} {'layers':>6} {'us':>9} {'TFLOP/s':>8}  {'kernel':28} {'engine':14} shapes")
    rows = []
    for (op, kernel, inputs, output), times in found.items():
        count = len(layers[op, kernel, inputs, output])
        rest = sorted(times)[:len(times) - count] or times  # the first runs load code
        us = sum(rest) / len(rest)
        rate = flops_of(op, inputs, output) / us / 1e6
        engine = engine_of(engines, op, inputs, output)
        rows.append((us * count, PASSES[op], count, us, rate, kernel, engine, f"{inputs} -> {output}"))
    rows.sort(reverse=True)
    for _, what, count, us, rate, kernel, engine, shapes in rows[:args.rows]:
        print(f"{what:8} {count:6} {us:9.1f} {rate:8.3f}  {kernel:28} {engine:14} {shapes}")
    total = sum(row[0] for row in rows) / 1e3
    return f"{name:12} {mode:15} {sum(row[2] for row in rows):12} {total:9.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=("alexnet", "googlenet", "resnet50"))
    parser.add_argument("-modes", default="crema,crema_fast,crema_bf16,crema_bf16_fast")
    parser.add_argument("-gpu", default="0", help="the device: 0, opencl:0 (default 0)")
    parser.add_argument("-batch", type=int, default=64)
    parser.add_argument("-iterations", type=int, default=5)
    parser.add_argument("-rows", type=int, default=40, help="the rows of each table")
    args = parser.parse_args()
    lines, failed = [], False
    for name in args.nets:
        for mode in args.modes.split(","):
            try:
                with tempfile.TemporaryDirectory() as folder:
                    lines.append(print_table(name, mode, args, folder))
            except RuntimeError as error:
                print(f"{name} {mode} failed: {error}", flush=True)
                failed = True
    print(f"\n{'net':12} {'mode':15} {'convolutions':>12} {'ms a pass':>9}")
    print("\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
