"""The classes Net and Solver."""
import os
import re
import weakref
from collections import OrderedDict

import numpy as np

from . import _blob, _core  # noqa: F401
from ._containers import COPY_VALUES, LayerVec, NetVec, fixed_dict
from ._layer import BlobVec, Layer, LayerParameter
from ._mode import NCCL, TEST, TRAIN, device_kind, graphs_wanted, math_kind, next_seed, process_place, whole_number
from ._param import SolverParameter

Blob = _core.Blob

_KINDS = ("before_forward", "after_forward", "before_backward", "after_backward")


def _bound_layer(net, index):
    """A Layer object for a layer of a built-in type."""
    layer = Layer.__new__(Layer)
    layer.type = net._layer_types[index]
    layer.name = net._layer_names[index]
    layer.phase = net.phase
    layer.blobs = BlobVec.fixed(net._params_of(index), COPY_VALUES)
    layer.layer_param = None
    return layer


def _check_exists(path):
    """Raises caffe.Error in pycaffe's words if there is no file at `path`."""
    if os.path.exists(path):
        return
    name = os.fsdecode(path)
    error = _core.Error("Could not open file %s: no such file or directory" % name)
    error.status, error.file, error.line = "E_NOT_FOUND", name, 0
    error.layer = error.blob = ""
    raise error


def _shape_text(shape, times):
    return times.join(map(str, shape)) if len(shape) > 0 else "scalar"


