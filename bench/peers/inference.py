#!/usr/bin/env python3
"""Times crema, ONNX Runtime and OpenVINO on the same nets, weights and inputs, in turn in one process.

A ratio is crema's median time by that of the fastest other runtime of the same precision; the
difference is the largest of crema's output from ONNX Runtime's, relative to the largest output, of the first kind of
crema that is named. Scales for int8 are those of the same random inputs on both sides.
A net whose name ends in .onnx is that file for crema and for ONNX Runtime. With -memory, each runtime runs in its own process, and the table shows by how much its peak
of resident memory exceeds what it had before it loaded the net.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import results

NETS = ("alexnet", "googlenet", "squeezenet_v1.1", "resnet50", "mobilenet_v1", "mobilenet_v2", "densenet121")
KINDS = ("crema", "crema-plain", "crema-bf16", "crema-int8", "onnxruntime", "openvino", "openvino-bf16", "openvino-int8",
         "torch")
MODELS = pathlib.Path(__file__).resolve().parent.parent.parent / "models"


class Files:
    """One net's files: text, weights, ONNX, and ONNX with int8 where asked for."""

    def __init__(self, folder, name):
        self.given = name.endswith(".onnx")
        if self.given:
            self.net = self.onnx = pathlib.Path(name)
            self.weights = None
            return
        self.net = MODELS / name / "deploy.prototxt"
        self.weights = pathlib.Path(folder) / f"{name}.caffemodel"
        self.onnx = pathlib.Path(folder) / f"{name}.onnx"
        self.int8 = pathlib.Path(folder) / f"{name}-int8.xml"
        self.table = pathlib.Path(folder) / f"{name}.table"


def is_newer(path, command):
    """Whether the command, as it is now, may have made the file: a table of an older one lacks what others came to need."""
    return path.exists() and path.stat().st_mtime >= command.stat().st_mtime


def make_files(folder, name, kinds):
    import crema
    import export_onnx
    files = Files(folder, name)
    if files.given:
        return files
    if not files.onnx.exists():
        net = crema.Net(files.net)
        crema.randomise(net, files.net)
        net.save(files.weights)
        export_onnx.export(files.net, net, files.onnx)
    if "openvino-int8" in kinds and not files.int8.exists():
        make_int8(files)
    if "crema-int8" in kinds and not is_newer(files.table, crema.command()):
        crema.calibrate(files.net, files.weights, files.table, 16, 4)
    return files


def make_int8(files):
    import nncf
    import openvino
    core = openvino.Core()
    model = core.read_model(files.onnx)
    shape = [16] + [d.get_length() for d in list(model.inputs[0].partial_shape)[1:]]
    random = numpy.random.default_rng(2)
    samples = [random.normal(0, 1, shape).astype(numpy.float32) for _ in range(4)]
    openvino.save_model(nncf.quantize(model, nncf.Dataset(samples), subset_size=len(samples)), files.int8,
                        compress_to_fp16=False)


class Crema:
    def __init__(self, files, threads, values, kind="f32"):
        import crema
        self.crema, self.threads = crema, threads
        crema.set_threads(threads)
        if kind == "plain":
            self.net = crema.Net(files.net, files.weights)
        else:
            self.net = crema.Session(files.net, files.weights, kind, files.table if kind == "int8" else None)
        self.net.input().reshape(values.shape)
        self.values = values
        self.net.forward()
        self.input, self.output = self.net.input(), self.net.output()
        self.input.write()[...] = values

    def prepare(self):
        self.crema.set_threads(self.threads)

    def run(self):
        """The input counts as changed each time, and the output is on the host."""
        self.input.touch()
        self.net.forward()
        self.output.ask()

    def result(self):
        return self.output.read()


class OnnxRuntime:
    def __init__(self, files, threads, values):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(str(files.onnx), options, providers=["CPUExecutionProvider"])
        self.feed = {self.session.get_inputs()[0].name: values}

    def prepare(self):
        pass

    def run(self):
        return self.session.run(None, self.feed)[0]


class OpenVino:
    def __init__(self, files, threads, values, precision="f32"):
        import openvino
        core = openvino.Core()
        model = core.read_model(files.int8 if precision == "int8" else files.onnx)
        model.reshape(list(values.shape))
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32"})
        self.request = compiled.create_infer_request()
        self.request.set_input_tensor(openvino.Tensor(values))

    def prepare(self):
        pass

    def run(self):
        self.request.infer()
        return self.request.get_output_tensor().data


class Torch:
    """The same layers with random weights of PyTorch's choice; for nets of torch_nets.py only."""

    def __init__(self, files, threads, values):
        import torch
        import torch_nets
        torch.set_num_threads(threads)
        self.torch, self.threads = torch, threads
        self.net = getattr(torch_nets, files.net.parent.name.replace(".", "_"))().eval()
        self.values = torch.from_numpy(values)

    def prepare(self):
        self.torch.set_num_threads(self.threads)

    def run(self):
        with self.torch.inference_mode():
            return self.net(self.values)[-1][0].numpy()


def make(kind, files, threads, values):
    name, _, precision = kind.partition("-")
    if name == "torch":
        return Torch(files, threads, values)
    if name == "openvino":
        return OpenVino(files, threads, values, precision or "f32")
    if name == "crema":
        return Crema(files, threads, values, precision or "f32")
    return OnnxRuntime(files, threads, values)


