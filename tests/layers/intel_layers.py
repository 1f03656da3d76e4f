"""Writes tests/layers/intel.inc: what RegionLoss and EvalDetection of Intel Caffe compute.

Usage: intel_layers.py INTEL_CAFFE > tests/layers/intel.inc  (the folder of its sources; needs g++)
"""
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BIASES = [0.8, 1.1, 2.5, 1.7, 0.5, 0.4, 1.2, 3, 1.75, 1.75]
NONE = [-1] * 8

# Image, label, instance, left, top, right, bottom, difficult.
OBJECTS = [[0, 1, 0, 0.05, 0.1, 0.3, 0.45, 0], [1, 2, 0, 0.55, 0.25, 0.95, 0.875, 0], NONE,
           [0, 3, 0, 0.5, 0.55, 0.75, 0.7, 1], [1, 3, 0, 0.02, 0.05, 0.96, 0.99, 0]]

# Files of Caffe that the layers include and intel_caffe.h stands for.
REPLACED = ["blob.hpp", "layer.hpp", "proto/caffe.pb.h", "layers/loss_layer.hpp", "layers/sigmoid_layer.hpp",
            "util/math_functions.hpp", "util/benchmark.hpp"]


def pattern(count):
    """Element i is (i * 37 % 101 - 50.5) / 32, which floats hold exactly."""
    return [(i * 37 % 101 - 50.5) / 32 for i in range(count)]


def build(sources, folder):
    for name in REPLACED:
        (folder / "caffe" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "caffe" / name).touch()
    parts = [sources / f"src/caffe/layers/{name}_layer.cpp" for name in ("region_loss", "eval_detection")]
    subprocess.run(["g++", "-std=c++17", "-O0", "-w", f"-I{folder}", f"-I{sources}/include", "-include",
                    HERE / "intel_caffe.h", *parts, HERE / "intel_caffe.cpp", "-o", folder / "intel_caffe"], check=True)


def run(folder, kind, classes, anchors, side, bias_match=1, thresh=0.2, nms=-1, score_type=2):
    values = pattern(2 * anchors * (5 + classes) * side**2)
    text = " ".join(str(v) for v in [2, len(OBJECTS), *values, *[n for row in OBJECTS for n in row]])
    arguments = [classes, anchors, side, bias_match, thresh, nms, score_type, *BIASES[:2 * anchors]]
    done = subprocess.run([folder / "intel_caffe", kind, *map(str, arguments)], input=text, check=True,
                          capture_output=True, text=True)
    return values, [float(v) for v in done.stdout.split()]


def biases(anchors):
    return " ".join(f"biases: {b}" for b in BIASES[:2 * anchors])


def loss(folder, bias_match, thresh):
    classes, anchors, side = 3, 2, 3
    _, gradient = run(folder, "loss", classes, anchors, side, bias_match, thresh)
    body = f"num: {anchors} bias_match: {bias_match} thresh: {thresh}"
    # Its top is not the loss whose gradient this is.
    return dict(type="RegionLoss", body=f"region_loss_param {{ side: 3 num_class: 3 {body} {biases(anchors)} }}",
                shapes=f"2 {anchors * (5 + classes)} 3 3|1 1 {len(OBJECTS)} 8", gradient=1, given=OBJECTS,
                wanted=["NAN", *gradient])


def evaluation(folder, score_type, nms, threshold):
    classes, anchors, side = 3, 5, 3
    values, top = run(folder, "eval", classes, anchors, side, thresh=threshold, nms=nms,
                      score_type=["OBJ", "PROB", "MULTIPLY"].index(score_type))
    # A box whose class is there but whose objects all lie elsewhere is neither right nor wrong in Intel Caffe.
    wide = classes + 4 * anchors * side**2
    for image in range(2):
        for row in range(image * wide + classes, (image + 1) * wide, 4):
            if top[row + 1] > 0 and top[row + 2] == top[row + 3] == 0:
                top[row + 3] = "NAN"
    return dict(type="EvalDetection",
                body=f"eval_detection_param {{ side: 3 num_class: 3 num_object: {anchors} score_type: {score_type} "
                f"nms: {nms} threshold: {threshold} {biases(anchors)} }}",
                shapes=f"2 {anchors * (5 + classes)} 3 3|1 1 {len(OBJECTS)} 8", gradient=0, given=[values, *OBJECTS],
                wanted=top)


def emit(name, numbers):
    words = [n if n == "NAN" else f"{n:.9g}" for n in numbers]
    lines = [", ".join(words[i:i + 6]) for i in range(0, len(words), 6)]
    print(f"static const double {name}[{len(words)}] = {{\n    " + ",\n    ".join(lines) + "};")


def main():
    sources = pathlib.Path(sys.argv[1])
    version = re.search(r'CAFFE_TARGET_VERSION "([\d.]+)"', (sources / "CMakeLists.txt").read_text()).group(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(sources, folder)
        cases = [loss(folder, 1, 0.2), loss(folder, 0, 0.45), evaluation(folder, "MULTIPLY", 0.45, 0.25),
                 evaluation(folder, "OBJ", 0.7, 0.1)]
    print(f"/* Computed with Intel Caffe {version} by tests/layers/intel_layers.py, in double. NAN: not compared. */")
    rows = []
    for number, case in enumerate(cases):
        emit(f"intel_{number}", case["wanted"])
        emit(f"intel_given_{number}", [n for row in case["given"] for n in row])
        rows.append(f'    {{"{case["type"]}", "Intel Caffe",\n     "{case["body"]}",\n     "{case["shapes"]}", 1, '
                    f'{case["gradient"]}, intel_{number}, COUNT(intel_{number}), intel_given_{number}, 1e-6}},')
    print("static const peer_case intel_cases[] = {\n" + "\n".join(rows) + "\n};")


main()
