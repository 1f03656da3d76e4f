#!/usr/bin/env python3
"""Times training steps of crema and PyTorch: forward, backward and an update by SGD with momentum.

Each runs in its own process, in turn, on random images in memory. MiB is the growth of resident memory on the host
from before the net is made to its peak. With -gpu both train on that device; ten steps and a wait for the last are
timed. -deterministic excludes cuDNN algorithms whose bits differ between runs from PyTorch, as crema excludes them.

Modes (-modes), each compared with PyTorch's best time in the same precision:

    crema            float32                  torch          float32, without TF32
    crema_fast       -math fast: TF32         torch_tf32     float32 with TF32
    crema_bf16       BFLOAT16                 torch_amp      autocast to bfloat16, channels_last
    crema_bf16_fast  the same, -math fast     torch_compile  the same, with torch.compile
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import inference
import results

NETS_ON_GPU = ("alexnet", "googlenet", "resnet50")
NETS = NETS_ON_GPU + ("mobilenet_v1", "mobilenet_v2", "c3d")
MODELS = inference.MODELS

# Mode: the precision, which its rivals share, then the types and the solver's fields for crema.
MODES = {"crema": "f32", "torch": "f32", "crema_fast": "tf32", "torch_tf32": "tf32", "crema_bf16": "bf16",
         "crema_bf16_fast": "bf16", "torch_amp": "bf16", "torch_compile": "bf16"}
ON_CPU, ON_GPU = ("crema", "torch"), tuple(MODES)
TYPES = "default_forward_type: BFLOAT16 default_backward_type: BFLOAT16\n"

SOLVER = """net: "{net}"
base_lr: 0.0001 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005
max_iter: 100000 display: 0 snapshot: 0 snapshot_after_train: false random_seed: 1 solver_mode: {mode} {more}
"""

INPUT = """layer {{
  name: "data" type: "Input" top: "data" top: "label"
  input_param {{ shape {{ {dims} }} shape {{ dim: {batch} }} }}
}}
"""


def training_text(name, batch):
    """train_val.prototxt with inputs instead of its two data layers, and the shape of a batch: images, or clips of
    16 frames."""
    import prototxt
    path = MODELS / name / "train_val.prototxt"
    size = prototxt.read_net(path)["layer"][0].part("transform_param").one("crop_size")
    shape = (batch, 3, 16, size, size) if name == "c3d" else (batch, 3, size, size)
    blocks, block = [], []
    for line in path.read_text().splitlines():
        block.append(line)
        if line == "}" or (line.startswith("layer {") and line.endswith("}")) or line.startswith("name:"):
            blocks.append("\n".join(block))
            block = []
    kept = [b for b in blocks if 'type: "Data"' not in b and 'type: "VideoClips"' not in b]
    dims = " ".join(f"dim: {n}" for n in shape)
    return "\n".join([kept[0], INPUT.format(batch=batch, dims=dims)] + kept[1:]), shape


class Crema:
    def __init__(self, name, mode, args, folder):
        import ctypes
        import crema
        self.library, self.check = crema.LIBRARY, crema.check
        crema.set_threads(args.threads)
        device = crema.device(args.gpu) if args.gpu else None
        net, solver = pathlib.Path(folder) / "net.prototxt", pathlib.Path(folder) / "solver.prototxt"
        text, shape = training_text(name, args.batch)
        net.write_text(TYPES + text if "bf16" in mode else text)
        solver.write_text(SOLVER.format(net=net, mode="GPU" if args.gpu else "CPU",
                                        more="math: FAST" if "fast" in mode else ""))
        self.handle = ctypes.c_void_p()
        crema.check(self.library.crema_solver_load(str(solver).encode(), crema.solver_options(device),
                                                   ctypes.byref(self.handle)))
        trained = crema.Net(handle=self.library.crema_solver_net(self.handle))
        trained.blob("data").write()[...] = numpy.random.default_rng(1).uniform(-1, 1, shape)
        trained.blob("label").write()[...] = 1
        self.trained, self.last = trained, list(trained.params().values())[-1][-1]

    def step(self):
        self.check(self.library.crema_solver_step(self.handle, 1))

    def wait(self):
        self.last.ask()


class Torch:
    def __init__(self, name, mode, args, folder):
        import torch
        import torch_nets
        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = mode == "torch_tf32"
        torch.backends.cudnn.deterministic = args.deterministic
        torch.backends.cudnn.benchmark = bool(args.gpu) and not args.deterministic
        self.torch, self.device = torch, f"cuda:{args.gpu}" if args.gpu else "cpu"
        self.net = getattr(torch_nets, name)().train().to(self.device)
        self.images = (torch.rand(training_text(name, args.batch)[1]) * 2 - 1).to(self.device)
        self.autocast = MODES[mode] == "bf16"
        if self.autocast:
            self.net = self.net.to(memory_format=torch.channels_last)
            self.images = self.images.to(memory_format=torch.channels_last)
        if mode == "torch_compile":
            self.net = torch.compile(self.net)
        self.labels = torch.ones(args.batch, dtype=torch.long, device=self.device)
        self.rule = torch.optim.SGD(self.net.parameters(), lr=0.0001, momentum=0.9, weight_decay=0.0005)

    def step(self):
        self.rule.zero_grad()
        kind = self.device.split(":")[0]
        with self.torch.autocast(kind, self.torch.bfloat16, enabled=self.autocast):
            outputs = self.net(self.images)
            losses = [self.torch.nn.functional.cross_entropy(o, self.labels) * weight for o, weight in outputs]
        sum(losses).backward()
        self.rule.step()

    def wait(self):
        if self.device != "cpu":
            self.torch.cuda.synchronize()


KINDS = {"crema": Crema, "torch": Torch}


def run_child(name, mode, args):
    kind = mode.split("_")[0]
    __import__(kind)
    row = args.row or (10 if args.gpu else 1)
    before = inference.memory_of("VmRSS")
    with tempfile.TemporaryDirectory() as folder:
        runner = KINDS[kind](name, mode, args, folder)
        taken = []
        for _ in range(args.steps + 2):
            start = time.perf_counter()
            for _ in range(row):
                runner.step()
            runner.wait()
            taken.append((time.perf_counter() - start) / row)
    print(json.dumps({"ms": statistics.median(taken[2:]) * 1e3, "MiB": inference.memory_of("VmHWM") - before}))


def measure(name, mode, args):
    """The result of one process; None after a failure, which is printed."""
    command = [sys.executable, __file__, "-child", name, mode, "-threads", str(args.threads), "-batch", str(args.batch),
               "-steps", str(args.steps)]
    command += ["-gpu", args.gpu] if args.gpu else []
    command += ["-row", str(args.row)]
    command += ["-deterministic"] * args.deterministic
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    print(f"{name:12} {mode:15} failed: {reason}", flush=True)
    return None


def compare(name, modes, args, table):
    """Measures the modes in turn and prints a line for each; False if one failed."""
    found = {mode: [] for mode in modes}
    for _ in range(args.rounds):
        for mode in modes:
            result = measure(name, mode, args) if found[mode] is not None else None
            found[mode] = found[mode] + [result] if result else None
    ms = {mode: statistics.median(f["ms"] for f in results) for mode, results in found.items() if results}
    for mode in ms:
        rivals = [ms[m] for m in ms if m.startswith("torch") and MODES[m] == MODES[mode]]
        ratio = f"{ms[mode] / min(rivals):9.2f}" if rivals and mode.startswith("crema") else f"{'':9}"
        mib = max(f["MiB"] for f in found[mode])
        print(f"{name:12} {mode:15} {ms[mode]:9.2f} {ratio} {mib:9.0f}", flush=True)
        table.add(name, args.batch, args.threads, mode, ms[mode], mib)
    return len(ms) == len(modes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", help=f"default: {' '.join(NETS)}; on a GPU the first three")
    parser.add_argument("-modes", help="separated by commas; default: all on a GPU, crema,torch on the CPU")
    parser.add_argument("-threads", type=int, default=2)
    parser.add_argument("-batch", type=int, default=16)
    parser.add_argument("-steps", type=int, default=5)
    parser.add_argument("-row", type=int, default=0, help="steps between two waits (default 10 on a GPU, else 1)")
    parser.add_argument("-rounds", type=int, default=3)
    parser.add_argument("-gpu", nargs="?", const="0", default="", help="the device: 0, opencl:0 (default 0)")
    parser.add_argument("-deterministic", action="store_true")
    parser.add_argument("-output", type=pathlib.Path, help="file to store the results in")
    parser.add_argument("-child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run_child(args.child[0], args.child[1], args)
        return 0
    modes = args.modes.split(",") if args.modes else ON_GPU if args.gpu else ON_CPU
    for mode in modes:
        if mode not in MODES:
            parser.error(f"-modes {mode}: expected {', '.join(MODES)}")
    table = results.Table(args.output, ("net", "batch", "threads", "runtime", "ms", "MiB"))
    print(f"{'net':12} {'mode':15} {'ms':>9} {'/ PyTorch':>9} {'host MiB':>9}")
    nets = args.nets or (NETS_ON_GPU if args.gpu else NETS)
    return 0 if all([compare(name, modes, args, table) for name in nets]) else 1


if __name__ == "__main__":
    sys.exit(main())
