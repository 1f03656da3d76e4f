"""The same training under other circumstances: which weights are bit for bit the same, and which are near.

Each row of the table in docs/reliability.md is asserted here, for each training: bit for bit where that is promised,
and otherwise within a bound on |difference| / (1 + |weight|) after the training.
"""
import collections
import os
import random
import struct
import subprocess

import rig as r

# No bias where BatchNorm takes it out again: its gradient is nothing but rounding errors, and Adam would
# make whole steps of them.
LENET = """
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 20 kernel_size: 5 bias_term: false
    weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 50 kernel_size: 5 bias_term: false
    weight_filler { type: "xavier" } } }
layer { name: "bn2" type: "BatchNorm" bottom: "conv2" top: "bn2" }
layer { name: "scale2" type: "Scale" bottom: "bn2" top: "bn2" scale_param { bias_term: true } }
layer { name: "relu2" type: "ReLU" bottom: "bn2" top: "bn2" }
layer { name: "pool2" type: "Pooling" bottom: "bn2" top: "pool2"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "hidden" type: "InnerProduct" bottom: "pool2" top: "hidden"
  inner_product_param { num_output: 200 weight_filler { type: "xavier" } } }
layer { name: "relu3" type: "ReLU" bottom: "hidden" top: "hidden" }
layer { name: "drop" type: "Dropout" bottom: "hidden" top: "ip1" }
"""
MLP = """
layer { name: "ip0" type: "InnerProduct" bottom: "data" top: "ip0"
  inner_product_param { num_output: 300 weight_filler { type: "xavier" } } }
layer { name: "relu0" type: "ReLU" bottom: "ip0" top: "ip0" }
layer { name: "ip1" type: "InnerProduct" bottom: "ip0" top: "ip1a"
  inner_product_param { num_output: 100 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "ip1a" top: "bn1" }
layer { name: "drop" type: "Dropout" bottom: "bn1" top: "ip1" }
"""
TRAININGS = [
    ("LeNet, SGD", LENET, 'type: "SGD" base_lr: 0.005 momentum: 0.9 weight_decay: 0.0005'),
    ("MLP, Adam", MLP, 'type: "Adam" base_lr: 0.0005 momentum: 0.9'),
    ("LeNet, Adam", LENET, 'type: "Adam" base_lr: 0.0005 momentum: 0.9'),
    ("MLP, SGD", MLP, 'type: "SGD" base_lr: 0.005 momentum: 0.9 weight_decay: 0.0005'),
]
ROUNDS = 10
# More than rounding errors grow to in so few iterations, less than any mistake makes.
NEAR = 2e-3

# threads: of OpenMP; input: threads that decode and transform; reference: without oneDNN's kernels.
Way = collections.namedtuple("Way", "threads input reference source flags variables command")
USUAL = Way(1, 1, False, r.LMDB, (), (), None)


def can_refuse():
    try:
        subprocess.run(["true"], preexec_fn=r.refuse_executable_memory, check=True)
    except subprocess.SubprocessError:
        return False
    return True


def the_table(other, short):
    """(What differs between two runs, the two ways, whether the weights are the same bit for bit)."""
    isa = (("DNNL_MAX_CPU_ISA", "AVX2"), ("ONEDNN_MAX_CPU_ISA", "AVX2"))
    many, few = ((2, 3, 4), (1, 2, 3, 4)) if not short else ((4,), (4,))
    alone = USUAL._replace(reference=True)
    found = [(f"nothing, {t} OpenMP threads", USUAL._replace(threads=t), USUAL._replace(threads=t), True)
             for t in few]
    found += [(f"1 or {t} threads that prepare the input", USUAL, USUAL._replace(input=t), True)
              for t in many]
    found += [("LMDB or LevelDB", USUAL, USUAL._replace(source=r.LEVELDB), True),
              ("CPU or simulated device", USUAL, USUAL._replace(flags=("-gpu", "sim:1")), True)]
    found += [(f"1 or {t} OpenMP threads", USUAL, USUAL._replace(threads=t), False) for t in many]
    found += [("AVX2 or what the processor has", USUAL, USUAL._replace(variables=isa), False)]
    if can_refuse():
        found += [("oneDNN or reference kernels", USUAL, alone, False)]
        found += [(f"reference kernels, 1 or {t} OpenMP threads", alone, alone._replace(threads=t), True)
                  for t in many]
    if other:
        found += [("release or sanitizer build", USUAL, USUAL._replace(command=other), True),
                  ("reference kernels, release or sanitizer build", alone,
                   alone._replace(command=other), True)]
    return found


