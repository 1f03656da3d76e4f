"""Lists of boxes from the grid that a DetectNet predicts or learns.

A cell of the grid has a coverage for each class, and the box that its object has. The box is left, top, right and
bottom in pixels, relative to the corner of the cell. Differs from NVIDIA's module: coordinates are not rounded to
FLOAT16, and of more than 50 boxes the ones with the highest confidence remain.
"""
import math

import numpy as np

from ..._layer import Layer

MAX_BOXES = 50


def similar(rectangles, eps):
    """Labels rectangles (left, top, width, height) so that chains of similar rectangles have one label.

    Two rectangles are similar if their four sides differ by at most eps (w + h) / 2, with w the smaller width and h
    the smaller height of both. Returns the labels, from 0 on in the order of the first members."""
    count = len(rectangles)
    labels = np.full(count, -1)
    left_top, size = rectangles[:, :2], rectangles[:, 2:]
    corners = np.hstack([left_top, left_top + size])
    groups = 0
    for first in range(count):
        if labels[first] >= 0:
            continue
        waiting = [first]
        labels[first] = groups
        while waiting:
            one = waiting.pop()
            delta = eps * np.minimum(size, size[one]).sum(axis=1) / 2
            near = (np.abs(corners - corners[one]) <= delta[:, None]).all(axis=1) & (labels < 0)
            labels[near] = groups
            waiting.extend(np.flatnonzero(near))
        groups += 1
    return labels


def group_rectangles(rectangles, threshold, eps):
    """The means of the groups of more than `threshold` similar rectangles, and the sizes of these groups.

    As the function groupRectangles of OpenCV: a group inside another one is omitted if the other one has more than
    max(3, n) members, or if the group has n < 3. A threshold of 0 or less groups nothing."""
    rectangles = np.asarray(rectangles, dtype=np.int64).reshape(-1, 4)
    if threshold <= 0 or len(rectangles) == 0:
        return rectangles, np.ones(len(rectangles), dtype=np.int64)
    labels = similar(rectangles, eps)
    sizes = np.bincount(labels)
    sums = np.zeros((len(sizes), 4), dtype=np.float32)
    np.add.at(sums, labels, rectangles)
    # In FLOAT, as OpenCV, which rounds halves to even numbers.
    means = np.rint(sums * (np.float32(1) / sizes.astype(np.float32))[:, None]).astype(np.int64)
    large = sizes > threshold
    kept = [i for i in np.flatnonzero(large) if not _is_inside_another(means, sizes, large, i, eps)]
    return means[kept], sizes[kept]


def _is_inside_another(means, sizes, large, i, eps):
    """Whether group i is omitted because it lies in another large group."""
    margin = np.rint(means[:, 2:] * eps)
    inside = ((means[i, :2] >= means[:, :2] - margin) &
              (means[i, :2] + means[i, 2:] <= means[:, :2] + means[:, 2:] + margin)).all(axis=1)
    stronger = (sizes > max(3, sizes[i])) | (sizes[i] < 3)
    other = np.arange(len(sizes)) != i
    return bool((inside & stronger & large & other).any())


