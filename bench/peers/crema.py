"""As much of crema's C interface as the comparisons need, through ctypes."""
import ctypes
import os
import pathlib
import re
import subprocess
import tempfile

import numpy

import prototxt

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DEVICES = {"cuda": 1, "sim": 2, "opencl": 3}  # crema_device_type
MAX_AXES = 32


class Shape(ctypes.Structure):
    _fields_ = [("axes", ctypes.c_int), ("dim", ctypes.c_int64 * MAX_AXES)]


class NetOptions(ctypes.Structure):
    _fields_ = [("phase", ctypes.c_int), ("level", ctypes.c_int), ("stages", ctypes.c_void_p),
                ("stage_count", ctypes.c_size_t), ("device", ctypes.c_void_p), ("math", ctypes.c_int),
                ("seed", ctypes.c_int64), ("rest", ctypes.c_char * 256)]  # flags, which stay as initialised


class ModelOptions(ctypes.Structure):
    _fields_ = [("level", ctypes.c_int), ("stages", ctypes.c_void_p), ("stage_count", ctypes.c_size_t),
                ("keep", ctypes.c_void_p), ("keep_count", ctypes.c_size_t), ("without", ctypes.c_void_p),
                ("without_count", ctypes.c_size_t), ("precision", ctypes.c_int), ("table", ctypes.c_char_p),
                ("seed", ctypes.c_int64), ("allow_missing", ctypes.c_bool), ("warn_unknown_fields", ctypes.c_bool),
                ("skip_corrupt", ctypes.c_bool)]


def load_library():
    path = os.environ.get("CREMA_LIBRARY", ROOT / "build" / "lib" / "libcrema.so")
    library = ctypes.CDLL(str(path))
    names = {ctypes.c_void_p: "net_input net_output net_layer_param solver_net blob_shape session_input session_output",
             ctypes.c_char_p: "error_text net_layer_name net_layer_type net_output_name"}
    for result, list_of_names in names.items():
        for name in list_of_names.split():
            getattr(library, "crema_" + name).restype = result
    return library


LIBRARY = load_library()


def check(status):
    if status != 0:
        raise RuntimeError(LIBRARY.crema_error_text().decode())


def device(text):
    """The device of a text such as "0", "opencl:0" or "sim:0". A CPU for solver_mode: GPU is a warning; this is an
    error if the device is missing."""
    kind, _, index = text.rpartition(":")
    handle = ctypes.c_void_p()
    check(LIBRARY.crema_device_get(DEVICES[kind or "cuda"], int(index), ctypes.byref(handle)))
    return handle


def solver_options(device=None):
    """Default options for crema_solver_load, with the device as their first member."""
    options = (ctypes.c_void_p * 256)()
    LIBRARY.crema_solver_options_init(options)
    options[0] = device.value if device else None
    return options


def pointer(handle):
    return ctypes.c_void_p(handle)


class Blob:
    def __init__(self, handle):
        self.handle = pointer(handle)
        self.data = ctypes.POINTER(ctypes.c_float)()
        self.reference = ctypes.byref(self.data)

    @property
    def shape(self):
        shape = ctypes.cast(LIBRARY.crema_blob_shape(self.handle), ctypes.POINTER(Shape)).contents
        return tuple(shape.dim[:shape.axes])

    def reshape(self, dims):
        shape = Shape(len(dims))
        shape.dim[:len(dims)] = dims
        check(LIBRARY.crema_blob_reshape(self.handle, ctypes.byref(shape)))

    def _values(self, call):
        check(call(self.handle, self.reference))
        return numpy.ctypeslib.as_array(self.data, self.shape or (1,))

    def ask(self):
        """As read, without the array: its making takes longer than some layers."""
        check(LIBRARY.crema_blob_cpu_data(self.handle, self.reference))

    def touch(self):
        """As write, without the array."""
        check(LIBRARY.crema_blob_mutable_cpu_data(self.handle, self.reference))

    def read(self):
        """The values; the array is the blob's own memory."""
        return self._values(LIBRARY.crema_blob_cpu_data)

    def write(self):
        """The values, to be changed; the array is the blob's own memory."""
        return self._values(LIBRARY.crema_blob_mutable_cpu_data)


