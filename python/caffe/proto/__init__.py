"""Caffe's messages for Google's protobuf."""


def __getattr__(name):
    """caffe_pb2, which is loaded when it is first used."""
    if name == "caffe_pb2":
        import importlib
        return importlib.import_module(".caffe_pb2", __name__)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
