#!/usr/bin/env python3
"""Fine-tuning: a net trained on the digits 0 to 4 learns 5 to 9, from 128 images in ten iterations. All layers
except the last start from the trained weights. The last layer has a new name, so its weights are initialised.

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
    """A LeNet for five classes, as text. `last` is the name of its last layer."""
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
    """Creates the solver of a net."""
    with open(os.path.join(folder, "net.prototxt"), "w") as file:
        file.write(text)
    path = os.path.join(folder, "solver.prototxt")
    with open(path, "w") as file:
        file.write("net: '%s/net.prototxt' base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: 'fixed' "
                   "max_iter: 1000 random_seed: 1 snapshot_after_train: false" % folder)
    return caffe.SGDSolver(path)


def train(solver, images, labels, iterations):
    """Trains on the images, batch by batch, and returns the losses."""
    losses = []
    for iteration in range(iterations):
        chosen = np.arange(iteration * BATCH, (iteration + 1) * BATCH) % len(images)
        solver.net.blobs["data"].data[...] = images[chosen]
        solver.net.blobs["label"].data[...] = labels[chosen]
        solver.step(1)
        losses.append(float(solver.net.blobs["loss"].data))
    return losses


def accuracy(solver, images, labels):
    """The fraction of the images that are classified correctly."""
    right = 0
    for begin in range(0, len(images) - BATCH + 1, BATCH):
        solver.net.blobs["data"].data[...] = images[begin:begin + BATCH]
        scores = solver.net.forward(end=list(solver.net.params)[-1])["score"]
        right += (scores.argmax(1) == labels[begin:begin + BATCH]).sum()
    return right / (len(images) // BATCH * BATCH)


def run():
    """(losses, accuracy) of a fine-tuned net and of a net that is trained from scratch."""
    images, labels = read("train")
    test_images, test_labels = read("t10k")
    new, few = labels >= 5, 2 * BATCH
    test = test_labels >= 5
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        solver = make_solver(folder, net("digits_0_to_4"))
        train(solver, images[~new], labels[~new], 100)
        solver.net.save(os.path.join(folder, "first.caffemodel"))
        for name in ("fine-tuned", "from scratch"):
            solver = make_solver(folder, net("digits_5_to_9"))
            if name == "fine-tuned":
                solver.net.copy_from(os.path.join(folder, "first.caffemodel"))
            losses = train(solver, images[new][:few], labels[new][:few] - 5, 10)
            found[name] = losses, accuracy(solver, test_images[test][:640], test_labels[test][:640] - 5)
    return found


def main():
    """Compares the two nets."""
    found = run()
    for name, (losses, right) in found.items():
        print("%-12s  loss %.3f after %d iterations, accuracy %.3f" % (name, losses[-1], len(losses), right))
    if found["fine-tuned"][0][-1] >= found["from scratch"][0][-1]:
        raise SystemExit("fine-tuning did not help")


if __name__ == "__main__":
    main()
