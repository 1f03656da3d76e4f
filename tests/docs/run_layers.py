#!/usr/bin/env python3
"""`crema run_layer -check` on the example of each layer that has bottoms: the gradients agree with finite
differences.

Usage: run_layers.py CREMA
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import layer_catalogue  # noqa: E402

# Their bottoms hold numbers of images, classes or boxes, which random values are not.
OTHER_VALUES = {"BoxAnnotatorOHEM", "DeformablePSROIPooling", "DetectionEvaluate", "DetectNetTransformation",
                "MultiBoxLoss", "ProposalTarget", "PSROIPooling", "RegionLoss", "SegAccuracy", "Yolov3"}
# Its bottom holds probabilities.
POSITIVE = {"MultinomialLogisticLoss"}
# Their gradients differ on purpose: of centres, of reversed gradients, of normalized maps, and of scores with a margin.
OTHER_GRADIENT = {"CenterLoss", "GradientScaler", "KLDivLoss", "MarginInnerProduct"}
# Its passes draw new values each time.
RANDOM = {"Noise"}
# Two nets would write one file.
ONE_WRITER = {"HDF5Output", "MatWrite"}


def crema(folder, *arguments):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    done = subprocess.run([sys.argv[1], "run_layer", *arguments], cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return done.returncode, done.stdout


def fault(folder, layer):
    """The output of a run that fails; "" for one that passes, None for a layer that has no gradient to check."""
    (folder / f"{layer.type}.prototxt").write_text(layer.example)
    shapes = ";".join("x".join(map(str, dims)) or "1" for _, dims in layer.inputs)
    arguments = [f"{layer.type}.prototxt", "-input", shapes, "-iterations", "1"]
    arguments += ["-fill", "positive"] if layer.type in POSITIVE else []
    code, output = crema(folder, *arguments, "-check")
    if code == 0 and output.endswith("PASS\n"):
        return ""
    if "has no backward pass" not in output and "gives no gradient" not in output:
        return output
    code, output = crema(folder, *arguments)
    return None if code == 0 else output


def main():
    layers = [layer for layer in layer_catalogue.read_all()[0]
              if layer.inputs and layer.example.count("layer {") == 1
              and layer.type not in OTHER_VALUES | OTHER_GRADIENT | RANDOM | ONE_WRITER]
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        faults = list(pool.map(lambda layer: fault(pathlib.Path(name), layer), layers))
    checked = faults.count("")
    for layer, text in zip(layers, faults):
        if text:
            print(f"{layer.path}: the example fails by itself:\n{text}")
    print(f"{checked} layers have the gradients that finite differences give, {faults.count(None)} have none")
    sys.exit(0 if checked + faults.count(None) == len(layers) and checked > 60 else 1)


if __name__ == "__main__":
    main()
