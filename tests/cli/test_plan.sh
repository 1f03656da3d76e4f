#!/usr/bin/env bash
# train --plan: links, buckets and predicted times, and nothing is trained.
. "$(dirname "$0")/lib.sh"
export CREMA_CUDA_PLUGIN=$work/none.so
unset CREMA_SIM
make_mnist
make_net tiny 'max_iter: 3' 'random_seed: 5'
files() {
  find . | grep -v '/log$\|/plan$\|/tree$' | sort
}
before=$(files)

# plan ARGUMENT...: only the plan, in ./plan; warnings and log lines in ./log.
plan() {
  "$crema" train --plan -solver tiny.prototxt "$@" >plan 2>log
  code=$?
  expect_ok "plan $*"
  grep -q 'Starting Optimization\|Iteration' log plan && fail "plan $*: something is trained"
  [ "$(files)" = "$before" ] || fail "plan $*: there are new files"
}

# One bucket a line. Each parameter begins at a multiple of 64 floats: 10 x 24 weights and 10 biases of
# ip2 take 256 + 64, 24 x 576 weights and 24 biases of ip1 13824 + 24.
expect_buckets() {
  expect_line "$1" '^ +0 +3 +56576 +[0-9.]+  ip1$' plan
  expect_line "$1" '^ +1 +1 +96 +[0-9.]+  ip1$' plan
  sed -n "s/^ *[0-9]* *[0-9]* *[0-9]* *\([0-9.]*\)  ip[12]$/\1/p" plan |
    awk '$1 <= 0 || $1 < before { bad = 1 } { before = $1 } END { exit bad }' || fail "$1: when buckets are ready"
}

plan
expect_line "one device" '^There is one device: nothing is exchanged$' plan
expect_line "one device" '^Plan of training digits with 1 device, 16 samples' plan
expect_line "one device" '^  none +0\.000 +[0-9]+\.[0-9]+ +1\.00$' plan
expect_buckets "one device"
grep -q 'tree\|reduce\|mpi' plan && fail "one device: a report of an exchange"

# Boards of two, islands of four, one device left: who copies to whom, and how.
CREMA_SIM=devices=5,memory=256M,boards=2,peers=islands:4,peer_bandwidth=1G,peer_latency=1e-3,bandwidth=1G \
  plan -gpu all
expect_line "five devices" '^Plan of training digits with 5 devices, 80 samples' plan
sed -n 's/^  \(sim:[0-4]\) *-> \(sim:[0-4]\) *\(on one board\|direct\|via the host\) .*/\1 \2 \3/p' plan >tree
diff - tree <<'TREE' || fail "another tree"
sim:0 sim:1 on one board
sim:2 sim:3 on one board
sim:0 sim:2 direct
sim:0 sim:4 via the host
TREE
# No link is found faster than it is; it may be slower on a busy machine.
grep ' -> .*\(board\|direct\)' plan | sed 's/.*  \([0-9.e+-]*\) GB.s after \([0-9.e+-]*\) us/\1 \2/' |
  awk '{ lines += 1 } $1 <= 0 || $1 > 2 || $2 < 500 { bad = 1 } END { exit !(lines == 3 && !bad) }' ||
  { fail "other speeds than the speeds of the links"; cat plan; }
for level in "the tree's last level" "from each device to the next one"; do
  expect_line "links at once" "^Links .*$level, all used at once: [0-9.e+-]+ GB/s after" plan
done
expect_buckets "five devices"
for way in none tree reduce; do
  expect_line "predicted" "^  $way +[0-9]+\.[0-9]+ +[0-9]+\.[0-9]+ +[0-9]+\.[0-9]+$" plan
done
# Latencies alone: 6 transfers down and up the tree, 8 round the ring for each of 2 buckets.
awk '$1 == "tree" { tree = $2 } $1 == "reduce" { reduce = $2 } END { exit !(tree >= 3 && reduce >= 8) }' plan ||
  { fail "an exchange of less than its latencies"; cat plan; }
expect_line "the choice" '^Taken \(auto\): reduce, because ' plan
expect_line "the log says why, too" 'Exchange: reduce, between 5 devices: a link' log
plan -gpu sim:2 -exchange tree
expect_line "another choice" '^auto would take: reduce, because ' plan
expect_line "another choice" '^Taken \(-exchange\): tree$' plan
grep -q 'why\|because' log && fail "a choice of the user is explained to the user"

# Errors are those of training.
# Sixteen layers of equal size: about the square root of them is kept when the others are computed again.
{
  echo 'layer { name: "in" type: "DummyData" top: "x0" dummy_data_param { shape { dim: 4 dim: 8 dim: 32 dim: 32 } } }'
  for i in {0..15}; do
    echo "layer { name: 'c$i' type: 'Convolution' bottom: 'x$i' top: 'x$((i + 1))' convolution_param {
      num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }"
  done
  echo 'layer { name: "loss" type: "Reduction" bottom: "x16" top: "loss" loss_weight: 1 }'
} >deep.net
echo 'net: "deep.net" base_lr: 0 lr_policy: "fixed" max_iter: 1' >deep.prototxt
memory_of() {
  sed -n 's/.*ctivations and gradients: \([0-9.]*\) MB at most at once, in [0-9.]* MB of memory.*/\1/p' "$1"
}
for flag in "" -recompute -no_memory_plan; do
  "$crema" train --plan -solver deep.prototxt $flag >"deep$flag" 2>log || fail "deep $flag: $(cat log)"
done
awk -v all="$(memory_of deep)" -v some="$(memory_of deep-recompute)" 'BEGIN { exit !(some > 0.5 && some < 0.7 * all) }' ||
  fail "recomputing: $(memory_of deep-recompute) MB of $(memory_of deep) MB"
expect_line "recomputing" '^  computing values again instead of keeping them: ([1-9][0-9]*\.[0-9]+|0\.[0-9]*[1-9][0-9]*) ms of backward$' deep-recompute
grep -q 'computing values again' deep && fail "nothing is computed again"
[ -z "$(memory_of deep-no_memory_plan)" ] || fail "a report of memory that is not planned"
run time -model deep.net -iterations 1
expect_ok "time"
[ "$(memory_of log)" = "$(memory_of deep)" ] || fail "time: $(memory_of log) MB, not $(memory_of deep) MB"
run time -model "$source_dir/models/squeezenet_v1.0/deploy.prototxt" -iterations 1 -compiled
[ -z "$(memory_of log)" ] || fail "time -compiled reports gradients"
expect_line "time -compiled" 'Activations: [0-9.]+ MB at most at once'
rm deep*

run train --plan -solver none.prototxt
expect_error "no solver" "none.prototxt"
run train --plan -solver tiny.prototxt -exchange mpi -gpu sim:2
expect_error "mpi without mpirun" "mpirun"

if command -v mpirun >/dev/null && [ -z "${CREMA_NO_MPIRUN:-}" ]; then
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 \
    mpirun --oversubscribe -n 2 "$crema" train --plan -solver tiny.prototxt >plan 2>log
  code=$?
  expect_ok "plan of two processes"
  [ "$(grep -c '^Plan of training digits with 2 processes, 32 samples' plan)" -eq 1 ] ||
    fail "two processes: not one plan"
  expect_line "links between processes" '^Links between processes, .* GB/s after' plan
  expect_line "mpi" '^  mpi +[0-9.]+ +[0-9.]+ +[0-9.]+$' plan
  expect_line "mpi" '^Taken \(auto\): mpi, because ' plan
  expect_buckets "two processes"
fi
finish
