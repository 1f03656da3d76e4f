#!/usr/bin/env python3
"""Net surgery: converts a classifier to a fully convolutional net, by copying the weights of its inner product to
a convolution of the same size.

Usage: net_surgery.py
"""
import numpy as np

import caffe
from caffe import layers as L
from caffe import params as P


def features(n):
    """Adds the layers that both nets have."""
    n.conv = L.Convolution(n.data, num_output=6, kernel_size=3, weight_filler=dict(type="xavier"))
    n.relu = L.ReLU(n.conv, in_place=True)
    n.pool = L.Pooling(n.relu, pool=P.Pooling.MAX, kernel_size=2, stride=2)


def classifier():
    """A classifier of images of 14 x 14 pixels."""
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 3, 14, 14]))
    features(n)
    n.fc = L.InnerProduct(n.pool, num_output=10, weight_filler=dict(type="xavier"))
    return n.to_proto()


def fully_convolutional(size):
    """A net that computes a map of scores for images of size x size pixels."""
    n = caffe.NetSpec()
    n.data = L.Input(shape=dict(dim=[1, 3, size, size]))
    features(n)
    n.fc_conv = L.Convolution(n.pool, num_output=10, kernel_size=6)
    return n.to_proto()


def main():
    """Copies the weights and compares the scores of one window."""
    small, large = caffe.Net.from_text(classifier()), caffe.Net.from_text(fully_convolutional(30))
    for blob, source in zip(large.params["conv"], small.params["conv"]):
        blob.data[...] = source.data
    for blob, source in zip(large.params["fc_conv"], small.params["fc"]):
        blob.data[...] = source.data.reshape(blob.shape)
    image = np.random.default_rng(1).random((1, 3, 30, 30))
    scores = large.forward(data=image)["fc_conv"]
    window = small.forward(data=image[:, :, 4:18, 8:22])["fc"]
    print("map of scores:", scores.shape)
    error = np.abs(scores[0, :, 2, 4] - window[0]).max()
    print("largest difference in one window: %.1e" % error)
    if error > 1e-4:
        raise SystemExit("the nets differ")


if __name__ == "__main__":
    main()
