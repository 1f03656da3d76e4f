"""What the torture programs share: data sets, solvers, running the command, counting.

Every random choice comes from one seed, which is printed; CREMA_TEST_SEED sets it.
"""
import collections
import concurrent.futures
import ctypes
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import tempfile
import threading
import time
import zlib

LIMIT = 120  # seconds after which a run hangs

Result = collections.namedtuple("Result", "code text")
# What the injector saw: the calls, as (number, name, path); what the paths of those that met the
# fault; the signal, if any, that ended the command.
Injected = collections.namedtuple("Injected", "code text calls met signal")
# An uninterrupted run: its snapshots, its duration, its calls on its own files and in all.
Reference = collections.namedtuple("Reference", "files seconds calls all_calls")
TRAIN = ["train", "-solver", "solver.prototxt"]


def png(pixels):
    """A grey PNG of rows of values from 0 to 255."""
    def chunk(kind, body):
        whole = kind + body
        return struct.pack(">I", len(body)) + whole + struct.pack(">I", zlib.crc32(whole))
    raw = b"".join(b"\0" + bytes(row) for row in pixels)
    head = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) +
            chunk(b"IEND", b""))


class Rig:
    """The command under test, a folder to work in, and the table of what happened."""

    def __init__(self, crema, injector, short):
        seed = os.environ.get("CREMA_TEST_SEED") or str(random.randrange(1 << 31))
        print(f"seed {seed} (set CREMA_TEST_SEED to repeat)", flush=True)
        self.seed, self.random = seed, random.Random(seed)
        self.crema, self.injector, self.short = str(pathlib.Path(crema).resolve()), injector, short
        self.folder = pathlib.Path(os.path.realpath(tempfile.mkdtemp(prefix="crema-torture-")))
        self.data = self.folder / "data"
        self.iterations = 10 if short else 24  # of each training
        self.counts, self.failures = collections.Counter(), []
        self.lock = threading.Lock()
        self.environment = dict(os.environ, OMP_WAIT_POLICY="passive")
        # Leaks cannot be looked for while the injector holds on to the threads.
        options = os.environ.get("ASAN_OPTIONS", "")
        self.environment["ASAN_OPTIONS"] = f"{options}:detect_leaks=0:exitcode=99".lstrip(":")
        self.environment.pop("CREMA_SIM", None)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- counting ----

    def count(self, what, number=1):
        with self.lock:
            self.counts[what] += number

    def fail(self, case, text, log=""):
        with self.lock:
            self.failures.append((case, text))
            if len(self.failures) <= 200:
                tail = "".join(f"    {line}\n" for line in log.splitlines()[-6:])
                print(f"FAIL {case}: {text}\n{tail}", end="", flush=True)

    def each(self, work, cases):
        """Runs work(case) for each case, two at a time."""
        jobs = int(os.environ.get("CREMA_TORTURE_JOBS", "2"))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for done in [pool.submit(work, case) for case in cases]:
                done.result()

    # ---- running ----

    def start(self, folder, arguments, threads=1, prepare=None, variables=None, command=None):
        environment = dict(self.environment, OMP_NUM_THREADS=str(threads), **(variables or {}))
        return subprocess.Popen([*(command or [self.crema]), *map(str, arguments)], cwd=folder,
                                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, preexec_fn=prepare)

    @staticmethod
    def end(process):
        """Its exit code (negative: the signal that ended it; None: it hung) and what it said."""
        try:
            text = process.communicate(timeout=LIMIT)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            text = process.communicate()[0]
            return Result(None, text.decode(errors="replace"))
        return Result(process.returncode, text.decode(errors="replace"))

    def run(self, folder, arguments, **how):
        return self.end(self.start(folder, arguments, **how))

    def must(self, folder, arguments, **how):
        result = self.run(folder, arguments, **how)
        if result.code != 0:
            raise SystemExit(f"crema {' '.join(map(str, arguments))}: {result.code}\n{result.text}")
        return result

    def inject(self, folder, arguments, fault=None, at=0, under="/", calls=None, on=False, **how):
        """Runs under the injector. on: every call from number `at` on fails."""
        report = folder.parent / f"{folder.name}.report"
        command = [str(self.injector), "-report", str(report), "-under", str(under)]
        if calls:
            command += ["-calls", ",".join(calls)]
        if fault:
            command += ["-at", str(at), "-do", fault, *(["-from"] if on else [])]
        result = self.run(folder, arguments, command=[*command, "--", self.crema], **how)
        seen, met, number = [], [], None
        for line in report.read_text(errors="replace").splitlines():
            word, *rest = line.split(" ", 3)
            if word == "call" and len(rest) == 3:
                seen.append((int(rest[0]), rest[1], rest[2]))
            elif word == "met":
                met.append(rest[2])
            elif word == "signal":
                number = int(rest[0])
        report.unlink()
        return Injected(result.code, result.text, seen, met, number)

    def reference(self, config):
        folder = self.new_folder(f"reference_{config.name}")
        write_case(folder, config, self.iterations)
        began = time.monotonic()
        self.must(folder, TRAIN, threads=config.threads)
        took = time.monotonic() - began
        files, rest = snapshots(folder)
        if rest:
            self.fail(config.name, f"the uninterrupted run leaves {rest}")
        calls = own = 0
        if self.injector is not None:
            seen = self.inject(folder, TRAIN, threads=config.threads).calls
            calls = len(seen)
            own = sum(path.startswith(str(folder)) for _, _, path in seen)
        return Reference(files, took, own, calls)

    def references(self, configs):
        return {config.name: self.reference(config) for config in configs}

    def numbered(self, cases):
        """Number, configuration and reference of each of so many cases, three configurations in
        short runs."""
        configs = self.random.sample(CONFIGS, 3) if self.short else CONFIGS
        references = self.references(configs)
        for number in range(cases):
            config = configs[number % len(configs)]
            yield number, config, references[config.name]

    def new_folder(self, name):
        folder = self.folder / name
        folder.mkdir(parents=True)
        return folder

    # ---- data ----

    def make_data(self):
        """200 grey images of 12 by 12 in ten classes, in every kind of source that is read."""
        draw = random.Random("images")
        self.data.mkdir()
        images, labels, lines, windows = [], [], [], []
        for k in range(200):
            label = draw.randrange(10)
            rows = [[(label * 20 + 7 * y * label + draw.randrange(60)) % 256 for _ in range(12)]
                    for y in range(12)]
            images.append(b"".join(bytes(row) for row in rows))
            labels.append(label)
            if k < 60:
                (self.data / f"{k}.png").write_bytes(png(rows))
                lines.append(f"{k}.png {label}\n")
                windows.append(f"# {k}\n../data/{k}.png\n1\n12\n12\n2\n{label % 9 + 1} 0.9 0 0 8 8\n"
                               f"0 0.1 2 2 11 11\n")
        (self.data / "images").write_bytes(struct.pack(">4I", 2051, 200, 12, 12) + b"".join(images))
        (self.data / "labels").write_bytes(struct.pack(">2I", 2049, 200) + bytes(labels))
        (self.data / "list.txt").write_text("".join(lines))
        (self.data / "windows.txt").write_text("".join(windows))
        for backend in ("lmdb", "leveldb"):
            self.must(self.data, ["convert_mnist", "-backend", backend, "images", "labels", backend])
        self.make_hdf5()

    def make_hdf5(self):
        net, solver = self.data / "to_hdf5.prototxt", self.data / "to_hdf5_solver.prototxt"
        net.write_text(LMDB.format(source="lmdb", batch=20, options="", transform="") + MLP + TAIL + """
            layer { name: "out" type: "HDF5Output" bottom: "data" bottom: "label"
              hdf5_output_param { file_name: "set.h5" } }""")
        solver.write_text('net: "to_hdf5.prototxt" base_lr: 0 lr_policy: "fixed" max_iter: 10 '
                          'solver_mode: CPU snapshot_after_train: false')
        self.must(self.data, ["train", "-solver", solver])
        (self.data / "set.txt").write_text("../data/set.h5\n")


