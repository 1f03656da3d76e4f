#!/bin/bash
# SIGINT and SIGHUP stop, snapshot or do nothing, as the flags say.
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

reap() {
  wait "$pid"
  code=$?
}

make_net signals 'max_iter: 100000000 random_seed: 1'

start
kill -INT "$pid"
reap
expect_ok "SIGINT"
expect_line "SIGINT" 'Optimization stopped early'
state=$(ls signals_iter_*.solverstate 2>/dev/null)
[ -n "$state" ] || fail "SIGINT leaves no snapshot"
run train -solver signals.prototxt -snapshot "$state" -iterations 3
expect_ok "resume after SIGINT"

start
kill -HUP "$pid"
await 'Snapshotting solver state to binary proto file'
kill -INT "$pid"
reap
expect_ok "SIGHUP, then SIGINT"
[ "$(ls signals_iter_*.solverstate | wc -l)" -eq 2 ] || fail "SIGHUP leaves no snapshot of its own"

start -sigint_effect none
kill -TERM "$pid"
reap
[ "$code" -eq 143 ] || fail "SIGTERM: exit code $code"
expect_line "SIGTERM" 'Optimization stopped early'
state=$(ls signals_iter_*.solverstate 2>/dev/null)
[ -n "$state" ] || fail "SIGTERM leaves no snapshot"
run train -solver signals.prototxt -snapshot "$state" -iterations 3
expect_ok "resume after SIGTERM"

# Whoever reads the log goes away after its first line.
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
