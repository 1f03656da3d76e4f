#!/usr/bin/env python3
"""Writes the models that say where things are: detectors (SSD300 with MobileNet, Faster R-CNN with ResNet-50)
and segmentation (FCN-8s, U-Net) under models/, and the small nets of examples/detection, examples/faster_rcnn
and examples/segmentation.

Usage: write_dense_models.py [-check]

-check writes nothing and fails when a file differs from what would be written.
"""
import pathlib
import sys

import write_models
from write_models import MSRA, Net

ROOT = pathlib.Path(__file__).resolve().parent.parent
VOC_BOXES = """# The databases are made from PASCAL VOC 2007 and 2012. Labels are 1 to 20, in the alphabetical order of the classes.
#   mkdir -p examples/VOC0712
#   examples/datasets/voc.py boxes VOCdevkit/ voc/
#   crema convert_annoset voc/ voc/trainval.txt examples/VOC0712/VOC0712_trainval_lmdb
#   crema convert_annoset voc/ voc/test.txt examples/VOC0712/VOC0712_test_lmdb"""
VOC_MAPS = """# The databases are made from PASCAL VOC 2012. Pixels of the maps are classes, 0 to 20; 255 is ignored.
#   examples/datasets/voc.py maps VOCdevkit/ voc/
#   for part in train val; do
#     crema convert_imageset voc/ voc/${part}_images.txt examples/voc_${part}_images_lmdb
#     crema convert_imageset -gray voc/ voc/${part}_maps.txt examples/voc_${part}_maps_lmdb
#   done"""
CELL_MAPS = """# The databases are made from lists of files: images and maps in the same order, each line with a name and a 0.
# A map is a greyscale PNG of its image's size. Its pixels are classes, 0 or 1; 255 is ignored.
#   for part in train test; do
#     crema convert_imageset -gray images/ ${part}_images.txt examples/cells_${part}_images_lmdb
#     crema convert_imageset -gray maps/ ${part}_maps.txt examples/cells_${part}_maps_lmdb
#   done"""
TRAIN, TEST = "include { phase: TRAIN }", "include { phase: TEST }"


class Dense(Net):
    """A net whose inputs the caller writes."""

    def __init__(self, title, train, filler):
        self.train, self.rules, self.lines = train, {"filler": filler}, [f'name: "{title}"']

    def note(self, text):
        """Puts a comment before the net's name."""
        self.lines.insert(0, text)

    def write(self, text):
        self.lines += text.strip("\n").split("\n")

    def input(self, *shape):
        self.layer_without_bottom("data", "Input", "input_param { shape { "
                                  + " ".join(f"dim: {extent}" for extent in shape) + " } }")

    def layer_without_bottom(self, name, kind, *fields):
        self.lines += ["layer {", f'  name: "{name}" type: "{kind}" top: "{name}"', *("  " + f for f in fields), "}"]

    def up(self, name, bottom, outputs, kernel, stride, bias=False, group=1, fixed=False):
        """A deconvolution; `fixed`: it interpolates, and learns nothing."""
        words = [f"num_output: {outputs}", f"kernel_size: {kernel}", f"stride: {stride}"]
        words += [f"group: {group}"] if group != 1 else []
        words += [] if bias else ["bias_term: false"]
        if self.train:
            words.append('weight_filler { type: "bilinear" }' if fixed else f'weight_filler {{ {self.rules["filler"]} }}')
        return self.layer(name, "Deconvolution", bottom, name, "param { lr_mult: 0 }" if fixed and self.train else
                          self.rates(bias), "convolution_param { " + " ".join(words) + " }")

    def text(self):
        return "\n".join(self.lines) + "\n"


# ---- SSD ---------------------------------------------------------------------------------------

