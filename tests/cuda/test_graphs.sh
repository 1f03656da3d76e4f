#!/bin/bash
# Training with -graphs from a database, with Dropout: the same snapshots as without, on one device and
# on two, by fewer calls. On two, the backward pass is captured between the buckets of the exchange. Over fake
# CUDA libraries, which the environment names.
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

# check NAME FLAG...
check() {
  local name=$1
  shift
  train "plain$name" "$@"
  plain=$calls
  train "graphs$name" "$@" -graphs
  diff -r "plain$name" "graphs$name" >/dev/null || fail "$name: other snapshots"
  grep 'is not captured' log && fail "$name: a pass is not captured"
  [ "$calls" -lt $((plain * 3 / 5)) ] || fail "$name: $calls calls with graphs, $plain without"
  echo "$name: $calls calls with graphs, $plain without"
}

check one -gpu 0
check kept -gpu 0 -no_memory_plan
check recomputed -gpu 0 -recompute
for exchange in nccl reduce; do
  check "two_$exchange" -gpu 0,1 -exchange "$exchange"
done
# The test net takes memory of the same heap in between.
sed -i 's/test_interval: 20/test_interval: 9/' plain.prototxt
check tested -gpu 0

# Samples come in single precision. The net converts them and drops them.
sed -i 's/^name: "digits"/& default_forward_type: FLOAT16 default_backward_type: FLOAT16/' net.prototxt
check halves -gpu 0
check halves_kept -gpu 0 -no_memory_plan

# A table of layers, then whole passes.
run time -model net.prototxt -iterations 3 -gpu 0 -graphs
expect_ok "time -graphs"
grep -q 'Whole Forward pass: [0-9.e+-]* ms, with graphs: [0-9.e+-]* ms' log || fail "no whole forward pass"
grep -q 'Whole Backward pass: [0-9.e+-]* ms, with graphs: [0-9.e+-]* ms' log || fail "no whole backward pass"
read -r plain calls < <(sed -n 's/.*of whole passes: \([0-9]*\).*, with graphs: \([0-9]*\).*/\1 \2/p' log)
[ "$calls" -lt $((plain * 3 / 5)) ] || fail "time: $calls calls with graphs, $plain without"
run time -model net.prototxt -phase TEST -compiled -graphs
expect_usage "time -compiled -graphs" 'graphs is for nets that are not compiled'
finish
