#!/bin/bash
# A rank that fails or is killed ends the training of all, soon and with its own message: devices of
# one process by a tree and by reduce, processes of mpirun.
. "$(dirname "$0")/lib.sh"

# Seconds at most until the last process has ended; docs/multi-device.md says what was measured.
most=10

# Blank digits, of which one has a label that the net has no output for. Of three ranks the second
# one gets it, in its iteration 10.
records=300 wrong=130
{
  printf '\0\0\10\3\0\0\1\54\0\0\0\34\0\0\0\34'
  head -c $((records * 28 * 28)) /dev/zero
} >images
{
  printf '\0\0\10\1\0\0\1\54'
  head -c $wrong /dev/zero
  printf '\115'
  head -c $((records - wrong - 1)) /dev/zero
} >labels
"$crema" convert_mnist images labels mnist_lmdb >/dev/null 2>&1 || fail "convert_mnist"
make_net long 'max_iter: 100000000 random_seed: 1'
sed -i 's/batch_size: 16/batch_size: 4/' net.prototxt
cat >fails.prototxt <<'SOLVER'
net: "net.prototxt" base_lr: 0.001 lr_policy: "fixed" display: 1 max_iter: 100000000
solver_mode: CPU random_seed: 1 snapshot_prefix: "fails"
SOLVER
# Without the wrong label.
sed -e 's/num_output: 10/num_output: 100/' net.prototxt >wide.prototxt
cat >long.prototxt <<'SOLVER'
net: "wide.prototxt" base_lr: 0.001 lr_policy: "fixed" display: 50 max_iter: 100000000
solver_mode: CPU random_seed: 1 snapshot_prefix: "long" snapshot_after_train: false
SOLVER

# since SECONDS: how long ago that was.
since() {
  echo "$1 $EPOCHREALTIME" | awk '{ printf "%.2f", $2 - $1 }'
}

# expect_soon WHAT SECONDS
expect_soon() {
  echo "$1: all have ended after $2 s"
  awk "BEGIN { exit !($2 < $most) }" || fail "$1: $2 s"
}

# ---- a rank that fails ----

# expect_failure WHAT WORDS: the log has the words in an error line; the last iteration was the tenth.
expect_failure() {
  grep -a 'crema: error: ' log | grep -qaE -- "$2" || { fail "$1: no error line has '$2'"; cat log; }
  [ "$(grep -acE 'Iteration [0-9]+ .*loss' log)" -eq 10 ] || { fail "$1: other iterations"; cat log; }
}

# Seconds since the last iteration that was logged: its time of day is in the line.
since_iteration() {
  local then
  then=$(grep -aE 'Iteration 9 ' log | tail -n 1 | grep -aoE '[0-9]{2}:[0-9]{2}:[0-9.]+' | head -n 1)
  since "$(date -d "$then" +%s.%N)"
}

for way in tree reduce; do
  run train -solver fails.prototxt -gpu sim:3 -exchange $way
  expect_soon "$way, a rank fails" "$(since_iteration)"
  [ "$code" -eq 1 ] || fail "$way: exit code $code"
  expect_failure "$way" 'label.*77'
done
proved s3_31_a_device_that_fails_ends_all_soon

if ! mpirun --version 2>/dev/null | grep -qE "Open MPI|OpenRTE"; then
  echo "skipped: no mpirun of Open MPI on this machine"
  [ "$failures" -eq 0 ] || finish
  exit 77
fi
options=(--oversubscribe --bind-to none)
[ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)

timeout 60 mpirun "${options[@]}" -n 3 "$crema" train -solver fails.prototxt >log 2>&1
code=$?
expect_soon "mpirun, a rank fails" "$(since_iteration)"
[ "$code" -eq 1 ] || fail "mpirun, a rank fails: exit code $code"
expect_failure "mpirun, a rank fails" 'label.*77'
expect_failure "mpirun, messages of all other ranks" 'rank 1 \([^)]+\): .*label.*77'

# ---- a rank that is killed ----

# Which of the processes are still there, zombies aside.
living() {
  local process
  for process in "$@"; do
    case $(sed 's/.*) //' "/proc/$process/stat" 2>/dev/null) in
      '' | Z*) ;;
      *) echo "$process" ;;
    esac
  done
}

# kill_rank NUMBER: of three.
kill_rank() {
  local what="rank $1 is killed" processes process killed
  mpirun "${options[@]}" -n 3 "$crema" train -solver long.prototxt >log 2>&1 &
  local mpirun=$!
  for _ in $(seq 600); do
    grep -aqs 'Iteration 50 ' log && break
    sleep 0.05
  done
  processes=$(pgrep -P $mpirun)
  for process in $processes; do
    tr '\0' '\n' <"/proc/$process/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" && break
  done
  kill -KILL "$process" || { fail "$what: there is none"; cat log; }
  killed=$EPOCHREALTIME
  for _ in $(seq 600); do
    [ -n "$(living $processes $mpirun)" ] || break
    sleep 0.01
  done
  expect_soon "$what" "$(since "$killed")"
  for process in $(living $processes $mpirun); do
    fail "$what: process $process is still there"
    kill -KILL "$process"
  done
  wait $mpirun && fail "$what: mpirun returned 0"
  grep -a 'crema: error: ' log | grep -qE "rank $1 \\(.*\\): the process has ended" ||
    { fail "$what: no rank says so"; cat log; }
}

for rank in 0 1; do
  kill_rank $rank
done
proved s3_31_a_process_that_ends_ends_all_soon
finish
