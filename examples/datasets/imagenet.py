#!/usr/bin/env python3
"""Lists the images of ImageNet for crema convert_imageset.

Usage: imagenet.py FOLDER LIST

FOLDER has a folder for each class, such as n01440764, as the training images of ILSVRC 2012 are unpacked. Writes one
line per image to LIST: its name and its label. Labels are 0 to 999, in the order of the class numbers.
"""
import pathlib
import sys

SYNSETS = pathlib.Path(__file__).resolve().parents[2] / "models/squeezenet_v1.0/labels.txt"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, labels = pathlib.Path(sys.argv[1]), {}
    for line in SYNSETS.read_text().splitlines():
        labels[line.split()[0]] = len(labels)
    lines = [f"{path.relative_to(folder)} {labels[path.parent.name]}"
             for path in sorted(folder.glob("*/*")) if path.parent.name in labels]
    if not lines:
        sys.exit(f"imagenet.py: {folder}: expected folders such as n01440764 with images")
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n")
    print(f"{sys.argv[2]}: {len(lines)} images")


if __name__ == "__main__":
    main()
