#!/usr/bin/env python3
"""A loss written in Python: regression with the Euclidean loss and its gradient.

Usage: loss_layer.py
"""
import os
import sys
import tempfile

import numpy as np

import caffe

NET = '''
layer { name: 'data' type: 'Input' top: 'x' top: 'y'
  input_param { shape { dim: 16 dim: 4 } shape { dim: 16 dim: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'guess'
  inner_product_param { num_output: 1 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'Python' bottom: 'guess' bottom: 'y' top: 'loss' loss_weight: 1
  python_param { module: 'loss_layer' layer: 'EuclideanLoss' } }
'''


class EuclideanLoss(caffe.Layer):
    """sum((a - b)^2) / (2 samples)."""

    def setup(self, bottom, top):
        if len(bottom) != 2:
            raise ValueError("needs two bottoms")

    def reshape(self, bottom, top):
        if bottom[0].count != bottom[1].count:
            raise ValueError("the bottoms must have as many values")
        self.difference = np.zeros(bottom[0].shape, np.float32)
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.difference[...] = bottom[0].data - bottom[1].data
        top[0].data[...] = (self.difference ** 2).sum() / bottom[0].num / 2

    def backward(self, top, propagate_down, bottom):
        for i, sign in ((0, 1), (1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = sign * top[0].diff * self.difference / bottom[i].num


def main():
    """Learns the weights w of y = x w."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    wanted = np.array([1.0, -2, 3, 0.5], np.float32)
    draw = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        net, solver = os.path.join(folder, "net.prototxt"), os.path.join(folder, "solver.prototxt")
        with open(net, "w") as file:
            file.write(NET)
        with open(solver, "w") as file:
            file.write("net: '%s' base_lr: 0.2 lr_policy: 'fixed' max_iter: 300 random_seed: 1" % net)
        solver = caffe.SGDSolver(solver)
    blobs = solver.net.blobs

    def feed():
        samples = draw.standard_normal((16, 4), np.float32)
        blobs["x"].data[...] = samples
        blobs["y"].data[...] = (samples @ wanted)[:, np.newaxis]
    solver.add_callback(feed)
    solver.step(300)
    learned = solver.net.params["ip"][0].data[0]
    print("learned:", np.round(learned, 3), "wanted:", wanted)
    if np.abs(learned - wanted).max() > 0.01:
        raise SystemExit("did not learn")


if __name__ == "__main__":
    main()
