"""Writes tests/data/pose.inc: people in images as OpenCV moves them, and their maps as NumPy computes them.

Usage: pose_layers.py > tests/data/pose.inc  (needs what opencv_layers.py needs)

The steps of CPMData are done one after another: resize by a factor, warpAffine about the middle, a crop around the
person's centre, a mirror. The layer draws at random; fields leave one or two outcomes.
"""
import struct

import cv2
import numpy as np

from opencv_layers import emit, emit_cases, field, picture

STRIDE, WIDTH, HEIGHT, SIGMA = 8, 32, 16, 7.0

# Joints of records: MPII counts from the right ankle, COCO from the nose. Each part of a body is the middle of two; the
# keys are num_parts.
MPII = "r_ankle r_knee r_hip l_hip l_knee l_ankle pelvis thorax neck head r_wrist r_elbow r_shoulder l_shoulder " \
       "l_elbow l_wrist".split()
COCO = "nose l_eye r_eye l_ear r_ear l_shoulder r_shoulder l_elbow r_elbow l_wrist r_wrist l_hip r_hip l_knee " \
       "r_knee l_ankle r_ankle".split()
BODY = "head neck r_shoulder r_elbow r_wrist l_shoulder l_elbow l_wrist r_hip r_knee r_ankle l_hip l_knee " \
       "l_ankle".split()
PARTS = {
    14: BODY,
    28: BODY + "thorax pelvis head+neck neck+r_shoulder r_shoulder+r_elbow r_elbow+r_wrist neck+l_shoulder "
               "l_shoulder+l_elbow l_elbow+l_wrist r_hip+r_knee r_knee+r_ankle l_hip+l_knee l_knee+l_ankle "
               "pelvis+thorax".split(),
    43: BODY + ["thorax+pelvis"],
    56: "nose l_shoulder+r_shoulder r_shoulder r_elbow r_wrist l_shoulder l_elbow l_wrist r_hip r_knee r_ankle l_hip "
        "l_knee l_ankle r_eye l_eye r_ear l_ear".split(),
}
LIMBS = {
    43: "head-neck neck-r_shoulder r_shoulder-r_elbow r_elbow-r_wrist neck-l_shoulder l_shoulder-l_elbow "
        "l_elbow-l_wrist neck-thorax+pelvis thorax+pelvis-r_hip r_hip-r_knee r_knee-r_ankle thorax+pelvis-l_hip "
        "l_hip-l_knee l_knee-l_ankle".split(),
    56: "NECK-r_hip r_hip-r_knee r_knee-r_ankle NECK-l_hip l_hip-l_knee l_knee-l_ankle NECK-r_shoulder "
        "r_shoulder-r_elbow r_elbow-r_wrist r_shoulder-r_ear NECK-l_shoulder l_shoulder-l_elbow l_elbow-l_wrist "
        "l_shoulder-l_ear NECK-nose nose-r_eye nose-l_eye r_eye-r_ear l_eye-l_ear".replace(
            "NECK", "l_shoulder+r_shoulder").split(),
}


def people(names, seed):
    """Three people: joints (x, y, visibility) from 1 on, centre and scale. Some joints are outside or hidden."""
    found = []
    for person in range(3):
        rng = np.random.default_rng(seed + person)
        centre = np.array([22 + 16 * person, 14 + 4 * person])
        joints = {name: (*(centre + rng.uniform(-13, 13, 2)).round(2), rng.integers(0, 2)) for name in names}
        found.append(dict(joints=joints, centre=centre + 0.25, scale=0.8 + 0.1 * person))
    found[0]["joints"][names[-1]] = (-4.5, 6, 1)
    found[1]["joints"][names[0]] = (30, 400, 1)
    return found


def record(image, mask, names, crowd):
    """A Datum whose channels are the image, the people and, with a mask, two more."""
    height, width = image.shape[:2]
    info = np.zeros((height, width), np.uint8)

    def put(row, numbers, at=0):
        values = np.frombuffer(struct.pack(f"<{len(numbers)}f", *map(float, numbers)), np.uint8)
        info[row, at:at + len(values)] = values

    def put_joints(row, person):
        for i in range(3):
            put(row + i, [person["joints"][name][i] for name in names])

    others = len(crowd) - 1
    info[0, :4] = list(b"TEST")
    put(1, [height, width])
    info[2, :3] = 0, others, 1
    put(2, [1, 0, 1], 3)
    put(3, crowd[0]["centre"])
    put(4, [crowd[0]["scale"]])
    put_joints(5, crowd[0])
    for i, person in enumerate(crowd[1:]):
        put(8 + i, person["centre"])
        put_joints(9 + others + 3 * i, person)
    if others:
        put(8 + others, [person["scale"] for person in crowd[1:]])
    channels = [*image.transpose(2, 0, 1), info] + ([mask, 0 * mask] if mask is not None else [])
    data = np.stack(channels).astype(np.uint8)
    return b"".join(field(i + 1, v) for i, v in enumerate(data.shape)) + field(4, data.tobytes()) + field(5, 0)


