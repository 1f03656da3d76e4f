#!/bin/bash
# Signals stop, snapshot, report or do nothing, as the flags say, and never hurt a training.
. "$(dirname "$0")/lib.sh"
make_mnist

# start FLAG...: trains in the background for long; waits until the first iteration is done.
start() {
  rm -f log signals_iter_*
  "$crema" train -solver signals.prototxt "$@" >log 2>&1 &
  pid=$!
  await 'Iteration 10 '
}

# await PATTERN: waits until the log has such a line.
await() {
  for _ in $(seq 600); do
    grep -Eqs -- "$1" log && return
    sleep 0.05
  done
  fail "no line '$1' after 30 s"
  cat log
}

# Waits until the log has more lines of iterations than the $seen of before.
await_iteration() {
  for _ in $(seq 600); do
    [ "$(grep -c 'Iteration [0-9]* (' log)" -gt "$seen" ] && return
    sleep 0.05
  done
  fail "no further iteration after 30 s"
}

# Waits until the program, which blocks SIGTERM in its threads, sleeps in its first thread.
await_blocked() {
  for _ in $(seq 600); do
    grep -q '^SigBlk:.*[4-7c-f]...$' "/proc/$pid/status" && grep -q '^State:.S' "/proc/$pid/status" && return
    sleep 0.05
  done
  fail "the program does not begin"
}

# Waits for the program to end, 30 s at most.
reap() {
  for _ in $(seq 600); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null && fail "the program is still there after 30 s"
  wait "$pid"
  code=$?
}

# The signal stopped training and left a snapshot from which it goes on.
expect_to_go_on() {
  expect_line "$1" 'Optimization stopped early'
  state=$(ls signals_iter_*.solverstate 2>/dev/null)
  [ -n "$state" ] || fail "$1 leaves no snapshot"
  run train -solver signals.prototxt -snapshot "$state" -iterations 3
  expect_ok "resume after $1"
}

make_net signals 'max_iter: 100000000 random_seed: 1'

start
kill -INT "$pid"
reap
expect_ok "SIGINT"
expect_to_go_on "SIGINT"

start
kill -HUP "$pid"
await 'Snapshotting solver state to binary proto file'
# Another iteration, of which SIGINT will leave a snapshot with another name.
seen=$(grep -c 'Iteration [0-9]* (' log)
await_iteration
kill -INT "$pid"
reap
expect_ok "SIGHUP, then SIGINT"
[ "$(ls signals_iter_*.solverstate | wc -l)" -eq 2 ] || fail "SIGHUP leaves no separate snapshot"

start -sigint_effect none
kill -TERM "$pid"
reap
[ "$code" -eq 143 ] || fail "SIGTERM: exit code $code"
expect_to_go_on "SIGTERM"

# The limit on processor time, of which the system reminds every second.
start
kill -XCPU "$pid"
kill -XCPU "$pid" 2>/dev/null
reap
[ "$code" -eq 152 ] || fail "SIGXCPU: exit code $code"
ls signals_iter_*.solverstate >/dev/null 2>&1 || fail "SIGXCPU leaves no snapshot"

# Under nohup, which ignores SIGHUP, it is a request for a snapshot, too.
(trap '' HUP; start; kill -HUP "$pid"; await 'Snapshotting solver state to binary proto file'
 kill -KILL "$pid"; wait "$pid" 2>/dev/null)

# timeout sends a signal to its child and once more to the child's group, which is one request.
start
kill -TERM "$pid"
kill -TERM "$pid" 2>/dev/null
reap
[ "$code" -eq 143 ] || fail "SIGTERM twice at once: exit code $code"
ls signals_iter_*.solverstate >/dev/null 2>&1 || fail "SIGTERM twice at once leaves no snapshot"

# Writes to ./full wait until somebody reads: so does a training that logs there.
mkfifo full
exec 9<>full

# Before the training there is nothing to be saved: a signal does what it does to any program.
dd if=/dev/zero bs=65536 count=1 status=none >&9
"$crema" train -solver signals.prototxt >/dev/null 2>&9 &
pid=$!
await_blocked
kill -USR1 "$pid" # reports when there is a net
kill -TERM "$pid"
reap
[ "$code" -eq 143 ] || fail "SIGTERM before the training: exit code $code"
# SIGHUP, which nohup ignores, does nothing.
(trap '' HUP; exec "$crema" train -solver signals.prototxt >/dev/null 2>&9) &
pid=$!
await_blocked
kill -HUP "$pid"
sleep 0.2
kill -0 "$pid" 2>/dev/null || fail "SIGHUP ends a program under nohup"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
dd bs=65536 count=1 status=none <&9 >/dev/null

