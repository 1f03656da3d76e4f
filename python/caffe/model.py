"""Compiled models: fast inference from any number of threads."""
import os

import numpy as np

from . import _core
from ._mode import next_seed


_PRECISIONS = ("f32", "bf16", "int8")


class Model(_core.Model):
    """A TEST net compiled for inference. Call it to run it:

        model = caffe.Model('deploy.prototxt', 'weights.caffemodel')
        print(model(images)['prob'])

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