def input_values(files, batch):
    if files.given:
        import onnx
        shape = onnx.load(files.onnx, load_external_data=False).graph.input[0].type.tensor_type.shape
        dims = [d.dim_value for d in shape.dim]
        return numpy.random.default_rng(7).normal(0, 1, [batch] + dims[1:]).astype(numpy.float32)
    dims = [int(d) for d in re.findall(r"dim: (\d+)", files.net.read_text())[:4]]
    return numpy.random.default_rng(7).normal(0, 1, [batch] + dims[1:]).astype(numpy.float32)


def measure(runners, seconds, clock):
    """Milliseconds of each: the median of runs in blocks, so that no runtime's idle threads are
    still awake in the others' blocks for long; the first run of each block does not count."""
    taken = {kind: [] for kind in runners}
    end = time.perf_counter() + seconds * len(runners)
    for turn in itertools.count():
        if turn >= 3 and time.perf_counter() > end:
            break
        for kind, runner in runners.items():
            runner.prepare()
            runner.run()
            block = time.perf_counter()
            while time.perf_counter() - block < 0.15 or len(taken[kind]) < turn:
                start = clock()
                runner.run()
                taken[kind].append(clock() - start)
    return {kind: statistics.median(times) * 1e3 for kind, times in taken.items()}


def precision_of(kind):
    word = kind.partition("-")[2]
    return word if word in ("bf16", "int8") else "f32"


def ratio(ms, kind):
    """Of the time of a kind of crema to that of the fastest other runtime of the same precision; None: there is none."""
    others = [ms[k] for k in ms if not k.startswith("crema") and precision_of(k) == precision_of(kind)]
    return ms[kind] / min(others) if others else None


def ratios(ms):
    """crema's, and those of its shorter types behind it."""
    found = [(precision_of(k), ratio(ms, k)) for k in ms if k.startswith("crema") and k != "crema-plain"]
    return " ".join(f"{precision} {r:.2f}" for precision, r in found if r is not None)


def difference(runners):
    """Of the first kind of crema."""
    ours = next((runner for kind, runner in runners.items() if kind.startswith("crema")), None)
    if ours is None or "onnxruntime" not in runners:
        return float("nan")
    ours.run()
    ours, theirs = ours.result(), runners["onnxruntime"].run()
    return float(numpy.abs(ours.reshape(theirs.shape) - theirs).max() / numpy.abs(theirs).max())


def compare_times(args, folder):
    table = results.Table(args.output, ("net", "batch", "threads", "runtime", "ms"))
    print(f"{'net':16} {'batch':>5} {'threads':>7}", *(f"{k:>13}" for k in args.kinds),
          f"{'difference':>10}  ratios")
    for name in args.nets:
        files = make_files(folder, name, args.kinds)
        for batch, threads in itertools.product(args.batch, args.threads):
            values = input_values(files, batch)
            runners = {kind: make(kind, files, threads, values) for kind in args.kinds}
            ms = measure(runners, args.seconds, time.process_time if args.processor else time.perf_counter)
            print(f"{pathlib.Path(name).name:16} {batch:5} {threads:7}", *(f"{ms[k]:13.2f}" for k in args.kinds),
                  f"{difference(runners):10.1e}  {ratios(ms)}", flush=True)
            for kind in args.kinds:
                table.add(name, batch, threads, kind, ms[kind])


def memory_of(field):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field + ":"))


def run_child(args, folder):
    """In a process of its own: prints the growth of the peak in MiB."""
    name, batch, threads, kind = args.child
    files = Files(folder, name)
    __import__(kind.partition("-")[0])
    values = input_values(files, int(batch))
    before = memory_of("VmRSS")
    runner = make(kind, files, int(threads), values)
    for _ in range(3):
        runner.run()
    print(json.dumps(memory_of("VmHWM") - before))


def compare_memory(args, folder):
    table = results.Table(args.output, ("net", "batch", "threads", "runtime", "MiB"))
    print(f"{'MiB':16} {'batch':>5} {'threads':>7}", *(f"{k:>13}" for k in args.kinds))
    for name in args.nets:
        make_files(folder, name, args.kinds)
        for batch, threads in itertools.product(args.batch, args.threads):
            grown = []
            for kind in args.kinds:
                command = [sys.executable, __file__, "-files", folder, "-child", name, str(batch), str(threads), kind]
                grown.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            print(f"{name:16} {batch:5} {threads:7}", *(f"{g:13.0f}" for g in grown), flush=True)
            for kind, mib in zip(args.kinds, grown):
                table.add(name, batch, threads, kind, mib)


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=NETS, help="folders under models/, or ONNX files")
    parser.add_argument("-threads", type=numbers, default=[1, 2])
    parser.add_argument("-batch", type=numbers, default=[1, 16])
    parser.add_argument("-kinds", type=lambda text: text.split(","), default=("crema", "onnxruntime", "openvino"), help=",".join(KINDS))
    parser.add_argument("-seconds", type=float, default=2.0, help="for each runtime and row")
    parser.add_argument("-processor", action="store_true",
                        help="processor time in place of time: for one thread on a machine that does other work")
    parser.add_argument("-files", help="folder in which weights and ONNX files are kept")
    parser.add_argument("-memory", action="store_true")
    parser.add_argument("-output", type=pathlib.Path, help="file to store the results in")
    parser.add_argument("-child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.files or temporary
        os.makedirs(folder, exist_ok=True)
        if args.child:
            run_child(args, folder)
        elif args.memory:
            compare_memory(args, folder)
        else:
            compare_times(args, folder)


if __name__ == "__main__":
    main()
