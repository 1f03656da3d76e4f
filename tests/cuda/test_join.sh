#!/bin/bash
# Processes that a program has started itself, without mpirun, train together by NCCL: the weights and
# snapshots are those of one process with as many devices; a rank that fails, leaves, is killed or does
# not come makes the calls of all fail. Over fake CUDA libraries, which the environment names.
# Usage: test_join.sh CREMA SOURCE_DIR JOIN
. "$(dirname "$0")/../cli/lib.sh"
join=$3
# The ranks of another build's plug-in would wait for each other. The message lets CTest skip the test.
run device_query -gpu 0
grep "belongs to another version of crema" log && exit 77
make_mnist
make_net plain 'max_iter: 4 snapshot: 2 random_seed: 3 momentum: 0.9 snapshot_format: BINARYPROTO'

# start RANK COUNT STEPS [PATIENCE]: a rank in the background, of the solver $solver, with a log of its
# own and its process in pid[RANK].
solver=plain.prototxt
start() {
  timeout 60 "$join" train $solver id "$@" >"log$1" 2>&1 &
  pid[$1]=$!
}

# end RANK CODE: waits for it.
end() {
  wait "${pid[$1]}"
  local code=$?
  [ "$code" -eq "$2" ] || { fail "$what: rank $1: exit code $code, not $2"; cat "log$1"; }
}

# says RANK TEXT: its error line.
says() {
  grep -Eq "^crema: error: .*$2" "log$1" || { fail "$what: rank $1 does not say '$2'"; cat "log$1"; }
}

# begin WHAT: a new group.
begin() {
  what=$1
  "$join" id id || fail "$what: no id"
}

# keep FOLDER: the run's snapshots.
keep() {
  mkdir "$1"
  mv plain_iter_* "$1"/ || fail "$1: no snapshots"
}

# ---- the same weights ----

for count in 2 3; do
  devices=$(seq -s , 0 $((count - 1)))
  run train -solver plain.prototxt -gpu "$devices" -exchange nccl
  expect_ok "$count devices"
  cp log device_log
  keep devices$count
  begin "$count processes"
  for ((i = 0; i < count; ++i)); do start $i $count solve; done
  for ((i = 0; i < count; ++i)); do end $i 0; done
  keep processes$count
  diff -r devices$count processes$count >/dev/null || fail "$count processes and devices differ"
  # The first process reports, on the samples of all.
  diff <(grep -o 'Test net output.*' device_log) <(grep -o 'Test net output.*' log0) >/dev/null ||
    { fail "$what: other test scores"; cat log0; }
  grep -q 'Test net output\|Iteration' log1 && { fail "$what: rank 1 reports"; cat log1; }
  grep -q "^Exchange: nccl, between $count processes" log0 || { fail "$what: no exchange"; cat log0; }
done
begin "layer_wise_reduce: false"
sed 's/^net:/layer_wise_reduce: false &/' plain.prototxt >whole.prototxt
solver=whole.prototxt
start 0 2 2,2
start 1 2 2,2
end 0 0
end 1 0
for iteration in 2 4; do
  cmp plain_iter_$iteration.caffemodel devices2/plain_iter_$iteration.caffemodel ||
    fail "$what: other weights after $iteration iterations"
done
rm -f plain_iter_*
solver=plain.prototxt
# All shuffle and drop alike without a seed, too.
sed 's/random_seed: 3/random_seed: 0/' plain.prototxt >zero.prototxt
sed 's/random_seed: 3//' plain.prototxt >unseeded.prototxt
run train -solver zero.prototxt -gpu 0,1
expect_ok "random_seed: 0"
keep zero
begin "no seed"
solver=unseeded.prototxt
start 0 2 solve
start 1 2 solve
end 0 0
end 1 0
keep unseeded
cmp zero/plain_iter_4.caffemodel unseeded/plain_iter_4.caffemodel || fail "$what: other weights"
solver=plain.prototxt
begin "a process alone"
start 0 1 1
end 0 0

