#!/usr/bin/env python3
"""Learning LeNet: describes the net in Python, feeds it the images of MNIST and prints the accuracy during
training.

Usage: learning_lenet.py [ITERATIONS]
"""
import gzip
import os
import sys
import tempfile

import numpy as np

import caffe
from caffe import layers as L
from caffe import params as P

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BATCH = 64


def read(kind):
    """(images with values from 0 to 1, labels) of "train" or "t10k"."""
    def values(name, offset):
        path = os.path.join(ROOT, "data", "mnist", "%s-%s.gz" % (kind, name))
        with gzip.open(path) as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset)
    images = values("images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    return images.astype(np.float32) / 255, values("labels-idx1-ubyte", 8)


def lenet():
    """The net, as text."""
    n = caffe.NetSpec()
    n.data, n.label = L.Input(shape=[dict(dim=[BATCH, 1, 28, 28]), dict(dim=[BATCH])], ntop=2)
    xavier = dict(type="xavier")
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=20, weight_filler=xavier)
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.conv2 = L.Convolution(n.pool1, kernel_size=5, num_output=50, weight_filler=xavier)
    n.pool2 = L.Pooling(n.conv2, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.fc1 = L.InnerProduct(n.pool2, num_output=500, weight_filler=xavier)
    n.relu1 = L.ReLU(n.fc1, in_place=True)
    n.score = L.InnerProduct(n.relu1, num_output=10, weight_filler=xavier)
    n.loss = L.SoftmaxWithLoss(n.score, n.label)
    return str(n.to_proto())


def main():
    """Trains the net and prints the accuracy every 50 iterations."""
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    images, labels = read("train")
    test_images, test_labels = read("t10k")
    with tempfile.TemporaryDirectory() as folder:
        net, solver = os.path.join(folder, "net.prototxt"), os.path.join(folder, "solver.prototxt")
        with open(net, "w") as file:
            file.write(lenet())
        with open(solver, "w") as file:
            file.write("net: '%s' base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: 'fixed' "
                       "max_iter: %d random_seed: 1 snapshot_after_train: false" % (net, iterations))
        solver = caffe.SGDSolver(solver)
    blobs = solver.net.blobs

    def feed():
        chosen = np.arange(BATCH) + BATCH * solver.iter
        blobs["data"].data[...] = images[chosen % len(images)]
        blobs["label"].data[...] = labels[chosen % len(labels)]
    solver.add_callback(feed)
    accuracy = 0.0
    for _ in range(0, iterations, 50):
        solver.step(50)
        right = 0
        for begin in range(0, 640, BATCH):
            blobs["data"].data[...] = test_images[begin:begin + BATCH]
            scores = solver.net.forward(end="score")["score"]
            right += (scores.argmax(1) == test_labels[begin:begin + BATCH]).sum()
        accuracy = right / 640
        print("iteration %d: accuracy %.3f" % (solver.iter, accuracy))
    if accuracy < 0.9:
        raise SystemExit("did not learn")


if __name__ == "__main__":
    main()
