#!/bin/bash
# Processes of mpirun whose devices exchange by NCCL: the weights are those of one process with as
# many devices and of an exchange by MPI; who has no NCCL, or no device of its own, takes MPI; a
# rank that fails or is killed ends all. Over fake CUDA libraries, which the environment names.
# Usage: test_nccl_processes.sh CREMA SOURCE_DIR
. "$(dirname "$0")/../cli/lib.sh"
if ! mpirun --version 2>/dev/null | grep -qE "Open MPI|OpenRTE"; then
  echo "skipped: no mpirun of Open MPI on this machine"
  exit 77
fi
options=(--oversubscribe --bind-to none)
[ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)
make_mnist
make_net plain 'max_iter: 4 snapshot: 2 random_seed: 3 momentum: 0.9 snapshot_format: BINARYPROTO'

# run_by COUNT ARGUMENT...: as run, by so many processes.
run_by() {
  local count=$1
  shift
  timeout 120 mpirun "${options[@]}" -n "$count" "$crema" "$@" >log 2>&1
  code=$?
}

# keep FOLDER: the run's snapshots.
keep() {
  expect_ok "$1"
  mkdir "$1"
  mv plain_iter_* "$1"/ || fail "$1: no snapshots"
}

# ---- the same weights ----

run train -solver plain.prototxt -gpu 0,1 -exchange reduce
keep devices
run_by 2 train -solver plain.prototxt -gpu 0,1
expect_line "auto" 'Exchange: nccl, between 2 processes'
keep nccl
run_by 2 train -solver plain.prototxt -gpu 0,1 -exchange mpi
expect_line "mpi" 'Exchange: mpi, between 2 processes'
keep mpi
diff -r devices nccl >/dev/null || fail "nccl and devices differ"
diff -r mpi nccl >/dev/null || fail "nccl and mpi differ"
run_by 3 train -solver plain.prototxt -gpu 0,1,2 -exchange nccl
expect_line "three" 'Exchange: nccl, between 3 processes'
keep three
run_by 2 train --plan -solver plain.prototxt -gpu 0,1
expect_ok "plan"
expect_line "plan" '^Taken \(auto\): nccl, because '
proved s3_27_s3_29_processes_exchange_by_nccl

# ---- where it cannot be ----

run_by 2 train -solver plain.prototxt -gpu 0 -iterations 2
expect_ok "one device"
expect_line "one device" 'Not nccl: NCCL wants a device for each rank; ranks 0 and 1 have the same one'
expect_line "one device" 'Exchange: mpi, between 2 processes'
run_by 2 train -solver plain.prototxt -gpu 0 -exchange nccl
[ "$code" -eq 1 ] || fail "one device, -exchange nccl: exit code $code"
expect_line "one device, -exchange nccl" 'crema: error: .*ranks 0 and 1 have the same one'
FAKE_NCCL_VERSION=21003 run_by 2 train -solver plain.prototxt -gpu 0,1 -iterations 2
expect_ok "an old NCCL"
expect_line "an old NCCL" 'Not nccl: NCCL is version 2.10'
expect_line "an old NCCL" 'Exchange: mpi, between 2 processes'

# ---- failures ----

sed 's/num_output: 10/num_output: 9/' net.prototxt >narrow.prototxt
sed 's/net.prototxt/narrow.prototxt/' plain.prototxt >narrow_solver.prototxt
run_by 2 train -solver narrow_solver.prototxt -gpu 0,1
[ "$code" -ne 0 ] || fail "a bad label: mpirun returned 0"
expect_line "a bad label" 'crema: error: .*label 9'
grep -q 'fake failure\|given up' log && { fail "a consequence is told as the reason"; cat log; }

sed -e 's/max_iter: 4 snapshot: 2/max_iter: 100000000/' -e 's/display: 10 /display: 50 /' \
  -e 's/test_interval: 20 /test_interval: 100000 /' plain.prototxt >long.prototxt
mpirun "${options[@]}" -n 2 "$crema" train -solver long.prototxt -gpu 0,1 >log 2>&1 &
mpirun=$!
for _ in $(seq 600); do
  grep -aqs 'Iteration 50 ' log && break
  sleep 0.05
done
kill -KILL "$(pgrep -P $mpirun | tail -n 1)" || { fail "nothing to kill"; cat log; }
for _ in $(seq 1000); do
  kill -0 $mpirun 2>/dev/null || break
  sleep 0.01
done
kill -KILL $mpirun 2>/dev/null && fail "mpirun is still there 10 s after a process was killed"
wait $mpirun && fail "mpirun returned 0 though a process was killed"
grep -aqE 'rank [01] \(.*\): the process has ended' log || { fail "nobody says who ended"; cat log; }
proved s3_31_processes_that_exchange_by_nccl_end_together
finish