class Net(_core.Net):
    """A neural network with its blobs and weights.

    Create it with ``Net(file, phase, level=0, stages=None, weights=None)`` or, in Caffe's older form,
    ``Net(file, weights, phase)``. `file` is a prototxt file of any Caffe dialect, and `phase` is
    caffe.TRAIN or caffe.TEST. ``Net.from_text(text, phase)`` builds a net from a string.
    """

    def __init__(self, network_file, *args, phase=None, level=None, stages=None, weights=None):
        given = dict(phase=phase, level=level, stages=stages, weights=weights)
        names = ["phase", "level", "stages", "weights"]
        if args and isinstance(args[0], (str, bytes, os.PathLike)):
            names = ["weights", "phase", "level", "stages"]
        if len(args) > len(names):
            raise TypeError("too many arguments")
        for name, value in zip(names, args):
            if given[name] is not None:
                raise TypeError("%s is given twice" % name)
            given[name] = value
        if given["phase"] is None:
            raise TypeError("Net() requires a phase: caffe.TEST to run the net, caffe.TRAIN to train it")
        weights = given["weights"]
        if weights is not None:
            _check_exists(weights)
        self._make(network_file, None, given["phase"], given["level"] or 0, given["stages"])
        if weights is not None:
            self.copy_from(weights)

    def _make(self, path, text, phase, level=0, stages=None):
        if text is None:
            _check_exists(path)
        if stages is not None and isinstance(stages, str):
            raise TypeError("stages are a list of names")
        phase = whole_number("phase", phase)
        if phase not in (TRAIN, TEST):
            raise ValueError("phase: expected caffe.TRAIN or caffe.TEST, found %d" % phase)
        seed = next_seed()
        kind, indices = device_kind()
        self._source = os.fspath(path)
        self._build(path, text, phase, whole_number("level", level), stages,
                    -1 if seed is None else seed, kind, indices[0], math_kind(), graphs_wanted())

    @classmethod
    def from_text(cls, text, phase=TEST, level=0, stages=None, source="net"):
        """Builds a net from prototxt text: a str or the result of NetSpec.to_proto. `source` names it in
        messages."""
        net = cls.__new__(cls)
        net._make(source, str(text), phase, level, stages)
        return net

    def _cached(self, name, make):
        """A constant property of the net, computed by `make` at its first use."""
        found = self.__dict__.get(name)
        if found is None:
            found = self.__dict__[name] = make()
        return found

    @property
    def name(self):
        """The net's name. Setting it renames this Python object only."""
        return self.__dict__.get("_given_name", self._name)

    @name.setter
    def name(self, name):
        self._given_name = name

    @property
    def _blobs(self):
        return [self._blob(i) for i in range(len(self._blob_names))]

    @property
    def blobs(self):
        """A dictionary of the blobs by name, in the order in which layers create them."""
        return fixed_dict(((name, self._blob(i)) for i, name in enumerate(self._names())),
                          "copy values into a blob, as in blobs['data'].data[...] = array")

    def _names(self):
        return self._cached("_kept_blob_names", lambda: self._blob_names)

    @property
    def blob_loss_weights(self):
        """A dictionary of the loss weights of all blobs by name; 0: not part of the loss."""
        return fixed_dict(zip(self._blob_names, self._blob_loss_weights),
                          "set loss_weight in the net's file")

    @property
    def layers(self):
        """A list of all layers in the order of execution, with the attributes ``type``, ``name`` and
        ``blobs``."""
        found = [self._python_layer(index) for index in range(len(self._layer_names))]
        return LayerVec.fixed(
            (_bound_layer(self, index) if layer is None else layer for index, layer in enumerate(found)),
            "layers are described by the net's file")

    @property
    def layer_dict(self):
        """A dictionary of the layers by name."""
        return fixed_dict(zip(self._layer_names, self.layers), "layers are described by the net's file")

    @property
    def params(self):
        """A dictionary of the layers' parameters by layer name, for layers that have parameters. Each value
        is a list of Blob: usually weights, then biases."""
        found = ((name, self._params_of(index)) for index, name in enumerate(self._layer_names))
        return fixed_dict(((name, BlobVec.fixed(blobs, COPY_VALUES)) for name, blobs in found if blobs),
                          "copy values into a blob, as in params['conv1'][0].data[...] = array")

    @property
    def inputs(self):
        """The names of the inputs: the tops of Input layers."""
        return list(self._cached("_kept_inputs", lambda: self._input_names))

    @property
    def outputs(self):
        """The names of the outputs: the blobs that no layer reads."""
        return list(self._cached("_kept_outputs", lambda: self._output_names))

    @property
    def _inputs(self):
        return [self._blob_names.index(name) for name in self._input_names]

    @property
    def _outputs(self):
        return [self._blob_names.index(name) for name in self._output_names]

    @property
    def bottom_names(self):
        """A dictionary of the names of each layer's bottoms, by layer name."""
        names = self._blob_names
        return OrderedDict((layer, [names[i] for i in self._bottom_ids(index)])
                           for index, layer in enumerate(self._layer_names))

    @property
    def top_names(self):
        """A dictionary of the names of each layer's tops, by layer name."""
        names = self._blob_names
        return OrderedDict((layer, [names[i] for i in self._top_ids(index)])
                           for index, layer in enumerate(self._layer_names))

    def _layer_index(self, name):
        try:
            return self._cached("_kept_layer_names", lambda: self._layer_names).index(name)
        except ValueError:
            raise ValueError("the net has no layer %r" % (name,)) from None

    def forward(self, blobs=None, start=None, end=None, **kwargs):
        """Runs the layers from the one named `start` to the one named `end` (default: all layers).

        Keyword arguments set inputs by name to arrays of the inputs' shapes. Returns a dictionary by
        name of the outputs (with `end`: of its tops) and of the blobs listed in `blobs`. The arrays
        share the blobs' memory.
        """
        first = 0 if start is None else self._layer_index(start)
        if end is None:
            last, wanted = len(self._cached("_kept_layer_names", lambda: self._layer_names)) - 1, None
        else:
            last = self._layer_index(end)
            wanted = self.top_names[end]
        if kwargs:
            self._feed(kwargs)
        self._forward(first, last)
        index = self._cached("_kept_index", lambda: {n: i for i, n in enumerate(self._names())})
        names = list(self.outputs if wanted is None else wanted)
        names += [name for name in blobs or () if name not in names]
        return {name: self._blob(index[name]).data for name in names}

    def _feed(self, inputs):
        if set(inputs) != set(self.inputs):
            raise Exception("Input blob arguments do not match net inputs.")
        found = self.blobs
        for name, array in inputs.items():
            array = np.asarray(array)
            if array.ndim == 0 or array.shape[0] != found[name].shape[0]:
                raise Exception("Input is not batch sized")
            found[name].data[...] = array

    def backward(self, diffs=None, start=None, end=None, **kwargs):
        """Runs the backward pass from the layer named `start` to the one named `end` (default: all layers).

        Keyword arguments set gradients of outputs by name. Returns a dictionary by name of the gradients
        of the inputs (with `end`: of its bottoms) and of the blobs listed in `diffs`.
        """
        last = len(self._layer_names) - 1 if start is None else self._layer_index(start)
        first = 0 if end is None else self._layer_index(end)
        names = list(self.inputs if end is None else self.bottom_names[end])
        names += [name for name in diffs or () if name not in names]
        found = self.blobs
        if kwargs:
            if set(kwargs) != set(self.outputs):
                raise Exception("Top diff arguments do not match net outputs.")
            for name, array in kwargs.items():
                array = np.asarray(array)
                if array.ndim == 0 or array.shape[0] != found[name].shape[0]:
                    raise Exception("Diff is not batch sized")
                found[name].diff[...] = array
        self._backward(last, first)
        return {name: found[name].diff for name in names}

    def forward_all(self, blobs=None, **kwargs):
        """Runs the net over all samples of the given arrays, batch by batch, and returns copies of the
        results. The last batch is padded with zeros, and the results of the padding are dropped."""
        collected = {name: [] for name in set(self.outputs + list(blobs or []))}
        for batch in self._batch(kwargs):
            for name, values in self.forward(blobs=blobs, **batch).items():
                collected[name].extend(values.copy())
        return self._trim(collected, kwargs)

    def forward_backward_all(self, blobs=None, diffs=None, **kwargs):
        """As forward_all, with a backward pass after each forward pass. Returns two dictionaries: blobs and
        gradients."""
        every_blob = {name: [] for name in set(self.outputs + list(blobs or []))}
        every_diff = {name: [] for name in set(self.inputs + list(diffs or []))}
        forward = {name: kwargs[name] for name in self.inputs if name in kwargs}
        backward = {name: kwargs[name] for name in self.outputs if name in kwargs}
        gradients = self._batch(backward) if backward else None
        for batch in self._batch(forward):
            for name, values in self.forward(blobs=blobs, **batch).items():
                every_blob[name].extend(values.copy())
            given = next(gradients) if gradients else {}
            for name, values in self.backward(diffs=diffs, **given).items():
                every_diff[name].extend(values.copy())
        return self._trim(every_blob, kwargs), self._trim(every_diff, kwargs)

    @staticmethod
    def _trim(collected, given):
        count = len(next(iter(given.values()))) if given else None
        return {name: np.asarray(values)[:count] for name, values in collected.items()}

    def _batch(self, blobs):
        """Yields slices of the arrays with the batch size of the first input."""
        if not blobs:
            yield {}
            return
        size = self.blobs[self.inputs[0]].shape[0] if self.inputs else 1
        blobs = {name: np.asarray(values) for name, values in blobs.items()}
        count = len(next(iter(blobs.values())))
        for begin in range(0, count, size):
            batch = {}
            for name, values in blobs.items():
                part = values[begin:begin + size]
                if len(part) < size:
                    rest = np.zeros((size - len(part),) + part.shape[1:], part.dtype)
                    part = np.concatenate([part, rest])
                batch[name] = part
            yield batch

    def set_input_arrays(self, data, labels):
        """Gives samples to the net's MemoryData layer. `data` has the shape (samples, channels, height, width)
        and `labels` one value per sample. Both are C-contiguous float32 arrays and are not copied."""
        if "MemoryData" not in self._layer_types:
            raise RuntimeError("set_input_arrays may only be called if the first layer is a MemoryDataLayer")
        index = self._layer_types.index("MemoryData")
        self._check_array(data, "data")
        self._check_array(labels, "labels")
        self._check_sizes(data, index)
        if labels.ndim == 0 or len(data) != len(labels):
            raise RuntimeError("data and labels must have the same first dimension")
        if labels.size != len(data):
            raise RuntimeError("labels must have one value for each sample")
        self._set_samples(index, data, labels, len(data))
        self._stay()

    _set_input_arrays = set_input_arrays

    @staticmethod
    def _check_array(array, what):
        if not isinstance(array, np.ndarray) or array.dtype != np.float32 or not array.flags.c_contiguous:
            raise RuntimeError("%s must be a C-contiguous array of float32" % what)

    def _check_sizes(self, data, index):
        if data.ndim != 4:
            raise RuntimeError("data must have 4 axes")
        param = self._cached("_kept_memory_data",
                             lambda: LayerParameter(self._layer_text(index)).memory_data_param)
        for axis, what in enumerate(("channels", "height", "width"), 1):
            wanted = getattr(param, what)
            if data.shape[axis] != wanted:
                raise RuntimeError("data has %s%s: %d; the layer's is %d" % (
                    "wrong number of " if axis == 1 else "wrong ", what, data.shape[axis], wanted))

    def _add_hook(self, kind, function):
        hooks = self.__dict__.setdefault("_hooks", {})
        hooks.setdefault(kind, []).append(function)
        self._use_hooks([k for k in _KINDS if k in hooks])
        self._stay()

    def _stay(self):
        """Keeps the object of a solver's net alive as long as the solver, which uses its hooks or arrays."""
        if "_keep" in self.__dict__:
            self._keep()

    def _call_hooks(self, kind, layer):
        for function in self._hooks[kind]:
            function(layer)

    def before_forward(self, function):
        """Calls ``function(index)`` before the forward pass of each layer."""
        self._add_hook("before_forward", function)

    def after_forward(self, function):
        """Calls ``function(index)`` after the forward pass of each layer."""
        self._add_hook("after_forward", function)

    def before_backward(self, function):
        """Calls ``function(index)`` before the backward pass of each layer."""
        self._add_hook("before_backward", function)

    def after_backward(self, function):
        """Calls ``function(index)`` after the backward pass of each layer. An NCCL object is accepted for
        compatibility and ignored: it sums gradients during the backward pass anyway."""
        if isinstance(function, NCCL):
            return
        self._add_hook("after_backward", function)

    def copy_from(self, path, allow_missing=True):
        """Loads weights from a .caffemodel file (binary or HDF5) into the layers of the same names. Layers
        that are missing in the file are a warning, or an error if `allow_missing` is false."""
        self._copy_from(path, allow_missing)

    def save(self, path, diffs=False):
        """Saves the weights: as HDF5 if the name ends in .h5, else in Caffe's binary format. `diffs`: save
        the gradients too."""
        self._save(path, diffs, False)

    def save_hdf5(self, path, write_diff=False):
        """Saves the weights as HDF5. `write_diff`: save the gradients too."""
        self._save(path, write_diff, True)

    def load_hdf5(self, path):
        """Loads weights from an HDF5 file into the layers of the same names."""
        self._copy_from(path, True)

    def share_with(self, other):
        """Makes this net use the weights of the net `other`, in the same memory."""
        self._share_with(other)

    def __reduce__(self):
        shapes = {name: self.blobs[name].shape for name in self.inputs}
        state = {name: value for name, value in self.__dict__.items()
                 if name not in ("_hooks", "_keep") and not name.startswith("_kept_")}
        source = self.__dict__.get("_source", "net")
        return _unpickle, (type(self), self.to_prototxt(), self.phase, self._to_bytes(), shapes, source), state

    def __repr__(self):
        phase = "TRAIN" if self.phase == TRAIN else "TEST"
        lines = ["<caffe.Net %r in phase %s: %d layers, %d parameters" % (
            self.name, phase, len(self._layer_names), self._parameter_count())]
        blobs = self.blobs
        for kind, names in (("input", self.inputs), ("output", self.outputs)):
            lines += ["  %s %s: %s" % (kind, name, _shape_text(blobs[name].shape, " x "))
                      for name in names]
        return "\n".join(lines) + ">"

    def _parameter_count(self):
        return sum(blob.count for blobs in self.params.values() for blob in blobs)

    def _repr_html_(self):
        """An HTML table of the layers, for notebooks."""
        import html
        rows = []
        blobs = self._blobs
        for index, (name, kind) in enumerate(zip(self._layer_names, self._layer_types)):
            tops = ["%s (%s)" % (self._blob_names[i], _shape_text(blobs[i].shape, " &times; "))
                    for i in self._top_ids(index)]
            count = sum(blob.count for blob in self._params_of(index))
            rows.append("<tr><td>%s</td><td>%s</td><td>%s</td><td style='text-align:right'>%s</td></tr>"
                        % (html.escape(name), html.escape(kind), "<br>".join(tops),
                           "{:,}".format(count) if count else ""))
        head = "<tr><th>layer</th><th>type</th><th>makes</th><th>parameters</th></tr>"
        return "<b>%s</b> (%s parameters)<table>%s%s</table>" % (
            html.escape(self.name or "net"), "{:,}".format(self._parameter_count()), head,
            "".join(rows))


