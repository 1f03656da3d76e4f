#!/bin/bash
# A kill at any moment leaves whole snapshots: each state on the disk can be resumed.
. "$(dirname "$0")/lib.sh"
make_mnist

# Every iteration writes a snapshot, so that most kills hit one.
make_net kill 'max_iter: 1000000 snapshot: 1 random_seed: 1'
sed -i 's/test_iter: 3 test_interval: 20//' kill.prototxt
make_net resume 'max_iter: 1000000 random_seed: 1'
sed -i 's/test_iter: 3 test_interval: 20//' resume.prototxt
seed=${CREMA_TEST_SEED:-$RANDOM}
echo "seed $seed (set CREMA_TEST_SEED to repeat)"
RANDOM=$seed
kills=0
for round in $(seq 20); do
  rm -f kill_iter_*
  "$crema" train -solver kill.prototxt >log 2>&1 &
  pid=$!
  for _ in $(seq 200); do
    ls kill_iter_*.solverstate >/dev/null 2>&1 && break
    sleep 0.01
  done
  sleep "0.0$((round % 10))$((RANDOM % 10))"
  kill -KILL "$pid" && kills=$((kills + 1))
  wait "$pid" 2>/dev/null
  states=$(ls kill_iter_*.solverstate 2>/dev/null | sort -t_ -k3 -n | tail -3)
  [ -n "$states" ] || fail "round $round: no snapshot"
  for state in $states; do
    run train -solver resume.prototxt -snapshot "$state" -iterations 1
    expect_ok "round $round: resume from $state"
    rm -f resume_iter_*
  done
done
# Files that a kill left half written are removed by the next snapshot of the same prefix.
sleep 0 &
dead=$!
wait "$dead"
touch "kill_iter_9.caffemodel.tmp.$dead.abcdef" "kill_iter_9.caffemodel.tmp.$$.abcdef"
run train -solver kill.prototxt -iterations 1
expect_ok "after the kills"
left=$(ls kill_iter_*.tmp.* 2>/dev/null)
[ "$left" = "kill_iter_9.caffemodel.tmp.$$.abcdef" ] || fail "half-written files: $left"
[ "$kills" -gt 0 ] || fail "no run was killed"
finish
