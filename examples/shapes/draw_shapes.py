#!/usr/bin/env python3
"""Draws images of rectangles and discs, with their boxes and with label maps.

Usage: draw_shapes.py FOLDER COUNT [-seed N] [-size N]

Writes these files, and requires only Python:

- FOLDER/images/N.png: the images
- FOLDER/boxes/N.txt: lines of LABEL LEFT TOP RIGHT BOTTOM in pixels
- FOLDER/maps/N.png: the label of each pixel (0: background, 1: rectangle, 2: disc)
- FOLDER/boxes.txt: a list of images and their boxes
- FOLDER/images.txt and FOLDER/maps.txt: lists of images and of maps, with the label 0
"""
import argparse
import pathlib
import random
import struct
import zlib

RECTANGLE, DISC = 1, 2


def png(rows, width, channels):
    """Encodes rows of bytes as a PNG file."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    colour = {1: 0, 3: 2}[channels]
    header = struct.pack(">IIBBBBB", width, len(rows), 8, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def overlap(a, b):
    return min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])


def place(draw, size, taken):
    """A label and a box that overlaps none of `taken`; None if there is no space."""
    for _ in range(20):
        label = draw.choice((RECTANGLE, DISC))
        width = draw.randint(size // 5, size // 2)
        height = width if label == DISC else draw.randint(max(size // 5, width // 2), min(size // 2, 2 * width))
        left, top = draw.randint(0, size - width), draw.randint(0, size - height)
        box = (left, top, left + width, top + height)
        if not any(overlap(box, other) for _, other in taken):
            return label, box
    return None


def span(label, box, y):
    """The first and the last column (exclusive) of the shape in row y."""
    left, top, right, bottom = box
    if label == RECTANGLE:
        return left, right
    radius = (right - left) / 2
    half = max(0, radius ** 2 - (y + 0.5 - top - radius) ** 2) ** 0.5
    middle = left + radius
    return round(middle - half), round(middle + half)


def draw_image(draw, size):
    """Rows of pixels, rows of the map, and the shapes."""
    dark = [draw.randint(0, 110) for _ in range(3)]
    image = [bytearray(c + (noise & 15) for c, noise in zip(dark * size, draw.randbytes(3 * size)))
             for _ in range(size)]
    labels = [bytearray(size) for _ in range(size)]
    shapes = []
    for _ in range(draw.randint(1, 3)):
        shape = place(draw, size, shapes)
        if shape is None:
            break
        shapes.append(shape)
        label, box = shape
        bright = bytes(draw.randint(140, 255) for _ in range(3))
        for y in range(box[1], box[3]):
            first, last = span(label, box, y)
            image[y][3 * first:3 * last] = bright * (last - first)
            labels[y][first:last] = bytes([label]) * (last - first)
    return image, labels, shapes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("count", type=int)
    parser.add_argument("-seed", type=int, default=1)
    parser.add_argument("-size", type=int, default=64)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    for name in ("images", "boxes", "maps"):
        (options.folder / name).mkdir(parents=True, exist_ok=True)
    lists = {"boxes": [], "images": [], "maps": []}
    for number in range(options.count):
        image, labels, shapes = draw_image(draw, options.size)
        name = f"{number:05}"
        (options.folder / f"images/{name}.png").write_bytes(png(image, options.size, 3))
        (options.folder / f"maps/{name}.png").write_bytes(png(labels, options.size, 1))
        (options.folder / f"boxes/{name}.txt").write_text(
            "".join(f"{label} {' '.join(map(str, box))}\n" for label, box in shapes))
        lists["boxes"].append(f"images/{name}.png boxes/{name}.txt\n")
        lists["images"].append(f"images/{name}.png 0\n")
        lists["maps"].append(f"maps/{name}.png 0\n")
    for name, lines in lists.items():
        (options.folder / f"{name}.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
