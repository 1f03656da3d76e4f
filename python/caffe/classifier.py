"""Image classification."""
import warnings

import numpy as np

from . import _core, io
from ._images import Images
from ._mode import TEST
from .pycaffe import Net


class Classifier(Net):
    """A net with preprocessing that classifies images: ``Classifier(model_file, pretrained_file, ...)``.

    `image_dims` is the (height, width) to resize images to before the crop; the default is the net's input
    size. For `mean`, `input_scale`, `raw_scale` and `channel_swap` see io.Transformer. Without any of these arguments,
    the transform_param of the net's Input layer counts, if it has one, as in ``crema classify`` and Model. `labels`
    has the lines of the file labels.txt or labels in the folder of `model_file`, or is empty.
    """

    def __init__(self, model_file, pretrained_file, image_dims=None, mean=None, input_scale=None,
                 raw_scale=None, channel_swap=None):
        super().__init__(model_file, TEST, weights=pretrained_file)
        given = {"mean": mean, "input_scale": input_scale, "raw_scale": raw_scale,
                 "channel_swap": channel_swap}
        silent = image_dims is None and all(value is None for value in given.values())
        images = self._images()
        self._described = silent and images.guess is None
        if self._described:
            given, image_dims = images.transformer_options(), images.dims()
        elif silent:
            warnings.warn("%s: the Input layer has no transform_param and no argument describes the preprocessing, so "
                          "images go to the net as they are" % model_file, stacklevel=2)
        self.transformer = io.make_transformer(self, **given)
        self.labels = images.labels()
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = self.crop_dims if not image_dims else np.array(image_dims)

    def _images(self):
        return self._cached("_kept_images",
                            lambda: Images(_core.net_preprocessing(self), self.blobs[self.inputs[0]].shape))

    def predict(self, inputs, oversample=True):
        """The class probabilities, one row per image. `oversample` true averages over ten crops; false uses the
        centre crop only.

        Images are arrays of height x width x channels. With the preprocessing of the deploy file they may also be
        paths and the bytes of image files, and arrays are uint8, or floats from 0 to 1 that are rounded to 8 bits."""
        data = self._crops_of_file(inputs, oversample) if self._described else self._crops(inputs, oversample)
        found = self.forward_all(**{self.inputs[0]: data})[self.outputs[0]]
        if oversample:
            found = found.reshape((len(found) // 10, 10, -1)).mean(1)
        return found

    def _crops_of_file(self, inputs, oversample):
        inputs = list(inputs)
        if not oversample:
            return self._images().put(inputs)
        whole = self._images().put(inputs, [int(size) for size in self.image_dims])
        return io.oversample(whole.transpose(0, 2, 3, 1), self.crop_dims).transpose(0, 3, 1, 2)

    def _crops(self, inputs, oversample):
        resized = np.stack([io.resize_image(picture, self.image_dims) for picture in inputs])
        if oversample:
            crops = io.oversample(resized, self.crop_dims)
        else:
            top, left = ((self.image_dims - self.crop_dims) / 2.0).astype(int)
            crops = resized[:, top:top + self.crop_dims[0], left:left + self.crop_dims[1], :]
        return np.stack([self.transformer.preprocess(self.inputs[0], crop) for crop in crops])
