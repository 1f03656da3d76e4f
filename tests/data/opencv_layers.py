"""Writes tests/data/opencv.inc: what others make of pictures, of their boxes and of frames, as data layers do.

Usage: opencv_layers.py > tests/data/opencv.inc  (needs opencv-python-headless, version 4, and torchvision)

OpenCV writes all files and computes all pixels but for means, scales, crops and mirrors, which are NumPy's; boxes
are torchvision's where it has the operation. A case has what a layer is given, and outcomes: one for
each batch, or several where the layer draws at random among a few.
"""
import importlib.metadata
import itertools
import pathlib
import struct
import tempfile

import cv2
import numpy as np
import torch
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as tv


def picture(height, width, channels=3, seed=0):
    """Slopes with edges: all hues, and no two rows or columns alike."""
    y, x, c = np.mgrid[:height, :width, :channels]
    values = 9 * x + 13 * y + (70 + 20 * seed) * c + 60 * ((x // 3 + y // 4 + c) % 2) + 31 * seed
    return (values % 256).astype(np.uint8)


def encoded(image, kind="png"):
    return cv2.imencode(f".{kind}", image)[1].tobytes()


def planes(image, mean=(0,), scale=1, crop=None, mirror=False):
    """From rows of pixels to a blob: the middle of the picture, without the mean."""
    image = image.reshape(*image.shape[:2], -1).astype(float)
    if crop:
        top, left = (image.shape[0] - crop[0]) // 2, (image.shape[1] - crop[1]) // 2
        image = image[top:top + crop[0], left:left + crop[1]]
    return (((image - mean) * scale)[:, ::-1 if mirror else 1]).transpose(2, 0, 1)


# ---- records ----

def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number, value):
    """A field of a message: bytes, a whole number or a float."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def datum(image, kind="png", floats=()):
    extents = [image.shape[2] if image.ndim > 2 else 1, *image.shape[:2]]
    message = b"".join(field(number + 1, value) for number, value in enumerate(extents))
    message += field(4, encoded(image, kind)) + b"".join(field(6, float(value)) for value in floats) + field(7, 1)
    return message


def annotated(image, objects, kind="png"):
    """Objects are rows of class, instance, left, top, right, bottom in pixels, and whether it is difficult."""
    message = field(1, datum(image, kind)) + field(2, 0)
    sides = np.array(image.shape[1::-1] * 2)
    for label, instance, *box, difficult in objects:
        corners = b"".join(field(1 + i, float(v)) for i, v in enumerate(np.array(box) / sides))
        annotation = field(1, instance) + field(2, corners + field(6, difficult))
        message += field(3, field(1, label) + field(2, annotation))
    return message


class Objects:
    """Rows as above that follow their picture."""

    def __init__(self, image, rows):
        self.rows = np.array(rows, float).reshape(-1, 7)
        self.boxes = tv_tensors.BoundingBoxes(torch.from_numpy(self.rows[:, 2:6].copy()), format="XYXY",
                                              canvas_size=image.shape[:2])

    def keep(self, chosen):
        chosen = np.array(chosen, bool)
        self.rows = self.rows[chosen]
        self.boxes = tv_tensors.wrap(self.boxes[torch.from_numpy(chosen)], like=self.boxes)

    def change(self, function, *values, **named):
        """One of torchvision's functions; what has no area any longer is left out."""
        self.boxes = tv.clamp_bounding_boxes(function(self.boxes, *values, **named))
        self.keep([bool(box[2] > box[0] and box[3] > box[1]) for box in self.boxes])
        return self

    def crop_middle(self, height, width):
        canvas = self.boxes.canvas_size
        return self.change(tv.crop, (canvas[0] - height) // 2, (canvas[1] - width) // 2, height, width)

    def label(self, item=0):
        """As a blob of AnnotatedData."""
        height, width = self.boxes.canvas_size
        share = self.boxes.numpy() / [width, height, width, height]
        rows = np.concatenate([np.full((len(share), 1), item), self.rows[:, :2], share, self.rows[:, 6:]], 1)
        return rows if len(rows) else np.full((1, 8), -1.0)


# ---- AnnotatedData ----

def annotated_case(records, fields, outcomes, batch=1, tolerance=0, boxes=1e-6):
    """Outcomes: number of the batch, and its tops. Sides of boxes are floats in the layer, and rounded in another order
    by torchvision; pixels are equal but for filters that round otherwise, see `tolerance` of the callers."""
    return dict(type="AnnotatedData", origin="OpenCV, torchvision", tops=["data", "label"],
                fields=f"data_param {{ source: 'db' backend: LMDB batch_size: {batch} }} {fields}",
                given=[("db", record) for record in records], outcomes=outcomes,
                tolerance=[tolerance, boxes])


STREET = [(3, 1, 4.48, 0.6, 12.88, 11.4, 0), (1, 0, 0, 2, 5, 7.5, 1), (2, 5, 13, 9, 16, 12, 0)]


def transformed():
    """Of JPEG and PNG files, in colours and in gray: the middle of a picture, mirrored or not, without the mean."""
    images = [picture(12, 16), picture(8, 11, seed=1), picture(12, 16, 1)]
    objects = [STREET, [(9, 0, 2, 2, 10, 7, 0)], []]
    kinds = ["jpg", "png", "png"]
    records = [annotated(*record) for record in zip(images, objects, kinds)]
    outcomes = []
    for number, (image, rows, kind) in enumerate(zip(images, objects, kinds)):
        decoded = cv2.imdecode(np.frombuffer(encoded(image, kind), np.uint8), cv2.IMREAD_COLOR)
        for mirror in (False, True):
            boxes = Objects(image, rows).crop_middle(6, 7)
            if mirror:
                boxes.change(tv.horizontal_flip)
            outcomes.append((number, [planes(decoded, [104, 117, 123], 0.5, (6, 7), mirror), boxes.label()]))
    fields = ("transform_param { force_color: true crop_h: 6 crop_w: 7 mirror: true scale: 0.5 mean_value: 104 "
              "mean_value: 117 mean_value: 123 }")
    return [annotated_case(records, fields, outcomes)]


def batches():
    """Two pictures a batch; the second has the rows of the label behind those of the first."""
    images = [picture(5, 6, seed=seed) for seed in range(3)]
    objects = [[(1, 0, 0, 0, 3, 4, 0), (2, 1, 1, 2, 5, 5, 1)], [], [(4, 2, 2, 1, 6, 3, 0)]]
    outcomes = []
    for batch in range(3):
        items = [2 * batch % 3, (2 * batch + 1) % 3]
        labels = [Objects(images[i], objects[i]).label(n) for n, i in enumerate(items) if objects[i]]
        outcomes.append((batch, [np.stack([planes(images[i]) for i in items]), np.concatenate(labels)]))
    return [annotated_case([annotated(*record) for record in zip(images, objects)], "", outcomes, batch=2)]


def emitted():
    """Which objects a crop keeps."""
    image, found = picture(12, 16), []
    for text, keeps in (("CENTER", lambda box, inside: all(3 <= (box[i] + box[i + 2]) / 2 <= end
                                                           for i, end in ((0, 13), (1, 9)))),
                        ("MIN_OVERLAP emit_overlap: 0.6", lambda box, inside: inside > 0.6)):
        boxes = Objects(image, STREET)
        chosen = []
        for box in boxes.boxes.numpy():
            both = np.maximum(np.minimum(box[2:], [13, 9]) - np.maximum(box[:2], [3, 3]), 0)
            chosen.append(bool(keeps(box, both.prod() / (box[2:] - box[:2]).prod())))
        boxes.keep(chosen)
        boxes.crop_middle(6, 10)
        found.append(annotated_case(
            [annotated(image, STREET)],
            f"transform_param {{ crop_h: 6 crop_w: 10 emit_constraint {{ emit_type: {text} }} }}",
            [(0, [planes(image, crop=(6, 10)), boxes.label()])]))
    return found


def resized():
    """The policies of resize_param with their ways to interpolate and to pad.

    OpenCV rounds weights to 11 bits in some of them, so that pixels may be one level apart.
    """
    image = picture(6, 8)
    objects = [(label, instance, *np.array(box) / 2, difficult) for label, instance, *box, difficult in STREET]
    border = {"CONSTANT pad_value: 9 pad_value: 80 pad_value: 200": (cv2.BORDER_CONSTANT, (9, 80, 200)),
              "MIRRORED": (cv2.BORDER_REFLECT101, 0), "REPEAT_NEAREST": (cv2.BORDER_REPLICATE, 0)}
    found = []
    for mode, height, width, inner, interp, pad, crop in (
            ("WARP", 8, 5, (8, 5), "LINEAR", None, None), ("WARP", 4, 5, (4, 5), "AREA", None, None),
            ("WARP", 3, 4, (3, 4), "AREA", None, None), ("WARP", 7, 9, (7, 9), "AREA", None, None),
            ("FIT_LARGE_SIZE_AND_PAD", 13, 12, (9, 12), "CUBIC", "CONSTANT pad_value: 9 pad_value: 80 pad_value: 200",
             None),
            ("FIT_LARGE_SIZE_AND_PAD", 5, 4, (3, 4), "AREA", "MIRRORED", None),
            ("FIT_LARGE_SIZE_AND_PAD", 3, 10, (3, 4), "LANCZOS4", "REPEAT_NEAREST", None),
            ("FIT_SMALL_SIZE", 9, 9, (9, 12), "NEAREST", None, 9)):
        out = cv2.resize(image, inner[::-1], interpolation=getattr(cv2, "INTER_" + interp))
        boxes = Objects(image, objects).change(tv.resize, size=list(inner))
        fields = f"resize_mode: {mode} height: {height} width: {width} interp_mode: {interp}"
        if pad:
            down, across = height - inner[0], width - inner[1]
            around = (down // 2, down - down // 2, across // 2, across - across // 2)
            out = cv2.copyMakeBorder(out, *around, border[pad][0], value=border[pad][1])
            boxes.boxes = tv.pad(boxes.boxes, [around[2], around[0], around[3], around[1]])
            fields += f" pad_mode: {pad}"
        if crop:
            boxes.crop_middle(crop, crop)
        # With these the layer rounds otherwise than OpenCV: one level of 255.
        found.append(annotated_case(
            [annotated(image, objects)],
            f"transform_param {{ resize_param {{ {fields} }} {f'crop_size: {crop}' if crop else ''} }}",
            [(0, [planes(out, crop=(crop, crop) if crop else None), boxes.label()])],
            tolerance=interp in ("CUBIC", "LANCZOS4") or interp == "AREA" and height > 6))
    return found


def sampled():
    """The constraint leaves next to no choice: patches that are almost the first object, and of the same pixels."""
    image = picture(12, 16)
    left, top, right, bottom = STREET[0][2:6]
    wide, high = (right - left) / 16, (bottom - top) / 12
    scale, ratio = (wide * high)**0.5, wide / high
    out = cv2.resize(image[int(top):int(top) + int(bottom - top), int(left):int(left) + int(right - left)], (9, 9))
    boxes = Objects(image, STREET)
    share = np.clip((boxes.boxes.numpy() - [left, top] * 2) / ([right - left, bottom - top] * 2), 0, 1)
    boxes.boxes = tv_tensors.BoundingBoxes(torch.from_numpy(share), format="XYXY", canvas_size=(1, 1))
    boxes.keep(((share[:, 2:] - share[:, :2]) > 0).all(1))
    fields = (f"transform_param {{ resize_param {{ resize_mode: WARP height: 9 width: 9 interp_mode: LINEAR }} }} "
              f"annotated_data_param {{ batch_sampler {{ sampler {{ min_scale: {scale:.9g} max_scale: {scale:.9g} "
              f"min_aspect_ratio: {ratio:.9g} max_aspect_ratio: {ratio:.9g} }} sample_constraint {{ "
              "min_jaccard_overlap: 0.98 } max_sample: 1 max_trials: 9999 } }")
    return [annotated_case([annotated(image, STREET)], fields, [(0, [planes(out), boxes.label()])], boxes=0.03)]


def expanded():
    """All canvases that may be drawn around a small picture."""
    image, rows, mean = picture(4, 5), [(3, 1, 1, 1, 4, 3.5, 0), (5, 0, 0, 0, 2, 4, 1)], (104, 117, 123)
    sizes = {(int(np.float32(4) * ratio), int(np.float32(5) * ratio))
             for ratio in np.arange(1, 1.58, 1e-4, dtype=np.float32)}
    outcomes = []
    for height, width in sorted(sizes):
        down, across = height - 4, width - 5
        for top, left in itertools.product(range(max(down, 1)), range(max(across, 1))):
            out = cv2.copyMakeBorder(image, top, down - top, left, across - left, cv2.BORDER_CONSTANT, value=mean)
            boxes = Objects(image, rows)
            boxes.boxes = tv.pad(boxes.boxes, [left, top, across - left, down - top])
            outcomes.append((0, [planes(out, mean), boxes.label()]))
    return [annotated_case([annotated(image, rows)],
                           "transform_param { mean_value: 104 mean_value: 117 mean_value: 123 "
                           "expand_param { prob: 1 max_expand_ratio: 1.58 } }", outcomes)]


def hsv(image, function):
    values = list(cv2.split(cv2.cvtColor(image, cv2.COLOR_BGR2HSV)))
    function(values)
    return cv2.cvtColor(cv2.merge(values), cv2.COLOR_HSV2BGR)


def shifted(values, factor, shift):
    return np.clip(np.rint(values.astype(np.float32) * np.float32(factor) + np.float32(shift)), 0, 255).astype(np.uint8)


def distorted():
    """What does not depend on the random numbers, in both orders, and small shifts with all of their outcomes."""
    image = picture(4, 7)

    def contrast(out):
        return shifted(out, 1.5, 0)

    def saturation(out):
        def change(values):
            values[1] = shifted(values[1], 0.625, 0)
        return hsv(out, change)

    def hue(out, shift):
        def change(values):
            values[0] = shifted(values[0], 1, shift)
        return hsv(out, change)

    def distort(given, fields, outs):
        outcomes = [(0, [planes(out), np.full((1, 8), -1.0)]) for out in outs]
        return annotated_case([annotated(given, [])], f"transform_param {{ distort_param {{ {fields} }} }}", outcomes)

    small = image[:2, :3]
    return [distort(image, "contrast_prob: 1 contrast_lower: 1.5 contrast_upper: 1.5 saturation_prob: 1 "
                    "saturation_lower: 0.625 saturation_upper: 0.625",
                    [saturation(contrast(image)), contrast(saturation(image))]),
            distort(image, "hue_prob: 1 hue_delta: 1", [hue(image, shift) for shift in (-1, 0, 1)]),
            distort(small, "brightness_prob: 1 brightness_delta: 1 random_order_prob: 1",
                    [shifted(small, 1, shift)[:, :, list(order)]
                     for shift in (-1, 0, 1) for order in itertools.permutations(range(3))])]


def noisy():
    image = picture(7, 9)

    def luma(function):
        values = list(cv2.split(cv2.cvtColor(image, cv2.COLOR_BGR2YCrCb)))
        values[0] = function(values[0])
        return cv2.cvtColor(cv2.merge(values), cv2.COLOR_YCrCb2BGR)

    gray = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)
    jpeg = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 40])[1]
    cross = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3), (1, 1))
    effects = {"decolorize: true": gray, "gauss_blur: true": cv2.GaussianBlur(image, (7, 7), 1.5),
               "hist_eq: true": luma(cv2.equalizeHist), "clahe: true": luma(cv2.createCLAHE(clipLimit=4).apply),
               "jpeg: 40": cv2.imdecode(jpeg, cv2.IMREAD_COLOR), "erode: true": cv2.erode(image, cross),
               "posterize: true": cv2.LUT(image, (np.arange(256) // 64 * 64 + 32).astype(np.uint8)),
               "inverse: true": cv2.bitwise_not(image), "convert_to_hsv: true": cv2.cvtColor(image, cv2.COLOR_BGR2HSV)}
    none = np.full((1, 8), -1.0)
    # OpenCV sums a blur in fixed point, the layer does not: one level of 255.
    return [annotated_case([annotated(image, [])], f"transform_param {{ noise_param {{ {fields} }} }}",
                           [(0, [planes(out), none])], tolerance="blur" in fields) for fields, out in effects.items()]


# ---- BoxData ----

def boxed(image, objects, kind="png"):
    """Objects are rows of class, whether it is difficult, centre, width and height as shares of the picture."""
    return datum(image, kind, np.ravel(objects))


def box_case(records, fields, outcomes, batch=1, train=False):
    return dict(type="BoxData", origin="OpenCV, NumPy", tops=["data", "label"],
                fields=f"data_param {{ source: 'db' backend: LMDB batch_size: {batch} }} {fields}",
                given=[("db", record) for record in records], outcomes=outcomes, train=train,
                tolerance=[0, 1e-6])  # shares of a side, computed in doubles here and in floats there


def box_label(objects):
    """As a blob of BoxData for one picture: 30 rows."""
    rows = np.zeros((30, 5))
    for row, (label, _, *box) in zip(rows, objects):
        row[:] = [label, *box]
    return rows.ravel()


def whole_boxes():
    """In phase TEST all objects stay as they are, wherever their centres lie."""
    images = [picture(9, 12), picture(9, 12, seed=1)]
    objects = [[(2, 0, 0.25, 0.5, 0.375, 0.25), (7, 1, 1, 0.5, 0.5, 1)], [(0, 0, 0.5, 0.125, 0.0625, 0.25)]]
    decoded = [cv2.imdecode(np.frombuffer(encoded(image, "jpg"), np.uint8), cv2.IMREAD_COLOR) for image in images]
    tops = [np.stack([planes(image, 104, 0.5) for image in decoded]), np.stack([box_label(rows) for rows in objects])]
    return box_case([boxed(*record, "jpg") for record in zip(images, objects)],
                    "transform_param { scale: 0.5 mean_value: 104 }", [(0, tops)], batch=2)


def cropped_boxes():
    """Objects follow the crop that has their centres, and are mirrored with the picture."""
    image, objects = picture(9, 12), [(2, 0, 0.25, 0.5, 0.375, 0.25), (7, 1, 0.9375, 0.5, 0.5, 1)]
    outcomes = []
    for mirror in (False, True):
        label, difficult, x, y, wide, high = objects[0]
        x, y, wide, high = (12 * x - 2) / 8, (9 * y - 2) / 5, 12 * wide / 8, 9 * high / 5
        rows = [(label, difficult, 1 - x if mirror else x, y, wide, high)]
        outcomes.append((0, [planes(image, crop=(5, 8), mirror=mirror), box_label(rows)]))
    return box_case([boxed(image, objects)], "transform_param { crop_h: 5 crop_w: 8 mirror: true }", outcomes)


def parts_of_boxes():
    """All parts that may be drawn of a small picture and that have the centre of an object."""
    image, objects = picture(4, 8, 1), np.array([(2, 0, 3, 1, 2, 1), (7, 1, 6, 3, 1, 1)])
    height, width = image.shape[:2]
    sizes = {(int(height * share) - 1, int(width * share) - 1)
             for share in [np.float32(1 - draw / 100) for draw in range(30)]}
    outcomes = []
    for high, wide in sorted(sizes):
        for top, left in itertools.product(range(height - high), range(width - wide)):
            x, y = objects[:, 2] - left, objects[:, 3] - top
            inside = (x >= 0) & (x < wide) & (y >= 0) & (y < high)
            rows = [(row[0], row[1], (row[2] - left) / wide, (row[3] - top) / high, row[4] / wide, row[5] / high)
                    for row in objects[inside]]
            if rows:
                part = cv2.resize(image[top:top + high, left:left + wide], (width, height))
                outcomes.append((0, [planes(part), box_label(rows)]))
    shares = objects / [1, 1, width, height, width, height]
    return box_case([boxed(image, shares)], "", outcomes, train=True)


# ---- RoIData ----

def regions(short_side, most, mean, kind):
    """As py-faster-rcnn does it: the mean is subtracted first, then the picture is scaled.

    Where the sides do not come out whole, the layer stretches picture and boxes to the rounded sides, whereas
    py-faster-rcnn goes on with the unrounded factor.
    """
    images = [picture(4, 6), picture(6, 4, seed=1)]
    objects = [[(3, 1, 1.5, 0.25, 4.5, 3.75, 0), (1, 0, 0, 1, 2.5, 4, 1), (2, 5, 4, 2, 6, 4, 0)],
               [(9, 0, 1, 1, 3.5, 6, 0)]]
    outcomes = []
    for number, (image, rows) in enumerate(zip(images, objects)):
        decoded = cv2.imdecode(np.frombuffer(encoded(image, kind), np.uint8), cv2.IMREAD_COLOR)
        scale = short_side / min(image.shape[:2])
        if round(scale * max(image.shape[:2])) > most:
            scale = most / max(image.shape[:2])
        for mirror in (False, True):
            plain = decoded.astype(np.float32) - np.float32(mean)
            out = cv2.resize(plain, None, fx=scale, fy=scale)
            if out.shape[:2] != (image.shape[0] * scale, image.shape[1] * scale):
                out = cv2.resize(plain, out.shape[1::-1])
            boxes = Objects(image, rows).change(tv.resize, size=list(out.shape[:2]))
            if mirror:
                boxes.change(tv.horizontal_flip)
            easy = boxes.rows[:, 6] == 0
            last = boxes.boxes.numpy()[easy] - [0, 0, 1, 1]
            outcomes.append((number, [planes(out, mirror=mirror), [*out.shape[:2], scale],
                                      np.concatenate([last, boxes.rows[easy, :1]], 1), boxes.label()]))
    values = " ".join(f"mean_value: {value:g}" for value in mean)
    return dict(type="RoIData", origin="OpenCV, torchvision", tops=["data", "info", "objects", "label"],
                fields="data_param { source: 'db' backend: LMDB batch_size: 1 } "
                f"roi_data_param {{ short_side: {short_side} max_side: {most} }} "
                f"transform_param {{ mirror: true {values} }}",
                given=[("db", annotated(*record, kind)) for record in zip(images, objects)], outcomes=outcomes,
                # The fork scales floats, the layer bytes, which it rounds to whole levels.
                tolerance=[1, 1e-5])


# ---- samples of the program, frames, lists ----

def memory():
    images = [picture(7, 9, seed=seed) for seed in range(4)]
    outcomes = []
    for batch in range(2):
        two = [planes(cv2.resize(image, (8, 11)), [104, 117, 123.5], 0.25, (6, 6))
               for image in images[2 * batch:2 * batch + 2]]
        outcomes.append((batch, [np.stack(two), [2 * batch, 2 * batch + 1]]))
    return dict(type="MemoryData", origin="OpenCV, NumPy", tops=["data", "label"],
                fields="memory_data_param { batch_size: 2 channels: 3 height: 6 width: 6 } transform_param { "
                "resize_param { resize_mode: WARP height: 11 width: 8 interp_mode: LINEAR } crop_size: 6 scale: 0.25 "
                "mean_value: 104 mean_value: 117 mean_value: 123.5 }",
                given=[("image", encoded(image)) for image in images], outcomes=outcomes, tolerance=[0, 0])  # equal


def video():
    """A film without loss. OpenCV decodes it, also into the frames that a script gives in place of ffmpeg."""
    frames = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "street.mkv"
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"FFV1"), 10, (8, 6))
        for seed in range(3):
            writer.write(picture(6, 8, seed=seed))
        writer.release()
        film, reader = path.read_bytes(), cv2.VideoCapture(str(path))
        while (frame := reader.read())[0]:
            frames.append(frame[1])
    outcomes = []
    for batch in range(len(frames)):
        two = [planes(frames[(2 * batch + item) * 2 % len(frames)], [104, 117, 123.5], 0.25, (4, 5)) for item in range(2)]
        outcomes.append((batch, [np.stack(two), [0, 0]]))
    return dict(type="VideoData", origin="OpenCV", tops=["data", "label"],
                fields="video_data_param { video_type: VIDEO video_file: 'street.mkv' skip_frames: 1 } data_param { "
                "batch_size: 2 } transform_param { crop_h: 4 crop_w: 5 scale: 0.25 mean_value: 104 mean_value: 117 "
                "mean_value: 123.5 }",
                given=[("street.mkv", film), ("frames.ppm", b"".join(encoded(frame, "ppm") for frame in frames))],
                outcomes=outcomes, tolerance=[0, 0])


