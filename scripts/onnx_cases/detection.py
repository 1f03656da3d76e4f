"""Detectors: prior boxes, detections, proposals and boxes of maps. Their numbers of rows depend on the data."""
import itertools

import numpy as np


def numbers(seed, shape, scale=1.0):
    """Normal numbers."""
    return (scale * np.random.RandomState(seed).standard_normal(shape)).astype(np.float32)


def chances(seed, shape):
    """Numbers between 0 and 1."""
    return np.random.RandomState(seed).uniform(0, 1, shape).astype(np.float32)


def priors(seed, count):
    """Prior boxes of a picture of side 1, and their variances."""
    random = np.random.RandomState(seed)
    low, side = random.uniform(0, 0.7, (count, 2)), random.uniform(0.1, 0.4, (count, 2))
    boxes = np.concatenate([low, low + side], 1)
    return np.stack([boxes.ravel(), np.tile([0.1, 0.1, 0.2, 0.2], count)])[None].astype(np.float32)


def prior_boxes():
    """PriorBox."""
    for fields in ("min_size: 10", "min_size: 10 max_size: 20", "min_size: 10 max_size: 20 aspect_ratio: 2",
                   "min_size: 6.5 aspect_ratio: 2 aspect_ratio: 3 flip: false clip: true",
                   "min_size: 10 min_size: 14 max_size: 20 max_size: 24 step: 9 offset: 0.3",
                   "min_size: 10 img_size: 40 variance: 0.1 variance: 0.2 variance: 0.3 variance: 0.4",
                   "min_size: 10 img_h: 40 img_w: 50 step_h: 8 step_w: 12 variance: 0.5",
                   "min_size: 10 aspect_ratio: 2 denser_prior_boxes: true"):
        for shape in ((1, 2, 3, 4), (2, 1, 1, 1)):
            yield ("prior boxes %s, %s" % (fields, shape),
                   "layer { name: 'p' type: 'PriorBox' bottom: 'map' bottom: 'image' top: 'y' prior_box_param { %s } } "
                   "layer { name: 's' type: 'ReLU' bottom: 'map' top: 'z' }" % fields,
                   {"map": shape, "image": (shape[0], 3, 36, 30)})


def output(fields, inputs, words=None):
    """A DetectionOutput layer."""
    text = "layer { name: 'd' type: 'DetectionOutput' %s top: 'y' detection_output_param { %s } }" % (
        " ".join("bottom: '%s'" % name for name in inputs), fields)
    return (text, inputs) if words is None else (text, inputs, {"rejected": words})


def detections():
    """DetectionOutput."""
    count, classes = 12, 4
    for code, shared, images, rest in itertools.product(
            ("CORNER", "CENTER_SIZE", "CORNER_SIZE"), (True, False), (1, 3),
            ("keep_top_k: 10 nms_param { nms_threshold: 0.45 top_k: 6 } confidence_threshold: 0.2",
             "keep_top_k: -1 nms_param { nms_threshold: 0.3 }",
             "keep_top_k: 5 nms_param { nms_threshold: 0.6 top_k: 400 } confidence_threshold: 0.5 "
             "background_label_id: 2",
             "keep_top_k: 200 background_label_id: -1 confidence_threshold: 0.1",
             "keep_top_k: 3 confidence_threshold: 2",
             "keep_top_k: 7 nms_param { nms_threshold: 0.4 top_k: 3 eta: 0.5 } variance_encoded_in_target: true",
             "keep_top_k: 1 nms_param { nms_threshold: 1.5 top_k: 2 }")):
        fields = "num_classes: %d share_location: %s code_type: %s %s" % (classes, "true" if shared else "false", code,
                                                                         rest)
        places = 1 if shared else classes
        scale = 0.1 if "encoded" in rest else 0.7
        yield ("detections of %d images, %s" % (images, fields),
               *output(fields, {"loc": numbers(1, (images, 4 * count * places), scale),
                                "conf": chances(2, (images, count * classes)), "prior": priors(3, count)}))
    for stages, images in itertools.product((1, 2), (1, 2)):
        inputs = {"loc": numbers(1, (images, 4 * count), 0.7), "conf": chances(2, (images, count * classes)),
                  "prior": priors(3, count), "object": chances(4, (images, 2 * count)),
                  "first": numbers(5, (images, 4 * count), 0.7)}
        if stages == 1:
            del inputs["first"]
        yield ("refined detections, %d bottoms, %d images" % (len(inputs), images),
               *output("num_classes: 4 code_type: CENTER_SIZE keep_top_k: 9 objectness_score: 0.4 "
                       "confidence_threshold: 0.1 nms_param { nms_threshold: 0.45 top_k: 400 }", inputs))


def rejected_detections():
    """Detections that ONNX cannot express."""
    count = 5
    inputs = {"loc": numbers(1, (1, 4 * count)), "conf": chances(2, (1, count * 3)), "prior": priors(3, count)}
    for fields, words in (("nms_param { nms_threshold: 0.6 eta: 0.9 }", "eta"),
                          ("nms_param { nms_threshold: 0.5 soft_nms: LINEAR }", "soft_nms"),
                          ("keep_top_k: 0", "keep_top_k")):
        yield "rejected detections, %s" % fields, *output("num_classes: 3 " + fields, inputs, words)
    yield ("rejected detections of regions",
           *output("num_classes: 3", {"loc": numbers(1, (count, 4)), "conf": chances(2, (count, 3)),
                                      "rois": np.tile(np.float32([0, 1, 1, 9, 9]), (count, 1)),
                                      "info": np.float32([[20, 20, 1]])}, "regions"))


