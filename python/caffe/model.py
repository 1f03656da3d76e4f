"""Compiled models: fast inference from any number of threads."""
import os
from typing import NamedTuple

import numpy as np

from . import _core
from ._images import Images
from ._mode import next_seed


_PRECISIONS = ("f32", "bf16", "int8")


class Prediction(NamedTuple):
    """A class that Model.classify found. `label` is None without a file of labels."""
    index: int
    label: str | None
    score: float


class Model(_core.Model):
    """A TEST net compiled for inference. Call it to run it:

        model = caffe.Model('deploy.prototxt', 'weights.caffemodel')
        print(model(images)['prob'])

    A model has the preprocessing of its deploy file: ``classify`` and ``preprocess`` take images, and `labels` has the
    names of the classes, or is empty. An image is a path, the bytes of an image file, an open file, a Pillow image or
    an array of height x width x channels: uint8, or floats from 0 to 1, in the order red, green, blue.

    The compiler folds BatchNorm and Scale layers into the preceding convolution, and fuses activations and
    sums into the preceding layer. ``explain()`` reports all changes.

    Several threads may call a model at the same time, with batches of any size. Each call uses its own
    session, and all sessions share one copy of the weights. `keep` lists inner blobs that calls will
    request. `without` lists passes to skip.

    `precision` is ``'f32'``, ``'bf16'`` or ``'int8'``. `table` is a file of scales for int8, which ``crema
    calibrate`` writes. `threads` limits the processor threads of a call; 0 stands for all.
    """

    def __init__(self, net, weights=None, level=0, stages=None, keep=(), without=(), allow_missing=False,
                 precision="f32", table=None, threads=0):
        if precision not in _PRECISIONS:
            raise ValueError("precision is %s or %r, not %r" % (
                ", ".join(map(repr, _PRECISIONS[:-1])), _PRECISIONS[-1], precision))
        if isinstance(weights, (list, tuple)):
            weights = ",".join(os.fspath(path) for path in weights)
        seed = next_seed()
        self._build(net, None if weights is None else os.fspath(weights), level, stages, list(keep),
                    list(without), -1 if seed is None else seed, allow_missing, _PRECISIONS.index(precision),
                    None if table is None else os.fspath(table), threads)
        self._idle = [self.session()]
        self.inputs = self._idle[0].inputs
        self.outputs = self._idle[0].outputs
        self._shape = self._idle[0].blob(self.inputs[0]).shape if self.inputs else ()
        self._made_images = None

    def __call__(self, *arrays, blobs=(), **named):
        """Runs the model and returns a dictionary of copies of the outputs and of the blobs listed in `blobs`.

        Arguments are arrays for the inputs, in order or by name. An input takes the shape of its array, so
        a batch may have any size. An array with one axis less than the input is a single sample.
        """
        if len(arrays) > len(self.inputs):
            raise TypeError("the model has %d inputs" % len(self.inputs))
        given = dict(zip(self.inputs, arrays))
        for name, array in named.items():
            if name not in self.inputs:
                raise TypeError("the model has no input %r" % name)
            if name in given:
                raise TypeError("input %r is given twice" % name)
            given[name] = array
        try:
            session = self._idle.pop()
        except IndexError:
            session = self.session()
        try:
            for name, array in given.items():
                self._fill(session.blob(name), array)
            kept = [(name, session.blob(name)) for name in [*self.outputs, *blobs]]
            session.run()
            return {name: np.array(blob.data) for name, blob in kept}
        finally:
            self._idle.append(session)

    @property
    def labels(self):
        """The lines of the file labels.txt or labels in the folder of the deploy file, or an empty list."""
        return self._images().labels()

    def _images(self):
        if len(self.inputs) != 1:
            raise ValueError("the model has %d inputs; images need one" % len(self.inputs))
        if self._made_images is None:
            self._made_images = Images(self._preprocessing(), self._shape)
        return self._made_images

    def preprocess(self, image):
        """The input for an image, as the transform_param of the Input layer says: a float32 array of
        channels x height x width. For a list of images it has a batch axis."""
        if isinstance(image, (list, tuple)):
            return self._images().put(image)
        return self._images().put([image])[0]

    def classify(self, image, top=5):
        """The `top` likeliest classes of an image, best first, each with index, label and score. For a list of images,
        which run as one batch, it returns a list of such lists. The first output must have one score per class."""
        if top < 1:
            raise ValueError("top is a number above 0, not %r" % (top,))
        several = isinstance(image, (list, tuple))
        images = list(image) if several else [image]
        if not images:
            return []
        name = self.outputs[0]
        scores = self(self._images().put(images))[name]
        if scores.ndim < 2 or scores.shape[1] < 2 or scores.size != len(images) * scores.shape[1]:
            raise ValueError("the output %r has the shape %s; classify needs one score per class" % (
                name, " x ".join(map(str, scores.shape))))
        scores = scores.reshape(len(images), -1)
        labels = self._images().labels(scores.shape[1])
        found = [[Prediction(int(i), labels[i] if labels else None, float(row[i]))
                  for i in np.argsort(-row, kind="stable")[:top]] for row in scores]
        return found if several else found[0]

    @staticmethod
    def _fill(blob, array):
        array = np.asarray(array)
        if array.ndim == len(blob.shape) - 1:
            array = array[np.newaxis]
        blob.copy_from(array)

    def memory(self):
        """The memory use in bytes as a pair: the weights, and the activations of one session."""
        session = self._idle[-1] if self._idle else self.session()
        return session.memory()

    def __repr__(self):
        return "<caffe.Model: %s -> %s>" % (", ".join(self.inputs), ", ".join(self.outputs))