# A second signal does not wait for an iteration that does not end.
sed 's/display: 10/display: 1/' signals.prototxt >loud.prototxt
rm -f log signals_iter_*
"$crema" train -solver loud.prototxt -log_file log >/dev/null 2>&9 &
pid=$!
size=0
for _ in $(seq 600); do
  before=$size
  size=$(stat -c %s log 2>/dev/null || echo 0)
  [ "$size" -gt 60000 ] && [ "$size" -eq "$before" ] && break
  sleep 0.1
done
first=${EPOCHREALTIME/[.,]/}
kill -TERM "$pid"
sleep 0.05
kill -TERM "$pid" # half a second counts as one request
second=${EPOCHREALTIME/[.,]/}
sleep 0.7
if kill -0 "$pid" 2>/dev/null; then
  kill -TERM "$pid"
  reap
  [ "$code" -eq 143 ] || fail "a second SIGTERM: exit code $code"
elif [ $((second - first)) -lt 200000 ] && ! grep -q 'Optimization stopped early' log; then
  fail "SIGTERM twice within a moment ends the training without a snapshot"
fi
wait "$pid" 2>/dev/null
exec 9>&-

# Ctrl-Z, then continued.
set -m
start
set +m
kill -TSTP "$pid"
for _ in $(seq 600); do
  grep -q '^State:.T' "/proc/$pid/status" && break
  sleep 0.05
done
grep -q '^State:.T' "/proc/$pid/status" || fail "SIGTSTP does not stop the program"
seen=$(grep -c 'Iteration [0-9]* (' log)
kill -CONT "$pid"
await_iteration
kill -TERM "$pid"
reap
[ "$code" -eq 143 ] || fail "SIGTERM after SIGCONT: exit code $code"

# 2,000 signals while convolutions run, whose kernels use the stack pointer for data.
sed 's/source: "[^"]*"/source: "mnist_lmdb"/' "$source_dir/models/lenet/train_test.prototxt" >lenet.prototxt
echo 'net: "lenet.prototxt" base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" max_iter: 100000000
  display: 10 snapshot_prefix: "signals" solver_mode: CPU random_seed: 1' >storm.prototxt
rm -f log signals_iter_*
OMP_NUM_THREADS=1 "$crema" train -solver storm.prototxt -sigint_effect none -sighup_effect none \
  >log 2>&1 &
pid=$!
await 'Iteration 10 '
mkfifo pause
exec 8<>pause
for kind in $(for _ in $(seq 500); do echo USR1 INT USR1 HUP; done); do
  kill -"$kind" "$pid" 2>/dev/null || { fail "a signal ends the training"; tail log; break; }
  read -r -t 0.0005 -u 8
done
kill -HUP "$pid"
kill -TERM "$pid"
reap
[ "$code" -eq 143 ] || { fail "2,000 signals: exit code $code"; tail log; }
expect_line "2,000 signals" 'Optimization stopped early'
state=$(ls signals_iter_*.solverstate 2>/dev/null)
[ -n "$state" ] || fail "2,000 signals, then SIGTERM: no snapshot"
OMP_NUM_THREADS=1 run train -solver storm.prototxt -snapshot "$state" -iterations 1
expect_ok "resume after 2,000 signals"

# The reader of the log closes the pipe after the first line.
make_net pipe 'max_iter: 60 random_seed: 1'
"$crema" train -solver pipe.prototxt -log_file pipe.log 2>&1 >/dev/null | head -n 1 >/dev/null
code=${PIPESTATUS[0]}
expect_ok "a broken pipe"
[ -s pipe_iter_60.solverstate ] || fail "a broken pipe ends the training"
expect_line "the log file without its pipe" 'Optimization Done' pipe.log

start -sigint_effect snapshot -sighup_effect=stop
kill -INT "$pid"
await 'Snapshotting solver state to binary proto file'
kill -HUP "$pid"
reap
expect_ok "effects exchanged"
expect_line "effects exchanged" 'Optimization stopped early'

start --sigint_effect=none --sighup_effect=none
kill -INT "$pid"
kill -HUP "$pid"
seen=$(grep -c 'Iteration [0-9]* (' log)
for _ in $(seq 200); do
  [ "$(grep -c 'Iteration [0-9]* (' log)" -gt $((seen + 2)) ] && break
  sleep 0.05
done
kill -0 "$pid" 2>/dev/null || fail "signals without effect end the training"
ls signals_iter_* >/dev/null 2>&1 && fail "signals without effect leave snapshots"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
finish
