"""Classification of image windows (R-CNN)."""
import os

import numpy as np

from . import _core, io
from ._images import Images
from ._mode import TEST
from .pycaffe import Net


class Detector(Net):
    """A net with preprocessing that classifies windows of images: ``Detector(model_file, pretrained_file, ...)``.

    For `mean`, `input_scale`, `raw_scale` and `channel_swap` see io.Transformer. Without any of them, the
    transform_param of the net's Input layer counts, if it has one. `context_pad` is the number of
    input pixels at each edge that show the surroundings of the window.
    """

    def __init__(self, model_file, pretrained_file, mean=None, input_scale=None, raw_scale=None,
                 channel_swap=None, context_pad=None):
        super().__init__(model_file, TEST, weights=pretrained_file)
        given = {"mean": mean, "input_scale": input_scale, "raw_scale": raw_scale,
                 "channel_swap": channel_swap}
        if all(value is None for value in given.values()):
            images = Images(_core.net_preprocessing(self), self.blobs[self.inputs[0]].shape)
            if images.guess is None:
                given = images.transformer_options()
        self.transformer = io.make_transformer(self, **given)
        self.configure_crop(context_pad)

    def detect_windows(self, images_windows):
        """Classifies windows. `images_windows` lists pairs of an image file and its windows, each window a row of
        (ymin, xmin, ymax, xmax). Returns a list of dictionaries with the keys window, prediction and
        filename."""
        crops, found = [], []
        for filename, windows in images_windows:
            picture = io.load_image(filename).astype(np.float32)
            for window in windows:
                crops.append(self.crop(picture, window))
                found.append({"window": window, "filename": filename})
        name = self.inputs[0]
        data = np.stack([self.transformer.preprocess(name, crop) for crop in crops])
        predictions = self.forward_all(**{name: data})[self.outputs[0]]
        for row, prediction in zip(found, predictions.reshape(len(found), -1)):
            row["prediction"] = prediction
        return found

    def detect_selective_search(self, image_fnames):
        """Classifies the windows of selective search (see detect_windows). It requires the package
        selective_search_ijcv_with_python."""
        import selective_search_ijcv_with_python as search
        names = [os.path.abspath(name) for name in image_fnames]
        return self.detect_windows(list(zip(names, search.get_windows(names, cmd="selective_search_rcnn"))))

    def crop(self, im, window):
        """Crops a window from the image `im`. With `context_pad` the crop includes the window's surroundings,
        and the mean beyond the image."""
        window = np.asarray(window)
        top, left, bottom, right = (int(x) for x in window)
        if not self.context_pad:
            return im[top:bottom, left:right]
        size = self._size
        scale = size / (size - 2.0 * self.context_pad)
        half_height, half_width = (bottom - top + 1) / 2.0, (right - left + 1) / 2.0
        centre = (top + half_height, left + half_width)
        box = np.round([centre[0] - scale * half_height, centre[1] - scale * half_width,
                        centre[0] + scale * half_height, centre[1] + scale * half_width])
        scale_h, scale_w = size / (box[2] - box[0] + 1), size / (box[3] - box[1] + 1)
        inside = [max(int(box[0]), 0), max(int(box[1]), 0), min(int(box[2]), im.shape[0]),
                  min(int(box[3]), im.shape[1])]
        pad_top, pad_left = int(round(max(0, -box[0]) * scale_h)), int(round(max(0, -box[1]) * scale_w))
        part = im[inside[0]:inside[2], inside[1]:inside[3]]
        # Window coordinates are inclusive: the last row and column belong to the window.
        height = min(max(int(round((part.shape[0] + 1) * scale_h)), 1), size - pad_top)
        width = min(max(int(round((part.shape[1] + 1) * scale_w)), 1), size - pad_left)
        whole = np.ones((size, size, im.shape[2]), dtype=np.float32) * self.crop_mean
        whole[pad_top:pad_top + height, pad_left:pad_left + width] = io.resize_image(part, (height, width))
        return whole

    def configure_crop(self, context_pad):
        """Sets the number of input pixels that show the surroundings of a window."""
        name = self.inputs[0]
        self.context_pad = context_pad
        self._size = self.blobs[name].shape[2]
        if not context_pad:
            return
        mean = self.transformer.mean.get(name)
        if mean is None:
            self.crop_mean = 0
            return
        shape = self.blobs[name].shape[1:]
        mean = np.broadcast_to(mean, shape)
        swap, scale = self.transformer.channel_swap.get(name), self.transformer.raw_scale.get(name)
        if swap is not None:
            mean = mean[np.argsort(swap)]
        mean = mean.transpose(1, 2, 0)
        self.crop_mean = mean if scale is None else mean / scale
