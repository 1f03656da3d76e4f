#!/usr/bin/env python3
"""Each function that a table of docs/inside names is in the file that the same row names."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def lost_names(page):
    """[fault]: functions that are not there, and how many are."""
    wrong, found = [], 0
    for row in re.findall(r"^\|.*\|$", page.read_text(), re.M):
        paths, names = re.findall(r"`(src/[\w./]+)`", row), re.findall(r"`(\w+)\(\)`", row)
        if len(paths) != 1:
            continue
        text = (ROOT / paths[0]).read_text() if (ROOT / paths[0]).exists() else ""
        # A definition begins at the start of a line and is no prototype.
        lost = [name for name in names if not re.search(rf"^\w[^;{{}}#]*\b{name}\([^;{{}}]*\) {{", text, re.M)]
        wrong += [f"{page.relative_to(ROOT)}: {paths[0]} has no function {name}" for name in lost]
        found += len(names) - len(lost)
    return wrong, found


def main():
    wrong, found = [], 0
    for page in sorted(ROOT.glob("docs/inside/*.md")):
        faults, names = lost_names(page)
        wrong, found = wrong + faults, found + names
    print("\n".join(wrong + [f"{found} functions are where the chapters say"]))
    sys.exit(1 if wrong or found == 0 else 0)


if __name__ == "__main__":
    main()
