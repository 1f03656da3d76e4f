#!/usr/bin/env python3
"""manual.py FOLDER: builds the manual with Doxygen into FOLDER/html, from the headers, the documents and
the comments of the layers. Prints whatever Doxygen warns of, and fails then.
"""
import pathlib
import shutil
import subprocess
import sys

import doxygen_text
import layer_catalogue

ROOT = layer_catalogue.ROOT
DOXYFILE = ROOT / "docs/Doxyfile"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_source(folder):
    """What Doxygen reads, in `folder`."""
    for name, text in layer_catalogue.pages().items():
        write(folder / "docs/layers" / name, text)
    for path in sorted(ROOT.glob("include/crema/*.h")):
        write(folder / path.relative_to(ROOT), doxygen_text.header(path.read_text()))
    for path in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]:
        write(folder / path.relative_to(ROOT), doxygen_text.document(path.read_text()))
    for path in ROOT.glob("docs/**/*.svg"):
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


def build(out, *settings):
    """Returns what Doxygen warned of; "" when all is well."""
    source = out / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(out / "html", ignore_errors=True)
    make_source(source)
    lines = [DOXYFILE.read_text(), f'OUTPUT_DIRECTORY = "{out}"', *settings]
    done = subprocess.run(["doxygen", "-"], input="\n".join(lines) + "\n", text=True, cwd=source,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.replace(f"{source}/", "")
    return said if done.returncode != 0 or said.strip() else ""


def main():
    out = pathlib.Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        said = build(out)
    except (OSError, layer_catalogue.Missing) as what:
        sys.exit(f"manual: {what}")
    if said:
        sys.exit(said)
    print(f"manual: {out}/html/index.html")


if __name__ == "__main__":
    main()
