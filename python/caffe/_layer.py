"""Layers written in Python: their base class, and their creation by the library."""
import importlib
import sys

from . import _core
from ._containers import COPY_VALUES, RawBlobVec, Vec


class BlobVec(Vec):
    """The list of a layer's parameters, each a Blob. ``setup`` adds to it."""

    def __init__(self, blobs=(), handle=None):
        super().__init__(blobs)
        self._handle = handle

    def add_blob(self, *shape, filler=None):
        """Adds a parameter of the given shape and returns it. `filler` is prototxt text such as
        ``"type: 'xavier'"``; None fills the parameter with zeros. Call it in ``setup`` only."""
        if self._handle is None:
            raise RuntimeError("parameters are added in the setup of a Python layer only")
        blob = self._handle.add_param(shape, filler)
        list.append(self, blob)
        return blob


class Layer:
    """A layer of a net, and the base class of layers written in Python.

    A derived class defines these methods, with lists of Blob as `bottom` and `top`:

    - ``setup(bottom, top)``, called once
    - ``reshape(bottom, top)``, called before each forward pass
    - ``forward(bottom, top)``
    - ``backward(top, propagate_down, bottom)``

    A prototxt file names the class:

        type: 'Python' python_param { module: 'my_file' layer: 'MyLayer' param_str: '...' }

    The attributes ``param_str``, ``phase``, ``blobs`` and ``type`` are available in all four methods.
    """

    type = "Python"
    name = ""
    param_str = ""
    param_str_ = ""
    phase = 0
    _handle = None

    def __init__(self, param=None):
        self.layer_param = param
        if "blobs" not in self.__dict__:
            self.blobs = BlobVec()

    def setup(self, bottom, top):
        """Reads param_str and adds parameters. Called once."""

    def reshape(self, bottom, top):
        """Sets the shapes of the tops. Called before each forward pass."""

    def forward(self, bottom, top):
        """Computes the tops from the bottoms."""
        raise NotImplementedError("%s has no forward" % type(self).__name__)

    def backward(self, top, propagate_down, bottom):
        """Computes the gradients of the bottoms and adds to the gradients of the parameters."""
        raise NotImplementedError("%s has no backward" % type(self).__name__)

    def param_learns(self, index):
        """Whether parameter `index` needs a gradient. Call it in ``backward`` only."""
        return self._handle.learns(index)

    def _forget(self):
        """Drops the references to the net, which is being destroyed."""
        self._handle = None
        self.blobs = BlobVec()
        param = self.__dict__.get("layer_param")
        if isinstance(param, LayerParameter):
            param._handle = _Gone

    def __repr__(self):
        return "<caffe.Layer %r of type %s with %d parameters>" % (self.name, self.type, len(self.blobs))


def _is_read_only(attribute):
    """Whether `attribute` is a read-only property of the user's class."""
    return isinstance(attribute, property) and attribute.fset is None


def _import(name):
    """Imports the module of a layer. Where there is no such module, the message has advice."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise
        raise ModuleNotFoundError("%s; is its folder in PYTHONPATH?" % error, name=error.name) from None


def make(handle):
    """Creates the Python object of a new layer of type Python."""
    module_name = handle.field("python_param.module")
    class_name = handle.field("python_param.layer")
    if not module_name or not class_name:
        raise ValueError("a Python layer needs python_param { module: '...' layer: '...' }")
    cls = getattr(sys.modules.get(module_name) or _import(module_name), class_name)
    layer = cls.__new__(cls)
    layer._handle = handle
    layer.blobs = BlobVec((), handle)
    layer.blobs._advice = COPY_VALUES
    param_str = handle.field("python_param.param_str")
    for attribute, value in (("name", handle.field("name")), ("phase", handle.phase),
                             ("param_str", param_str), ("param_str_", param_str)):
        if not _is_read_only(getattr(cls, attribute)):
            setattr(layer, attribute, value)
    layer.__init__(LayerParameter._of(handle))
    return layer


class _Gone:
    """Replaces the handle of a layer whose net is destroyed."""

    @staticmethod
    def field(path):
        """Raises RuntimeError."""
        raise RuntimeError("the net that had this layer is gone")


class LayerParameter:
    """The description of a layer, with its fields as attributes.

    ``LayerParameter(source)`` accepts the text between the braces of ``layer { }`` in a prototxt file, bytes
    in wire format, or a caffe_pb2.LayerParameter. A layer written in Python gets its description as
    ``layer_param``.
    """

    def __init__(self, source=""):
        self._source = source
        self._message = None
        self._handle = None

    @classmethod
    def _of(cls, handle):
        found = cls()
        found._handle = handle
        return found

    def _read(self):
        from google.protobuf import text_format

        from .proto import caffe_pb2
        source = self._source if self._handle is None else self._handle.field("")
        message = caffe_pb2.LayerParameter()
        if isinstance(source, (bytes, bytearray)):
            message.ParseFromString(bytes(source))
        elif hasattr(source, "DESCRIPTOR"):
            message.ParseFromString(source.SerializeToString())
        else:
            text_format.Parse(str(source), message)
        return message

    def to_python(self):
        """The description as a caffe_pb2.LayerParameter."""
        if self._message is None:
            self._message = self._read()
        return self._message

    def from_python(self, message):
        """Replaces the description with a caffe_pb2.LayerParameter."""
        self._handle, self._source, self._message = None, message, None

    def field(self, path):
        """The value of a field as text, such as ``field('python_param.param_str')``, or its default."""
        if self._handle is not None:
            return self._handle.field(path)
        value = self.to_python()
        for name in path.split("."):
            value = getattr(value, name)
        return str(value)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.to_python(), name)

    def __repr__(self):
        return "<caffe.LayerParameter %r of type %s>" % (self.field("name"), self.field("type"))


_core.set_layer_makers(make, lambda blobs: RawBlobVec.fixed(blobs, COPY_VALUES))
