"""Writes tests/layers/peers.inc: what other implementations make of layers of detectors and of segmentation.

Usage: peer_layers.py > tests/layers/peers.inc  (needs PyTorch, torchvision, scikit-learn and pydensecrf2)
"""
import importlib.metadata

import numpy as np
import pydensecrf.densecrf as dcrf
import torch
from pydensecrf.utils import unary_from_softmax
from sklearn import metrics
from torchvision.models.detection import _utils
from torchvision.ops import boxes

# The corner of a box of Faster R-CNN is its last pixel, that of torchvision's lies behind it.
LAST = torch.tensor([0, 0, 1, 1]).double()


def pattern(shape, number):
    """Element i of blob `number` is ((i + 11 number) * 37 % 101 - 50.5) / 32, which floats hold exactly."""
    count = int(np.prod(shape))
    return ((np.arange(count) + 11 * number) * 37 % 101 - 50.5).reshape(shape) / 32


# ---- Faster R-CNN ----

OBJECTS = torch.tensor([[3.5, 2, 12.25, 11, 2], [20, 5.5, 34, 24.75, 1], [8, 14, 14, 29.5, 3]]).double()


def anchor_target():
    height, width, border, picture = 4, 5, 4, (32, 40)
    square = [(3.5 - (side - 1) / 2, 3.5 + (side - 1) / 2) for side in (8, 16)]
    all_boxes = torch.tensor([[8 * x + low, 8 * y + low, 8 * x + high, 8 * y + high]
                              for y in range(height) for x in range(width) for low, high in square]).double()
    inside = ((all_boxes[:, :2] >= -border).all(1) & (all_boxes[:, 2] < picture[1] + border)
              & (all_boxes[:, 3] < picture[0] + border))
    anchors, truth = all_boxes[inside] + LAST, OBJECTS[:, :4] + LAST
    overlap = boxes.box_iou(truth, anchors)
    found = _utils.Matcher(0.5, 0.25, allow_low_quality_matches=True)(overlap)
    label = torch.full((len(all_boxes),), -1.0).double()
    label[inside] = torch.where(found >= 0, 1.0, torch.where(found == -1, 0.0, -1.0)).double()
    offset = torch.zeros(len(all_boxes), 4).double()
    offset[inside] = _utils.BoxCoder((1, 1, 1, 1)).encode([truth[overlap.argmax(0)]], [anchors])[0]
    weight = (label == 1).double()
    share = (label >= 0).double() / (label >= 0).sum()

    def by_anchor(values, columns):
        cells = values.reshape(height, width, len(square), columns)
        return cells.permute(2, 3, 0, 1)

    four = torch.ones(1, 4).double()
    return dict(type="AnchorTarget", origin="torchvision", shapes="1 4 4 5|3 5|1 3",
                body="anchor_target_param { ratio: 1 scale: 1 scale: 2 base_size: 8 feat_stride: 8 positive_overlap: 0.5 "
                "negative_overlap: 0.25 allowed_border: 4 batch_size: 10000 fg_fraction: 1 }",
                given=[np.zeros((1, 4, 4, 5)), OBJECTS, [*picture, 1]],
                tops=[by_anchor(label[:, None], 1), by_anchor(offset, 4), by_anchor(weight[:, None] * four, 4),
                      by_anchor(share[:, None] * four, 4)])