def _unpickle(cls, text, phase, weights, shapes, source="net"):
    net = cls.from_text(text, phase, source=source)
    net._from_bytes(weights, True)
    for name, shape in shapes.items():
        net.blobs[name].reshape(*shape)
    net.reshape()
    return net


_core.set_net_class(Net)


class Solver(_core.Solver):
    """Trains a net as a solver file describes.

    ``get_solver(file)`` uses the update rule that the file names. A subclass such as SGDSolver always
    uses its own update rule.
    """

    _type = None

    def __init__(self, solver_file):
        _check_exists(solver_file)
        seed = next_seed()
        kind, indices = device_kind()
        self._callbacks = []
        self._bar = None
        self._nets = weakref.WeakValueDictionary()
        self._kept_nets = {}
        self._place = process_place()
        self._build(solver_file, self._type, seed, kind, indices, *self._place, math_kind(),
                    graphs_wanted())

    def _net_of(self, index):
        """The Net object of a net. It stays the same while the program refers to it, or while it has hooks or
        input arrays."""
        net = self._nets.get(index)
        if net is None:
            net = self._nets[index] = self._net(index)
            kept = self._kept_nets
            net._keep = lambda: kept.setdefault(index, self._nets[index])
        return net

    @property
    def net(self):
        """The train net."""
        return self._net_of(-1)

    @property
    def test_nets(self):
        """A list of the test nets, which share the train net's weights."""
        return NetVec.fixed((self._net_of(i) for i in range(self._test_net_count)),
                            "the solver's file names the test nets")

    @property
    def type(self):
        """The name of the update rule."""
        found = re.search(r'^type: "(.*)"$', self._text(), re.MULTILINE)
        return found.group(1) if found else "SGD"

    @property
    def param(self):
        """The fields of the solver file as a SolverParameter. ``base_lr`` and ``max_iter`` can be set."""
        return SolverParameter(self, self._text())

    def solve(self, resume_file=None, progress=None):
        """Trains until max_iter, with the tests and snapshots of the solver file. `resume_file` is a
        .solverstate file to resume from. `progress`: show a progress bar; None shows it on a terminal and
        in notebooks."""
        if resume_file is not None:
            self.restore(resume_file)
        from ._progress import bar_for
        self._bar = bar_for(self, progress)
        try:
            self._solve(self._bar is not None)
        finally:
            if self._bar is not None:
                self._bar.close()
            self._bar = None

    def step(self, iterations):
        """Trains for `iterations` iterations."""
        self._step(iterations, False)

    def share_weights(self, net):
        """Trains the weights of the net `net`: both nets then share them in the same memory."""
        _share(self.net, net)

    def add_callback(self, on_start, on_gradients_ready=None):
        """Calls ``on_start()`` before each iteration, and ``on_gradients_ready()`` between its backward pass
        and its update. Either may be None.

        With several devices, the callbacks see the net of the first device. The solver copies its
        weights and gradients to all devices afterwards. An NCCL object of this solver is accepted for
        compatibility and ignored.
        """
        if isinstance(on_start, NCCL):
            on_start.check(self)
            return
        self._callbacks.append((on_start, on_gradients_ready))
        # Without callbacks, devices need not wait for each other.
        starts, ready = zip(*self._callbacks)
        self._set_calls(any(starts), any(ready))

    def _on_start(self):
        for on_start, _ in self._callbacks:
            if on_start is not None:
                on_start()

    def _on_gradients(self):
        for _, ready in self._callbacks:
            if ready is not None:
                ready()

    def _on_progress(self, iteration, end, loss, rate, samples, seconds):
        if self._bar is not None:
            self._bar.show(iteration, end, loss, rate, samples, seconds)

    def __repr__(self):
        return "<caffe.%s: iteration %d of %d>" % (type(self).__name__, self.iter, self.max_iter)


