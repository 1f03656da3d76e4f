#!/usr/bin/env python3
"""How often the bundled SqueezeNet is right in each precision of compiled models.

  scripts/precision_accuracy.py build/bin/crema FOLDER [METHOD...]

FOLDER holds pictures and labels.txt with lines "<file> <class>". The tables for int8 are made of every
second picture by each METHOD (kl, minmax, percentile; all by default). Prints rows of the table in
docs/deploy.md: how many pictures get their class in the first place and among the first five, how
many get the same class as in f32, and the largest difference of a probability from f32.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).resolve().parent.parent / "models" / "squeezenet_v1.0"
NET = ["-weights", str(MODEL / "squeezenet_v1.0.caffemodel")]


def classify(crema, files, flags):
    """The classes of each picture with their probabilities, the likeliest first."""
    out = subprocess.run([crema, "classify", "-compiled", "-top", "1000", *flags, *files], check=True,
                         capture_output=True, text=True).stdout
    parts = re.split(r"^-+ Prediction for .*\n", out, flags=re.M)[1:]
    return [[(name, float(p)) for p, name in re.findall(r'^([\d.]+) - "(.*)"$', part, flags=re.M)]
            for part in parts]


def main():
    crema, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    methods = sys.argv[3:] or ["kl", "minmax", "percentile"]
    names = (MODEL / "labels.txt").read_text().splitlines()
    lines = [line.split() for line in (folder / "labels.txt").read_text().splitlines() if line.strip()]
    files = [str(folder / line[0]) for line in lines]
    wanted = [names[int(line[1])] for line in lines]
    with tempfile.TemporaryDirectory() as work:
        runs = [("f32", ["-precision", "f32"]), ("bf16", ["-precision", "bf16"])]
        pictures = pathlib.Path(work) / "pictures"
        pictures.write_text("\n".join(files[::2]) + "\n")
        for method in methods:
            table = f"{work}/{method}"
            subprocess.run([crema, "calibrate", str(MODEL / "deploy.prototxt"), *NET, "-images",
                            str(pictures), "-mean_value", "104,117,123", "-resize", "256", "-method",
                            method, "-out", table], check=True, capture_output=True)
            runs.append((f"int8, {method}", ["-precision", "int8", "-table", table]))
        exact = None
        for name, flags in runs:
            found = classify(crema, files, flags)
            exact = exact or found
            first = sum(f[0][0] == w for f, w in zip(found, wanted))
            five = sum(w in [c for c, _ in f[:5]] for f, w in zip(found, wanted))
            same = sum(f[0][0] == e[0][0] for f, e in zip(found, exact))
            worst = max(abs(p - dict(e)[c]) for f, e in zip(found, exact) for c, p in f)
            print(f"| {name} | {first} | {five} | {same} | {worst:.3f} |", flush=True)


main()
