#!/usr/bin/env python3
"""Converts the binary version of CIFAR-10 to PNG files and lists of them.

Usage: unpack.py cifar-10-binary.tar.gz FOLDER

The archive is at https://www.cs.toronto.edu/~kriz/cifar.html. Writes FOLDER/train/N.png, FOLDER/test/N.png and the
lists FOLDER/train.txt and FOLDER/test.txt. It requires only Python.
"""
import pathlib
import struct
import sys
import tarfile
import zlib

SIDE = 32
PIXELS = SIDE * SIDE
RECORD = 1 + 3 * PIXELS


def png(planes):
    """Encodes a red, a green and a blue plane as a PNG file."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    pixels = bytearray(3 * PIXELS)
    for channel in range(3):
        pixels[channel::3] = planes[channel * PIXELS:(channel + 1) * PIXELS]
    rows = b"".join(b"\0" + pixels[3 * SIDE * y:3 * SIDE * (y + 1)] for y in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1))
            + chunk(b"IEND", b""))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, lines = pathlib.Path(sys.argv[2]), {"train": [], "test": []}
    with tarfile.open(sys.argv[1]) as archive:
        for member in sorted(archive.getmembers(), key=lambda one: one.name):
            name = pathlib.PurePath(member.name).name
            if not name.endswith("_batch.bin") and not name.startswith("data_batch_"):
                continue
            part = "test" if name.startswith("test") else "train"
            (folder / part).mkdir(parents=True, exist_ok=True)
            data = archive.extractfile(member).read()
            if len(data) % RECORD != 0:
                sys.exit(f"{member.name}: {len(data)} bytes are not records of {RECORD}")
            for at in range(0, len(data), RECORD):
                path = f"{part}/{len(lines[part]):05}.png"
                (folder / path).write_bytes(png(data[at + 1:at + RECORD]))
                lines[part].append(f"{path} {data[at]}\n")
    for part, text in lines.items():
        if not text:
            sys.exit(f"{sys.argv[1]}: no images for {part}")
        (folder / f"{part}.txt").write_text("".join(text))


main()