def _share(trained, net):
    """Copies the values of `net` to the solver's net and makes `net` use the memory of the solver's net. The
    reverse is impossible, because the solver's update works on its own memory."""
    mine, theirs = trained.params, net.params
    for name, blobs in theirs.items():
        for own, other in zip(mine.get(name, ()), blobs):
            if own.shape == other.shape:
                own.data[...] = other.data
    net.share_with(trained)


def _solver_class(name, rule):
    return type(name, (Solver,), {"_type": rule, "__module__": "caffe",
                                  "__doc__": "A solver with the update rule %s." % rule})


SGDSolver = _solver_class("SGDSolver", "SGD")
NesterovSolver = _solver_class("NesterovSolver", "Nesterov")
AdaGradSolver = _solver_class("AdaGradSolver", "AdaGrad")
RMSPropSolver = _solver_class("RMSPropSolver", "RMSProp")
AdaDeltaSolver = _solver_class("AdaDeltaSolver", "AdaDelta")
AdamSolver = _solver_class("AdamSolver", "Adam")

_CLASSES = {cls._type: cls for cls in (SGDSolver, NesterovSolver, AdaGradSolver, RMSPropSolver,
                                       AdaDeltaSolver, AdamSolver)}


def get_solver(solver_file):
    """Creates the solver of a solver file. Its class depends on the file's `type` (or `solver_type`)."""
    solver = Solver(solver_file)
    solver.__class__ = _CLASSES.get(solver.type, Solver)
    return solver
