"""Images as inputs of nets, as a deploy file describes them: for Model and Classifier."""
import os
import warnings

import numpy as np

from . import _core


def pixels(image):
    """The pixels of an array or a Pillow image as uint8, height x width x channels."""
    if getattr(image, "mode", "RGB") in ("1", "P", "PA", "CMYK", "YCbCr", "LAB", "HSV"):
        image = image.convert("RGB")
    array = np.asarray(image)
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.ndim != 3 or array.shape[2] not in (1, 2, 3, 4):
        raise ValueError("an image has the shape height x width or height x width x channels, with 1 to 4 channels, "
                         "not %s" % (" x ".join(map(str, array.shape)) or "()"))
    if array.dtype.kind == "f":
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        # Resized images exceed the range by rounding.
        if not (low > -1e-3 and high < 1 + 1e-3):
            raise ValueError("an image of floats has values from 0 to 1, as load_image returns, not from %g to %g"
                             % (low, high))
        return np.rint(np.clip(array, 0, 1) * 255).astype(np.uint8)
    if array.dtype != np.uint8:
        raise TypeError("an image has values of the type uint8, or floats from 0 to 1, not %s%s" % (
            array.dtype, "; image // 257 has 8 bits" if array.dtype == np.uint16 else ""))
    return np.ascontiguousarray(array)


class Images:
    """The preprocessing of a net's or model's only input. `core` is a _core.Preprocessing, `shape` the shape of the
    input."""

    def __init__(self, core, shape):
        self._core = core
        self._shape = tuple(shape)
        self._warned = False

    @property
    def guess(self):
        """A sentence about values that are guessed, or None."""
        return self._core.guess()

    def dims(self):
        """Height and width before the crop."""
        self._check()
        height, width = self._core.options()[:2]
        return (height or self._shape[2], width or self._shape[3])

    def labels(self, classes=0):
        """The names of the classes, or an empty list. A file with another number of names than `classes` is an
        error; 0 stands for any number."""
        return self._core.labels(classes)

    def _check(self):
        if len(self._shape) != 4:
            raise ValueError("the input has the shape %s; images need items x channels x height x width"
                             % " x ".join(map(str, self._shape)))

    def put(self, images, dims=None):
        """The images as a float32 array of items x channels x height x width."""
        if self.guess is not None and not self._warned:
            self._warned = True
            warnings.warn(self.guess, stacklevel=3)
        self._check()
        blob = _core.Blob(len(images), self._shape[1], *(dims or self._shape[2:]))
        for item, image in enumerate(images):
            if isinstance(image, (str, os.PathLike)):
                self._core.load(image, blob, item)
            elif isinstance(image, (bytes, bytearray, memoryview)):
                self._core.decode(image, blob, item)
            elif hasattr(image, "read"):
                self._core.decode(image.read(), blob, item)
            else:
                array = pixels(image)
                self._core.convert(array, *array.shape, blob, item)
        return blob.data

    def transformer_options(self):
        """The arguments of io.make_transformer that have the same effect on floats from 0 to 1."""
        self._check()
        scale, rgb = self._core.options()[2:]
        channels = self._shape[1]
        found = {"mean": None, "raw_scale": 255.0, "input_scale": scale if scale != 1 else None,
                 "channel_swap": (2, 1, 0) if channels == 3 and not rgb else None}
        blob = _core.Blob(1, *self._shape[1:])
        self._core.convert(np.zeros(self._shape[2:], np.uint8), *self._shape[2:], 1, blob, 0)
        black = blob.data[0]  # minus the mean, scaled
        if black.any():
            found["mean"] = black / -np.float32(scale)
        return found
