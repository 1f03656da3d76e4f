#!/usr/bin/env python3
"""Whether docs/onnx.md names each layer that can be exported and each operator that can be imported, and no layer that
crema does not have. Exits 1 when a name is missing."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def names(path, macro):
    """The first arguments of a table's lines."""
    return set(re.findall(macro + r'\("(\w+)",', (ROOT / path).read_text()))


def section(text, title):
    """The text below a heading."""
    return text.split("\n## %s\n" % title)[1].split("\n## ")[0]


def main():
    """Compares the document with the tables."""
    text = (ROOT / "docs/onnx.md").read_text()
    layers = set(re.findall(r"`(\w+)`", section(text, "Layers")))
    operators = set(re.findall(r"`(\w+)`", section(text, "Operators")))
    known = set(re.findall(r'"(\w+)"', (ROOT / "src/layers/layers.inc").read_text()))
    faults = ["layer %s is not in the table" % name
              for name in sorted(names("src/onnx/export/layers.inc", "CR_ONNX_LAYER") - layers)]
    faults += ["operator %s is not in the table" % name
               for name in sorted(names("src/onnx/import/operators.inc", "CR_ONNX_OPERATOR") - operators)]
    faults += ["crema has no layer %s" % name for name in sorted(layers - known)]
    for fault in faults:
        print("docs/onnx.md: %s" % fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