def proposal_target(classes):
    shift = torch.tensor([[0, 0, 0, 0], [1, 2, 3, 1], [-4, 1, 6, 2], [9, 9, 12, 12]]).double()
    proposals = (OBJECTS[None, :, :4] + shift[:, None, :]).reshape(-1, 4)
    regions = torch.cat([proposals, OBJECTS[:, :4]]) + LAST
    truth = OBJECTS[:, :4] + LAST
    overlap = boxes.box_iou(truth, regions)
    found = _utils.Matcher(0.5, 0.5)(overlap)
    order = torch.cat([torch.where(found >= 0)[0], torch.where(found < 0)[0]])
    label = torch.where(found >= 0, OBJECTS[found.clamp(0), 4], 0.0)[order]
    offset = _utils.BoxCoder((10, 10, 5, 5)).encode([truth[overlap.argmax(0)]], [regions])[0][order]
    targets, weights = torch.zeros(2, len(order), classes, 4).double()
    for row in torch.where(label > 0)[0]:
        column = 1 if classes == 2 else int(label[row])
        targets[row, column], weights[row, column] = offset[row], 1
    picture = torch.zeros(len(order), 1).double()
    given = torch.cat([torch.zeros(len(proposals), 1).double(), proposals], 1)
    return dict(type="ProposalTarget", origin="torchvision", shapes=f"{len(proposals)} 5|3 5",
                body=f"proposal_target_param {{ num_classes: {classes} batch_size: 1000 fg_fraction: 1 }}",
                given=[given, OBJECTS],
                tops=[torch.cat([picture, regions[order] - LAST], 1), label, targets, weights, weights])


def box_annotator():
    image = torch.tensor([0, 0, 1, 0, 1, 1, 0, 1, 2, 0]).double()
    rois = torch.cat([image[:, None], torch.from_numpy(pattern((10, 4), 1))], 1)
    loss, label, weight = torch.from_numpy(pattern((10,), 2)), 1 + torch.arange(10).double() % 3, 1 + torch.arange(20)
    kept = torch.zeros(10, dtype=bool)
    for number in range(3):
        rows = torch.where(image == number)[0]
        kept[rows[torch.topk(loss[rows], min(3, len(rows))).indices]] = True
    weight = weight.reshape(10, 2).double()
    return dict(type="BoxAnnotatorOHEM", origin="PyTorch",
                body="box_annotator_ohem_param { roi_per_img: 3 ignore_label: 255 }",
                shapes="10 5|10|10|10 2", given=[rois, loss, label, weight],
                tops=[torch.where(kept, label, 255.0), weight * kept[:, None]])


# ---- DetectNet ----

