#!/bin/bash
# Training is stopped, and goes on with another number of devices or processes, from the newest
# snapshot that is whole (-resume_auto). All replicas stop early at the same iteration.
. "$(dirname "$0")/lib.sh"
make_mnist
has_mpirun=false
mpirun --version 2>/dev/null | grep -qE "Open MPI|OpenRTE" && has_mpirun=true
options=(--oversubscribe --bind-to none)
[ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)

# ranks HOW ARGUMENT...: as run, by the devices or the processes that HOW names.
ranks() {
  local how=$1
  shift
  case $how in
    mpi:*)
      timeout 120 mpirun "${options[@]}" -n "${how#mpi:}" "$crema" "$@" >log 2>&1
      code=$? ;;
    cpu) run "$@" ;;
    *) run "$@" -gpu "$how" -exchange "$way" ;;
  esac
}

# stop_and_go_on HOW HOW: what the first leaves, the second goes on from.
stop_and_go_on() {
  local what="$1 then $2"
  rm -f plain_iter_*
  make_net plain 'max_iter: 8 snapshot: 2 random_seed: 3 momentum: 0.9 ema_decay: 0.5'
  ranks "$1" train -solver plain.prototxt -iterations 6
  expect_ok "$what"
  expect_line "$what" 'Optimization stopped early'
  [ -s plain_iter_6.solverstate ] || fail "$what: no snapshot"
  # The newest one is not whole any more.
  truncate -s 100 plain_iter_6.caffemodel
  ranks "$2" train -solver plain.prototxt -resume_auto
  expect_ok "$what"
  expect_line "$what" 'plain_iter_4.solverstate'
  [ "$(grep -ac 'Restoring previous solver status' log)" -eq 1 ] || { fail "$what: not one of them reports"; cat log; }
  [ -s plain_iter_8.solverstate ] || fail "$what: training did not continue"
}

way=tree stop_and_go_on sim:2 sim:3
way=reduce stop_and_go_on sim:3 cpu
way=reduce stop_and_go_on cpu sim:2
proved s3_30_s3_32_devices_go_on
if $has_mpirun; then
  stop_and_go_on mpi:2 mpi:3
  way=reduce stop_and_go_on mpi:3 sim:2
  proved s3_30_s3_32_s4_54_processes_go_on
fi

# Early stopping goes by the score of all replicas. With this seed, each one's own score would stop the one
# before the other.
make_net early 'max_iter: 60 random_seed: 8 early_stop_patience: 4 early_stop_output: "accuracy"'
sed -i 's/test_interval: 20 /test_interval: 1 /' early.prototxt

# stop_early HOW: trains until it stops by itself; *early* is when.
stop_early() {
  rm -f early_iter_*
  ranks "$1" train -solver early.prototxt
  expect_ok "early stop, $1"
  [ "$(grep -ac 'Early stopping: accuracy' log)" -eq 1 ] || { fail "$1: not one of them stops early"; cat log; }
  early=$(ls early_iter_*.solverstate)
}

# again HOW: the snapshot says that training has ended.
again() {
  ranks "$1" train -solver early.prototxt -resume_auto
  expect_ok "early stop, $1 again"
  [ "$(ls early_iter_*.solverstate)" = "$early" ] || { fail "$1: a run that has ended continues"; cat log; }
}

way=tree stop_early sim:2
way=tree again sim:3
way=reduce stop_early sim:2
way=reduce again sim:3
if $has_mpirun; then
  by_devices=$early
  stop_early mpi:2
  [ "$early" = "$by_devices" ] || fail "processes stop at $early, devices at $by_devices"
  again mpi:3
fi
proved s3_30_early_stop_of_all

# A signal to devices of one process: they stop at one iteration, which the snapshot keeps.
make_net long 'max_iter: 100000000 random_seed: 1'
for way in tree reduce; do
  rm -f long_iter_*
  "$crema" train -solver long.prototxt -gpu sim:3 -exchange $way >log 2>&1 &
  pid=$!
  for _ in $(seq 600); do
    grep -aqs 'Iteration 20 ' log && break
    sleep 0.05
  done
  kill -INT $pid
  wait $pid
  state=$(ls long_iter_*.solverstate 2>/dev/null)
  [ -n "$state" ] || { fail "SIGINT, $way: no snapshot"; cat log; }
  expect_line "SIGINT, $way" 'Optimization stopped early'
  run train -solver long.prototxt -gpu sim:2 -exchange $way -resume_auto -iterations 2
  expect_ok "$way continues after SIGINT"
  expect_line "$way continues after SIGINT" "$state"
done
proved s3_30_s4_54_signals_to_devices
finish