# ---- nets and solvers ----

LMDB = """
layer {{ name: "in" type: "Data" top: "data" top: "label" transform_param {{ {transform} }}
  data_param {{ source: "{source}" batch_size: {batch} backend: LMDB {options} }} }}
"""
LEVELDB = LMDB.replace("LMDB", "LEVELDB")
PICTURES = """
layer {{ name: "in" type: "ImageData" top: "data" top: "label" transform_param {{ {transform} }}
  image_data_param {{ source: "{source}" batch_size: {batch} is_color: false {options} }} }}
"""
HDF5 = """
layer {{ name: "in" type: "HDF5Data" top: "data" top: "label"
  hdf5_data_param {{ source: "{source}" batch_size: {batch} {options} }} }}
"""
WINDOWS = """
layer {{ name: "in" type: "WindowData" top: "data" top: "label"
  transform_param {{ crop_size: 8 {transform} }}
  window_data_param {{ source: "{source}" batch_size: {batch} {options} }} }}
"""

MLP = """
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 12 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" }
"""
CONV = """
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "msra" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "bn1" }
layer { name: "scale1" type: "Scale" bottom: "bn1" top: "bn1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "bn1" top: "bn1" }
layer { name: "pool1" type: "Pooling" bottom: "bn1" top: "ip1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
"""
TAIL = """
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
  include { phase: TEST } }
"""

