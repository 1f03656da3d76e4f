#!/usr/bin/env python3
"""Fine-tuning: a net that knows the digits 0 to 4 learns 5 to 9, from 128 pictures in ten iterations. All its
layers but the last begin with what they have learned; the last has another name, so that it begins anew.

Usage: fine_tuning.py
"""
import os
import tempfile

import numpy as np

import caffe
from caffe import layers as L
from caffe import params as P
from learning_lenet import BATCH, read


def net(last):
    """A LeNet for five classes, as text; `last`: its last layer's name."""
    xavier = dict(type="xavier")
    n = caffe.NetSpec()
    n.data, n.label = L.Input(shape=[dict(dim=[BATCH, 1, 28, 28]), dict(dim=[BATCH])], ntop=2)
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=20, weight_filler=xavier)
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.conv2 = L.Convolution(n.pool1, kernel_size=5, num_output=50, weight_filler=xavier)
    n.pool2 = L.Pooling(n.conv2, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.fc1 = L.InnerProduct(n.pool2, num_output=100, weight_filler=xavier)
    n.relu1 = L.ReLU(n.fc1, in_place=True)
    n.score = L.InnerProduct(n.relu1, num_output=5, weight_filler=xavier, name=last)
    n.loss = L.SoftmaxWithLoss(n.score, n.label)
    return str(n.to_proto())


def make_solver(folder, text):
    """The solver of a net."""
    with open(os.path.join(folder, "net.prototxt"), "w") as file:
        file.write(text)
    path = os.path.join(folder, "solver.prototxt")
    with open(path, "w") as file:
        file.write("net: '%s/net.prototxt' base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: 'fixed' "
                   "max_iter: 1000 random_seed: 1 snapshot_after_train: false" % folder)
    return caffe.SGDSolver(path)


def train(solver, pictures, labels, iterations):
    """Trains on the pictures, batch after batch; returns the losses."""
    losses = []
    for iteration in range(iterations):
        chosen = np.arange(iteration * BATCH, (iteration + 1) * BATCH) % len(pictures)
        solver.net.blobs["data"].data[...] = pictures[chosen]
        solver.net.blobs["label"].data[...] = labels[chosen]
        solver.step(1)
        losses.append(float(solver.net.blobs["loss"].data))
    return losses


def accuracy(solver, pictures, labels):
    """How many of the pictures are taken for what they are."""
    right = 0
    for begin in range(0, len(pictures) - BATCH + 1, BATCH):
        solver.net.blobs["data"].data[...] = pictures[begin:begin + BATCH]
        scores = solver.net.forward(end=list(solver.net.params)[-1])["score"]
        right += (scores.argmax(1) == labels[begin:begin + BATCH]).sum()
    return right / (len(pictures) // BATCH * BATCH)


def run():
    """(losses, accuracy) of a net that is fine-tuned and of one that begins anew."""
    pictures, labels = read("train")
    test_pictures, test_labels = read("t10k")
    new, few = labels >= 5, 2 * BATCH
    test = test_labels >= 5
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        solver = make_solver(folder, net("digits_0_to_4"))
        train(solver, pictures[~new], labels[~new], 100)
        solver.net.save(os.path.join(folder, "first.caffemodel"))
        for name in ("fine-tuned", "from scratch"):
            solver = make_solver(folder, net("digits_5_to_9"))
            if name == "fine-tuned":
                solver.net.copy_from(os.path.join(folder, "first.caffemodel"))
            losses = train(solver, pictures[new][:few], labels[new][:few] - 5, 10)
            found[name] = losses, accuracy(solver, test_pictures[test][:640], test_labels[test][:640] - 5)
    return found


def main():
    """Compares both."""
    found = run()
    for name, (losses, right) in found.items():
        print("%-12s  loss %.3f after %d iterations, accuracy %.3f" % (name, losses[-1], len(losses), right))
    if found["fine-tuned"][0][-1] >= found["from scratch"][0][-1]:
        raise SystemExit("fine-tuning did not help")


if __name__ == "__main__":
    main()
