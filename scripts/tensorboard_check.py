#!/usr/bin/env python3
"""tensorboard_check.py CREMA FOLDER: trains a small net in FOLDER with -record and -tensorboard, and compares the
event file, read by the Python package tensorboard, with the record. Exits 1 if they differ.
"""
import json
import pathlib
import subprocess
import sys

NET = """
name: "small"
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 8 dim: 3 dim: 8 dim: 8 } shape { dim: 8 }
    data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } }
"""
SOLVER = """
net: "small.prototxt" base_lr: 0.05 lr_policy: "fixed" display: 5 max_iter: 30 test_iter: 2 test_interval: 10
snapshot_after_train: false random_seed: 1
"""


def train(crema, folder):
    """Trains, and returns the lines of the record."""
    (folder / "small.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER)
    subprocess.run([crema, "train", "solver.prototxt", "-record", "record", "-tensorboard", "events"], cwd=folder,
                   check=True, capture_output=True)
    return [json.loads(line) for line in (folder / "record/metrics.jsonl").read_text().splitlines()]


def expect(what, found, wanted):
    """Exits if a value differs from the record by more than float32's rounding."""
    if abs(found - wanted) > 1e-6 * max(1, abs(wanted)):
        sys.exit("%s is %r in the event file, but %r in the record" % (what, found, wanted))


def compare(lines, events):
    """Compares scalars, histograms and images."""
    checks = 0
    for event in ("train", "test"):
        wanted = [line for line in lines if line["event"] == event]
        for name in wanted[0]["outputs"]:
            found = events.Scalars("%s/%s" % (event, name))
            assert [f.step for f in found] == [w["iteration"] for w in wanted]
            for f, w in zip(found, wanted):
                expect(name, f.value, w["outputs"][name])
                checks += 1
    for line, found in zip([line for line in lines if line["event"] == "train"], events.Histograms("ip/weights")):
        histogram = found.histogram_value
        bias = [h for h in events.Histograms("ip/bias") if h.step == found.step][0].histogram_value
        expect("the norm of ip", (histogram.sum_squares + bias.sum_squares) ** 0.5, line["norms"]["ip"]["weights"])
        assert sum(histogram.bucket) == histogram.num == 6 * 6 * 6 * 4
        checks += 1
    images = events.Images("conv/filters")
    assert images[0].encoded_image_string.startswith(b"\x89PNG") and images[0].width > 0
    return checks + len(images)


def main():
    """Trains and compares."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    folder = pathlib.Path(sys.argv[2])
    lines = train(sys.argv[1], folder)
    events = EventAccumulator(str(folder / "events"), size_guidance={"histograms": 0, "images": 0, "scalars": 0})
    events.Reload()
    print("%d values agree" % compare(lines, events))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
