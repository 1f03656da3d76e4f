"""Follows docs/dev/add-a-layer.md on a copy of the source: applies its blocks, then compiles the files that they
make or change (compile), or builds everything and runs the tests of layers (run).

Usage: add_a_layer.py SOURCE_DIR CMAKE C_COMPILER compile|run
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PARTS = ["CMakeLists.txt", "cmake", "include", "src", "tests/CMakeLists.txt",
         "tests/*.[ch]", "tests/layers", "scripts"]
TESTS = ["test_layers_gradient", "test_layers_refusal", "test_layers_layer"]
# The files that include what the blocks change, and the file that one of them creates.
OBJECTS = ["src/CMakeFiles/crema_objects.dir/layers/mix.c.o",
           "src/CMakeFiles/crema_objects.dir/layers/registry.c.o",
           "tests/CMakeFiles/test_layers_gradient.dir/layers/test_gradient.c.o",
           "tests/CMakeFiles/test_layers_refusal.dir/layers/test_refusal.c.o"]
STEP = re.compile(
    r"^(?:Add to `(?P<add>[^`]+)` (?P<where>before|after) `(?P<anchor>[^\n]+)`:"
    r"|Create `(?P<create>[^`]+)`:)\n\n```\w*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL)


def apply(step, root):
    """Does what one step of the page says; an anchor that is not there once is an error."""
    text = step["text"]
    if step["create"]:
        (root / step["create"]).write_text(text)
        return
    path = root / step["add"]
    lines = path.read_text().splitlines(keepends=True)
    hits = [i for i, line in enumerate(lines) if line.strip().startswith(step["anchor"])]
    if len(hits) != 1:
        sys.exit(f"{path.name}: {len(hits)} lines start with: {step['anchor']}")
    at = hits[0] + (step["where"] == "after")
    lines[at:at] = [text]
    path.write_text("".join(lines))


def copy_parts(source, root):
    for part in (found for pattern in PARTS for found in source.glob(pattern)):
        target = root / part.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if part.is_dir():
            shutil.copytree(part, target)
        else:
            shutil.copy(part, target)
    (root / "tests/layers/tests.cmake").unlink()  # this very test
    for folder in ["tools", "examples", "fuzz", "bench"]:
        (root / folder).mkdir()
        (root / folder / "CMakeLists.txt").touch()
    (root / "cmake/install.cmake").write_text("")


def main():
    source, cmake, compiler, compiles = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "compile"
    steps = list(STEP.finditer((source / "docs/dev/add-a-layer.md").read_text()))
    if len(steps) != 6:
        sys.exit(f"found {len(steps)} steps in docs/dev/add-a-layer.md, expected 6")
    with tempfile.TemporaryDirectory(prefix="crema-layer-") as name:
        root = Path(name) / "source"
        root.mkdir()
        copy_parts(source, root)
        for step in steps:
            apply(step, root)
        pages = Path(name) / "pages"
        subprocess.run([sys.executable, root / "scripts/layer_catalogue.py", pages], check=True)
        if "weight \\* a" not in (pages / "layer_mix.md").read_text():
            sys.exit("the catalogue does not have the layer's formula")
        build = Path(name) / "build"
        subprocess.run([cmake, "-G", "Ninja", "-S", root, "-B", build, f"-DCMAKE_C_COMPILER={compiler}",
                        "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0",
                        "-DCREMA_BENCH=OFF", "-DCREMA_PYTHON=OFF"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([cmake, "--build", build, "--parallel", "4", "--target", *(OBJECTS if compiles else TESTS)],
                       check=True, stdout=subprocess.DEVNULL)
        for test in () if compiles else TESTS:
            subprocess.run([build / "tests" / test], check=True)
    print("docs/dev/add-a-layer.md builds" if compiles else "docs/dev/add-a-layer.md builds and passes")


if __name__ == "__main__":
    main()