def parts_of(names, person, extent, kind):
    """x, y and state from 0 on, of each part by its name: 0 and 1 have a map."""
    def state(x, y, seen):
        if kind in LIMBS and person["first"] and seen == 3:
            return 3
        return 2 if x < 0 or y < 0 or x >= extent[1] or y >= extent[0] else int(seen != 0)

    joints = {}
    for name in names:
        x, y, seen = person["joints"][name]
        joints[name] = np.array([x - 1, y - 1, state(x - 1, y - 1, seen)])
    found = {}
    for part in PARTS[kind]:
        a, b = joints[part.split("+")[0]], joints[part.split("+")[-1]]
        worst = next((s for s in (2, 3) if s in (a[2], b[2])), min(a[2], b[2]))
        found[part] = np.array([*(a[:2] + b[:2]) / 2, worst])
    return found


def rotated(image, degree, border):
    """OpenCV's warpAffine about the middle into the bounding box, and the matrix."""
    middle = image.shape[1] / 2, image.shape[0] / 2
    matrix = cv2.getRotationMatrix2D(middle, degree, 1)
    corners = cv2.boxPoints((middle, (image.shape[1], image.shape[0]), degree))
    low, high = np.floor(corners.min(0)), np.ceil(corners.max(0))
    width, height = (high - low + 1).astype(int)
    matrix[0, 2] += width / 2 - middle[0]
    matrix[1, 2] += height / 2 - middle[1]
    return cv2.warpAffine(image, matrix, (int(width), int(height)), flags=cv2.INTER_CUBIC,
                          borderMode=cv2.BORDER_CONSTANT, borderValue=(border,) * 3), matrix


def cut(image, left, top, border):
    out = np.full((HEIGHT, WIDTH, *image.shape[2:]), border, np.uint8)
    for y in range(HEIGHT):
        for x in range(WIDTH):
            if 0 <= top + y < image.shape[0] and 0 <= left + x < image.shape[1]:
                out[y, x] = image[top + y, left + x]
    return out


def gaussian(out, stride, x, y, sigma):
    rows, columns = np.mgrid[:out.shape[0], :out.shape[1]] * stride + stride / 2 - 0.5
    exponent = ((columns - x) ** 2 + (rows - y) ** 2) / 2 / sigma ** 2
    out[:] = np.minimum(out + np.where(exponent <= 4.6052, np.exp(-exponent), 0), 1)


def joint_maps(crowd, kind, extent):
    maps = np.zeros((len(PARTS[kind]) + 1, *extent))
    for index, part in enumerate(PARTS[kind]):
        for person in crowd:
            x, y, seen = person[part]
            if seen <= 1:
                gaussian(maps[index], STRIDE, x, y, SIGMA)
    maps[-1] = 1 - maps[:-1].max(0)
    return maps


def limb_maps(crowd, kind, extent):
    maps = np.zeros((2 * len(LIMBS[kind]), *extent))
    for index, limb in enumerate(LIMBS[kind]):
        for person in crowd:
            a, b = (person[end] for end in limb.split("-"))
            a, b, seen = a[:2] / STRIDE, b[:2] / STRIDE, max(a[2], b[2])
            if seen > 1:
                continue
            along = (b - a) / np.linalg.norm(b - a)
            low, high = np.floor(np.minimum(a, b) - 1 + 0.5), np.floor(np.maximum(a, b) + 1 + 0.5)
            for y in range(extent[0]):
                for x in range(extent[1]):
                    if low[0] <= x < high[0] and low[1] <= y < high[1]:
                        if abs((x - a[0]) * along[1] - (y - a[1]) * along[0]) <= 1:
                            maps[2 * index:2 * index + 2, y, x] = along
    return maps


def label_of(crowd, kind, extent, mask):
    extent = extent[0] // STRIDE, extent[1] // STRIDE
    if kind not in LIMBS:
        return np.concatenate([joint_maps(crowd[:1], kind, extent), joint_maps(crowd, kind, extent)])
    shares = cv2.resize(mask, None, fx=1 / STRIDE, fy=1 / STRIDE, interpolation=cv2.INTER_CUBIC) / 255
    weights = np.stack([shares[:extent[0], :extent[1]]] * (kind + 1))
    for index, part in enumerate(PARTS[kind]):
        if crowd[0][part][2] == 3:
            weights[index] = 0
    return np.concatenate([weights, limb_maps(crowd, kind, extent), joint_maps(crowd, kind, extent)])