def pairs(height, width):
    image, labels = picture(6, 8), (np.arange(48) * 7 % 9).astype(np.uint8).reshape(6, 8)
    tops = [planes(cv2.resize(image, (width, height))),
            cv2.resize(labels, (width, height), interpolation=cv2.INTER_NEAREST)]
    return dict(type="ImageSegData", origin="OpenCV", tops=["data", "label"],
                fields=f"image_data_param {{ source: 'pairs.txt' batch_size: 1 new_height: {height} new_width: {width} }}",
                given=[("picture.png", encoded(image)), ("labels.png", encoded(labels)),
                       ("pairs.txt", b"picture.png labels.png\n")], outcomes=[(0, tops)], tolerance=[0, 0])


def window():
    """The window from column 2 to 6 and from row 1 to 3, warped to 7 x 7 pixels."""
    image = picture(6, 8)
    return dict(type="WindowData", origin="OpenCV", tops=["data", "label"],
                fields="transform_param { crop_size: 7 } window_data_param { source: 'windows.txt' batch_size: 1 "
                "fg_fraction: 1 }",
                given=[("picture.png", encoded(image)),
                       ("windows.txt", b"# 0\npicture.png\n3 6 8\n1\n5 0.9 2 1 6 3\n")],
                outcomes=[(0, [planes(cv2.resize(image[1:4, 2:7], (7, 7))), [5]])], train=True, tolerance=[0, 0])


