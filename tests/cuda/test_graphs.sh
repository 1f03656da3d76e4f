#!/bin/bash
# Training with -graphs from a database, with Dropout: the same snapshots as without, on one device and
# on two, by fewer calls. Over fake CUDA libraries, which the environment names.
# Usage: test_graphs.sh CREMA SOURCE_DIR
. "$(dirname "$0")/../cli/lib.sh"
make_mnist
make_net plain 'max_iter: 30 snapshot: 15 random_seed: 3 momentum: 0.9 snapshot_format: BINARYPROTO'

# train FOLDER FLAG...: keeps the snapshots there and the number of calls in $calls.
train() {
  local to=$1
  shift
  run train -solver plain.prototxt -memory_report "$@"
  expect_ok "train $*"
  calls=$(sed -n 's/^Device 0: \([0-9]*\) kernels and library calls.*/\1/p' log)
  mkdir "$to"
  mv plain_iter_* "$to"/ || fail "train $*: no snapshots"
}

for devices in 0 0,1; do
  train "plain$devices" -gpu $devices
  plain=$calls
  train "graphs$devices" -gpu $devices -graphs
  diff -r "plain$devices" "graphs$devices" >/dev/null || fail "$devices: other snapshots"
  grep 'is not captured' log && fail "$devices: a pass is not captured"
  [ "$calls" -lt $((plain * 4 / 5)) ] || fail "$devices: $calls calls with graphs, $plain without"
done
finish
