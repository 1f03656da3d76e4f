"""Images and arrays: loading, resizing, preprocessing, and conversion from and to Caffe's messages."""
import errno
import os
import tempfile

import numpy as np

from . import _core


def _pb2():
    from .proto import caffe_pb2
    return caffe_pb2


def __getattr__(name):
    if name == "caffe_pb2":
        return _pb2()
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def blobproto_to_array(blob, return_diff=False):
    """Converts a BlobProto to an array of its data, or of its diff if `return_diff` is true."""
    if blob.HasField("num") or blob.HasField("channels") or blob.HasField("height") or \
            blob.HasField("width"):
        shape = (blob.num, blob.channels, blob.height, blob.width)
    else:
        shape = tuple(blob.shape.dim)
    if return_diff:
        values = blob.diff if len(blob.diff) else blob.double_diff
    else:
        values = blob.data if len(blob.data) else blob.double_data
    return np.array(values).reshape(shape)


def array_to_blobproto(arr, diff=None):
    """Converts an array, and optionally a gradient `diff` of the same shape, to a BlobProto."""
    blob = _pb2().BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(np.asarray(arr).astype(float).flat)
    if diff is not None:
        blob.diff.extend(np.asarray(diff).astype(float).flat)
    return blob


def arraylist_to_blobprotovector_str(arraylist):
    """Converts a list of arrays to a serialized BlobProtoVector (bytes)."""
    vector = _pb2().BlobProtoVector()
    vector.blobs.extend([array_to_blobproto(array) for array in arraylist])
    return vector.SerializeToString()


def blobprotovector_str_to_arraylist(bytes_of_vector):
    """Converts a serialized BlobProtoVector (bytes) to a list of arrays."""
    vector = _pb2().BlobProtoVector.FromString(bytes_of_vector)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr, label=None):
    """Converts an array of channels x height x width to a Datum. uint8 values are stored as bytes, other
    types as floats."""
    if arr.ndim != 3:
        raise ValueError("Incorrect array shape.")
    datum = _pb2().Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(arr.astype(float).flat)
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum):
    """Converts a Datum to an array of uint8 or float."""
    shape = datum.channels, datum.height, datum.width
    if len(datum.data):
        return np.frombuffer(datum.data, dtype=np.uint8).reshape(shape).copy()
    return np.array(datum.float_data).astype(float).reshape(shape)


class Transformer:
    """Converts images (height x width x channels) to a net's inputs and back.

    Create it with ``Transformer({'data': net.blobs['data'].data.shape})``. ``preprocess`` does these steps in
    order; each step after the first is optional:

    1. resize to the input's height and width
    2. transpose the axes (set_transpose)
    3. swap channels (set_channel_swap)
    4. scale (set_raw_scale)
    5. subtract the mean (set_mean)
    6. scale (set_input_scale)
    """

    def __init__(self, inputs):
        self.inputs = inputs
        self.transpose = {}
        self.channel_swap = {}
        self.raw_scale = {}
        self.mean = {}
        self.input_scale = {}

    def _check_input(self, name):
        if name not in self.inputs:
            raise Exception("{} is not one of the net inputs: {}".format(name, self.inputs))

    def preprocess(self, in_, data):
        """Converts the image `data` to a float32 array for input `in_`, without the batch axis."""
        self._check_input(in_)
        data = np.asarray(data)
        values = data.astype(np.float32, copy=False)
        dims = self.inputs[in_][2:]
        if values.shape[:2] != tuple(dims):
            values = resize_image(values, dims)
        order = self.transpose.get(in_)
        if order is not None:
            values = values.transpose(order)
        swap = self.channel_swap.get(in_)
        if swap is not None:
            values = values[list(swap), :, :]
        raw_scale, mean = self.raw_scale.get(in_), self.mean.get(in_)
        input_scale = self.input_scale.get(in_)
        steps = raw_scale is not None or mean is not None or input_scale is not None
        if steps and np.may_share_memory(values, data):
            values = np.array(values, order="C")  # do not change the caller's array
        if raw_scale is not None:
            values *= raw_scale
        if mean is not None:
            values -= mean
        if input_scale is not None:
            values *= input_scale
        return values

    def deprocess(self, in_, data):
        """Inverts preprocess, except for the resizing: converts `data` of input `in_` to an image."""
        self._check_input(in_)
        values = np.array(data, dtype=np.float32).squeeze()
        if self.input_scale.get(in_) is not None:
            values /= self.input_scale[in_]
        if self.mean.get(in_) is not None:
            values += self.mean[in_]
        if self.raw_scale.get(in_) is not None:
            values /= self.raw_scale[in_]
        if self.channel_swap.get(in_) is not None:
            values = values[np.argsort(self.channel_swap[in_]), :, :]
        if self.transpose.get(in_) is not None:
            values = values.transpose(np.argsort(self.transpose[in_]))
        return values

    def set_transpose(self, in_, order):
        """Sets the order of the image's axes in the input. (2, 0, 1) puts the channels first."""
        self._check_input(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise Exception("Transpose order needs to have the same number of dimensions as the input.")
        self.transpose[in_] = order

    def set_channel_swap(self, in_, order):
        """Sets the order of the channels. (2, 1, 0) converts red, green, blue to blue, green, red."""
        self._check_input(in_)
        if len(order) != self.inputs[in_][1]:
            raise Exception("Channel swap needs to have the same number of dimensions as the input "
                            "channels.")
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_, scale):
        """Sets the factor that is applied before the mean is subtracted. Use 255 for images of load_image if
        the net was trained on byte values."""
        self._check_input(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_, mean):
        """Sets the mean to subtract: one value per channel, or an array of the input's shape."""
        self._check_input(in_)
        mean = np.asarray(mean, dtype=np.float32)
        shape = self.inputs[in_]
        if mean.ndim == 1:
            if mean.shape[0] != shape[1]:
                raise ValueError("Mean channels incompatible with input.")
            mean = mean[:, np.newaxis, np.newaxis]
        else:
            if mean.ndim == 2:
                mean = mean[np.newaxis, :, :]
            if mean.ndim != 3:
                raise ValueError("Mean shape invalid")
            if mean.shape != tuple(shape[1:]):
                if mean.shape[0] not in (1, shape[1]):
                    raise ValueError("Mean shape incompatible with input shape.")
                mean = resize_image(mean.transpose(1, 2, 0), shape[2:]).transpose(2, 0, 1)
        self.mean[in_] = mean

    def set_input_scale(self, in_, scale):
        """Sets the factor that is applied last."""
        self._check_input(in_)
        self.input_scale[in_] = scale