def detectnet():
    height, width, stride, most = 12, 16, 2, 4
    picture = pattern((3, height, width), 0)
    rows = np.array([[1.5, 2, 9, 6.25, 3], [-3, 5, 10, 8, 7], [10.5, 1.25, 4, 2.5, 7], [4, 4, 6, 6, 4]])
    label, objects = np.zeros((11, height // stride, width // stride)), np.zeros((6, 16))
    objects[0, :2] = len(rows), 16
    objects[1:5, :4], objects[1:5, 5] = rows[:, :4], rows[:, 4]
    y, x = np.mgrid[:height:stride, :width:stride]
    for left, top, wide, high, kind in rows:
        right, bottom = min(left + wide, width), min(top + high, height)
        left, top = max(left, 0), max(top, 0)
        if kind not in (3, 7):
            continue
        # What is learnt is half as wide and as high as the object, but no wider and no higher than `most`.
        half = np.minimum([0.5 * (right - left), 0.5 * (bottom - top)], most) / 2
        middle = np.array([left + right, top + bottom]) / 2
        (west, north), (east, south) = middle - half, middle + half
        covered = ((np.minimum(x + stride, east) > np.maximum(x, west))
                   & (np.minimum(y + stride, south) > np.maximum(y, north)))
        share = max(1, stride**2 / (4 * half.prod()))
        one = np.ones_like(x)
        cell = np.stack([one, left - x, top - y, right - x, bottom - y, one / (right - left), one / (bottom - top),
                         share * one, one * (kind == 3), 0 * one, one * (kind == 7)])
        label = np.where(covered, cell, label)
    never = " ".join(f"{name}_prob: 0" for name in ("crop", "flip", "rotation", "scale", "hue_rotation", "desaturation"))
    return dict(type="DetectNetTransformation", origin="NumPy", shapes="1 3 12 16|1 1 6 16",
                body=f"detectnet_groundtruth_param {{ stride: {stride} scale_cvg: 0.5 max_cvg_len: {most} image_size_x: 16 "
                f"image_size_y: 12 object_class {{ src: 3 dst: 0 }} object_class {{ src: 7 dst: 2 }} }} "
                f"detectnet_augmentation_param {{ {never} }}",
                given=[picture, objects], tops=[picture, label])


# ---- segmentation ----

def seg_accuracy():
    scores, label = pattern((2, 5, 3, 5), 0), np.arange(30) * 7 % 5 % 3
    scores[:, 4] = -2  # a class that does not occur
    label[[4, 17]] = 255
    guess, counts = scores.argmax(1).ravel(), label != 255
    truth, guess = label[counts], guess[counts]
    top = [metrics.accuracy_score(truth, guess),
           metrics.recall_score(truth, guess, labels=np.unique(truth), average="macro"),
           metrics.jaccard_score(truth, guess, labels=range(5), average="macro", zero_division=1)]
    return dict(type="SegAccuracy", origin="scikit-learn", body="seg_accuracy_param { ignore_label: 255 }",
                shapes="2 5 3 5|2 1 3 5", given=[scores, label], tops=[top])


def dense_crf(steps, colours):
    height, width, classes = 9, 11, 3
    scores = pattern((classes, height, width), 0)
    picture = (np.arange(3 * height * width) // 5 * 67 % 256).reshape(3, height, width)
    crf = dcrf.DenseCRF2D(width, height, classes)
    chance = np.exp(scores) / np.exp(scores).sum(0)
    crf.setUnaryEnergy(unary_from_softmax(chance.astype(np.float32)))
    crf.addPairwiseGaussian(sxy=2, compat=3, kernel=dcrf.DIAG_KERNEL, normalization=dcrf.NORMALIZE_AFTER)
    body = "pos_w: 3 pos_xy_std: 2"
    if colours:
        crf.addPairwiseBilateral(sxy=10, srgb=30, rgbim=np.ascontiguousarray(picture.transpose(1, 2, 0), np.uint8),
                                 compat=4, kernel=dcrf.DIAG_KERNEL, normalization=dcrf.NORMALIZE_AFTER)
        body += " bi_w: 4 bi_xy_std: 10 bi_rgb_std: 30"
    shapes, given = f"1 {classes} {height} {width}|1 2", [scores, [height, width]]
    return dict(type="DenseCRF", origin="pydensecrf2", body=f"dense_crf_param {{ max_iter: {steps} {body} }}",
                shapes=shapes + f"|1 3 {height} {width}" * colours, given=given + [picture] * colours,
                # Both compute with floats; colours make more points of the lattice, on which little weight falls.
                tops=[np.array(crf.inference(steps))], tolerance=4e-4 if colours else 1e-6)


def emit(name, arrays):
    numbers = [f"{v:.9g}" for a in arrays for v in np.asarray(a, float).ravel()]
    lines = [", ".join(numbers[i:i + 6]) for i in range(0, len(numbers), 6)]
    print(f"static const double {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + "};")


def main():
    names = [("torchvision", "torchvision"), ("PyTorch", "torch"), ("scikit-learn", "scikit-learn"),
             ("pydensecrf2", "pydensecrf2"), ("NumPy", "numpy")]
    versions = [f"{name} {importlib.metadata.version(package).split('+')[0]}" for name, package in names]
    print(f"/* Computed with {', '.join(versions[:-1])} and {versions[-1]}\n * by tests/layers/peer_layers.py, which tells "
          "what computes which layer. */")
    cases = [anchor_target(), proposal_target(4), proposal_target(2), box_annotator(), detectnet(),
             seg_accuracy(), dense_crf(3, False), dense_crf(2, True)]
    rows = []
    for number, case in enumerate(cases):
        emit(f"peer_{number}", case["tops"])
        emit(f"peer_given_{number}", case["given"])
        rows.append(f'    {{"{case["type"]}", "{case["origin"]}",\n     "{case["body"]}",\n     "{case["shapes"]}", '
                    f'{len(case["tops"])}, 0, '
                    f"peer_{number}, COUNT(peer_{number}), peer_given_{number}, {case.get('tolerance', 0)}}},")
    print("static const peer_case peer_cases[] = {\n" + "\n".join(rows) + "\n};")


main()
