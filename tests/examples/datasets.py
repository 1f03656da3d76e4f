#!/usr/bin/env python3
"""The scripts of examples/datasets on small copies of the data sets' folders, up to crema's databases.

Usage: datasets.py CREMA SOURCE_DIR
"""
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

CREMA, SOURCE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
SCRIPTS = SOURCE / "examples/datasets"
XML = """<annotation><object><name>{name}</name><difficult>{difficult}</difficult>
<bndbox><xmin>8</xmin><ymin>12.4</ymin><xmax>352</xmax><ymax>498</ymax></bndbox></object></annotation>"""


def run(*command, fails=False):
    done = subprocess.run(command, cwd=FOLDER, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert (done.returncode != 0) == fails, f"{command}: {done.stdout}"
    return done.stdout


def put(name, content):
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def palette_png(rows):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"PLTE", bytes(range(256)) * 3) + chunk(b"IDAT", pixels)
            + chunk(b"IEND", b""))


def check_imagenet():
    cat = (SOURCE / "examples/images/cat.jpg").read_bytes()
    for name in ("n01443537/b.jpg", "n01443537/a.jpg", "n02123045/c.jpg", "notes/readme.jpg"):
        put(f"train/{name}", cat)
    run(sys.executable, SCRIPTS / "imagenet.py", "train", "train.txt")
    assert (FOLDER / "train.txt").read_text() == "n01443537/a.jpg 1\nn01443537/b.jpg 1\nn02123045/c.jpg 281\n"
    run(CREMA, "convert_imageset", "-resize_height", "8", "-resize_width", "8", "train/", "train.txt", "train_lmdb")
    (FOLDER / "none").mkdir()
    assert "expected folders" in run(sys.executable, SCRIPTS / "imagenet.py", "none", "x.txt", fails=True)


def check_boxes():
    cat = (SOURCE / "examples/images/cat.jpg").read_bytes()
    for year, part, name, kind, difficult in (("VOC2007", "trainval", "000005", "cat", 0),
                                              ("VOC2012", "trainval", "2008_000002", "tvmonitor", 1),
                                              ("VOC2007", "test", "000001", "aeroplane", 0)):
        put(f"kit/{year}/JPEGImages/{name}.jpg", cat)
        put(f"kit/{year}/Annotations/{name}.xml", XML.format(name=kind, difficult=difficult))
        put(f"kit/{year}/ImageSets/Main/{part}.txt", f"{name}\n")
    run(sys.executable, SCRIPTS / "voc.py", "boxes", "kit", "voc")
    assert (FOLDER / "voc/boxes/VOC2007/000005.txt").read_text() == "8 8 12 352 498\n"
    assert (FOLDER / "voc/boxes/VOC2012/2008_000002.txt").read_text() == "20 8 12 352 498 1\n"
    for part in ("trainval", "test"):
        run(CREMA, "convert_annoset", "voc", f"voc/{part}.txt", f"{part}_lmdb")


def check_maps():
    for part in ("train", "val"):
        put(f"kit/VOC2012/ImageSets/Segmentation/{part}.txt", "2008_000002\n")
    put("kit/VOC2012/SegmentationClass/2008_000002.png", palette_png([[0, 20], [255, 7]]))
    run(sys.executable, SCRIPTS / "voc.py", "maps", "kit", "voc")
    run(CREMA, "convert_imageset", "voc", "voc/val_images.txt", "images_lmdb")
    run(CREMA, "convert_imageset", "-gray", "voc", "voc/val_maps.txt", "maps_lmdb")
    # The mean of the classes: they are the pixels, and not the greys of a palette.
    assert "70.5" in run(CREMA, "compute_image_mean", "maps_lmdb")
    put("kit/VOC2012/SegmentationClass/2008_000002.png", (FOLDER / "voc/maps/VOC2012/2008_000002.png").read_bytes())
    assert "palette" in run(sys.executable, SCRIPTS / "voc.py", "maps", "kit", "voc", fails=True)


with tempfile.TemporaryDirectory() as temporary:
    FOLDER = pathlib.Path(temporary)
    check_imagenet()
    check_boxes()
    check_maps()
print("the databases are made")