def outcome(image, mask, crowd, centre, factor, kind, flip, gray, centred=True):
    """Tops of a record; factor None: as in TEST."""
    extent = image.shape[:2]
    if gray:
        image = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)
    if factor is not None:
        image = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
        image, matrix = rotated(image, 0, 128)
        if mask is not None:
            mask = cv2.resize(mask, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
            mask = rotated(mask, 0, 255)[0]
        centre = matrix @ [*centre * factor, 1]
        left, top = (int(np.rint(c)) - side // 2 for c, side in zip(centre, (WIDTH, HEIGHT)))
        image = cut(image, left, top, 128)
        mask = cut(mask, left, top, 255) if mask is not None else None
        extent = HEIGHT, WIDTH
        centre = centre - (left, top)
        crowd = [{part: np.array([*(matrix @ [*j[:2] * factor, 1] - (left, top)), j[2]]) for part, j in p.items()}
                 for p in crowd]
    if flip:
        image, mask = image[:, ::-1], mask[:, ::-1].copy() if mask is not None else None
        centre = WIDTH - 1 - centre[0], centre[1]
        sides = str.maketrans("lr", "rl")
        turned = []
        for person in crowd:
            new = {}
            for part in person:
                other = "+".join(e[0].translate(sides) + e[1:] if e[1] == "_" else e for e in part.split("+"))
                other = other if other in person else part
                x, y, seen = person[other]
                new[part] = np.array([WIDTH - 1 - x, y, seen])
            turned.append(new)
        crowd = turned
    data = (image.transpose(2, 0, 1).astype(float) - 128) / 256
    if kind in LIMBS:
        data = np.concatenate([data, 0 * data])
    elif centred:
        heat = np.zeros((1, *extent))
        gaussian(heat[0], 1, *centre, 21.0)
        data = np.concatenate([data, heat])
    return data.round(4), label_of(crowd, kind, extent, mask).round(5)


def case(kind, names, seed, count, flips, factor=1.25, fields="", gray=False, train=True, forms=("data_param",
         "transform_param"), unknown=None, centred=True):
    mask = None
    image = picture(20, 72, seed=seed)
    if kind in LIMBS:
        mask = np.where(np.add.outer(np.arange(20) // 5, np.arange(72) // 9) % 3 == 0, 0, 255).astype(np.uint8)
    crowd = people(names, seed)[:count]
    for index, person in enumerate(crowd):
        person["first"] = index == 0
    if unknown:
        x, y, _ = crowd[0]["joints"][unknown]
        crowd[0]["joints"][unknown] = (x, y, 3)
    parts = [parts_of(names, person, image.shape, kind) for person in crowd]
    target = 1.0
    whole = np.float32(target) / np.float32(crowd[0]["scale"]) * np.float32(factor)
    outcomes = [(0, outcome(image, mask, parts, crowd[0]["centre"] - 1, float(whole) if train else None, kind, flip,
                            gray, centred)) for flip in flips]
    chance = sum(flips) / len(flips)
    return dict(type="CPMData", origin="OpenCV, NumPy", tops=["data", "label"], train=train,
                fields=f"{forms[0]} {{ source: 'db' batch_size: 1 backend: LMDB }} {forms[1]} {{ stride: {STRIDE} "
                       f"crop_size_x: {WIDTH} crop_size_y: {HEIGHT} num_parts: {kind} np_in_lmdb: {len(names)} "
                       f"scale_prob: 1 scale_min: {factor} scale_max: {factor} max_rotate_degree: 0 "
                       f"center_perterb_max: 0 flip_prob: {chance:g} {fields}}}",
                given=[("db", record(image, mask, names, crowd))], outcomes=outcomes,
                # A pixel may be rounded the other way at each of two steps; the mask also at its reduction.
                tolerance=[2.01 / 256, 3.01 / 255 if kind in LIMBS else 3e-5])


def main():
    print(f"/* Computed with OpenCV {cv2.__version__} and NumPy {np.__version__} by tests/data/pose_layers.py, which "
          "tells what computes\n * which top. Zeros at an outcome's end are left out. */")
    emit_cases([case(14, MPII, 1, 2, [False, True]),
                case(28, MPII, 2, 1, [True], factor=0.75, gray=True, fields="gray: 1 put_gaussian: true ",
                     forms=("cpmdata_param", "transform_param")),
                case(14, MPII, 3, 3, [False], train=False, fields="put_gaussian: false ", centred=False),
                case(56, COCO, 4, 2, [False, True], unknown="l_hip", forms=("data_param", "cpm_transform_param")),
                case(43, MPII, 5, 3, [True])], "pose_", "pose_cases")
    image = picture(9, 14)
    rows = []
    for number, (degree, border, channels) in enumerate([(0, 128, 3), (17.5, 128, 3), (-40, 255, 1), (180, 0, 1)]):
        source = image[..., :channels]
        turned, matrix = rotated(source if channels > 1 else source[..., 0].copy(), degree, border)
        emit("uint8_t", f"turned_{number}", [int(v) for v in turned.ravel()])
        numbers = ", ".join(f"{v:.9g}" for v in matrix.ravel())
        rows.append(f"    {{{degree}, {border}, {channels}, {turned.shape[0]}, {turned.shape[1]}, {{{numbers}}}, "
                    f"turned_{number}}},")
    emit("uint8_t", "turned_from", [int(v) for v in image.ravel()])
    print("static const turn turns[] = {\n" + "\n".join(rows) + "\n};")


if __name__ == "__main__":
    main()
