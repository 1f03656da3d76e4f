"""Compiled models: nets for inference, made faster, for any number of threads."""
import os

import numpy as np

from . import _core
from ._mode import next_seed


class Model(_core.Model):
    """``Model(net_file, weights_file)``: a net of phase TEST that is compiled: BatchNorm and Scale go into
    the convolution before them, activations and sums into the layer before them, and so on
    (``explain()`` tells). Calling it runs it:

        model = caffe.Model('deploy.prototxt', 'weights.caffemodel')
        print(model(pictures)['prob'])

    Threads may call it at the same time, with batches of any size; each call uses a session of its own,
    and all sessions have the same weights. `keep`: names of inner blobs that calls will ask for;
    `without`: passes that are left out.
    """

    def __init__(self, net, weights=None, level=0, stages=None, keep=(), without=(), allow_missing=False):
        if isinstance(weights, (list, tuple)):
            weights = ",".join(os.fspath(path) for path in weights)
        seed = next_seed()
        self._build(net, None if weights is None else os.fspath(weights), level, stages, list(keep),
                    list(without), -1 if seed is None else seed, allow_missing)
        self._idle = [self.session()]
        self.inputs = self._idle[0].inputs
        self.outputs = self._idle[0].outputs

    def __call__(self, *arrays, blobs=(), **named):
        """Runs the model on arrays for its inputs, in their order or by name, and returns the outputs by
        name, and the `blobs` named. An array's shape becomes the input's, so that batches may be of any
        size; what has one axis less than the input is one sample."""
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
        """Bytes that (the weights, a session's activations) take."""
        session = self._idle[-1] if self._idle else self.session()
        return session.memory()

    def __repr__(self):
        return "<caffe.Model: %s -> %s>" % (", ".join(self.inputs), ", ".join(self.outputs))
