#!/usr/bin/env python3
"""The catalogue of layers: each registered type has a page with all its parts, and each example runs;
that of a layer that reads or writes files in each pair of element types (S4-39).

Usage: layers.py CREMA BOXES
"""
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import layer_catalogue  # noqa: E402

PARTS = ["**Formula.** ", "**Shapes.** ", "**Dialects.** ", "**Compared with Caffe.** ", "## Example"]
TYPES = ["DOUBLE", "FLOAT", "FLOAT16"]
PAIRS = [(forward, backward) for forward in TYPES for backward in TYPES] + [("BFLOAT16", "BFLOAT16")]
FILES = ["AnnotatedData", "BoxData", "CPMData", "Data", "HDF5Data", "HDF5Output", "ImageData", "ImageSegData", "MatWrite", "VideoClips",
         "VideoData", "WindowData"]
CAT = ROOT / "examples/images/cat.jpg"


def crema(folder, *arguments):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    done = subprocess.run([sys.argv[1], *arguments], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    return done.returncode, done.stdout


def make_video(folder):
    """A file that stands for a video, and a script that gives its frames as ffmpeg does."""
    script = folder / "ffmpeg"
    frame = "printf 'P6\\n40 30\\n255\\n'; head -c 3600 /dev/zero"
    script.write_text(f"#!/bin/sh\n{frame}\n{frame}\n{frame}\n")
    script.chmod(0o755)
    os.environ["CREMA_FFMPEG"] = str(script)
    (folder / "street.mp4").write_text("")
    rows = b"".join(b"\0" + bytes(range(y, y + 32)) for y in range(32))
    (folder / "map.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in [(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 0, 0, 0, 0)),
                           (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]))


def make_data(folder):
    """What the examples of layers that read files name. samples.h5 comes from HDF5Output's own."""
    (folder / "pairs.txt").write_text("map.png map.png\n")
    make_video(folder)
    for clip in (1, 2):
        (folder / f"clip{clip}").mkdir()
        for frame in range(1, 5):
            (folder / f"clip{clip}/image_{frame:04}.jpg").symlink_to(CAT)
    (folder / "clips.txt").write_text("clip1 1 0\nclip2 1 1\n")
    (folder / "images.txt").write_text(f"{CAT} 0\n{CAT} 1\n")
    code, text = crema(folder, "convert_imageset", "-resize_height", "32", "-resize_width", "32", "/",
                       "images.txt", "train_lmdb")
    assert code == 0, text
    (folder / "windows.txt").write_text(f"# 0\n{CAT}\n3 360 480\n2\n1 0.9 10 10 90 90\n0 0.1 200 90 300 200\n")
    (folder / "h5_files.txt").write_text("samples.h5\n")
    subprocess.run([sys.argv[2], str(folder)], check=True)


def run(folder, layer, text, wrong):
    """Runs a net forward and backward, once."""
    path = folder / f"{layer.type}.prototxt"
    path.write_text(text)
    code, output = crema(folder, "time", "-model", path.name, "-iterations", "1")
    if layer.type == "MemoryData":
        # It is built, and then needs samples, which a program gives.
        code = 0 if "crema_memory_data_set" in output else 1
    if code != 0:
        wrong.append(f"{layer.path}: the example fails:\n{text}{output}")


def blobs_of(output):
    """The mean absolute values of the blobs of the first pass, which debug_info prints."""
    first = output.split("Benchmark begins")[0]
    return {name: float(value) for name, value in
            re.findall(r"\[Forward\] Layer .*, top blob (\w+) data: (\S+)", first)}


def check_types(folder, layer, wrong):
    """A layer that reads or writes files brings the same values in every pair of types."""
    expected = None
    for forward, backward in sorted(PAIRS, key=lambda pair: pair != ("FLOAT", "FLOAT")):
        path = folder / "types.prototxt"
        path.write_text(f"default_forward_type: {forward} default_backward_type: {backward} debug_info: true\n"
                        + layer_catalogue.example_net(layer))
        code, output = crema(folder, "time", "-model", path.name, "-iterations", "1", "-phase", "TEST")
        found = blobs_of(output)
        expected = expected or found
        near = {name for name, value in found.items()
                if abs(value - expected.get(name, value + 1)) <= 4e-3 * abs(value) + 1e-6}
        if code != 0 or not found or near != set(expected):
            wrong.append(f"{layer.path}: {forward} forward, {backward} backward: {found}, not {expected}:\n{output}")


def check_in_place(folder, layer, wrong):
    """The comment says whether the layer works in place; so does the net."""
    if len(layer.inputs) == 0 or 'top: "y"' not in layer.example:
        return
    first = layer.inputs[0][0]
    path = folder / "in_place.prototxt"
    path.write_text(layer_catalogue.example_net(layer).replace('top: "y"', f'top: "{first}"'))
    code, output = crema(folder, "time", "-model", path.name, "-iterations", "1")
    says = "in place" in layer.parts["Shapes"]
    if says != (code == 0):
        wrong.append(f"{layer.path}: the comment says {'' if says else 'nothing '}of in place; "
                     f"in place the example gives:\n{output}")


def check_pages(layers, found, wrong):
    registered = {kind for _, kind in layer_catalogue.types()}
    documented = set(re.findall(r"^# (\w+) \{#layer_", "\n".join(found.values()), re.M))
    if registered != documented or len(layers) != len(registered):
        wrong.append(f"registered or documented alone: {registered ^ documented}")
    for layer in layers:
        page = found[layer_catalogue.anchor(layer.type) + ".md"]
        wrong += [f"{layer.type}: no part {part}" for part in PARTS if part not in page]
        if f'type: "{layer.type}"' not in page or f"@subpage {layer_catalogue.anchor(layer.type)}" \
                not in found["layers.md"]:
            wrong.append(f"{layer.type}: not in its own example, or not in the index")


def check_that_gaps_are_seen(wrong):
    """A comment without a part, or with a field that the schema has not, is refused."""
    whole = ["X: is.", "", "Formula: f.", "Shapes: s.", "Fields: none.", "Caffe: the same.", "Example:",
             "  layer { }"]
    layer_catalogue.parse_comment(whole, "whole")
    for gap in range(2, len(whole)):
        try:
            layer_catalogue.parse_comment(whole[:gap] + whole[gap + 1:], "gap")
            wrong.append(f"a comment without '{whole[gap]}' passes")
        except layer_catalogue.Missing:
            pass


    code = "x = layer->param->relu_param; cr_read(layer);"
    if layer_catalogue.fields_read(code, {"cr_read": {"loss_param"}}) != {"relu_param", "loss_param"}:
        wrong.append("fields that are read are not seen")
    if not {"loss_param"} in layer_catalogue.helpers(set()).values():
        wrong.append("no shared function reads loss_param, or it is not seen")


def main():
    wrong = []
    layers, _, _ = layer_catalogue.read_all()
    check_pages(layers, layer_catalogue.pages(), wrong)
    check_that_gaps_are_seen(wrong)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_data(folder)
        # HDF5Output first: it makes what HDF5Data reads.
        for layer in sorted(layers, key=lambda l: l.type != "HDF5Output"):
            run(folder, layer, layer_catalogue.example_net(layer), wrong)
            check_in_place(folder, layer, wrong)
            if layer.type in FILES:
                check_types(folder, layer, wrong)
    for text in wrong:
        print(text)
    print(f"{len(layers)} types of layers, {len(wrong)} faults")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
