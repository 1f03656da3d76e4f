"""Stored results: a file of tab-separated rows below comments that name the machine, the versions and the command."""
import datetime
import importlib.metadata
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ("onnxruntime", "openvino", "torch")
# What distinguishes the speed of two x86-64 processors most.
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")


def machine():
    """The processor and the memory, in words."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    field = {key: re.search(rf"^{key}\s*: (.*)$", text, re.M)[1] for key in ("model name", "cpu family", "flags")}
    memory = int(re.search(r"MemTotal: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) / 2**20
    features = ", ".join(f for f in FEATURES if f in field["flags"].split())
    return (f"{field['model name']} (family {field['cpu family']}; {features}), {os.cpu_count()} cores, "
            f"{memory:.0f} GiB of memory, virtual")


def versions():
    """crema's commit and the peers' versions, as far as they are installed."""
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip()
    found = [f"crema {commit}"]
    for name in PEERS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            pass
    return ", ".join(found)


def command():
    """The command line without the flags that name the user's own files."""
    script = pathlib.Path(sys.argv[0]).resolve().relative_to(ROOT)
    words = iter(sys.argv[1:])
    kept = [str(script)]
    for word in words:
        if word in ("-files", "-output"):
            next(words, None)
        else:
            kept.append(word)
    return shlex.join(kept)


class Table:
    """Rows with these columns, written to `path` as they come; without a path they go nowhere."""

    def __init__(self, path, columns):
        self.file = open(path, "w", encoding="utf-8") if path else None
        if self.file:
            for key, value in (("date", datetime.date.today().isoformat()), ("machine", machine()),
                               ("versions", versions()), ("command", command())):
                self.file.write(f"# {key}: {value}\n")
            self.add(*columns)

    def add(self, *row):
        if self.file:
            self.file.write("\t".join(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row) + "\n")
            self.file.flush()


def read(path):
    """({key of a comment: value}, [row as a dict of texts]) of such a file."""
    head, rows, columns = {}, [], None
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            key, _, value = line[2:].partition(": ")
            head[key] = value
        elif columns is None:
            columns = line.split("\t")
        else:
            rows.append(dict(zip(columns, line.split("\t"))))
    return head, rows
