#!/usr/bin/env python3
"""Shows where the time of crema's training steps goes on a GPU.

For each net and mode (crema's modes of training.py):

    ops      one row per kernel of crema: calls, launches, and time per pass, with the host's time to queue them
             (`crema time -ops`)
    kernels  one row per kernel of the device, of crema and of NVIDIA's libraries: launches and time per step, from
             CUPTI through PyTorch's profiler; left out without PyTorch or CUDA

and a line with the sums. A step whose sum of queueing exceeds its sum of kernels is limited by the host.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import crema
import training

ROW = re.compile(r"^  (\w+) +(\S+) +(\d+) +([\d.]+) +[\d.]+% +[\d.]+ +\d+ +(\d+) +([\d.]+)$")


def importable(name):
    try:
        __import__(name)
    except ImportError:
        return None
    return sys.modules[name]


def write_net(name, mode, batch, folder):
    path = pathlib.Path(folder) / "net.prototxt"
    text, _ = training.training_text(name, batch)
    path.write_text(training.TYPES + text if "bf16" in mode else text)
    return path


def time_command(net, mode, gpu, iterations):
    """`crema time` of a net."""
    words = [crema.command(), "time", "-model", net, "-gpu", gpu, "-iterations", str(iterations), "-nolog_prefix"]
    return words + (["-math", "fast"] if "fast" in mode else [])


def run(words, **environment):
    """The output of a command on both streams. Raises RuntimeError with its last line."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env=os.environ | environment)
    if done.returncode != 0:
        raise RuntimeError(done.stdout.strip().splitlines()[-1])
    return done.stdout


def print_ops(name, mode, args, folder):
    net = write_net(name, mode, args.batch, folder)
    text = run(time_command(net, mode, args.gpu, args.iterations) + ["-ops"])
    found = [ROW.match(line) for line in text.splitlines()]
    rows = [(m[1], m[2], int(m[3]), float(m[4]), int(m[5]), float(m[6])) for m in found if m]
    passes = args.iterations
    print(f"\n{name} {mode}: ops, per pass\n{'kernel':44} {'calls':>6} {'launches':>8} {'ms':>9} {'queue ms':>9}")
    for _, kernel, calls, ms, launches, queue in rows[:args.rows]:
        print(f"{kernel:44} {calls / passes:6.0f} {launches / passes:8.0f} {ms / passes:9.3f} "
              f"{calls * queue / passes / 1e3:9.3f}")
    launches = sum(row[4] for row in rows) / passes
    ms = sum(row[3] for row in rows) / passes
    queue = sum(row[2] * row[5] for row in rows) / passes / 1e3
    print(f"{'all':44} {sum(row[2] for row in rows) / passes:6.0f} {launches:8.0f} {ms:9.3f} {queue:9.3f}", flush=True)
    return f"{name:12} {mode:15} {launches:8.0f} {ms:9.3f} {queue:9.3f}"


def print_kernels(name, mode, args, folder):
    """The device's kernels, from CUPTI. Returns launches and milliseconds per step; None without CUPTI."""
    torch = importable("torch")
    if torch is None or ":" in args.gpu or not torch.cuda.is_available():
        return None
    torch.cuda.init()
    runner = training.Crema(name, mode, args, folder)
    for _ in range(3):
        runner.step()
    runner.wait()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(args.iterations):
            runner.step()
        runner.wait()
    events = [(e.self_device_time_total / 1e3 / args.iterations, e.count / args.iterations, e.key)
              for e in profile.key_averages() if e.self_device_time_total > 0]
    events.sort(reverse=True)
    print(f"\n{name} {mode}: kernels of the device, per step\n{'kernel':90} {'launches':>8} {'ms':>9}")
    for ms, count, key in events[:args.rows]:
        print(f"{key[:90]:90} {count:8.1f} {ms:9.3f}")
    launches, ms = sum(e[1] for e in events), sum(e[0] for e in events)
    print(f"{'all':90} {launches:8.1f} {ms:9.3f}", flush=True)
    return launches, ms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=("alexnet", "googlenet", "resnet50"))
    parser.add_argument("-modes", default="crema,crema_fast,crema_bf16,crema_bf16_fast")
    parser.add_argument("-gpu", default="0", help="the device: 0, opencl:0 (default 0)")
    parser.add_argument("-batch", type=int, default=64)
    parser.add_argument("-threads", type=int, default=2)
    parser.add_argument("-iterations", type=int, default=10)
    parser.add_argument("-rows", type=int, default=25, help="the rows of each table")
    args = parser.parse_args()
    lines, failed = [], False
    for name in args.nets:
        for mode in args.modes.split(","):
            try:
                with tempfile.TemporaryDirectory() as folder:
                    line = print_ops(name, mode, args, folder)
                    device = print_kernels(name, mode, args, folder)
            except RuntimeError as error:
                print(f"{name} {mode} failed: {error}", flush=True)
                failed = True
                continue
            lines.append(line + (f" {device[0]:8.0f} {device[1]:9.3f}" if device else f" {'-':>8} {'-':>9}"))
    print(f"\n{'':28} {'crema time -ops, a pass':^28} {'CUPTI, a step':^18}\n"
          f"{'net':12} {'mode':15} {'launches':>8} {'ms':>9} {'queue ms':>9} {'launches':>8} {'ms':>9}")
    print("\n".join(lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
