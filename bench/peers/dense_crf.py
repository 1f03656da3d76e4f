#!/usr/bin/env python3
"""Times a DenseCRF layer of crema and pydensecrf2, the wrapper of the authors' own program.

Scores of classes and a picture of flat patches with a little noise, a Gaussian kernel of positions
and a bilateral one; each call makes the lattices of the picture and takes all steps, as both must for
a new picture. Each runs in a process of its own, in turn, on one thread. The time is that of the
processor, which other programs on the machine disturb less than the time that passes. What the two
give for the same numbers is compared once.
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

NET = """name: "crf"
layer {{ name: "in" type: "Input" top: "scores" top: "size" top: "picture"
  input_param {{ shape {{ dim: 1 dim: {classes} dim: {side} dim: {side} }} shape {{ dim: 1 dim: 2 }}
    shape {{ dim: 1 dim: 3 dim: {side} dim: {side} }} }} }}
layer {{ name: "crf" type: "DenseCRF" bottom: "scores" bottom: "size" bottom: "picture" top: "labels"
  dense_crf_param {{ max_iter: {steps} output_probability: true pos_w: {pos_w} pos_xy_std: {pos_xy}
    bi_w: {bi_w} bi_xy_std: {bi_xy} bi_rgb_std: {bi_rgb} }} }}
"""
WEIGHTS = dict(pos_w=3, pos_xy=3, bi_w=4, bi_xy=50, bi_rgb=5)


def problem(sizes):
    """Scores (classes, side, side) and a picture (side, side, 3) of whole numbers."""
    random, side = numpy.random.default_rng(1), sizes["side"]
    scores = random.uniform(-1, 1, (sizes["classes"], side, side)).astype(numpy.float32)
    patch = random.integers(0, 240, (side // 40 + 1, side // 40 + 1, 3))
    picture = patch.repeat(40, 0).repeat(40, 1)[:side, :side] + random.integers(0, 5, (side, side, 3))
    return scores, picture.astype(numpy.uint8)


class Crema:
    def __init__(self, sizes):
        import crema
        crema.set_threads(1)
        scores, picture = problem(sizes)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.prototxt"
            path.write_text(NET.format(**sizes, **WEIGHTS))
            self.net = crema.Net(path)
        self.net.blob("scores").write()[...] = scores
        self.net.blob("size").write()[...] = sizes["side"]
        self.net.blob("picture").write()[...] = picture.transpose(2, 0, 1)

    def step(self):
        self.net.forward()

    def labels(self):
        return self.net.output().read()[0]


class Pydensecrf:
    def __init__(self, sizes):
        import pydensecrf.densecrf
        self.api, self.sizes = pydensecrf.densecrf, sizes
        scores, self.picture = problem(sizes)
        self.unary = numpy.ascontiguousarray(-scores.reshape(len(scores), -1))

    def step(self):
        side = self.sizes["side"]
        crf = self.api.DenseCRF2D(side, side, self.sizes["classes"])
        crf.setUnaryEnergy(self.unary)
        divided = dict(normalization=self.api.NORMALIZE_AFTER)  # by the sum of the weights, as in Caffe's layer
        crf.addPairwiseGaussian(sxy=WEIGHTS["pos_xy"], compat=WEIGHTS["pos_w"], **divided)
        crf.addPairwiseBilateral(sxy=WEIGHTS["bi_xy"], srgb=WEIGHTS["bi_rgb"], rgbim=self.picture,
                                 compat=WEIGHTS["bi_w"], **divided)
        self.found = crf.inference(self.sizes["steps"])

    def labels(self):
        return numpy.array(self.found).reshape(-1, self.sizes["side"], self.sizes["side"])


KINDS = {"crema": Crema, "pydensecrf2": Pydensecrf}


def run_child(kind, sizes, runs):
    runner, spent = KINDS[kind](sizes), []
    for _ in range(runs + 1):
        start = time.process_time()
        runner.step()
        spent.append(time.process_time() - start)
    print(json.dumps(statistics.median(spent[1:]) * 1e3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in (("classes", 21), ("side", 321), ("steps", 10)):
        parser.add_argument("-" + name, type=int, default=size)
    parser.add_argument("-runs", type=int, default=7)
    parser.add_argument("-rounds", type=int, default=3)
    parser.add_argument("-child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = {name: vars(args)[name] for name in ("classes", "side", "steps")}
    if args.child:
        run_child(args.child, sizes, args.runs)
        return
    both = [kind(sizes) for kind in KINDS.values()]
    for runner in both:
        runner.step()
    print(f"largest difference of the probabilities: {abs(both[0].labels() - both[1].labels()).max():.2g}")
    spent = {kind: [] for kind in KINDS}
    for _ in range(args.rounds):
        for kind in KINDS:
            command = [sys.executable, __file__, *sys.argv[1:], "-child", kind]
            spent[kind].append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    crema, other = (statistics.median(spent[kind]) for kind in KINDS)
    print(f"crema {crema:.1f} ms, pydensecrf2 {other:.1f} ms, ratio {crema / other:.2f}")


if __name__ == "__main__":
    main()
