#!/bin/bash
# Processes that mpirun starts train as the devices of one process do, bit for bit where sums are
# exact or have two terms; one of them writes the snapshots, which one process goes on from; signals
# and a killed process end all of them.
. "$(dirname "$0")/lib.sh"
if ! mpirun --version 2>/dev/null | grep -qE "Open MPI|OpenRTE"; then
  echo "skipped: no mpirun of Open MPI on this machine"
  exit 77
fi
options=(--oversubscribe --bind-to none --mca odls_base_sigkill_timeout 3)
[ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)
make_mnist

# run_by COUNT ARGUMENT...: as run, by so many processes.
run_by() {
  local count=$1
  shift
  timeout 120 mpirun "${options[@]}" -n "$count" "$crema" "$@" >log 2>&1
  code=$?
}

# keep FOLDER NAME: the run's snapshots, of which there is one pair for each iteration.
keep() {
  expect_ok "$1"
  rm -rf "$1"
  mkdir "$1"
  mv "$2"_iter_* "$1"/ || fail "$1: no snapshots"
}

# expect_same WHAT FOLDER FOLDER: the models and the states are the same.
expect_same() {
  diff -r "$2" "$3" >/dev/null || fail "$1: $2 and $3 differ"
}

scores() {
  grep -aE 'Test net output' "$1" | sed 's/^[^]]*\] //'
}

# ---- as one process, and as its devices ----

make_net plain 'max_iter: 6 snapshot: 3 random_seed: 3 momentum: 0.9 clip_gradients: 2 iter_size: 2' \
  'ema_decay: 0.5'
run train -solver plain.prototxt
scores log >one.scores
keep one plain
run_by 1 train -solver plain.prototxt
keep by_one plain
expect_same "one process" one by_one
run train -solver plain.prototxt -gpu sim:2 -exchange reduce
scores log >two.scores
keep two plain
run_by 2 train -solver plain.prototxt
scores log >by_two.scores
expect_line "two processes" 'test_iter 3 cannot be divided among 2 replicas; each runs 2'
[ "$(grep -ac 'cannot be divided' log)" -eq 1 ] || fail "more than one process warns"
[ "$(grep -ac 'Snapshotting to binary proto' log)" -eq 2 ] || fail "more than one process writes"
keep by_two plain
cmp -s two/plain_iter_6.caffemodel by_two/plain_iter_6.caffemodel || fail "two: models differ"
expect_same "two processes" two by_two
[ -s two.scores ] && diff two.scores by_two.scores || fail "two: scores differ"

# Integers: pixels are 0 or 1, rates are powers of two, and the loss is not divided.
cat >integers.net <<'NET'
layer {
  name: "digits" type: "Data" top: "pixels" top: "label"
  transform_param { scale: 0.00390625 crop_size: 8 }
  data_param { source: "mnist_lmdb" batch_size: 12 backend: LMDB }
}
layer { name: "bits" type: "Threshold" bottom: "pixels" top: "data" threshold_param { threshold: 0.5 } }
layer {
  name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 1 weight_filler { type: "constant" value: 1 } }
}
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" loss_weight: 12 }
NET
cat >integers.prototxt <<'SOLVER'
net: "integers.net" base_lr: 0.00390625 lr_policy: "fixed" max_iter: 2 random_seed: 1
snapshot_prefix: "integers" snapshot: 1 momentum: 0.5 solver_mode: CPU
SOLVER

# expect_weights WHAT FOLDER: the models are those of one process, but for the batch size in them,
# which is a byte.
expect_weights() {
  local file=integers_iter_2.caffemodel
  [ "$(cmp -l "all/$file" "$2/$file" | wc -l)" -le 1 ] || fail "$1: other weights"
}

run train -solver integers.prototxt
keep all integers
for way in tree reduce; do
  run train -solver integers.prototxt -gpu sim:3 -batch_mode total -exchange $way
  keep by_devices integers
  expect_weights "three devices, $way" by_devices
done
for count in 1 2 3; do
  run_by $count train -solver integers.prototxt -batch_mode total
  keep by_processes integers
  expect_weights "$count processes" by_processes
  [ "$(ls by_processes | wc -l)" -eq 4 ] || fail "$count processes: $(ls by_processes)"
  # The state goes on by another number of them, with the samples after those of all.
  run train -solver integers.prototxt -snapshot by_processes/integers_iter_1.solverstate
  keep resumed integers
  expect_weights "$count processes, then one" resumed
  run_by $((4 - count)) train -solver integers.prototxt -batch_mode total \
    -snapshot by_processes/integers_iter_1.solverstate
  keep resumed integers
  expect_weights "$count processes, then $((4 - count))" resumed
done

proved s3_29_s3_32_s4_54_processes_train_as_devices_do

# ---- signals ----

make_net long 'max_iter: 100000000 random_seed: 1'
# mpirun reads nothing while it waits for its processes to end.
sed -i -e 's/display: 10 /display: 1000 /' -e 's/test_interval: 20 /test_interval: 500 /' long.prototxt

# start: trains in the background by two processes; waits until the first iterations are done.
start() {
  rm -f log long_iter_*
  mpirun "${options[@]}" -n 2 "$crema" train -solver long.prototxt >log 2>&1 &
  pid=$!
  await 'Iteration 1000 '
}

# await PATTERN: waits until the log has such a line.
await() {
  for _ in $(seq 600); do
    grep -aEqs -- "$1" log && return
    sleep 0.05
  done
  fail "no line '$1' after 30 s"
  tail -n 20 log
}

# Whether a process runs; one that only waits to be reaped does not.
is_there() {
  case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in
    '' | Z*) return 1 ;;
  esac
}

# Waits for mpirun and its processes to end, 30 s at most.
reap() {
  local processes
  processes=$(pgrep -P "$pid")
  for _ in $(seq 600); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null && fail "mpirun is still there after 30 s"
  wait "$pid"
  code=$?
  for process in $processes ${1:-}; do
    for _ in $(seq 100); do
      is_there "$process" || break
      sleep 0.05
    done
    is_there "$process" || continue
    fail "process $process is still there 5 s after mpirun"
    kill -KILL "$process"
  done
}

# What mpirun makes of all three is SIGTERM.
for signal in INT TERM HUP; do
  start
  kill -$signal "$pid"
  reap
  [ "$code" -ne 0 ] || fail "SIG$signal: mpirun returned 0"
  state=$(ls long_iter_*.solverstate 2>/dev/null)
  [ -n "$state" ] || { fail "SIG$signal leaves no snapshot"; tail -n 20 log; }
  run_by 2 train -solver long.prototxt -snapshot "$state" -iterations 3
  expect_ok "resume after SIG$signal"
done

# One of them is told to write a snapshot, and the first one writes it.
start
process=$(pgrep -P "$pid" | tail -n 1)
kill -HUP "$process"
for _ in $(seq 600); do
  state=$(ls long_iter_*.solverstate 2>/dev/null) && break
  sleep 0.05
done
[ -n "$state" ] || fail "SIGHUP to a process leaves no snapshot"
kill -0 "$process" || fail "SIGHUP ends a process"
others=$(pgrep -P "$pid")
kill -KILL "$process"
reap "$others"
[ "$code" -ne 0 ] || fail "mpirun returned 0 though a process was killed"
run train -solver long.prototxt -snapshot "$state" -iterations 3
expect_ok "resume after SIGHUP"
proved s3_30_s4_54_signals_to_processes
finish