Config = collections.namedtuple("Config", "name source path options transform body solver h5 threads")

AUGMENT = "scale: 0.0039 mirror: true crop_size: 10"
CONFIGS = [
    Config("sgd", LMDB, "lmdb", "", "scale: 0.0039", MLP,
           'type: "SGD" momentum: 0.9 snapshot: 1', False, 1),
    Config("nesterov", LMDB, "lmdb", "shuffle: true cache: true threads: 2", AUGMENT, MLP,
           'type: "Nesterov" momentum: 0.9 snapshot: 2', True, 2),
    Config("adagrad", LEVELDB, "leveldb", "", AUGMENT, MLP, 'type: "AdaGrad" snapshot: 1', False, 1),
    Config("rmsprop", LEVELDB, "leveldb", "shuffle: true cache: true", AUGMENT, CONV,
           'type: "RMSProp" rms_decay: 0.9 snapshot: 3', True, 2),
    Config("adadelta", PICTURES, "list.txt", "shuffle: true threads: 3", AUGMENT, MLP,
           'type: "AdaDelta" momentum: 0.95 delta: 1e-6 snapshot: 1', False, 1),
    Config("adam", LMDB, "lmdb", "prefetch: 1", "scale: 0.0039", MLP,
           'type: "Adam" momentum: 0.9 iter_size: 2 snapshot: 1', True, 1),
    Config("adam_conv", LMDB, "lmdb", "threads: 4 prefetch: 8", AUGMENT, CONV,
           'type: "Adam" momentum: 0.9 clip_gradients: 1 snapshot: 1', False, 2),
    Config("hdf5_data", HDF5, "set.txt", "shuffle: true", "", MLP,
           'type: "SGD" momentum: 0.9 weight_decay: 0.001 snapshot: 2', True, 1),
    Config("rand_skip", LMDB, "lmdb", "rand_skip: 50", AUGMENT, CONV,
           'type: "Nesterov" momentum: 0.9 test_initialization: false snapshot: 2', False, 1),
    Config("with_diffs", LEVELDB, "leveldb", "cache: true threads: 2", AUGMENT, MLP,
           'type: "RMSProp" snapshot_diff: true snapshot: 1', False, 2),
    Config("average", PICTURES, "list.txt", "cache: true", AUGMENT, CONV,
           'type: "AdaDelta" momentum: 0.9 average_loss: 7 snapshot: 2', True, 1),
    Config("windows", WINDOWS, "windows.txt", "fg_fraction: 0.5", "scale: 0.0039 mirror: true", MLP,
           'type: "AdaGrad" snapshot: 1', False, 1),
]

def write_case(folder, config, iterations):
    """net.prototxt and solver.prototxt of a configuration."""
    source = config.source.format(source=f"../data/{config.path}", batch=8, options=config.options,
                                  transform=config.transform)
    (folder / "net.prototxt").write_text(source + config.body + TAIL)
    (folder / "solver.prototxt").write_text(
        f'net: "net.prototxt" base_lr: 0.01 lr_policy: "inv" gamma: 0.01 power: 0.75 display: 1\n'
        f'test_iter: 3 test_interval: 5 max_iter: {iterations} solver_mode: CPU random_seed: 7\n'
        f'snapshot_format: {"HDF5" if config.h5 else "BINARYPROTO"} snapshot_prefix: "s"\n'
        f'{config.solver}\n')


def snapshots(folder):
    """The finished snapshots of a folder by name, and whatever else a run has left there."""
    found, rest = {}, []
    for path in sorted(folder.iterdir()):
        if re.fullmatch(r"s_iter_\d+\.(caffemodel|solverstate)(\.h5)?", path.name):
            found[path.name] = path.read_bytes()
        elif path.name not in ("net.prototxt", "solver.prototxt"):
            rest.append(path.name)
    return found, rest


def iteration_of(name):
    return int(name.split("_iter_")[1].split(".")[0]) if name else None


def newest_state(names):
    return max((name for name in names if ".solverstate" in name), key=iteration_of, default=None)


def last_names(config, iterations):
    ending = ".h5" if config.h5 else ""
    return [f"s_iter_{iterations}.{kind}{ending}" for kind in ("caffemodel", "solverstate")]


def refuse_executable_memory():
    """For a child: no memory becomes executable any more, as under MemoryDenyWriteExecute. Linux 6.3."""
    if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0) != 0:
        raise OSError("PR_SET_MDWE is not known")
