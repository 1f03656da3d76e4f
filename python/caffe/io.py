"""Pictures and arrays: loading, resizing, preprocessing, and Caffe's messages of arrays."""
import struct
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


# ---- messages ----

def blobproto_to_array(blob, return_diff=False):
    """The array in a BlobProto: its data, or its diff."""
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
    """A BlobProto of an array, and of a gradient of the same shape."""
    blob = _pb2().BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(np.asarray(arr).astype(float).flat)
    if diff is not None:
        blob.diff.extend(np.asarray(diff).astype(float).flat)
    return blob


def arraylist_to_blobprotovector_str(arraylist):
    """A BlobProtoVector of arrays, as bytes."""
    vector = _pb2().BlobProtoVector()
    vector.blobs.extend([array_to_blobproto(array) for array in arraylist])
    return vector.SerializeToString()


def blobprotovector_str_to_arraylist(bytes_of_vector):
    """The arrays in the bytes of a BlobProtoVector."""
    vector = _pb2().BlobProtoVector.FromString(bytes_of_vector)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr, label=None):
    """A Datum of an array of channels x height x width: bytes for uint8, else floats."""
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
    """The array in a Datum: uint8 or float."""
    shape = datum.channels, datum.height, datum.width
    if len(datum.data):
        return np.frombuffer(datum.data, dtype=np.uint8).reshape(shape).copy()
    return np.array(datum.float_data).astype(float).reshape(shape)


# ---- preprocessing ----

class Transformer:
    """Turns pictures (height x width x channels) into a net's inputs, and back.

    ``Transformer({'data': net.blobs['data'].data.shape})``; then, in this order, preprocess resizes to
    the input's height and width, transposes (set_transpose), swaps channels (set_channel_swap), scales
    (set_raw_scale), subtracts the mean (set_mean) and scales again (set_input_scale).
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
        """The array of float32 for input `in_`, without the axis of samples."""
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
            values = np.array(values, order="C")  # the caller's stays as it is
        if raw_scale is not None:
            values *= raw_scale
        if mean is not None:
            values -= mean
        if input_scale is not None:
            values *= input_scale
        return values

    def deprocess(self, in_, data):
        """The picture that preprocess made `data` of, but for its size."""
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
        """The order of the picture's axes in the input: (2, 0, 1) puts the channels first."""
        self._check_input(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise Exception("Transpose order needs to have the same number of dimensions as the input.")
        self.transpose[in_] = order

    def set_channel_swap(self, in_, order):
        """The order of the channels: (2, 1, 0) makes blue, green, red of red, green, blue."""
        self._check_input(in_)
        if len(order) != self.inputs[in_][1]:
            raise Exception("Channel swap needs to have the same number of dimensions as the input "
                            "channels.")
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_, scale):
        """What values are multiplied with before the mean is subtracted: 255 for pictures of
        load_image and nets that were trained on bytes."""
        self._check_input(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_, mean):
        """What is subtracted: one value a channel, or an array of the input's shape."""
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
        """What values are multiplied with in the end."""
        self._check_input(in_)
        self.input_scale[in_] = scale


def make_transformer(net, mean, input_scale, raw_scale, channel_swap):
    """The Transformer of a net's first input, for pictures with the channels last; None: a step that is
    left out."""
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


# ---- pictures ----

def _jpeg_size(data):
    """(height, width) of a JPEG file: from its frame header."""
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            at += 1
            continue
        marker = data[at + 1]
        if marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD8:
            at += 1 if marker == 0xFF else 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return struct.unpack(">HH", data[at + 5:at + 9])
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
    return None


def _size_of(data):
    """(height, width) of a JPEG or PNG file's bytes; None for other formats, and where it is cut off."""
    if data[:2] == b"\xff\xd8":
        return _jpeg_size(data)
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        return struct.unpack(">II", data[16:24])[::-1]
    return None


def load_image(filename, color=True):
    """A picture as an array of float32 from 0 to 1: height x width x 3 (red, green, blue), or x 1 without
    `color`. JPEG and PNG files; others where Pillow is installed. `filename` may be an open file, too."""
    if hasattr(filename, "read"):
        with tempfile.NamedTemporaryFile(prefix="picture") as file:
            file.write(filename.read())
            file.flush()
            return load_image(file.name, color)
    with open(filename, "rb") as file:
        size = _size_of(file.read())
    if size is None:
        return _load_with_pillow(filename, color)
    height, width = size
    blob = _core.Blob(1, 3 if color else 1, height, width)
    _core.load_image(filename, blob)
    picture = blob.data[0].transpose(1, 2, 0) / np.float32(255)
    return picture[:, :, ::-1].copy() if color else picture


def _load_with_pillow(filename, color):
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("%s is no JPEG or PNG file; for other formats install Pillow" % filename) from None
    with Image.open(filename) as image:
        picture = np.asarray(image.convert("RGB" if color else "L"), dtype=np.float32)
    return picture.reshape(picture.shape[0], picture.shape[1], -1) / np.float32(255)


def _positions(size, new_size):
    """The two neighbours of each new position along an axis, and the weight of the second."""
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
    """Resizes a picture of height x width x channels to `new_dims`, (height, width).

    `interp_order` 1: bilinear; 0: the nearest; higher ones where SciPy is installed. Returns float32.
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
    """The four corners, the centre and their mirror images: ten crops of each picture, as one array of
    float32."""
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
