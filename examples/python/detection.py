#!/usr/bin/env python3
"""Detection with a classifier, as in R-CNN: classifies windows of an image one by one and keeps only the best of
overlapping windows.

Usage: detection.py [IMAGE]
"""
import os
import sys

import numpy as np

import caffe
from classification import MODEL, ROOT

CATS = slice(281, 286)


def windows(height, width, sizes=(160, 240), step=60):
    """Square windows of the given sizes, as rows of (ymin, xmin, ymax, xmax)."""
    return np.array([(top, left, top + size, left + size) for size in sizes
                     for top in range(0, max(height - size, 0) + 1, step)
                     for left in range(0, max(width - size, 0) + 1, step)])


def overlap(one, others):
    """The intersection over union of a window with each of several windows."""
    low, high = np.maximum(one[:2], others[:, :2]), np.minimum(one[2:], others[:, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(others[:, 2:] - others[:, :2], axis=1)
    return common / (np.prod(one[2:] - one[:2]) + area - common)


def best(boxes, scores, most=0.3):
    """The indices of the windows to keep, best first. Kept windows overlap by at most `most`."""
    order, kept = list(scores.argsort()[::-1]), []
    while order:
        kept.append(order.pop(0))
        order = [index for index in order if overlap(boxes[kept[-1]], boxes[index:index + 1])[0] <= most]
    return kept


def detect(image):
    """(windows, the probability that each window shows a cat)."""
    net = caffe.Detector(os.path.join(MODEL, "deploy.prototxt"),
                         os.path.join(MODEL, "squeezenet_v1.0.caffemodel"), mean=np.array([104.0, 117, 123]),
                         raw_scale=255, channel_swap=(2, 1, 0), context_pad=16)
    height, width = caffe.io.load_image(image).shape[:2]
    boxes = windows(height, width)
    found = net.detect_windows([(image, boxes)])
    return boxes, np.array([row["prediction"][CATS].sum() for row in found])


def main():
    """Prints the best windows."""
    image = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "examples", "images", "cat.jpg")
    boxes, scores = detect(image)
    kept = best(boxes, scores)
    for index in kept[:3]:
        print("rows %3d to %3d, columns %3d to %3d: %5.1f %%" % (
            boxes[index][0], boxes[index][2], boxes[index][1], boxes[index][3], 100 * scores[index]))
    if len(sys.argv) == 1 and scores[kept[0]] < 0.5:
        raise SystemExit("the cat is not found")


if __name__ == "__main__":
    main()
