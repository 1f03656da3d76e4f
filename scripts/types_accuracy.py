#!/usr/bin/env python3
"""Trains nets in several element types and prints how accurate each becomes, as a table for docs/dev/types.md.

    scripts/types_accuracy.py [--nets LIST] [--types LIST] [--seeds LIST] [--iterations NET=N,...] [--table]

LeNet learns MNIST as in `make run`; CIFAR-10 quick learns CIFAR-10 at the rate of its solver file, and for the
last fifth of the iterations at a tenth of it, which is Caffe's schedule. A type is that of all values and
gradients of the net (default_forward_type, default_backward_type); FLOAT16 has a global_grad_scale. Accuracies
are those of the whole test set after the last iteration, in percent.

MNIST comes with the project. CIFAR-10 is --cifar10 FOLDER: pictures of 32 x 32 pixels, and train.txt and test.txt,
which name them relative to --cifar10-root (the same folder, unless given) with their labels.

All is kept in --folder: one folder per run, so that what has ended is not run again and what was interrupted goes on
from its last snapshot. Several of these scripts may work on one folder; each leaves a run to the one that began
it. --table trains nothing and prints the table of the runs that have ended. The exit code is 1 when a run
failed, for example because its loss was not finite.
"""
import argparse
import concurrent.futures
import fcntl
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
NETS = {
    # name: (solver file, net file, source of its training data, of its test data, iterations of the full schedule)
    "lenet": ("models/lenet/solver.prototxt", "models/lenet/train_test.prototxt",
              "build/mnist/train_lmdb", "build/mnist/test_lmdb", 10000),
    "cifar10_quick": ("models/cifar10_quick/solver.prototxt", "models/cifar10_quick/train_test.prototxt",
                      "examples/cifar10/cifar10_train_lmdb", "examples/cifar10/cifar10_test_lmdb", 5000),
}
CIFAR10_MEAN = "examples/cifar10/mean.binaryproto"
TYPES = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")


class Failure(Exception):
    """What a user is told."""