class Net:
    """A net of phase TEST, or the one that a handle names, which stays its owner's."""

    def __init__(self, path=None, weights=None, seed=1, handle=None):
        self.owned = handle is None
        if not self.owned:
            self.handle = pointer(handle)
            return
        options = NetOptions()
        LIBRARY.crema_net_options_init(ctypes.byref(options))
        options.seed = seed
        self.handle = ctypes.c_void_p()
        check(LIBRARY.crema_net_load(os.fsencode(path), ctypes.byref(options), ctypes.byref(self.handle)))
        if weights is not None:
            check(LIBRARY.crema_net_load_weights(self.handle, os.fsencode(weights)))

    def __del__(self):
        if self.owned:
            LIBRARY.crema_net_destroy(self.handle)

    def input(self):
        return Blob(LIBRARY.crema_net_input(self.handle, 0))

    def output(self):
        return Blob(LIBRARY.crema_net_output(self.handle, 0))

    def blob(self, name):
        handle = ctypes.c_void_p()
        check(LIBRARY.crema_net_blob(self.handle, name.encode(), ctypes.byref(handle)))
        return Blob(handle.value)

    def params(self):
        """Layer name -> its parameters as blobs."""
        found = {}
        for layer in range(LIBRARY.crema_net_layer_count(self.handle)):
            count = LIBRARY.crema_net_layer_param_count(self.handle, layer)
            name = LIBRARY.crema_net_layer_name(self.handle, layer).decode()
            if count > 0:
                found[name] = [Blob(LIBRARY.crema_net_layer_param(self.handle, layer, i)) for i in range(count)]
        return found

    def forward(self):
        check(LIBRARY.crema_net_forward(self.handle, None))

    def backward(self):
        LIBRARY.crema_net_clear_param_diffs(self.handle)
        check(LIBRARY.crema_net_backward(self.handle))

    def save(self, path):
        check(LIBRARY.crema_net_save_weights(self.handle, os.fsencode(path)))


class Session:
    """A compiled model and one session of it; int8 needs a table of scales."""

    PRECISIONS = ("f32", "bf16", "int8")

    def __init__(self, path, weights, precision="f32", table=None):
        self.model, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        options = ModelOptions()
        LIBRARY.crema_model_options_init(ctypes.byref(options))
        options.precision = self.PRECISIONS.index(precision)
        options.table = None if table is None else os.fsencode(table)
        weights = None if weights is None else os.fsencode(weights)
        check(LIBRARY.crema_model_load(os.fsencode(path), weights, ctypes.byref(options),
                                       ctypes.byref(self.model)))
        check(LIBRARY.crema_session_create(self.model, None, ctypes.byref(self.handle)))

    def __del__(self):
        LIBRARY.crema_session_destroy(self.handle)
        LIBRARY.crema_model_destroy(self.model)

    def input(self):
        return Blob(LIBRARY.crema_session_input(self.handle, 0))

    def output(self):
        return Blob(LIBRARY.crema_session_output(self.handle, 0))

    def forward(self):
        check(LIBRARY.crema_session_run(self.handle))


def command():
    """The path of crema's command."""
    return pathlib.Path(os.environ.get("CREMA_COMMAND", ROOT / "build" / "bin" / "crema"))


def calibrate(path, weights, table, batch, batches):
    """Writes the scales for int8 of a net whose input is drawn anew for each batch: normal values, as those that
    another runtime's scales are made of."""
    text = pathlib.Path(path).read_text()
    source = re.search(r'type: "Input" top: "(\w+)"\s+input_param { shape {([^}]*)} }', text)
    dims = re.sub(r"dim: \d+", f"dim: {batch}", source[2], count=1)
    drawn = f'type: "DummyData" top: "{source[1]}" dummy_data_param {{ shape {{{dims}}} data_filler {{ type: "gaussian" }} }}'
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as net:
        net.write(text.replace(source[0], drawn))
        net.flush()
        subprocess.run([command(), "calibrate", net.name, "-weights", weights, "-iterations", str(batches), "-method",
                        "minmax", "-out", table], check=True, capture_output=True)


def set_threads(count):
    """OpenMP's own call: crema's kernels run with as many threads as it says."""
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(count)


def randomise(net, path, seed=1):
    """Gives all parameters of the net of the file at `path` random values: those of convolutions as
    He et al. draw them, statistics and scales near those of a trained net, and the last ones such
    that the scores before the softmax are neither all alike nor far apart."""
    random = numpy.random.default_rng(seed)
    layers = prototxt.read_net(path)["layer"]
    types = {layer.one("name"): layer.one("type") for layer in layers}
    params = net.params()
    for name, blobs in params.items():
        first = blobs[0].write()
        if types[name] == "BatchNorm":
            first[...] = random.normal(0, 0.1, first.shape)
            blobs[1].write()[...] = random.uniform(0.5, 1.5, blobs[1].shape)
            blobs[2].write()[...] = 1
        elif types[name] == "Scale":
            first[...] = random.uniform(0.5, 1.0, first.shape)
            blobs[1].write()[...] = random.normal(0, 0.1, blobs[1].shape)
        else:
            inputs = numpy.prod(first.shape[1:])
            first[...] = random.normal(0, numpy.sqrt(2 / inputs), first.shape)
            if len(blobs) > 1:
                blobs[1].write()[...] = random.normal(0, 0.05, blobs[1].shape)
    net.input().write()[...] = random.normal(0, 1, net.input().shape)
    net.forward()
    spread = net.blob(layers[-1].one("bottom")).read().std()
    for blob in list(params.values())[-1]:
        blob.write()[...] *= 2 / spread