def proposals():
    """Proposal, alone and before the pooling of its regions."""
    for fields, images, scale, tops in itertools.product(
            ("ratio: 0.5 ratio: 1 ratio: 2 scale: 2", "scale: 1 scale: 2 ratio: 1 pre_nms_topn: 20 post_nms_topn: 7",
             "feat_stride: 8 base_size: 8 nms_thresh: 0.5 min_size: 4 pre_nms_topn: 0 post_nms_topn: 0",
             "scale: 1 min_size: 300"), (1, 2), (1, 1.6), (1, 2)):
        anchors = max(1, fields.count("ratio:") or 3) * max(1, fields.count(" scale:") + fields.startswith("scale:")
                                                            or 3)
        inputs = {"scores": chances(1, (images, 2 * anchors, 4, 5)),
                  "offsets": numbers(2, (images, 4 * anchors, 4, 5), 0.3),
                  "info": np.tile(np.float32([64, 80, scale]), (images, 1))}
        yield ("proposals of %d images at scale %g, %s, %d tops" % (images, scale, fields, tops),
               "layer { name: 'p' type: 'Proposal' bottom: 'scores' bottom: 'offsets' bottom: 'info' top: 'rois' %s "
               "proposal_param { %s } }" % ("top: 'best'" * (tops - 1), fields), inputs)
    for kind, fields in (("ROIPooling", "roi_pooling_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.0625 }"),
                         ("ROIAlign", "roi_align_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.0625 }"),
                         ("PSROIPooling", "psroi_pooling_param { spatial_scale: 0.0625 group_size: 2 output_dim: 2 }")):
        yield ("proposals pooled by %s" % kind,
               "layer { name: 'p' type: 'Proposal' bottom: 'scores' bottom: 'offsets' bottom: 'info' top: 'rois' "
               "proposal_param { scale: 2 ratio: 1 } } layer { name: 'q' type: '%s' bottom: 'x' bottom: 'rois' top: 'y' "
               "%s } layer { name: 'r' type: 'ReLU' bottom: 'y' top: 'z' }" % (kind, fields),
               {"scores": chances(1, (1, 2, 4, 5)), "offsets": numbers(2, (1, 4, 4, 5), 0.3),
                "info": np.float32([[64, 80, 1]]), "x": (1, 8, 4, 5)})
    yield ("proposals of a layer of type Python",
           "layer { name: 'p' type: 'Python' bottom: 'scores' bottom: 'offsets' bottom: 'info' top: 'rois' "
           "python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' param_str: \"'feat_stride': 16\" } }",
           {"scores": chances(1, (1, 18, 4, 5)), "offsets": numbers(2, (1, 36, 4, 5), 0.3),
            "info": np.float32([[64, 80, 1]])})


def map_boxes():
    """DecodeBBox, BoxOutput and Yolov3DetectionOutput."""
    for fields in ("", "bbox_reg_param { bbox_mean: 0 bbox_mean: 0.1 bbox_mean: 0 bbox_mean: 0.2 bbox_std: 0.1 "
                   "bbox_std: 0.1 bbox_std: 0.2 bbox_std: 0.2 }"):
        for axes in (2, 4):
            rows = np.concatenate([np.zeros((6, 1)), chances(1, (6, 2)) * 20, 20 + chances(2, (6, 2)) * 20], 1)
            yield ("decoded boxes of %d axes %s" % (axes, fields[:14]),
                   "layer { name: 'd' type: 'DecodeBBox' bottom: 'd' bottom: 'rois' top: 'y' %s }" % fields,
                   {"d": (6, 8), "rois": rows.astype(np.float32).reshape((6, 5) + (1,) * (axes - 2))})
        for rest, images, maps, tops in itertools.product(
                ("fg_thr: -5 min_size: 4", "fg_thr: 0.5 iou_thr: 0.3 max_nms_num: 9 max_post_nms_num: 4 min_size: 2",
                 "fg_thr: 50", "nms_type: 'IOMU'"), (1, 2), (1, 2), (1, 2)):
            inputs = {"m%d" % i: (images, 7, 3 + i, 4 - i) for i in range(maps)}
            text = "layer { name: 'b' type: 'BoxOutput' %s top: 'rois' %s %s box_output_param { %s %s } }" % (
                " ".join("bottom: '%s'" % name for name in inputs), "top: 'best'" * (tops - 1), fields, rest,
                " ".join("field_h: %d field_w: %d downsample_rate: %d" % (16 + i, 20 - i, 8) for i in range(maps)))
            yield ("boxes of %d maps, %d images, %d tops, %s %s" % (maps, images, tops, rest, fields[:14]), text, inputs,
                   {"rejected": "NonMaxSuppression compares"} if "IOMU" in rest else {})
    for rest, images, maps in itertools.product(("confidence_threshold: 0.1", "confidence_threshold: 0.5 "
                                                 "nms_threshold: 0.2", "confidence_threshold: 2"), (1, 2), (1, 2)):
        inputs = {"m%d" % i: (images, 2 * 8, 3 + i, 4 - i) for i in range(maps)}
        yield ("yolo of %d maps, %d images, %s" % (maps, images, rest),
               "layer { name: 'y' type: 'Yolov3DetectionOutput' %s top: 'y' yolov3_detection_output_param { %s "
               "num_classes: 3 num_box: 2 %s biases: 8 biases: 9 biases: 16 biases: 12 biases: 20 biases: 30 } }" % (
                   " ".join("bottom: '%s'" % name for name in inputs), rest,
                   " ".join("mask: %d mask: %d anchors_scale: %d" % (i, i + 1, 8 * (i + 1)) for i in range(maps))),
               inputs)


def cases():
    """All cases of the family."""
    yield from prior_boxes()
    yield from detections()
    yield from rejected_detections()
    yield from proposals()
    yield from map_boxes()