class _Cluster(Layer):
    """The common part of both layers: one list of boxes for each class."""

    def read_parameters(self, names, types):
        """Sets the attributes `names` from param_str, whose last entry, num_classes, may be missing."""
        values = [value.strip(" '\"") for value in self.param_str.split(",")]
        if len(values) == len(names) - 1:
            values.append("1")
        if len(values) < len(names):
            raise ValueError("param_str has to be %s; found %r" % (",".join(names), self.param_str))
        for name, kind, value in zip(names, types, values):
            try:
                setattr(self, name, kind(value))
            except ValueError:
                raise ValueError("param_str: %s is %r, which is no %s" % (name, value, kind.__name__)) from None

    def reshape(self, bottom, top):
        """Gives each top the shape (N, MAX_BOXES, 5)."""
        images, classes = bottom[0].data.shape[:2]
        if classes != self.num_classes or len(top) != self.num_classes:
            raise ValueError("num_classes is %d, bottom 0 has %d channels, and there are %d tops" % (
                self.num_classes, classes, len(top)))
        for one in top:
            one.reshape(images, MAX_BOXES, 5)

    def forward(self, bottom, top):
        """Writes the boxes of each image, with zeros after the last one."""
        for label, one in enumerate(top):
            one.data[...] = 0
            for i, coverage in enumerate(bottom[0].data[:, label]):
                found = self.find(self.boxes(coverage, bottom[1].data[i]))
                one.data[i, :len(found)] = found

    def backward(self, top, propagate_down, bottom):
        """Does nothing: the bottoms get no gradient."""

    def boxes(self, coverage, sides):
        """The boxes of the covered cells, as rows (left, top, right, bottom) in pixels of the image."""
        columns, rows = self.image_size_x // self.stride, self.image_size_y // self.stride
        y, x = np.nonzero(self.covered(coverage[:rows, :columns]))
        corner = np.stack([x * (self.image_size_x / columns), y * (self.image_size_y / rows)], axis=1)
        return sides[:4, y, x].T.astype(np.float64) + np.tile(corner, 2)


class ClusterGroundtruth(_Cluster):
    """Lists the boxes of the targets.

    Bottoms: coverage (N, classes, rows, columns) and boxes (N, 4, rows, columns). Top i: the different boxes of class
    i as (N, 50, 5): left, top, right, bottom and 0. param_str: image_size_x, image_size_y, stride, num_classes.
    """

    def setup(self, bottom, top):
        """Reads param_str."""
        self.read_parameters(["image_size_x", "image_size_y", "stride", "num_classes"], [int] * 4)

    def covered(self, coverage):
        """The cells of objects."""
        return coverage > 0

    def find(self, boxes):
        """Each box once."""
        found = np.unique(boxes, axis=0)[:MAX_BOXES]
        return np.hstack([found, np.zeros((len(found), 1))])


class ClusterDetections(_Cluster):
    """Groups the predicted boxes, and lists the means of large groups.

    Bottoms: coverage (N, classes, rows, columns) and boxes (N, 4, rows, columns). Top i: the boxes of class i as
    (N, 50, 5): left, top, right, bottom, and as confidence the logarithm of the number of boxes in the group.
    param_str: image_size_x, image_size_y, stride, gridbox_cvg_threshold, gridbox_rect_thresh, gridbox_rect_eps,
    min_height, num_classes. A cell counts from gridbox_cvg_threshold on, a group above gridbox_rect_thresh boxes.
    """

    def setup(self, bottom, top):
        """Reads param_str."""
        self.read_parameters(["image_size_x", "image_size_y", "stride", "gridbox_cvg_threshold", "gridbox_rect_thresh",
                              "gridbox_rect_eps", "min_height", "num_classes"],
                             [int, int, int, float, int, float, int, int])

    def covered(self, coverage):
        """The cells with enough coverage."""
        return coverage >= self.gridbox_cvg_threshold

    def find(self, boxes):
        """The groups of boxes of at least min_height pixels."""
        boxes = boxes[:0] if not boxes.any() else boxes
        rectangles = np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]]).astype(np.int64)
        means, sizes = group_rectangles(rectangles, self.gridbox_rect_thresh, self.gridbox_rect_eps)
        tall = means[:, 3] >= self.min_height
        means, sizes = means[tall], sizes[tall]
        if len(sizes) > MAX_BOXES:
            best = np.sort(np.argsort(-sizes, kind="stable")[:MAX_BOXES])
            means, sizes = means[best], sizes[best]
        confidence = np.array([math.log(size) for size in sizes]).reshape(-1, 1)
        return np.hstack([means[:, :2], means[:, :2] + means[:, 2:], confidence])
