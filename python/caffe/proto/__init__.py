"""Caffe's protobuf messages."""


def __getattr__(name):
    """Imports caffe_pb2 at its first use."""
    if name == "caffe_pb2":
        import importlib
        return importlib.import_module(".caffe_pb2", __name__)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
