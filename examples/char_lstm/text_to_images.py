#!/usr/bin/env python3
"""Converts text to gray images, from which a net learns to predict the next letter.

Usage: text_to_images.py FOLDER FILE... [-streams N] [-steps N]

The text is divided into N streams that are read in parallel. Each image has one column per stream. Its first `steps`
rows have letters of the streams. The next `steps` rows have the letter that follows each of them. A pixel is the
number of a letter: 0 for a rare letter, else its line in alphabet.txt. The last tenth of the images is for tests.
FOLDER/train.txt and FOLDER/test.txt list the images in order.
"""
import argparse
import collections
import pathlib
import struct
import zlib

LETTERS = 95


def png(rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("-streams", type=int, default=32)
    parser.add_argument("-steps", type=int, default=32)
    options = parser.parse_args()
    text = "".join(file.read_text(encoding="utf-8") for file in options.files)
    common = [letter for letter, _ in collections.Counter(text).most_common(LETTERS)]
    number = {letter: index for index, letter in enumerate(common, 1)}
    codes = [number.get(letter, 0) for letter in text]
    length = (len(codes) - 1) // options.streams
    images = length // options.steps
    if images < 10:
        parser.error(f"{len(text)} letters are too few")
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "alphabet.txt").write_text("".join(f"{letter!r}\n" for letter in common), encoding="utf-8")
    names = []
    for image in range(images):
        rows = []
        for shift in (0, 1):
            for step in range(options.steps):
                at = image * options.steps + step + shift
                rows.append([codes[stream * length + at] for stream in range(options.streams)])
        names.append(f"{image:05}.png 0\n")
        (options.folder / f"{image:05}.png").write_bytes(png(rows))
    tests = images // 10
    (options.folder / "train.txt").write_text("".join(names[:-tests]))
    (options.folder / "test.txt").write_text("".join(names[-tests:]))


main()