# ---- where it cannot be ----

what="the CPU"
"$join" cpu plain.prototxt id 0 2 1 >log0 2>&1 && fail "$what: joined"
says 0 'processes that a program has started cannot train together here .*mpirun.*cpu:0 is none'
what="an old NCCL"
FAKE_NCCL_VERSION=21003 "$join" id old_id >log0 2>&1 && fail "$what: made an id"
says 0 'NCCL is version 2.10'
what="not joined"
"$join" alone plain.prototxt id 1 2 1 >log0 2>&1 || { fail "$what: failed"; cat log0; }
grep -q '^Rank 1 of 2 trains by itself' log0 || { fail "$what: no warning"; cat log0; }
ls plain_iter_* 2>/dev/null && fail "$what: rank 1 has written a snapshot"
what="a rank too high"
"$join" train plain.prototxt id 2 2 1 >log0 2>&1 && fail "$what: joined"
says 0 'rank 2 of 2 processes'

# ---- others that are not alike ----

begin "another net"
sed 's/num_output: 10/num_output: 11/' net.prototxt >wide.prototxt
sed 's/net.prototxt/wide.prototxt/' plain.prototxt >wide_solver.prototxt
start 0 2 1
solver=wide_solver.prototxt
start 1 2 1
solver=plain.prototxt
for i in 0 1; do
  end $i 1
  says $i 'the processes do not train the same net'
done
begin "other iterations"
start 0 2 3
start 1 2 4
for i in 0 1; do
  end $i 1
  says $i 'ranks disagree: this one runs iterations'
done
begin "two of one rank"
start 0 2 1 10
for _ in $(seq 600); do
  grep -q '@crema-.*-0' /proc/net/unix && break
  sleep 0.05
done
pid[1]=${pid[0]}
cp log0 log1
"$join" train plain.prototxt id 0 2 1 >log0 2>&1 && fail "$what: both joined"
says 0 'another process of this host is rank 0 already'
start 1 2 1
wait $! || { fail "$what: the right ones do not train"; cat log1; }

# ---- failures ----

begin "a bad label"
sed 's/num_output: 10/num_output: 9/' net.prototxt >narrow.prototxt
sed 's/net.prototxt/narrow.prototxt/' plain.prototxt >narrow_solver.prototxt
solver=narrow_solver.prototxt
start 0 2 4
start 1 2 4
for i in 0 1; do
  end $i 1
  says $i 'label 9'
done
# Both ranks find a bad label in their first batch, and the later one may hear of the earlier one.
grep -q 'fake failure\|given up' log0 log1 && { fail "$what: a consequence is told"; cat log?; }
solver=plain.prototxt

begin "a rank that leaves"
start 0 2 2,2
start 1 2 2
end 1 0
end 0 1
says 0 'rank 1 \(.*\): it has left the training'

begin "a rank that does not come"
start 0 2 1 0.5
end 0 1
says 0 'rank 0 \(.*\): waited for 0.5 s for the other ranks'

sed -e 's/max_iter: 4 snapshot: 2/max_iter: 100000000/' -e 's/display: 10 /display: 50 /' \
  -e 's/test_interval: 20 /test_interval: 100000 /' plain.prototxt >long.prototxt
solver=long.prototxt
for signal in KILL STOP; do
  begin "a rank that gets SIG$signal"
  start 0 2 solve 1
  start 1 2 solve 30
  for _ in $(seq 600); do
    grep -aqs 'Iteration 50 ' log0 && break
    sleep 0.05
  done
  process=$(pgrep -P "${pid[1]}")
  kill -$signal "$process" || fail "$what: nothing to send it to"
  end 0 1
  if [ $signal = KILL ]; then says 0 'rank 1 \(.*\): the process has ended'
  else says 0 'waited for 1 s for the other ranks'; fi
  kill -KILL "$process" 2>/dev/null
  wait "${pid[1]}"
done
finish
