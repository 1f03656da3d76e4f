"""Methods of the class Blob: printing, pickling, and data exchange with other libraries."""
import numpy as np

from ._core import Blob


def _repr(self):
    return "<caffe.Blob %s>" % ("x".join(str(d) for d in self.shape) or "scalar")


def _array(self, dtype=None, copy=None):
    data = self.data
    if copy or (dtype is not None and dtype != data.dtype):
        return np.array(data, dtype=dtype)
    return data


def _dlpack(self, **options):
    """The data as a DLPack capsule, without a copy."""
    return self.data.__dlpack__(**options)


def _dlpack_device(self):
    return self.data.__dlpack_device__()


def _copy_from(self, values):
    """Copies `values` into the data, and reshapes the blob to their shape if necessary. `values` is an array of
    any type, or an object with DLPack or the buffer protocol. Returns the blob."""
    if not isinstance(values, np.ndarray):
        if hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
            values = np.from_dlpack(values)
        values = np.asarray(values)
    if values.shape != self.shape:
        self.reshape(*values.shape)
    self.data[...] = values
    return self


def _reduce(self):
    return _rebuild, (np.array(self.data), np.array(self.diff))


def _rebuild(data, diff):
    blob = Blob(*data.shape)
    blob.data[...] = data
    blob.diff[...] = diff
    return blob


Blob.__repr__ = _repr
Blob.__array__ = _array
Blob.__dlpack__ = _dlpack
Blob.__dlpack_device__ = _dlpack_device
Blob.copy_from = _copy_from
Blob.__reduce__ = _reduce
