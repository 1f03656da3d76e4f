"""Writes tests/layers/yolo.inc: what PyTorch makes of the layers of YOLO v3.

Usage: yolo_layers.py > tests/layers/yolo.inc  (needs PyTorch)
"""
import torch
import torch.nn.functional as F

ROWS, COLUMNS, CLASSES, IMAGES = 3, 4, 3, 2
BIASES = torch.tensor([[10.0, 13], [60, 60], [16, 30]]).double()
MASK = [2, 0]
IMAGE = torch.tensor([COLUMNS * 8.0, ROWS * 8]).double()
THRESH, COORD, CLASS, NEAR = 0.25, 1.5, 0.75, 0.5
# Class, centre and size; zeros end an image's objects.
OBJECTS = torch.tensor([[[1, 0.3125, 0.4375, 0.4375, 1], [2, 0.34375, 0.46875, 0.5, 0.875],
                         [0, 0.8125, 0.125, 0.25, 0.5]],
                        [[0, 0.625, 0.6875, 0.375, 0.625], [0] * 5, [0] * 5]]).double()


def pattern(shape, number):
    """Element i of blob `number` is ((i + 11 number) * 37 % 101 - 50.5) / 32, as the test fills bottoms."""
    count = torch.Size(shape).numel()
    return (((torch.arange(count) + 11 * number) * 37 % 101).double() - 50.5).reshape(shape) / 32


def boxes_of(maps):
    """The boxes (..., rows, columns) of a map (N, anchors, 5 + classes, rows, columns): left, top, right, bottom."""
    y, x = torch.meshgrid(torch.arange(ROWS), torch.arange(COLUMNS), indexing="ij")
    size = torch.exp(maps[:, :, 2:4]) * (BIASES[MASK] / IMAGE)[None, :, :, None, None]
    cx, cy = (torch.sigmoid(maps[:, :, 0]) + x) / COLUMNS, (torch.sigmoid(maps[:, :, 1]) + y) / ROWS
    half = size / 2
    return torch.stack([cx - half[:, :, 0], cy - half[:, :, 1], cx + half[:, :, 0], cy + half[:, :, 1]], -1)


def overlaps(a, b):
    """Intersection over union of boxes (..., 4)."""
    inside = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    return inside / ((a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - inside)


def loss(maps, logic, eps):
    def entropy(t, y):
        y = torch.as_tensor(y).double().expand_as(t)
        if logic:
            return F.mse_loss(torch.sigmoid(t), y, reduction="sum") / 2
        return F.binary_cross_entropy_with_logits(t, y, reduction="sum")

    found, total = boxes_of(maps.detach()), 0
    for i in range(IMAGES):
        learned, counts = {}, torch.ones(len(MASK), ROWS, COLUMNS, dtype=torch.bool)
        for obj in OBJECTS[i]:
            if obj[3] == 0:
                continue
            corners = torch.cat([obj[1:3] - obj[3:] / 2, obj[1:3] + obj[3:] / 2])
            counts &= overlaps(found[i], corners) <= THRESH
            zero = torch.zeros(3, 2).double()
            alike = overlaps(torch.cat([zero, BIASES / IMAGE], 1), torch.cat([zero[0], obj[3:]]))
            for place, anchor in enumerate(MASK):
                if anchor == int(alike.argmax()) or alike[anchor] > NEAR:
                    cell = (place, int(obj[2] * ROWS), int(obj[1] * COLUMNS))
                    learned.setdefault(cell, []).append(obj)
        for (place, row, column), objects in learned.items():
            counts[place, row, column] = False
            t, last = maps[i, place, :, row, column], objects[-1]
            size = torch.log(last[3:] * IMAGE / BIASES[MASK[place]])
            centre = torch.stack([last[1] * COLUMNS - column, last[2] * ROWS - row])
            place_loss = entropy(t[:2], centre) + ((t[2:4] - size) ** 2).sum() / 2
            total = total + COORD * (2 - last[3] * last[4]) * place_loss
            target = torch.full((CLASSES,), eps / 2).double()
            for obj in objects:
                target[int(obj[0])] = 1 - eps / 2
            total = total + entropy(t[4], 1.0) * (2 if logic else 1) + CLASS * entropy(t[5:], target)
        total = total + entropy(maps[i, :, 4][counts], 0.0)
    return total / IMAGES


def loss_case(logic, eps):
    maps = pattern((IMAGES, len(MASK), 5 + CLASSES, ROWS, COLUMNS), 0).requires_grad_()
    value = loss(maps, logic, eps)
    # The test multiplies by (55 * 37 % 101 - 50.5) / 32.
    (value * ((11 * 5 * 37 % 101) - 50.5) / 32).backward()
    fields = f"use_logic_gradient: {'true' if logic else 'false'} label_smooth_eps: {eps}"
    return ("Yolov3", f"yolov3_param {{ num_class: {CLASSES} num: 2 mask: 2 mask: 0 anchors_scale: 8 thresh: {THRESH} "
            f"coord_scale: {COORD} object_scale: 2 class_scale: {CLASS} iou_thresh: {NEAR} {biases()} {fields} }}",
            f"2 16 {ROWS} {COLUMNS}|2 1 3 5", 1, [value.detach(), maps.grad], OBJECTS)


def biases():
    return " ".join(f"biases: {v:g}" for v in BIASES.ravel().tolist())


def found_case():
    maps = pattern((IMAGES, len(MASK), 5 + CLASSES, ROWS, COLUMNS), 0)
    boxes, rows = boxes_of(maps), []
    for i in range(IMAGES):
        score = torch.sigmoid(maps[i, :, 4:5]) * torch.sigmoid(maps[i, :, 5:])
        order = sorted(torch.nonzero(score > 0.4).tolist(), key=lambda at: -float(score[tuple(at)]))
        kept = []
        for anchor, label, row, column in order:
            box = boxes[i, anchor, row, column]
            if all(overlaps(box, other) < 0.3 for other in kept):
                kept.append(box)
                rows.append([i, label + 1, float(score[anchor, label, row, column]), *box.tolist()])
    return ("Yolov3DetectionOutput", f"yolov3_detection_output_param {{ num_classes: {CLASSES} num_box: 2 "
            f"mask_group_num: 1 mask: 2 mask: 0 anchors_scale: 8 confidence_threshold: 0.4 nms_threshold: 0.3 {biases()} }}",
            f"2 16 {ROWS} {COLUMNS}", 0, [torch.tensor(rows)], maps)


def emit(name, tensors):
    numbers = [f"{v:.9g}" for one in tensors for v in one.ravel().tolist()]
    lines = [", ".join(numbers[i:i + 6]) for i in range(0, len(numbers), 6)]
    print(f"static const double {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + "};")


def main():
    print(f"/* Computed with PyTorch {torch.__version__.split('+')[0]} by tests/layers/yolo_layers.py. */")
    rows = []
    for number, case in enumerate([loss_case(False, 0), loss_case(False, 0.125), loss_case(True, 0.125), found_case()]):
        kind, body, shapes, gradients, wanted, given = case
        emit(f"yolo_{number}", wanted)
        emit(f"yolo_given_{number}", [given])
        rows.append(f'    {{"{kind}", "PyTorch",\n     "{body}",\n     "{shapes}", 1, {gradients}, yolo_{number}, '
                    f"COUNT(yolo_{number}), yolo_given_{number}, {1e-6 if kind != 'Yolov3' else 0}}},")
    print("static const peer_case yolo_cases[] = {\n" + "\n".join(rows) + "\n};")


main()