# ---- the file ----

def emit(kind, name, numbers):
    numbers = [str(v) if isinstance(v, int) else f"{v:.8g}" for v in numbers]
    lines, line = [], ""
    for number in numbers:
        if len(line) + len(number) > 93:
            lines.append(line)
            line = ""
        line += f"{number}, "
    lines.append(line)
    print(f"static const {kind} {name}[{len(numbers)}] = {{\n    " + "\n    ".join(text.rstrip() for text in lines)[:-1]
          + "};")


def text(words):
    """A text of C, in lines of fewer than 100 characters."""
    lines, line = [], ""
    for word in words.split():
        if len(line) + len(word) > 85:
            lines.append(line)
            line = ""
        line += word + " "
    return "\n     ".join(f'"{part}"' for part in [*lines, line.rstrip()])


def emit_cases(cases, prefix, table):
    """Files, values and rows; `prefix` begins their names."""
    rows, files = [], {}
    for number, case in enumerate(cases):
        given, outcomes = [], []
        for name, content in case["given"]:
            if content not in files:
                files[content] = f"{prefix}file_{len(files)}"
                emit("uint8_t", files[content], list(content))
            given.append(f'{{"{name}", {files[content]}, COUNT({files[content]})}}')
        print(f"static const given_file {prefix}given_{number}[] = {{\n    " + ",\n    ".join(given) + "};")
        for index, (batch, tops) in enumerate(case["outcomes"]):
            values = np.concatenate([np.ravel(np.asarray(top, float)) for top in tops])
            if case["tolerance"][0] > 0.1:
                values[:np.size(tops[0])] = np.round(values[:np.size(tops[0])], 3)
            height, width = np.asarray(tops[0]).shape[-2:]
            used = max(np.flatnonzero(values)) + 1
            emit("float", f"{prefix}values_{number}_{index}", list(values[:used]))
            outcomes.append(f"{{{batch}, {height}, {width}, {len(values)}, COUNT({prefix}values_{number}_{index}), "
                            f"{prefix}values_{number}_{index}}}")
        print(f"static const outcome {prefix}outcomes_{number}[] = {{\n    " + ",\n    ".join(outcomes) + "};")
        tops = " ".join(f"top: '{top}'" for top in case["tops"])
        ours = f"{prefix}given_{number}", f"{prefix}outcomes_{number}"
        rows.append(f'    {{"{case["type"]}", "{case["origin"]}",\n     {text(tops + " " + case["fields"])},\n     '
                    f'{"CREMA_TRAIN" if case.get("train") else "CREMA_TEST"}, {ours[0]}, COUNT({ours[0]}), '
                    f'{ours[1]}, COUNT({ours[1]}), {{{case["tolerance"][0]:g}, {case["tolerance"][1]:g}}}}},')
    print(f"static const layer_case {table}[] = {{\n" + "\n".join(rows) + "\n};")


def main():
    names = [("OpenCV", cv2.__version__), ("torchvision", importlib.metadata.version("torchvision").split("+")[0]),
             ("NumPy", np.__version__)]
    print(f"/* Computed with {', '.join(' '.join(name) for name in names[:-1])} and {' '.join(names[-1])}\n * by "
          "tests/data/opencv_layers.py, which tells what computes which top. Zeros at an outcome's end are left out. */")
    cases = [*transformed(), *batches(), *emitted(), *resized(), *sampled(), *expanded(), *distorted(), *noisy(),
             whole_boxes(), cropped_boxes(), parts_of_boxes(), regions(6, 100, (102.5, 115.75, 122.75), "jpg"),
             regions(6, 8, (0, 0, 0), "png"), regions(2, 100, (104, 117, 123), "png"), memory(), video(),
             pairs(9, 13), pairs(4, 5), window()]
    emit_cases(cases, "", "cases")


if __name__ == "__main__":
    main()
