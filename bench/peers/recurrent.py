#!/usr/bin/env python3
"""Times an LSTM layer of crema and PyTorch: forward and backward over a whole sequence.

Each runs in a process of its own, in turn, on random numbers in memory, with a squared difference as
the loss. The time is that of the processors (of all threads together), which other programs on the
machine disturb less than the time that passes.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

NET = """name: "lstm" force_backward: false
layer {{ name: "data" type: "DummyData" top: "x" top: "cont" top: "wanted"
  dummy_data_param {{
    shape {{ dim: {steps} dim: {batch} dim: {inputs} }} shape {{ dim: {steps} dim: {batch} }}
    shape {{ dim: {steps} dim: {batch} dim: {units} }}
    data_filler {{ type: "constant" value: 0.5 }} data_filler {{ type: "constant" value: 1 }}
    data_filler {{ type: "constant" value: 0.1 }} }} }}
layer {{ name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h"
  recurrent_param {{ num_output: {units} weight_filler {{ type: "uniform" min: -0.06 max: 0.06 }} }} }}
layer {{ name: "loss" type: "EuclideanLoss" bottom: "h" bottom: "wanted" top: "loss" }}
"""


class Crema:
    def __init__(self, sizes, threads):
        import ctypes
        import crema
        crema.set_threads(threads)
        self.library, self.check, self.net = crema.LIBRARY, crema.check, ctypes.c_void_p()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.prototxt"
            path.write_text(NET.format(**sizes))
            self.check(self.library.crema_net_load(str(path).encode(), None, ctypes.byref(self.net)))

    def step(self):
        self.check(self.library.crema_net_forward(self.net, None))
        self.check(self.library.crema_net_backward(self.net))


class Torch:
    def __init__(self, sizes, threads):
        import torch
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.net = torch.nn.LSTM(sizes["inputs"], sizes["units"])
        self.x = torch.full((sizes["steps"], sizes["batch"], sizes["inputs"]), 0.5)
        self.wanted = torch.full((sizes["steps"], sizes["batch"], sizes["units"]), 0.1)
        self.loss = torch.nn.functional.mse_loss

    def step(self):
        self.net.zero_grad()
        self.loss(self.net(self.x)[0], self.wanted).backward()


KINDS = {"crema": Crema, "torch": Torch}


def run_child(kind, sizes, threads, runs):
    runner, spent = KINDS[kind](sizes, threads), []
    for _ in range(runs + 3):
        start = time.process_time()
        runner.step()
        spent.append(time.process_time() - start)
    print(json.dumps(statistics.median(spent[3:]) * 1e3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-threads", type=int, nargs="*", default=[1, 2])
    for name, size in (("batch", 32), ("steps", 64), ("inputs", 256), ("units", 256)):
        parser.add_argument("-" + name, type=int, default=size)
    parser.add_argument("-runs", type=int, default=15)
    parser.add_argument("-rounds", type=int, default=3)
    parser.add_argument("-child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run_child(args.child, vars(args), args.threads[0], args.runs)
        return
    for threads in args.threads:
        spent = {kind: [] for kind in KINDS}
        for _ in range(args.rounds):
            for kind in KINDS:
                command = [sys.executable, __file__, *sys.argv[1:], "-threads", str(threads), "-child", kind]
                spent[kind].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        crema, torch = (statistics.median(spent[kind]) for kind in ("crema", "torch"))
        print(f"{threads} threads: crema {crema:.1f} ms, PyTorch {torch:.1f} ms, ratio {crema / torch:.2f}")


if __name__ == "__main__":
    main()