def boxes_input(net, size, source, batch, test_batch, scale):
    """Pictures with boxes; patches of them are drawn as the paper's section 2.2 says."""
    samplers = ["batch_sampler { use_original_image: true max_sample: 1 max_trials: 1 }"]
    for least in ("0.1", "0.3", "0.5", "0.7", "0.9"):
        samplers.append("batch_sampler { sampler { min_scale: 0.3 max_scale: 1 min_aspect_ratio: 0.5 "
                        f"max_aspect_ratio: 2 }} sample_constraint {{ min_jaccard_overlap: {least} }} "
                        "max_sample: 1 max_trials: 50 }")
    resize = f"resize_param {{ resize_mode: WARP height: {size} width: {size} interp_mode: LINEAR }}"
    for phase, name, count in (("TRAIN", source[0], batch), ("TEST", source[1], test_batch)):
        net.write(f"""
layer {{
  name: "data" type: "AnnotatedData" top: "data" top: "label"
  include {{ phase: {phase} }}
  transform_param {{
    {scale}{"mirror: true " if phase == "TRAIN" else ""}{resize}
  }}
  data_param {{ source: "{name}" batch_size: {count} backend: LMDB }}""")
        if phase == "TRAIN":
            net.write("  annotated_data_param {\n" + "\n".join("    " + one for one in samplers) + "\n  }")
        net.write("}")


