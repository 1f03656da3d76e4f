"""Writes tests/data/opencv.inc: pictures that OpenCV resized, as data layers resize theirs.

Usage: opencv_pictures.py > tests/data/opencv.inc  (needs opencv-python-headless, version 4)
"""
import cv2
import numpy

HEIGHT, WIDTH = 6, 8


def emit(name, picture):
    """A picture in the order of a blob: channels, rows, columns."""
    numbers = [str(v) for v in numpy.moveaxis(picture.reshape(*picture.shape[:2], -1), 2, 0).flatten()]
    lines = [", ".join(numbers[i:i + 20]) for i in range(0, len(numbers), 20)]
    print(f"static const uint8_t {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + "};")


def main():
    picture = (numpy.arange(HEIGHT * WIDTH * 3) * 37 % 251).astype(numpy.uint8).reshape(HEIGHT, WIDTH, 3)
    labels = (numpy.arange(HEIGHT * WIDTH) * 7 % 9).astype(numpy.uint8).reshape(HEIGHT, WIDTH)
    print(f"/* Computed with OpenCV {cv2.__version__} by tests/data/opencv_pictures.py. The picture has {HEIGHT} x {WIDTH} "
          "pixels;\n * the byte i of its three channels, pixel by pixel, is i * 37 % 251, label i is i * 7 % 9. */")
    for name, size in (("larger", (13, 9)), ("smaller", (5, 4))):
        emit(f"cv_{name}", cv2.resize(picture, size, interpolation=cv2.INTER_LINEAR))
        emit(f"cv_{name}_labels", cv2.resize(labels, size, interpolation=cv2.INTER_NEAREST))
    # The window from column 2 to 6 and from row 1 to 3, warped to 7 x 7 pixels.
    emit("cv_window", cv2.resize(picture[1:4, 2:7], (7, 7), interpolation=cv2.INTER_LINEAR))


main()
