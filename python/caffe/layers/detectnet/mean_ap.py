"""Scores of the boxes that a DetectNet finds, compared with the boxes of its targets.

Differs from NVIDIA's module: ScoreDetections has one row for each box of both lists, so that no box is lost."""
import numpy as np

from ..._layer import Layer

TRUE_POSITIVE, FALSE_POSITIVE, MISSED = 1, 2, 3
LEAST_OVERLAP = 0.7


def iou(a, b):
    """The overlap of two boxes (left, top, right, bottom): intersection over union."""
    width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    both = width * height
    if both == 0:
        return 0
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def _real(rows):
    """The boxes of a list, without the rows of zeros that fill it."""
    boxes = rows[:, :4]
    return boxes[boxes.any(axis=1)]


def mark(truth, found):
    """Rows (left, top, right, bottom, mark) for an image's lists of boxes. Each target takes the first detection that
    overlaps it by at least 0.7 and is not taken. Marks: 1 taken, 2 other detections, 3 targets without a detection."""
    taken, missed = set(), []
    for target in truth:
        match = next((j for j, box in enumerate(found) if j not in taken and iou(box, target) >= LEAST_OVERLAP), None)
        if match is None:
            missed.append(target)
        else:
            taken.add(match)
    rows = [[*box, TRUE_POSITIVE] for j, box in enumerate(found) if j in taken]
    rows += [[*box, FALSE_POSITIVE] for j, box in enumerate(found) if j not in taken]
    return rows + [[*target, MISSED] for target in missed]


class ScoreDetections(Layer):
    """Marks true and false detections, and missed targets.

    Bottoms: the lists of ClusterGroundtruth (N, A, 5) and ClusterDetections (N, B, 5). Top: (N, A + B, 5) with left,
    top, right, bottom and the mark: 1 true positive, 2 false positive, 3 missed target. Zeros follow the last box.
    """

    def setup(self, bottom, top):
        """Needs no parameters."""

    def reshape(self, bottom, top):
        """Gives the top its shape."""
        truth, found = bottom[0].data.shape, bottom[1].data.shape
        if truth[0] != found[0]:
            raise ValueError("the lists have %d and %d images" % (truth[0], found[0]))
        top[0].reshape(truth[0], truth[1] + found[1], 5)

    def forward(self, bottom, top):
        """Marks the boxes of each image."""
        top[0].data[...] = 0
        for i, (truth, found) in enumerate(zip(bottom[0].data, bottom[1].data)):
            rows = mark(_real(truth), _real(found))
            top[0].data[i, :len(rows)] = np.asarray(rows).reshape(-1, 5)

    def backward(self, top, propagate_down, bottom):
        """Does nothing: the bottoms get no gradient."""


class mAP(Layer):
    """Precision and recall of a batch in percent.

    Bottom: the top of ScoreDetections. Tops, each of one value: precision * recall / 100, which DetectNet calls mAP;
    precision, TP / (TP + FP) * 100; recall, TP / (TP + missed) * 100. A ratio of 0 to 0 is 0.
    """

    def setup(self, bottom, top):
        """Needs no parameters; param_str is ignored."""

    def reshape(self, bottom, top):
        """Gives each top one value."""
        for one in top:
            one.reshape(1)

    def forward(self, bottom, top):
        """Counts the marks."""
        marks = bottom[0].data[:, :, 4]
        hits, wrong, missed = (np.count_nonzero(marks == mark) for mark in (TRUE_POSITIVE, FALSE_POSITIVE, MISSED))
        precision = 100 * hits / max(1, hits + wrong)
        recall = 100 * hits / max(1, hits + missed)
        top[0].data[...] = precision * recall / 100
        top[1].data[...] = precision
        top[2].data[...] = recall

    def backward(self, top, propagate_down, bottom):
        """Does nothing: the bottom gets no gradient."""
