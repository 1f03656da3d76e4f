#!/usr/bin/env python3
"""Prepares PASCAL VOC for crema convert_annoset and convert_imageset.

Usage: voc.py boxes VOCDEVKIT FOLDER
       voc.py maps VOCDEVKIT FOLDER

VOCDEVKIT has the folders VOC2007 and VOC2012, or one of them. FOLDER gets links to these.

With boxes, it also gets a text file of boxes for each image, and the lists trainval.txt (both years) and test.txt
(2007).

With maps, it also gets a greyscale PNG file of classes for each segmented image of 2012. The lists of the parts train
and val are PART_images.txt and PART_maps.txt.

Class 0 is the background, 1 to 20 are the classes in alphabetical order, and 255 in a map is ignored.
"""
import pathlib
import struct
import sys
import xml.etree.ElementTree
import zlib

CLASSES = ("aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person "
           "pottedplant sheep sofa train tvmonitor").split()
SPLITS = {"boxes": {"trainval": ["VOC2007", "VOC2012"], "test": ["VOC2007"]},
          "maps": {"train": ["VOC2012"], "val": ["VOC2012"]}}


def names(year, kind, part):
    """The images of a part; none where this year or its list is missing."""
    path = year / "ImageSets" / kind / f"{part}.txt"
    return [line.split()[0] for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def boxes_of(annotation):
    """A line for each object: label, left, top, right, bottom, and 1 for a difficult one."""
    for thing in xml.etree.ElementTree.parse(annotation).getroot().iter("object"):
        label = CLASSES.index(thing.findtext("name")) + 1
        sides = [round(float(thing.findtext(f"bndbox/{side}"))) for side in ("xmin", "ymin", "xmax", "ymax")]
        difficult = [1] if thing.findtext("difficult") == "1" else []
        yield " ".join(map(str, [label, *sides, *difficult]))


def as_greyscale(png):
    """A PNG file of palette indices as one of grey levels: the pixels stay, the header changes."""
    out, at = png[:8], 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body, at = png[at + 8:at + 8 + size], at + size + 12
        if kind == b"IHDR":
            if body[8:10] != b"\x08\x03":
                raise ValueError("expected 8-bit palette indices")
            body = body[:9] + b"\x00" + body[10:]
        if kind not in (b"PLTE", b"tRNS"):
            out += struct.pack(">I", size) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return out


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in SPLITS:
        sys.exit(__doc__)
    what, devkit, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for part, years in SPLITS[what].items():
        images, others = [], []
        for year in years:
            kind = "Main" if what == "boxes" else "Segmentation"
            found = names(devkit / year, kind, part)
            if not found:
                continue
            if not (folder / year).exists():
                (folder / year).symlink_to(devkit / year)
            (folder / what / year).mkdir(parents=True, exist_ok=True)
            for name in found:
                images.append(f"{year}/JPEGImages/{name}.jpg")
                if what == "boxes":
                    others.append(f"boxes/{year}/{name}.txt")
                    lines = boxes_of(devkit / year / "Annotations" / f"{name}.xml")
                    (folder / others[-1]).write_text("".join(line + "\n" for line in lines))
                else:
                    others.append(f"maps/{year}/{name}.png")
                    source = devkit / year / "SegmentationClass" / f"{name}.png"
                    (folder / others[-1]).write_bytes(as_greyscale(source.read_bytes()))
        if not images:
            sys.exit(f"voc.py: {devkit}: no list of the part {part}")
        if what == "boxes":
            (folder / f"{part}.txt").write_text("".join(f"{a} {b}\n" for a, b in zip(images, others)))
        else:
            (folder / f"{part}_images.txt").write_text("".join(f"{name} 0\n" for name in images))
            (folder / f"{part}_maps.txt").write_text("".join(f"{name} 0\n" for name in others))
        print(f"{part}: {len(images)} images")


if __name__ == "__main__":
    main()
