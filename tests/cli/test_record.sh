#!/bin/bash
# crema train -record: run.json and metrics.jsonl, also of resumed, stopped and failed runs.
. "$(dirname "$0")/lib.sh"
make_mnist

# Checks a condition about `run` (run.json) and `lines` (metrics.jsonl) in Python.
expect_record() {
  python3 - "$2" "$3" <<'P' || fail "$1: $3"
import json, sys
folder, condition = sys.argv[1:]
run = json.load(open(folder + "/run.json"))
lines = [json.loads(line) for line in open(folder + "/metrics.jsonl")]
of = lambda event: [line for line in lines if line["event"] == event]
sys.exit(0 if eval(condition) else 1)
P
}

make_net lenet 'max_iter: 40 snapshot: 20 random_seed: 5'
run train -solver lenet.prototxt -record rec
expect_ok "a record"
expect_record "run.json" rec 'run["format"] == 1 and run["seed"] == 5 and "-record" in run["command"]'
expect_record "the solver" rec '"max_iter: 40" in run["solver"] and "layer {" in run["net"]'
expect_record "train lines" rec '[t["iteration"] for t in of("train")] == [0, 10, 20, 30]'
expect_record "test lines" rec '[t["iteration"] for t in of("test")] == [0, 20, 40]'
expect_record "snapshots" rec '[s["model"] for s in of("snapshot")] == ["lenet_iter_20.caffemodel", "lenet_iter_40.caffemodel"]'
expect_record "the end" rec 'lines[-1]["event"] == "end" and lines[-1]["result"] == "finished"'
expect_record "norms" rec 'all(n["weights"] > 0 and n["gradients"] > 0 for t in of("train") for n in t["norms"].values())'
expect_record "throughput" rec 'all(t["samples_per_second"] > 0 for t in of("train")[1:])'

# The log has the same numbers.
loss=$(sed -n 's/.*Iteration 20 (.*loss = //p' log)
expect_record "the loss of the log" rec "'%.6g' % of('train')[2]['loss'] == '$loss'"

# Without a record the same numbers are computed.
cp lenet_iter_40.caffemodel with.caffemodel
run train -solver lenet.prototxt
cmp -s lenet_iter_40.caffemodel with.caffemodel || fail "a record changes the weights"

# A line that a crash has cut is ended, and the record continues.
printf '{"event":"train","itera' >>rec/metrics.jsonl
run train -solver lenet.prototxt -snapshot lenet_iter_20.solverstate -record rec
expect_ok "a resumed record"
sed -i '/"itera$/d' rec/metrics.jsonl
expect_record "two starts" rec '[s["iteration"] for s in of("start")] == [0, 20]'

run train -solver lenet.prototxt -iterations 15 -record stopped
expect_ok "a stopped run"
expect_record "stopped" stopped 'lines[-1]["result"] == "stopped" and lines[-1]["iteration"] == 15'

make_net bad 'max_iter: 40 random_seed: 5'
sed -i 's/base_lr: 0.05/base_lr: 1e30/' bad.prototxt
run train -solver bad.prototxt -record failed
expect_error "a failed run" "NaN or infinite"
expect_record "failed" failed 'lines[-1]["result"] == "failed" and "NaN" in lines[-1]["text"]'

# The records of an event file: lengths, checksums and the values of known fields.
run train -solver lenet.prototxt -tensorboard events
expect_ok "an event file"
python3 - events/events.out.tfevents.* <<'P' || fail "the event file is damaged"
import struct, sys

def checksum(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

data = open(sys.argv[1], "rb").read()
records = []
while data:
    size, = struct.unpack("<Q", data[:8])
    assert struct.unpack("<I", data[8:12])[0] == checksum(data[:8])
    records.append(data[12:12 + size])
    assert struct.unpack("<I", data[12 + size:16 + size])[0] == checksum(records[-1])
    data = data[16 + size:]
assert b"brain.Event:2" in records[0]
assert len(records) == 1 + 3 + 4, len(records)  # the version, three tests, four displays
for tag in (b"test/accuracy", b"train/loss", b"learning_rate", b"ip1/weights", b"ip2/bias_gradient"):
    assert any(tag in record for record in records), tag
P

mkdir other && touch other/photo.jpg
run train -solver lenet.prototxt -record other
expect_error "a folder with other files" "other: the folder has files, but no record of a run"
run train -solver lenet.prototxt -record missing/rec
expect_error "a missing folder" "missing/rec: cannot make the folder"
finish