def fields(data):
    """(number, value) of each field of a message; value is bytes or an integer."""
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = varint() if kind == 2 else 8 if kind == 1 else 4
        yield key >> 3, data[at:at + size]
        at += size


def weights(model):
    """The values of all blobs of a .caffemodel, in order."""
    found = []
    for number, layer in fields(model):
        if number == 100:
            for kind, blob in fields(layer):
                if kind == 7:
                    for what, values in fields(blob):
                        if what == 5:
                            found += struct.unpack(f"<{len(values) // 4}f", values)
    return found


def distance(one, other):
    """0 where the models are the same bytes, else the largest difference of a weight."""
    if one == other:
        return 0.0
    mine, others = weights(one), weights(other)
    if len(mine) != len(others):
        return float("inf")
    return max(abs(a - b) / (1 + abs(a)) for a, b in zip(mine, others))


def make_digits(rig):
    """300 images of 28 by 28, in both kinds of database."""
    draw = random.Random("digits")
    labels = bytes(draw.randrange(10) for _ in range(300))
    pixels = b"".join(bytes((label * 23 + y * label + draw.randrange(80)) % 256
                            for y in range(28) for _ in range(28)) for label in labels)
    (rig.data / "digits").write_bytes(struct.pack(">4I", 2051, 300, 28, 28) + pixels)
    (rig.data / "digit_labels").write_bytes(struct.pack(">2I", 2049, 300) + labels)
    for backend in ("lmdb", "leveldb"):
        rig.must(rig.data, ["convert_mnist", "-backend", backend, "digits", "digit_labels",
                            f"digits_{backend}"])


def train(rig, name, net, solver, way, rounds):
    """The model after so many iterations."""
    folder = rig.new_folder(name)
    path = "digits_leveldb" if way.source == r.LEVELDB else "digits_lmdb"
    source = way.source.format(source=f"../data/{path}", batch=64,
                               transform="scale: 0.0039 mirror: true crop_size: 26",
                               options=f"shuffle: true cache: true threads: {way.input}")
    (folder / "net.prototxt").write_text(source + net + r.TAIL)
    (folder / "solver.prototxt").write_text(
        f'net: "net.prototxt" lr_policy: "fixed" max_iter: {rounds} solver_mode: CPU random_seed: 5\n'
        f'test_iter: 1 test_interval: 1000 test_initialization: false snapshot_prefix: "s" {solver}\n')
    refuse = r.refuse_executable_memory if way.reference else None
    result = rig.run(folder, [*r.TRAIN, *way.flags], threads=way.threads, prepare=refuse,
                     variables=dict(way.variables), command=way.command)
    if result.code != 0:
        rig.fail(name, f"{way._replace(source=path)}: exit code {result.code}", result.text)
        return None
    rig.count("trainings")
    return (folder / f"s_iter_{rounds}.caffemodel").read_bytes()


def run(rig, cases):
    del cases
    other = os.environ.get("CREMA_TORTURE_OTHER")
    make_digits(rig)
    cells = the_table((other,) if other else None, rig.short)
    trainings = TRAININGS[:2] if rig.short else TRAININGS
    rounds = 4 if rig.short else ROUNDS
    print("| what differs | " + " | ".join(name for name, _, _ in trainings) + " |")
    print("| --- |" + " --- |" * len(trainings))
    models, number = {}, 0
    for what, one, two, same in cells:
        row = []
        for name, net, solver in trainings:
            pair = []
            for way in (one, two):
                # Two runs of one way are made where nothing differs.
                key = (name, way, len(pair) if one == two else 0)
                if key not in models:
                    models[key] = train(rig, f"equality_{number}", net, solver, way, rounds)
                    number += 1
                pair.append(models[key])
            if None in pair:
                row.append("fails")
                continue
            far = distance(*pair)
            row.append("bit for bit" if far == 0 else f"{far:.0e}")
            rig.count("cells that are bit for bit" if far == 0 else "cells within rounding")
            if same and far != 0:
                rig.fail(f"{name}: {what}", f"not bit for bit, a weight differs by {far:.1e}")
            if far > NEAR:
                rig.fail(f"{name}: {what}", f"a weight differs by {far:.1e}, more than {NEAR}")
        print(f"| {what} | " + " | ".join(row) + " |", flush=True)
