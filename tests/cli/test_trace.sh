#!/bin/bash
# crema train -trace and crema trace: the events of a training, and their summary.
. "$(dirname "$0")/lib.sh"
make_mnist

# expect_events WHAT FILE CONDITION: a Python expression about `events` and the function spans(category).
expect_events() {
  python3 - "$2" "$3" <<'P' || fail "$1: $3"
import json, sys
path, condition = sys.argv[1:]
events = [event for event in json.load(open(path)) if event]
names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
spans = lambda category: [e for e in events if e["ph"] == "X" and e["cat"] == category]
counts = lambda name: [e for e in events if e["ph"] == "C" and e["name"] == name]
sys.exit(0 if eval(condition) else 1)
P
}

make_net lenet 'max_iter: 30 random_seed: 5'
run train -solver lenet.prototxt -trace cpu.json -trace_iterations 4
expect_ok "a timeline"
expect_events "iterations" cpu.json '[e["args"]["iteration"] for e in spans("iteration")] == [0, 1, 2, 3]'
expect_events "layers" cpu.json '{(e["name"], e["args"]["pass"]) for e in spans("layer")} >= {("ip1", "forward"), ("ip1", "backward"), ("digits", "forward")}'
expect_events "ops in layers" cpu.json 'all(any(l["ts"] <= o["ts"] and o["ts"] + o["dur"] <= l["ts"] + l["dur"] + 1 for l in spans("layer") if l["name"] == o["args"]["layer"]) for o in spans("op") if o["args"]["layer"])'
expect_events "kernels" cpu.json 'all(e["args"]["kernel"] and e["args"]["device"] == "cpu:0" for e in spans("op"))'
expect_events "the reader" cpu.json 'any(names[e["tid"]] == "crema-reader" for e in spans("data"))'
expect_events "decoders" cpu.json 'sum(e["args"]["items"] for e in spans("data") if "items" in e["args"]) >= 4 * 16'
expect_events "queues" cpu.json 'len(counts("batches ready")) >= 4 and len(counts("host memory")) == 4'
expect_events "states" cpu.json 'any(e["cat"] == "state" and e["args"]["blob"] == "ip1" for e in events if e["ph"] == "i")'
expect_events "times" cpu.json 'all(e["dur"] >= 0 for e in events if e["ph"] == "X")'

# Streams, copies and the exchange of two simulated devices.
for exchange in tree reduce; do
  run train -solver lenet.prototxt -gpu sim:2 -exchange $exchange -trace $exchange.json -trace_iterations 3
  expect_ok "$exchange"
  expect_events "$exchange: streams" $exchange.json '{names[e["tid"]][:5] for e in spans("kernel")} == {"sim:0", "sim:1"}'
  expect_events "$exchange: the exchange" $exchange.json 'len(spans("exchange")) > 0 and len({e["args"]["rank"] for e in spans("exchange")}) == 2'
  expect_events "$exchange: copies" $exchange.json 'all(e["args"]["bytes"] > 0 for e in spans("copy") if names[e["tid"]].startswith("sim:"))'
  expect_events "$exchange: waiting streams" $exchange.json 'len(spans("event")) > 0'
  run trace $exchange.json
  expect_ok "the summary of $exchange"
  expect_line "the summary of $exchange" 'exchanging'
done

# Without the flag and with it the same weights are computed.
cp lenet_iter_30.caffemodel with.caffemodel
run train -solver lenet.prototxt -gpu sim:2 -exchange reduce
cmp -s lenet_iter_30.caffemodel with.caffemodel || fail "a timeline changes the weights"

# A summary with known numbers: the first iteration does not count, spans at one time count once, and
# the last line is cut.
cat >known.json <<'TRACE'
[
{"ph":"X","pid":0,"tid":1,"cat":"iteration","name":"iteration","ts":0.000,"dur":900.000,"args":{"iteration":0}},
{"ph":"X","pid":0,"tid":1,"cat":"op","name":"CONV","ts":100.000,"dur":700.000,"args":{"layer":"first"}},
{"ph":"X","pid":0,"tid":1,"cat":"iteration","name":"iteration","ts":1000.000,"dur":1000.000,"args":{"iteration":1}},
{"ph":"X","pid":0,"tid":1,"cat":"op","name":"CONV","ts":1000.000,"dur":400.000,"args":{"layer":"conv","pass":"forward"}},
{"ph":"X","pid":0,"tid":2,"cat":"op","name":"CONV","ts":1200.000,"dur":300.000,"args":{"layer":"conv"}},
{"ph":"X","pid":0,"tid":3,"cat":"copy","name":"copy","ts":1400.000,"dur":200.000,"args":{"blob":"data","bytes":4000000}},
{"ph":"X","pid":0,"tid":1,"cat":"wait","name":"wait for data","ts":1700.000,"dur":300.000,"args":{}},
{"ph":"X","pid":0,"tid":1,"cat":"op","na
TRACE
run trace known.json
expect_ok "known numbers"
diff - <(sed -n '1,/^Advice/p' log) <<'SUMMARY' || fail "another summary"
1 iterations, 1.000 ms each

work                ms per step   of step
computing                 0.500     50.0%
waiting for data          0.300     30.0%
copying                   0.200     20.0%
converting                0.000      0.0%
exchanging                0.000      0.0%
reading data              0.000      0.0%

overlap            of the shorter of both
computing and waiting for data: 0.0%
computing and copying: 50.0%
waiting for data and copying: 0.0%

most expensive layers or kernels  ms per step  per step  MB per step
conv                                    0.700       2.0        0.000

most moved blobs                  ms per step  per step  MB per step
data                                    0.200       1.0        4.000

Advice: training waits for data; crema train -input_report names the slow stage.
SUMMARY

# Bad input.
echo '[' >short.json
run trace short.json
expect_error "no events" "short.json: no timeline of crema train -trace"
sed -n 1,3p known.json >one.json
run trace one.json
expect_error "one iteration" "one.json: the timeline has fewer than two iterations"
run trace missing.json
expect_error "a missing file" "missing.json"
run train -solver lenet.prototxt -trace missing/t.json
expect_error "a missing folder" "missing/t.json: cannot create"
finish
