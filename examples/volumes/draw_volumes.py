#!/usr/bin/env python3
"""Draws volumes of boxes and balls, with label maps, as slices.

Usage: draw_volumes.py FOLDER COUNT [-seed N] [-size N]

Writes these files, and requires only Python:

- FOLDER/N/slice_K.png: slice K of volume N, from 01 on
- FOLDER/N/map_K.png: the label of each voxel (0: background, 1: box, 2: ball)
- FOLDER.txt: a list of volumes, with the first slice 1 and the label 0, as VideoClips reads it
"""
import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shapes"))
from draw_shapes import png  # noqa: E402

BOX, BALL = 1, 2


def place(draw, size):
    """A label, and the first corner and the sides of its place."""
    label = draw.choice((BOX, BALL))
    sides = [draw.randint(size // 4, size // 2) for _ in range(3)]
    if label == BALL:
        sides = sides[:1] * 3
    return label, [draw.randint(0, size - side) for side in sides], sides


def columns(label, corner, sides, z, y):
    """The first and the last column (exclusive) of the shape in row y of slice z."""
    if not (corner[0] <= z < corner[0] + sides[0] and corner[1] <= y < corner[1] + sides[1]):
        return 0, 0
    if label == BOX:
        return corner[2], corner[2] + sides[2]
    radius = sides[0] / 2
    square = radius ** 2 - (z + 0.5 - corner[0] - radius) ** 2 - (y + 0.5 - corner[1] - radius) ** 2
    half = max(0, square) ** 0.5
    return round(corner[2] + radius - half), round(corner[2] + radius + half)


def draw_volume(draw, size, folder):
    """Writes the slices of a volume. A later shape hides an earlier one."""
    shapes = [(*place(draw, size), draw.randint(140, 255)) for _ in range(draw.randint(1, 2))]
    for z in range(size):
        rows = [bytearray(noise & 63 for noise in draw.randbytes(size)) for _ in range(size)]
        labels = [bytearray(size) for _ in range(size)]
        for label, corner, sides, bright in shapes:
            for y in range(size):
                first, last = columns(label, corner, sides, z, y)
                rows[y][first:last] = bytes([bright]) * (last - first)
                labels[y][first:last] = bytes([label]) * (last - first)
        (folder / f"slice_{z + 1:02}.png").write_bytes(png(rows, size, 1))
        (folder / f"map_{z + 1:02}.png").write_bytes(png(labels, size, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("count", type=int)
    parser.add_argument("-seed", type=int, default=1)
    parser.add_argument("-size", type=int, default=24)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    lines = []
    for number in range(options.count):
        folder = options.folder / f"{number:04}"
        folder.mkdir(parents=True, exist_ok=True)
        draw_volume(draw, options.size, folder)
        lines.append(f"{options.folder.name}/{folder.name} 1 0\n")
    pathlib.Path(f"{options.folder}.txt").write_text("".join(lines))


main()