def make_transformer(net, mean, input_scale, raw_scale, channel_swap):
    """Creates the Transformer of a net's first input, for images with the channels last. None skips a
    step."""
    name = net.inputs[0]
    transformer = Transformer({name: net.blobs[name].shape})
    transformer.set_transpose(name, (2, 0, 1))
    if mean is not None:
        transformer.set_mean(name, mean)
    if input_scale is not None:
        transformer.set_input_scale(name, input_scale)
    if raw_scale is not None:
        transformer.set_raw_scale(name, raw_scale)
    if channel_swap is not None:
        transformer.set_channel_swap(name, channel_swap)
    return transformer


def load_image(filename, color=True):
    """Loads an image as a float32 array with values from 0 to 1.

    The shape is height x width x 3 (red, green, blue), or height x width x 1 if `color` is false. Reads JPEG, PNG,
    BMP, GIF, PNM, TIFF and WebP; other formats require Pillow. `filename` is a path or an open file.
    """
    if hasattr(filename, "read"):
        with tempfile.NamedTemporaryFile(prefix="picture") as file:
            file.write(filename.read())
            file.flush()
            return load_image(file.name, color)
    if not os.path.exists(filename):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), filename)
    try:
        height, width = _core.image_size(filename)
    except _core.Error as error:
        return _load_with_pillow(filename, color, error)
    blob = _core.Blob(1, 3 if color else 1, height, width)
    _core.load_image(filename, blob)
    picture = blob.data[0].transpose(1, 2, 0) / np.float32(255)
    return picture[:, :, ::-1].copy() if color else picture


def _load_with_pillow(filename, color, error):
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("%s; for other formats install Pillow" % error) from None
    with Image.open(filename) as image:
        picture = np.asarray(image.convert("RGB" if color else "L"), dtype=np.float32)
    return picture.reshape(picture.shape[0], picture.shape[1], -1) / np.float32(255)


def _positions(size, new_size):
    """The indices of the two nearest old pixels of each new pixel along an axis, and the weight of the second."""
    at = (np.arange(new_size, dtype=np.float64) + 0.5) * (size / new_size) - 0.5
    np.clip(at, 0, size - 1, out=at)
    low = at.astype(np.intp)
    high = np.minimum(low + 1, size - 1)
    return low, high, (at - low).astype(np.float32)


def _resize_linear(im, rows, columns):
    low, high, part = _positions(im.shape[0], rows)
    part = part[:, np.newaxis, np.newaxis]
    tall = im[low] if np.array_equal(low, high) else im[low] * (1 - part) + im[high] * part
    low, high, part = _positions(im.shape[1], columns)
    part = part[np.newaxis, :, np.newaxis]
    return tall[:, low] * (1 - part) + tall[:, high] * part


def _resize_nearest(im, rows, columns):
    row = np.minimum(((np.arange(rows) + 0.5) * (im.shape[0] / rows)).astype(np.intp), im.shape[0] - 1)
    column = np.minimum(((np.arange(columns) + 0.5) * (im.shape[1] / columns)).astype(np.intp),
                        im.shape[1] - 1)
    return im[row][:, column]


def resize_image(im, new_dims, interp_order=1):
    """Resizes an image of height x width x channels to `new_dims` (height, width) and returns float32.

    `interp_order` is 1 for bilinear or 0 for nearest-neighbour interpolation. Higher orders require SciPy.
    """
    im = np.asarray(im, dtype=np.float32)
    rows, columns = int(new_dims[0]), int(new_dims[1])
    if interp_order == 1:
        return _resize_linear(im, rows, columns)
    if interp_order == 0:
        return _resize_nearest(im, rows, columns)
    from scipy.ndimage import zoom
    scale = (rows / im.shape[0], columns / im.shape[1]) + (1,) * (im.ndim - 2)
    return zoom(im, scale, order=interp_order).astype(np.float32)


def oversample(images, crop_dims):
    """Crops each image ten times: the four corners, the centre, and their mirror images. Returns one float32
    array of all crops."""
    images = list(images)
    height, width = images[0].shape[:2]
    crop = (int(crop_dims[0]), int(crop_dims[1]))
    tops, lefts = (0, height - crop[0]), (0, width - crop[1])
    corners = [(top, left) for top in tops for left in lefts]
    corners.append((int(height / 2.0 - crop[0] / 2.0), int(width / 2.0 - crop[1] / 2.0)))
    crops = np.empty((10 * len(images), crop[0], crop[1], images[0].shape[-1]), dtype=np.float32)
    for number, image in enumerate(images):
        for index, (top, left) in enumerate(corners):
            part = image[top:top + crop[0], left:left + crop[1], :]
            crops[10 * number + index] = part
            crops[10 * number + 5 + index] = part[:, ::-1, :]
    return crops
