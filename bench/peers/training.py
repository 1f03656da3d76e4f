#!/usr/bin/env python3
"""Times training steps of crema and PyTorch: forward, backward and an update by SGD with momentum.

Each runs in a process of its own, in turn, on random pictures that are in memory. The memory is by
how much the peak of resident memory exceeds what the process had before it made the net. With
-gpu both train on the first GPU, in full f32 (PyTorch without TF32): ten steps in a row and a wait for the
last are timed, and the memory is still that of the host. -deterministic keeps PyTorch from cuDNN's algorithms that give
other bits in each run, as crema is kept from them.
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

NETS = ("alexnet", "googlenet", "resnet50", "mobilenet_v1", "mobilenet_v2", "c3d")
MODELS = inference.MODELS

SOLVER = """net: "{net}"
base_lr: 0.0001 lr_policy: "fixed" momentum: 0.9 weight_decay: 0.0005
max_iter: 100000 display: 0 snapshot: 0 snapshot_after_train: false random_seed: 1 solver_mode: {mode}
"""

INPUT = """layer {{
  name: "data" type: "Input" top: "data" top: "label"
  input_param {{ shape {{ {dims} }} shape {{ dim: {batch} }} }}
}}
"""
GPU_ROW = 10  # steps between two waits for the GPU


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
    def __init__(self, name, args, folder):
        import ctypes
        import crema
        self.library, self.check = crema.LIBRARY, crema.check
        crema.set_threads(args.threads)
        if args.gpu:  # otherwise a solver without one goes to the CPU
            crema.check(self.library.crema_device_get(crema.DEVICE_CUDA, 0, ctypes.byref(ctypes.c_void_p())))
        net, solver = pathlib.Path(folder) / "net.prototxt", pathlib.Path(folder) / "solver.prototxt"
        text, shape = training_text(name, args.batch)
        net.write_text(text)
        solver.write_text(SOLVER.format(net=net, mode="GPU" if args.gpu else "CPU"))
        self.handle = ctypes.c_void_p()
        crema.check(self.library.crema_solver_load(str(solver).encode(), None, ctypes.byref(self.handle)))
        trained = crema.Net(handle=self.library.crema_solver_net(self.handle))
        trained.blob("data").write()[...] = numpy.random.default_rng(1).uniform(-1, 1, shape)
        trained.blob("label").write()[...] = 1
        self.trained, self.last = trained, list(trained.params().values())[-1][-1]

    def step(self):
        self.check(self.library.crema_solver_step(self.handle, 1))

    def wait(self):
        self.last.ask()


class Torch:
    def __init__(self, name, args, folder):
        import torch
        import torch_nets
        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        torch.backends.cudnn.allow_tf32 = False  # of products it is off by default
        torch.backends.cudnn.deterministic = args.deterministic
        self.torch, self.device = torch, "cuda" if args.gpu else "cpu"
        self.net = getattr(torch_nets, name)().train().to(self.device)
        self.images = (torch.rand(training_text(name, args.batch)[1]) * 2 - 1).to(self.device)
        self.labels = torch.ones(args.batch, dtype=torch.long, device=self.device)
        self.rule = torch.optim.SGD(self.net.parameters(), lr=0.0001, momentum=0.9, weight_decay=0.0005)

    def step(self):
        self.rule.zero_grad()
        outputs = self.net(self.images)
        losses = [self.torch.nn.functional.cross_entropy(o, self.labels) * weight for o, weight in outputs]
        sum(losses).backward()
        self.rule.step()

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()


KINDS = {"crema": Crema, "torch": Torch}


def run_child(name, kind, args):
    __import__(kind)
    row = GPU_ROW if args.gpu else 1
    before = inference.memory_of("VmRSS")
    with tempfile.TemporaryDirectory() as folder:
        runner = KINDS[kind](name, args, folder)
        taken = []
        for _ in range(args.steps + 2):
            start = time.perf_counter()
            for _ in range(row):
                runner.step()
            runner.wait()
            taken.append((time.perf_counter() - start) / row)
    print(json.dumps({"ms": statistics.median(taken[2:]) * 1e3, "MiB": inference.memory_of("VmHWM") - before}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=NETS)
    parser.add_argument("-threads", type=int, default=2)
    parser.add_argument("-batch", type=int, default=16)
    parser.add_argument("-steps", type=int, default=5)
    parser.add_argument("-rounds", type=int, default=3)
    parser.add_argument("-gpu", action="store_true")
    parser.add_argument("-deterministic", action="store_true")
    parser.add_argument("-output", type=pathlib.Path, help="file to store the results in")
    parser.add_argument("-child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run_child(args.child[0], args.child[1], args)
        return
    table = results.Table(args.output, ("net", "batch", "threads", "runtime", "ms", "MiB"))
    print(f"{'net':12} {'crema ms':>9} {'torch ms':>9} {'ratio':>6} {'crema MiB':>10} {'torch MiB':>10}")
    for name in args.nets:
        found = {kind: [] for kind in KINDS}
        for _ in range(args.rounds):
            for kind in KINDS:
                command = [sys.executable, __file__, "-child", name, kind, "-threads", str(args.threads),
                           "-batch", str(args.batch), "-steps", str(args.steps)]
                command += ["-gpu"] * args.gpu + ["-deterministic"] * args.deterministic
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found[kind].append(json.loads(done.stdout))
        ms = {kind: statistics.median(f["ms"] for f in found[kind]) for kind in KINDS}
        mib = {kind: max(f["MiB"] for f in found[kind]) for kind in KINDS}
        print(f"{name:12} {ms['crema']:9.1f} {ms['torch']:9.1f} {ms['crema'] / ms['torch']:6.2f} "
              f"{mib['crema']:10.0f} {mib['torch']:10.0f}", flush=True)
        for kind in KINDS:
            table.add(name, args.batch, args.threads, kind, ms[kind], mib[kind])


if __name__ == "__main__":
    main()
