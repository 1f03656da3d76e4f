"""Image classification."""
import numpy as np

from . import io
from ._mode import TEST
from .pycaffe import Net


class Classifier(Net):
    """A net with preprocessing that classifies images: ``Classifier(model_file, pretrained_file, ...)``.

    `image_dims` is the (height, width) to resize images to before the crop; the default is the net's input
    size. For `mean`, `input_scale`, `raw_scale` and `channel_swap` see io.Transformer. Without any of these arguments,
    the transform_param of the net's Input layer counts, if it has one. `labels` has the lines of the file labels.txt
    or labels in the folder of `model_file`, or is empty.
    """

    def __init__(self, model_file, pretrained_file, image_dims=None, mean=None, input_scale=None,
                 raw_scale=None, channel_swap=None):
        super().__init__(model_file, TEST, weights=pretrained_file)
        given = {"image_dims": image_dims, "mean": mean, "input_scale": input_scale, "raw_scale": raw_scale,
                 "channel_swap": channel_swap}
        if all(value is None for value in given.values()):
            given.update(io.input_options(self, model_file))
        image_dims = given.pop("image_dims")
        self.transformer = io.make_transformer(self, **given)
        self.labels = io.read_labels(model_file)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].shape[2:])
        self.image_dims = self.crop_dims if not image_dims else np.array(image_dims)

    def predict(self, inputs, oversample=True):
        """The class probabilities, one row per image (height x width x channels). `oversample` true averages
        over ten crops; false uses the centre crop only."""
        resized = np.stack([io.resize_image(picture, self.image_dims) for picture in inputs])
        if oversample:
            crops = io.oversample(resized, self.crop_dims)
        else:
            top, left = ((self.image_dims - self.crop_dims) / 2.0).astype(int)
            crops = resized[:, top:top + self.crop_dims[0], left:left + self.crop_dims[1], :]
        name = self.inputs[0]
        data = np.stack([self.transformer.preprocess(name, crop) for crop in crops])
        found = self.forward_all(**{name: data})[self.outputs[0]]
        if oversample:
            found = found.reshape((len(found) // 10, 10, -1)).mean(1)
        return found