def ssd_heads(net, sources, classes, kernel):
    """Places, scores and prior boxes of the maps in `sources`: blob, boxes in each cell, text of its priors."""
    for kind, width in (("loc", 4), ("conf", classes)):
        tops = []
        for blob, boxes, _ in sources:
            name = f"{blob}_mbox_{kind}"
            net.conv(name, blob, boxes * width, kernel, pad=kernel // 2, bias=True)
            net.layer(f"{name}_perm", "Permute", name, f"{name}_perm",
                      "permute_param { order: 0 order: 2 order: 3 order: 1 }")
            tops.append(net.layer(f"{name}_flat", "Flatten", f"{name}_perm", f"{name}_flat"))
        net.layer(f"mbox_{kind}", "Concat", tops, f"mbox_{kind}", "concat_param { axis: 1 }")
    tops = [net.layer(f"{blob}_mbox_priorbox", "PriorBox", [blob, "data"], f"{blob}_mbox_priorbox",
                      "prior_box_param { " + priors + " clip: false variance: 0.1 variance: 0.1 variance: 0.2 "
                      "variance: 0.2 }") for blob, _, priors in sources]
    net.layer("mbox_priorbox", "Concat", tops, "mbox_priorbox", "concat_param { axis: 2 }")


def ssd_end(net, classes, evaluate):
    test = "include { phase: TEST }" if net.train else ""
    if net.train:
        net.layer("mbox_loss", "MultiBoxLoss", ["mbox_loc", "mbox_conf", "mbox_priorbox", "label"], "mbox_loss",
                  "include { phase: TRAIN } propagate_down: true propagate_down: true propagate_down: false "
                  "propagate_down: false", "loss_param { normalization: VALID }",
                  f"multibox_loss_param {{ loc_loss_type: SMOOTH_L1 conf_loss_type: SOFTMAX num_classes: {classes} "
                  "code_type: CENTER_SIZE",
                  "overlap_threshold: 0.5 neg_pos_ratio: 3 neg_overlap: 0.5 mining_type: MAX_NEGATIVE }")
    net.layer("mbox_conf_reshape", "Reshape", "mbox_conf", "mbox_conf_reshape", test,
              f"reshape_param {{ shape {{ dim: 0 dim: -1 dim: {classes} }} }}")
    net.layer("mbox_conf_softmax", "Softmax", "mbox_conf_reshape", "mbox_conf_softmax", test, "softmax_param { axis: 2 }")
    net.layer("mbox_conf_flatten", "Flatten", "mbox_conf_softmax", "mbox_conf_flatten", test)
    net.layer("detection_out", "DetectionOutput", ["mbox_loc", "mbox_conf_flatten", "mbox_priorbox"], "detection_out",
              test, f"detection_output_param {{ num_classes: {classes} share_location: true background_label_id: 0 "
              "code_type: CENTER_SIZE keep_top_k: 100 confidence_threshold: 0.01 nms_param { nms_threshold: 0.45 top_k: 100 } }")
    if evaluate:
        net.layer("detection_eval", "DetectionEvaluate", ["detection_out", "label"], "detection_eval", test,
                  f"detection_evaluate_param {{ num_classes: {classes} overlap_threshold: 0.5 "
                  "evaluate_difficult_gt: false }")


def ssd300_mobilenet(train):
    """MobileNet v1 without its end, then four pairs of convolutions that halve the map."""
    net = Dense("SSD300 MobileNet", train, MSRA)
    if train:
        net.note(VOC_BOXES)
        boxes_input(net, 300, ("examples/VOC0712/VOC0712_trainval_lmdb", "examples/VOC0712/VOC0712_test_lmdb"), 24, 8,
                    "scale: 0.007843 mean_value: 127.5 ")
    else:
        net.input(1, 3, 300, 300)
    blob = write_models.mobilenet_v1_body(net)
    for number, outputs in ((14, 512), (15, 256), (16, 256), (17, 128)):
        for half, (channels, shape) in enumerate(((outputs // 2, (1,)), (outputs, (3, 2, 1))), 1):
            name = f"conv{number}_{half}"
            blob = net.conv(name, blob, channels, *shape)
            net.norm(f"{name}/bn", f"{name}/scale", blob)
            net.relu(f"relu{number}_{half}", blob)
    def priors(least, most=None, three=True):
        return (f"min_size: {least} " + (f"max_size: {most} " if most else "") + "aspect_ratio: 2 "
                + ("aspect_ratio: 3 " if three else "") + "flip: true")

    ssd_heads(net, (("conv5_5/sep", 3, priors(60, three=False)), ("conv6/sep", 6, priors(105, 150)),
                    ("conv14_2", 6, priors(150, 195)), ("conv15_2", 6, priors(195, 240)),
                    ("conv16_2", 6, priors(240, 285)), ("conv17_2", 6, priors(285, 300))), 21, 1)
    ssd_end(net, 21, train)
    return net


def ssd_of_shapes(train):
    """Six convolutions; boxes from maps of 16 x 16, 8 x 8 and 4 x 4 cells."""
    net = Dense("SSD of shapes", train, MSRA)
    if train:
        boxes_input(net, 64, ("train_lmdb", "test_lmdb"), 32, 20, "scale: 0.0078125 mean_value: 128 ")
    else:
        net.input(1, 3, 64, 64)
    blob = "data"
    for number, (outputs, stride) in enumerate(((16, 2), (24, 1), (32, 2), (48, 2), (48, 1), (64, 2)), 1):
        blob = net.conv(f"conv{number}", blob, outputs, 3, stride, 1)
        net.norm(f"bn{number}", f"scale{number}", blob)
        net.relu(f"relu{number}", blob)
    ssd_heads(net, (("conv5", 4, "min_size: 16 max_size: 22 aspect_ratio: 2 flip: true"),
                    ("conv6", 4, "min_size: 26 max_size: 32 aspect_ratio: 2 flip: true")), 3, 3)
    ssd_end(net, 3, train)
    return net


# ---- Faster R-CNN ------------------------------------------------------------------------------

class Detector(Dense):
    """A trunk's normalisation is not learnt again: a batch is a single picture."""

    def norm(self, norm, scale, blob, top=None):
        if not self.train:
            return super().norm(norm, scale, blob, top)
        top = self.layer(norm, "BatchNorm", blob, top or blob, "batch_norm_param { use_global_stats: true }")
        return self.layer(scale, "Scale", top, top, "param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: 0 }",
                          "scale_param { bias_term: true }")


def picture_input(net, sources, scale, side, most=None, size=None):
    """A picture with its boxes a batch; `size`: of the net that is deployed."""
    if not net.train:
        net.input(1, 3, *size)
        net.layer_without_bottom("im_info", "Input", "input_param { shape { dim: 1 dim: 3 } }")
        return
    for phase, source in zip(("TRAIN", "TEST"), sources):
        mirror, label, shuffle = ("mirror: true ", "", " shuffle: true") if phase == "TRAIN" else ("", ' top: "label"', "")
        net.write(f"""
layer {{
  name: "data" type: "RoIData" top: "data" top: "im_info" top: "gt_boxes"{label}
  include {{ phase: {phase} }}
  transform_param {{ {mirror}{scale} }}
  data_param {{ source: "{source}" batch_size: 1 backend: LMDB{shuffle} }}
  roi_data_param {{ short_side: {side}{f" max_side: {most}" if most else ""} }}
}}""")


def proposals(net, blob, outputs, anchors, count, target, proposal, counts):
    """A network that proposes regions, and what it learns; `counts`: boxes looked at and kept, in training and in
    testing."""
    rpn = net.relu("rpn_relu/3x3", net.conv("rpn_conv/3x3", blob, outputs, 3, pad=1, bias=True))
    weak = 'type: "gaussian" std: 0.01'
    net.conv("rpn_cls_score", rpn, 2 * count, 1, bias=True, filler=weak)
    net.conv("rpn_bbox_pred", rpn, 4 * count, 1, bias=True, filler=weak)
    net.layer("rpn_cls_score_reshape", "Reshape", "rpn_cls_score", "rpn_cls_score_reshape",
              "reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } }")
    if net.train:
        names = ["rpn_labels", "rpn_bbox_targets", "rpn_bbox_inside_weights", "rpn_bbox_outside_weights"]
        net.layer("rpn_data", "AnchorTarget", ["rpn_cls_score", "gt_boxes", "im_info"], '" top: "'.join(names), TRAIN,
                  f"anchor_target_param {{ {anchors}{target} }}")
        net.layer("rpn_loss_cls", "SoftmaxWithLoss", ["rpn_cls_score_reshape", "rpn_labels"], "rpn_loss_cls", TRAIN,
                  "loss_param { ignore_label: -1 normalization: VALID }")
        net.layer("rpn_loss_bbox", "SmoothL1Loss", ["rpn_bbox_pred", *names[1:]], "rpn_loss_bbox", TRAIN,
                  "smooth_l1_loss_param { sigma: 3 }")
    net.layer("rpn_cls_prob", "Softmax", "rpn_cls_score_reshape", "rpn_cls_prob")
    net.layer("rpn_cls_prob_reshape", "Reshape", "rpn_cls_prob", "rpn_cls_prob_reshape",
              f"reshape_param {{ shape {{ dim: 0 dim: {2 * count} dim: -1 dim: 0 }} }}")
    for phase, top in ((TRAIN, "rpn_rois"), (TEST, "rois")) if net.train else (("", "rois"),):
        before, after = counts[phase != TRAIN]
        net.layer("proposal", "Proposal", ["rpn_cls_prob_reshape", "rpn_bbox_pred", "im_info"], top, phase,
                  f"proposal_param {{ {proposal}{anchors}",
                  f"  pre_nms_topn: {before} post_nms_topn: {after} nms_thresh: 0.7 }}")


def region_targets(net, fields):
    if net.train:
        names = ["rois", "labels", "bbox_targets", "bbox_inside_weights", "bbox_outside_weights"]
        net.layer("roi_data", "ProposalTarget", ["rpn_rois", "gt_boxes"], '" top: "'.join(names), TRAIN,
                  f"proposal_target_param {{ {fields} }}")


def regions_end(net, blob, classes, evaluate=True):
    """What a region is, and where in it; `evaluate` is for the end of a net whose results are boxes."""
    net.full("cls_score", blob, classes, 'type: "gaussian" std: 0.01')
    net.full("bbox_pred", blob, 4 * classes, 'type: "gaussian" std: 0.001')
    if net.train:
        net.layer("loss_cls", "SoftmaxWithLoss", ["cls_score", "labels"], "loss_cls", TRAIN)
        net.layer("loss_bbox", "SmoothL1Loss", ["bbox_pred", "bbox_targets", "bbox_inside_weights",
                                                "bbox_outside_weights"], "loss_bbox", TRAIN)
    test = TEST if net.train else ""
    net.layer("cls_prob", "Softmax", "cls_score", "cls_prob", test)
    if not evaluate:
        return
    net.layer("detection_out", "DetectionOutput", ["bbox_pred", "cls_prob", "rois", "im_info"], "detection_out", test,
              f"detection_output_param {{ num_classes: {classes} share_location: false code_type: CENTER_SIZE "
              "keep_top_k: 100", "  confidence_threshold: 0.01 nms_param { nms_threshold: 0.3 } }")
    if net.train:
        net.layer("detection_eval", "DetectionEvaluate", ["detection_out", "label"], "detection_eval", TEST,
                  f"detection_evaluate_param {{ num_classes: {classes} overlap_threshold: 0.5 "
                  "evaluate_difficult_gt: false }")
        net.write('layer { name: "unused" type: "Silence" bottom: "gt_boxes" include { phase: TEST } }')


def faster_rcnn(train):
    """Regions from ResNet-50's fourth group; its fifth one looks at each of them. The fields are the paper's:
    anchors of three ratios and three sizes, 2,000 regions in training and 300 in testing."""
    net = Detector("Faster R-CNN ResNet-50", train, 'type: "gaussian" std: 0.01')
    if train:
        net.note(VOC_BOXES)
    picture_input(net, ("examples/VOC0712/VOC0712_trainval_lmdb", "examples/VOC0712/VOC0712_test_lmdb"),
                  "mean_value: 104 mean_value: 117 mean_value: 123", 600, 1000, (600, 1000))
    blob = write_models.bottlenecks(net, write_models.resnet_stem(net), (3, 4, 6))
    sizes = "ratio: 0.5 ratio: 1 ratio: 2 scale: 8 scale: 16 scale: 32"
    proposals(net, blob, 512, sizes, 9, " feat_stride: 16 batch_size: 256",
              "feat_stride: 16 base_size: 16 min_size: 16 ", ((12000, 2000), (6000, 300)))
    region_targets(net, "num_classes: 21 batch_size: 128")
    net.layer("roi_pool", "ROIPooling", [blob, "rois"], "roi_pool",
              "roi_pooling_param { pooled_h: 14 pooled_w: 14 spatial_scale: 0.0625 }")
    blob = write_models.bottlenecks(net, "roi_pool", (3,), first=3)
    blob = net.pool("pool5", blob, "pool: AVE global_pooling: true")
    regions_end(net, blob, 21, train)
    return net


def faster_rcnn_of_shapes(train):
    """Five convolutions, and regions from a map of 16 x 16 cells."""
    net = Dense("Faster R-CNN of shapes", train, MSRA)
    picture_input(net, ("train_lmdb", "test_lmdb"), "scale: 0.0078125 mean_value: 128", 64, size=(64, 64))
    blob = "data"
    for number, (outputs, stride) in enumerate(((16, 2), (24, 1), (32, 2), (48, 1), (48, 1)), 1):
        blob = net.relu(f"relu{number}", net.conv(f"conv{number}", blob, outputs, 3, stride, 1, bias=True))
    anchors = "feat_stride: 4 ratio: 0.5 ratio: 1 ratio: 2 scale: 0.9 scale: 1.3 scale: 1.9"
    proposals(net, blob, 64, anchors, 9, " allowed_border: 6 batch_size: 64", "min_size: 6 ", ((600, 100), (300, 50)))
    region_targets(net, "num_classes: 3 batch_size: 32 fg_fraction: 0.4")
    net.layer("roi_pool", "ROIPooling", [blob, "rois"], "roi_pool",
              "roi_pooling_param { pooled_h: 6 pooled_w: 6 spatial_scale: 0.25 }")
    regions_end(net, net.relu("relu6", net.full("fc6", "roi_pool", 128)), 3)
    return net


# ---- segmentation ------------------------------------------------------------------------------

def maps_input(net, source, batch, test_batch, scale):
    """Pictures and maps of their pixels' classes, from two databases in the same order."""
    for phase, name, count in (("TRAIN", "train", batch), ("TEST", source[1], test_batch)):
        for top, kind in (("data", "images"), ("label", "maps")):
            transform = f"  transform_param {{ {scale} }}\n" if top == "data" else ""
            net.write(f"""
layer {{
  name: "{top}" type: "Data" top: "{top}"
  include {{ phase: {phase} }}
{transform}  data_param {{ source: "{source[0]}{name}_{kind}_lmdb" batch_size: {count} backend: LMDB }}
}}""")


def maps_end(net, score, label="label"):
    """Pixels that are 255 in the map count for nothing."""
    if not net.train:
        net.layer("prob", "Softmax", score, "prob")
        return
    net.layer("loss", "SoftmaxWithLoss", [score, label], "loss", "" if label == "label" else
              "propagate_down: true propagate_down: false", "loss_param { ignore_label: 255 }")
    net.layer("accuracy", "Accuracy", [score, label], "accuracy", "include { phase: TEST }",
              "accuracy_param { ignore_label: 255 }")


def crop(net, name, bottom, like, offset):
    return net.layer(name, "Crop", [bottom, like], name, f"crop_param {{ axis: 2 offset: {offset} }}")


def fcn8s(train):
    """VGG-16 as convolutions; scores of three depths are enlarged and added. The first convolution pads by 100,
    so that the scores cover the picture wherever they are cut."""
    net = Dense("FCN-8s", train, MSRA)
    if train:
        net.note(VOC_MAPS)
        maps_input(net, ("examples/voc_", "val"), 1, 1, "mean_value: 104 mean_value: 117 mean_value: 123")
    else:
        net.input(1, 3, 500, 500)
    blob = write_models.vgg_convolutions(net, first_pad=100)
    for number, kernel in ((6, 7), (7, 1)):
        blob = net.relu(f"relu{number}", net.conv(f"fc{number}", blob, 4096, kernel, bias=True))
        blob = net.layer(f"drop{number}", "Dropout", blob, blob, "dropout_param { dropout_ratio: 0.5 }")
    zero = 'type: "constant" value: 0'
    blob = net.up("upscore2", net.conv("score_fr", blob, 21, 1, bias=True, filler=zero), 21, 4, 2)
    for depth, offset, wide in ((4, 5, False), (3, 9, True)):
        score = net.conv(f"score_pool{depth}", f"pool{depth}", 21, 1, bias=True, filler=zero)
        score = crop(net, f"score_pool{depth}c", score, blob, offset)
        blob = net.layer(f"fuse_pool{depth}", "Eltwise", [blob, score], f"fuse_pool{depth}")
        blob = net.up("upscore8", blob, 21, 16, 8) if wide else net.up("upscore_pool4", blob, 21, 4, 2)
    maps_end(net, crop(net, "score", blob, "data", 31))
    return net


def unet(train, first=64, depth=4, classes=2, pad=0, title="U-Net", size=572, channels=1, source=None):
    """The paper's figure 1: `depth` halvings with two convolutions before each, and as many enlargements.
    Without padding each convolution takes a pixel off every side, and what is put beside the enlarged map is cut."""
    net = Dense(title, train, MSRA)
    batch, test_batch, scale, place = source or (1, 1, "scale: 0.00390625", ("examples/cells_", "test"))
    if train:
        if source is None:
            net.note(CELL_MAPS)
        maps_input(net, place, batch, test_batch, scale)
    else:
        net.input(1, channels, size, size)

    def double(name, blob, outputs):
        for half in (1, 2):
            blob = net.relu(f"relu_{name}_{half}", net.conv(f"conv_{name}_{half}", blob, outputs, 3, pad=pad, bias=True))
        return blob

    blob, kept = "data", []
    for level in range(depth):
        kept.append(double(f"d{level}", blob, first << level))
        blob = net.pool(f"pool{level}", kept[-1], "pool: MAX kernel_size: 2 stride: 2")
    blob = double(f"d{depth}", blob, first << depth)
    blob = net.layer("drop", "Dropout", blob, blob, "dropout_param { dropout_ratio: 0.5 }")
    offset = 4
    for level in reversed(range(depth)):
        blob = net.up(f"up{level}", blob, first << level, 2, 2, bias=True)
        beside = kept[level]
        if pad == 0:
            beside, offset = crop(net, f"crop{level}", beside, blob, offset), 2 * offset + 8
        blob = net.layer(f"concat{level}", "Concat", [beside, blob], f"concat{level}")
        blob = double(f"u{level}", blob, first << level)
    score = net.conv("score", blob, classes, 1, bias=True)
    cut = train and pad == 0
    maps_end(net, score, crop(net, "label_crop", "label", score, offset // 2) if cut else "label")
    return net


def unet_of_shapes(train):
    return unet(train, first=8, depth=3, classes=3, pad=1, title="U-Net of shapes", size=64, channels=3,
                source=(16, 20, "scale: 0.0078125 mean_value: 128", ("", "test")))


# ---- files -------------------------------------------------------------------------------------

def solver(words, net, prefix, fields):
    return f'# {words}\nnet: "{net}"\n' + fields.strip("\n") + f'\nsnapshot_prefix: "{prefix}"\n'


DETECTION = 'eval_type: "detection"\nap_version: "11point"\n'
FILES = {
    "models/ssd300_mobilenet/deploy.prototxt": lambda: ssd300_mobilenet(False).text(),
    "models/ssd300_mobilenet/train_val.prototxt": lambda: ssd300_mobilenet(True).text(),
    "models/ssd300_mobilenet/solver.prototxt": lambda: solver(
        "The paper's schedule for VOC, from weights of models/mobilenet_v1.", "models/ssd300_mobilenet/train_val.prototxt",
        "models/ssd300_mobilenet/ssd300_mobilenet", DETECTION + """
test_iter: 619
test_interval: 10000
test_initialization: false
display: 10
average_loss: 10
base_lr: 0.001
lr_policy: "multistep"
gamma: 0.1
stepvalue: 80000
stepvalue: 100000
max_iter: 120000
momentum: 0.9
weight_decay: 0.0005
snapshot: 10000"""),
    "models/faster_rcnn_resnet50/deploy.prototxt": lambda: faster_rcnn(False).text(),
    "models/faster_rcnn_resnet50/train_val.prototxt": lambda: faster_rcnn(True).text(),
    "models/faster_rcnn_resnet50/solver.prototxt": lambda: solver(
        "End to end on VOC, two pictures an iteration, from weights of models/resnet50.",
        "models/faster_rcnn_resnet50/train_val.prototxt", "models/faster_rcnn_resnet50/faster_rcnn_resnet50",
        DETECTION + """
test_iter: 4952
test_interval: 10000
test_initialization: false
display: 20
average_loss: 100
iter_size: 2
base_lr: 0.001
lr_policy: "step"
gamma: 0.1
stepsize: 50000
max_iter: 70000
momentum: 0.9
weight_decay: 0.0001
snapshot: 10000"""),
    "models/fcn8s/deploy.prototxt": lambda: fcn8s(False).text(),
    "models/fcn8s/train_val.prototxt": lambda: fcn8s(True).text(),
    "models/fcn8s/solver.prototxt": lambda: solver(
        "The paper's fixed rate, momentum and 20 pictures a batch, from weights of models/vgg16.",
        "models/fcn8s/train_val.prototxt", "models/fcn8s/fcn8s", """
test_iter: 736
test_interval: 4000
test_initialization: false
display: 20
average_loss: 20
base_lr: 0.0001
lr_policy: "fixed"
max_iter: 100000
iter_size: 20
momentum: 0.9
weight_decay: 0.0005
snapshot: 4000"""),
    "models/unet/deploy.prototxt": lambda: unet(False).text(),
    "models/unet/train_val.prototxt": lambda: unet(True).text(),
    "models/unet/solver.prototxt": lambda: solver(
        "One picture a batch and a momentum of 0.99, as in the paper, which does not give the rate.",
        "models/unet/train_val.prototxt", "models/unet/unet", """
test_iter: 10
test_interval: 1000
test_initialization: false
display: 20
average_loss: 20
base_lr: 0.001
lr_policy: "fixed"
max_iter: 60000
momentum: 0.99
weight_decay: 0.0005
snapshot: 10000"""),
    "examples/detection/deploy.prototxt": lambda: ssd_of_shapes(False).text(),
    "examples/detection/train_val.prototxt": lambda: ssd_of_shapes(True).text(),
    "examples/faster_rcnn/deploy.prototxt": lambda: faster_rcnn_of_shapes(False).text(),
    "examples/faster_rcnn/train_val.prototxt": lambda: faster_rcnn_of_shapes(True).text(),
    "examples/segmentation/deploy.prototxt": lambda: unet_of_shapes(False).text(),
    "examples/segmentation/train_val.prototxt": lambda: unet_of_shapes(True).text(),
}


def main():
    check, different = "-check" in sys.argv[1:], []
    for name, text in FILES.items():
        path = ROOT / name
        if check and (not path.exists() or path.read_text() != text()):
            different.append(name)
        elif not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text())
    if different:
        sys.exit("differ from what scripts/write_dense_models.py writes: " + ", ".join(different))


main()