def call(*command):
    """Runs a command whose output is of interest only when it fails."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}\n{done.stdout}")


# ---- data ----------------------------------------------------------------------------------

def make_mnist(options, train, test):
    for part, place in (("train", train), ("t10k", test)):
        if not place.exists():
            call(options.crema, "convert_mnist", options.mnist / f"{part}-images-idx3-ubyte.gz",
                 options.mnist / f"{part}-labels-idx1-ubyte.gz", place)


def make_cifar10(options, train, test):
    if train.exists() and test.exists() and mean_file(options).exists():
        return
    if options.cifar10 is None:
        raise Failure("cifar10_quick needs --cifar10 FOLDER (--nets lenet does without)")
    for part, place in (("train", train), ("test", test)):
        if not place.exists():
            call(options.crema, "convert_imageset", "-check_size", f"{options.cifar10_root or options.cifar10}/",
                 options.cifar10 / f"{part}.txt", place)
    call(options.crema, "compute_image_mean", train, mean_file(options))


def mean_file(options):
    return options.folder / "data/cifar10_mean.binaryproto"


def databases(options, net):
    return [options.folder / f"data/{net}_{part}_lmdb" for part in ("train", "test")]


def make_data(options):
    (options.folder / "data").mkdir(parents=True, exist_ok=True)
    with open(options.folder / "data/lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for net in options.nets:
            make = make_mnist if net == "lenet" else make_cifar10
            make(options, *databases(options, net))


# ---- one run -------------------------------------------------------------------------------

def with_fields(text, fields):
    """A solver file in which these fields have these values."""
    for name in fields:
        text = re.sub(rf"^{name}:.*\n", "", text, flags=re.M)
    return text.rstrip("\n") + "\n" + "".join(f"{name}: {value}\n" for name, value in fields.items())


def write_files(options, folder, run):
    solver_file, net_file, train, test, _ = NETS[run["net"]]
    net = (ROOT / net_file).read_text()
    places = zip((train, test, CIFAR10_MEAN), databases(options, run["net"]) + [mean_file(options)])
    for name, place in places:
        net = net.replace(f'"{name}"', f'"{place}"')
    header = f"default_forward_type: {run['type']}\ndefault_backward_type: {run['type']}\n"
    if run["grad_scale"] != 1:
        header += f"global_grad_scale: {run['grad_scale']:g}\n"
    (folder / "net.prototxt").write_text(header + net)
    count = run["iterations"]
    fields = {"net": f'"{folder}/net.prototxt"', "max_iter": count, "test_interval": count,
              "test_initialization": "false", "snapshot": max(count // 5, 1), "random_seed": run["seed"],
              "snapshot_prefix": f'"{folder}/s"'}
    if run["net"] == "cifar10_quick":
        fields |= {"lr_policy": '"multistep"', "gamma": 0.1, "stepvalue": count * 4 // 5}
    (folder / "solver.prototxt").write_text(with_fields((ROOT / solver_file).read_text(), fields))


def newest_state(folder):
    states = {int(re.search(r"_iter_(\d+)", path.name)[1]): path for path in folder.glob("s_iter_*.solverstate")}
    return states[max(states)] if states else None


def train(options, folder, run):
    """Trains, or goes on; result.json says how it ended."""
    write_files(options, folder, run)
    command = [options.crema, "train", "-solver", folder / "solver.prototxt"]
    if newest_state(folder) is not None:
        command += ["-snapshot", newest_state(folder)]
    threads = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    begin = time.monotonic()
    with open(folder / "log", "a", encoding="utf-8") as log:
        done = subprocess.run(command, stdout=log, stderr=log, env=threads, check=False)
    seconds = time.monotonic() - begin
    text = (folder / "log").read_text(errors="replace")
    # Whoever interrupts it (Ctrl-C: 0, other signals: 128 and more) has a snapshot then, and no result.
    ended = f"Iteration {run['iterations']}, Testing net" in text
    if done.returncode < 0 or done.returncode >= 128 or (done.returncode == 0 and not ended):
        return None
    score = re.findall(r"Test net output #\d+: accuracy = (\S+)", text)
    loss = re.findall(r"Test net output #\d+: loss = (\S+)", text)
    result = dict(run, code=done.returncode, seconds=round(seconds, 1))
    if done.returncode == 0:
        result |= {"accuracy": 100 * float(score[-1]), "loss": float(loss[-1])}
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    if done.returncode == 0:
        for path in folder.glob("s_iter_*"):
            path.unlink()
    return result


def folder_of(options, run):
    return options.folder / "-".join(f"{run[key]:g}" if key == "grad_scale" else str(run[key]) for key in
                                     ("net", "type", "iterations", "grad_scale", "seed"))


def result_of(folder):
    path = folder / "result.json"
    return json.loads(path.read_text()) if path.exists() else None


def carry_out(options, run):
    folder = folder_of(options, run)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if result_of(folder) is not None:
            return
        result = train(options, folder, run)
    if result is None:
        print(f"{folder.name}: interrupted", file=sys.stderr)
    elif result["code"] != 0:
        print(f"{folder.name}: crema ended with {result['code']}; see {folder}/log, and remove the folder to try again",
              file=sys.stderr)
    else:
        print(f"{folder.name}: {result['accuracy']:.2f} % in {result['seconds']:.0f} s", file=sys.stderr)


# ---- all of them ---------------------------------------------------------------------------

def all_runs(options):
    """The first seed of every type comes before the second, so that an early end leaves rows to compare."""
    return [{"net": net, "type": kind, "iterations": options.iterations[net],
             "grad_scale": options.grad_scale if kind == "FLOAT16" else 1, "seed": seed}
            for net in options.nets for seed in options.seeds for kind in options.types]


def cell(result):
    if result is None:
        return ""
    return f"{result['accuracy']:.2f}" if result["code"] == 0 else "failed"


def table_of(options, net):
    """Differences are those of the means over the seeds that both types have."""
    of = {(run["type"], run["seed"]): result_of(folder_of(options, run)) for run in all_runs(options)
          if run["net"] == net}
    good = {key: result["accuracy"] for key, result in of.items() if result and result["code"] == 0}
    lines = [f"{net}, {options.iterations[net]} iterations", "",
             "| type | " + " | ".join(f"seed {seed}" for seed in options.seeds) + " | mean | minus FLOAT |",
             "| --- |" + " ---: |" * (len(options.seeds) + 2)]
    for kind in options.types:
        own = [good[kind, seed] for seed in options.seeds if (kind, seed) in good]
        both = [good[kind, seed] - good["FLOAT", seed] for seed in options.seeds
                if (kind, seed) in good and ("FLOAT", seed) in good]
        words = [kind] + [cell(of[kind, seed]) for seed in options.seeds]
        words.append(f"{statistics.mean(own):.2f}" if own else "")
        words.append(f"{statistics.mean(both):+.2f}" if both and kind != "FLOAT" else "")
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def words(text):
    return text.split(",")


def numbers(text):
    return [int(word) for word in text.split(",")]


def counts(text):
    out = {}
    for word in text.split(","):
        net, number = word.split("=")
        if net not in NETS or int(number) < 5:
            raise ValueError(word)
        out[net] = int(number)
    return out


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=words, default=list(NETS), metavar="LIST", help=",".join(NETS))
    parser.add_argument("--types", type=words, default=list(TYPES[:3]), metavar="LIST", help=",".join(TYPES))
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3], metavar="LIST", help="1,2,3")
    parser.add_argument("--iterations", type=counts, default={}, metavar="NET=N,...",
                        help="shorter schedules than lenet=10000,cifar10_quick=5000")
    parser.add_argument("--grad-scale", type=float, default=1024, metavar="X", help="of FLOAT16 (1024)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of each run (1)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time (1)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/types_accuracy")
    parser.add_argument("--crema", type=pathlib.Path, default=ROOT / "build/bin/crema")
    parser.add_argument("--mnist", type=pathlib.Path, default=ROOT / "data/mnist", metavar="FOLDER")
    parser.add_argument("--cifar10", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--cifar10-root", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    for given, known in ((options.nets, NETS), (options.types, TYPES)):
        for name in given:
            if name not in known:
                parser.error(f"{name} is none of {', '.join(known)}")
    options.iterations = {net: NETS[net][4] for net in NETS} | options.iterations
    options.folder = options.folder.resolve()
    return options


def main():
    options = parse()
    if not options.table:
        if shutil.which(options.crema) is None:
            raise Failure(f"{options.crema} is not there; `make` builds it")
        make_data(options)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for future in [pool.submit(carry_out, options, run) for run in all_runs(options)]:
                future.result()
    print("\n".join(table_of(options, net) for net in options.nets), end="")
    results = [result_of(folder_of(options, run)) for run in all_runs(options)]
    return 1 if any(result and result["code"] != 0 for result in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"types_accuracy: {failure}")
