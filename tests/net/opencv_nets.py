"""Writes tests/net/opencv.inc: what OpenCV makes of the nets of tests/net/test_opencv.c.

Usage: opencv_nets.py TEST_NET_OPENCV > tests/net/opencv.inc  (needs opencv-python-headless, version 4)
"""
import pathlib
import subprocess
import sys
import tempfile

import cv2
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETS = [("squeezenet", "squeezenet_v1.1", "pool10", 10), ("googlenet", "googlenet", "loss3/classifier", 10),
        ("resnet50", "resnet50", "fc1000", 10), ("ssd", "ssd300_mobilenet", "detection_out", 1),
        ("fcn", "fcn", "score", 23), ("rois", "rcnn", "rois", 1), ("rcnn", "rcnn", "score", 1),
        ("parts", "rcnn", "ps", 1)]


def inputs(path):
    """Name and values of each input."""
    lines = path.read_text().splitlines()
    at = 0
    while at < len(lines):
        name, *shape = lines[at].split()
        shape = [int(extent) for extent in shape]
        count = int(numpy.prod(shape))
        yield name, numpy.array(lines[at + 1:at + 1 + count], numpy.float32).reshape(shape)
        at += 1 + count


def main():
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        subprocess.run([sys.argv[1], "write", text], check=True)
        print(f"/* Computed with OpenCV {cv2.__version__} by tests/net/opencv_nets.py: every few values of a blob. */")
        for array, name, blob, step in NETS:
            own = folder / f"{name}.prototxt"
            net = cv2.dnn.readNetFromCaffe(str(own if own.exists() else ROOT / f"models/{name}/deploy.prototxt"),
                                           str(folder / f"{name}.caffemodel"))
            for one, values in inputs(folder / f"{name}.txt"):
                net.setInput(values, one)
            numbers = [f"{v:.9g}" for v in net.forward(blob).flatten()[::step]]
            numbers = [n + ("" if "." in n or "e" in n else ".0") + "f" for n in numbers]
            rows = [", ".join(numbers[i:i + 6]) for i in range(0, len(numbers), 6)]
            print(f"static const float cv_{array}[{len(numbers)}] = {{\n    " + ",\n    ".join(rows) + "};")


main()
