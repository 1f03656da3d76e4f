#!/usr/bin/env python3
"""Image classification with SqueezeNet: prints the five best classes of an image.

Usage: classification.py [IMAGE]
"""
import os
import sys

import numpy as np

import caffe

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "squeezenet_v1.0")


def main():
    """Prints the numbers of the classes and their probabilities."""
    image = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "examples", "images", "cat.jpg")
    net = caffe.Classifier(os.path.join(MODEL, "deploy.prototxt"),
                           os.path.join(MODEL, "squeezenet_v1.0.caffemodel"), image_dims=(256, 256),
                           mean=np.array([104.0, 117, 123]), raw_scale=255, channel_swap=(2, 1, 0))
    probabilities = net.predict([caffe.io.load_image(image)])[0].ravel()
    for index in probabilities.argsort()[:-6:-1]:
        print("class %3d: %5.1f %%" % (index, 100 * probabilities[index]))
    if not 281 <= probabilities.argmax() <= 285 and len(sys.argv) == 1:
        raise SystemExit("the cat is not classified as a cat")


if __name__ == "__main__":
    main()
