"""Regions of interest: pooled by their largest values, by interpolated means, and with their own channels."""
import itertools

import numpy as np


def regions(count, images, side, whole, seed):
    """Rows of image, left, top, right, bottom in pixels of an image of `side` pixels; some reach beyond it."""
    random = np.random.RandomState(seed)
    rows = np.zeros((count, 5), np.float32)
    rows[:, 0] = random.randint(0, images, count)
    low = random.uniform(-0.1 * side, 0.8 * side, (count, 2))
    rows[:, 1:3] = low
    rows[:, 3:5] = low + random.uniform(0, 0.7 * side, (count, 2))
    rows[0, 3:5] = rows[0, 1:3]  # a single pixel
    if whole:
        rows[:, 1:] = np.rint(rows[:, 1:])
    return rows


def pooling():
    """ROIPooling."""
    for scale, (rows, columns), pad, whole in itertools.product(
            (1, 0.5, 0.0625, 0.1, 0.3), ((1, 1), (2, 3), (7, 7)), (0, 0.25), (True, False)):
        side = 12 / scale
        yield ("max of scale %g, %d x %d, pad %g%s" % (scale, rows, columns, pad, ", whole" * whole),
               "layer { name: 'p' type: 'ROIPooling' bottom: 'x' bottom: 'rois' top: 'y' roi_pooling_param { "
               "pooled_h: %d pooled_w: %d spatial_scale: %g pad_ratio: %g } }" % (rows, columns, scale, pad),
               {"x": (2, 3, 12, 12), "rois": regions(9, 2, side, whole, rows)})
    yield ("max of pooled_size, regions of 4 axes",
           "layer { name: 'p' type: 'ROIPooling' bottom: 'x' bottom: 'rois' top: 'y' roi_pooling_param { "
           "pooled_size: 3 spatial_scale: 0.25 } }",
           {"x": (1, 2, 9, 7), "rois": regions(4, 1, 30, True, 1).reshape(4, 5, 1, 1)})


def align():
    """ROIAlign."""
    for scale, (rows, columns), ratio in itertools.product(
            (1, 0.5, 0.0625, 0.1), ((1, 1), (2, 3), (7, 7)), (0, 1, 2, 3)):
        options = {}
        if scale == 0.1 and ratio == 0:
            options["rejected"] = "the number of samples"
        yield ("mean of scale %g, %d x %d, ratio %d" % (scale, rows, columns, ratio),
               "layer { name: 'p' type: 'ROIAlign' bottom: 'x' bottom: 'rois' top: 'y' roi_align_param { "
               "pooled_h: %d pooled_w: %d spatial_scale: %g sampling_ratio: %d } }" % (rows, columns, scale, ratio),
               {"x": (2, 3, 12, 10), "rois": regions(9, 2, 11 / scale, False, ratio)}, options)


def own_channels():
    """PSROIPooling and DeformablePSROIPooling."""
    for scale, group, outputs, images in itertools.product((1, 0.5, 0.0625, 0.1), (1, 2, 3), (1, 4), (1, 2)):
        yield ("own channels of scale %g, group %d, %d outputs, %d images" % (scale, group, outputs, images),
               "layer { name: 'p' type: 'PSROIPooling' bottom: 'x' bottom: 'rois' top: 'y' psroi_pooling_param { "
               "spatial_scale: %g output_dim: %d group_size: %d } }" % (scale, outputs, group),
               {"x": (images, outputs * group * group, 9, 11),
                "rois": regions(7, images, 10 / scale, group == 2, group)})
    yield ("shifted parts",
           "layer { name: 'p' type: 'DeformablePSROIPooling' bottom: 'x' bottom: 'rois' bottom: 'shift' top: 'y' "
           "deformable_psroi_pooling_param { spatial_scale: 0.5 output_dim: 2 group_size: 2 sample_per_part: 2 "
           "trans_std: 0.1 } }",
           {"x": (1, 8, 6, 6), "rois": regions(3, 1, 12, True, 0), "shift": (3, 2, 2, 2)},
           {"rejected": "PSROIPooling"})


def cases():
    """All cases of the family."""
    yield from pooling()
    yield from align()
    yield from own_channels()
