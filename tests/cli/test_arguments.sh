#!/bin/bash
# A file is a flag or the first argument, in every command; the device is a flag in each one that
# runs a net.
. "$(dirname "$0")/lib.sh"
export CREMA_CUDA_PLUGIN=$work/none.so
unset CREMA_SIM
make_mnist
make_net small 'max_iter: 2 random_seed: 1'
cat >deploy.prototxt <<'NET'
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 24 dim: 24 } } }
layer {
  name: "ip1" type: "InnerProduct" bottom: "x" top: "ip1"
  inner_product_param { num_output: 24 }
}
NET

# same WHAT COMMAND...: the commands, one a line on standard input, print the same.
same() {
  local what=$1 words
  rm -f first
  while read -r words; do
    # shellcheck disable=SC2086
    "$crema" $words >out 2>log
    code=$?
    expect_ok "$what: crema $words"
    [ -e first ] || cp out first
    cmp -s out first || fail "$what: crema $words prints otherwise"
  done
}

run train small.prototxt
expect_ok "train SOLVER"
mv small_iter_2.caffemodel argument.caffemodel
run train -solver small.prototxt
expect_ok "train -solver"
cmp -s small_iter_2.caffemodel argument.caffemodel || fail "train SOLVER gives other weights"
for form in "net.prototxt -weights argument.caffemodel" "-weights argument.caffemodel net.prototxt" \
  "-model net.prototxt -weights argument.caffemodel"; do
  # shellcheck disable=SC2086
  run test -iterations 1 $form
  expect_ok "test $form"
  expect_line "test $form" 'accuracy = '
done
run time -iterations 1 net.prototxt
expect_ok "time NET"
same summary <<'COMMANDS'
summary deploy.prototxt
summary -model deploy.prototxt
summary --model=deploy.prototxt
COMMANDS
same draw <<'COMMANDS'
draw deploy.prototxt one.dot
draw -model deploy.prototxt two.dot
draw three.dot -model deploy.prototxt
COMMANDS
cmp -s one.dot two.dot && cmp -s one.dot three.dot || fail "draw -model gives another image"
same compile <<'COMMANDS'
compile deploy.prototxt
compile -model deploy.prototxt
COMMANDS
same calibrate <<'COMMANDS'
calibrate net.prototxt -weights argument.caffemodel -iterations 1 -out scales.table
calibrate -model net.prototxt -weights argument.caffemodel -iterations 1 -out scales.table
COMMANDS
run benchmark -model deploy.prototxt -threads 1 -batch 1 -seconds 0.01
expect_ok "benchmark -model"
for form in "argument.caffemodel net.prototxt" "-weights argument.caffemodel net.prototxt" \
  "-model net.prototxt argument.caffemodel" "-model net.prototxt -weights argument.caffemodel"; do
  rm -rf features
  # shellcheck disable=SC2086
  run extract_features $form ip1 features 1 lmdb
  expect_ok "extract_features $form"
done

# Twice, or not at all.
run train -solver small.prototxt other.prototxt
expect_usage "train, twice" "give the file once, as -solver small.prototxt or as the argument other.prototxt"
run draw -model deploy.prototxt other.prototxt net.dot
expect_usage "draw, twice" "give the file once, as -model deploy.prototxt or as the argument other.prototxt"
for command in test time summary compile benchmark calibrate draw; do
  run $command
  expect_usage "$command without a net" "$command: missing required flag -model FILE"
done
run train
expect_usage "train without a solver" "train: missing required flag -solver FILE"
run draw net.prototxt
expect_usage "draw without a file" "too few arguments; usage: crema draw NET FILE"
run test net.prototxt
expect_usage "test without weights" "test: missing required flag -weights FILE"
run calibrate net.prototxt -weights argument.caffemodel
expect_usage "calibrate without a table" "calibrate: missing required flag -out FILE"
run classify deploy.prototxt "$source_dir/examples/images/cat.jpg"
expect_usage "classify with a net" "deploy.prototxt is a network, not an image; use -model deploy.prototxt"
run extract_features argument.caffemodel net.prototxt ip1 out 1 lmbd
expect_usage "a kind of output" 'KIND: expected lmdb, leveldb or hdf5, found "lmbd"; did you mean lmdb?'
run train small.prototxt -weights net.prototxt
expect_error "a net for weights" "net.prototxt: the file looks like text; expected weights (.caffemodel)"

# Weights of another net: one error line, and the layers of the file only with -v 1.
sed 's/"ip1"/"other"/g' deploy.prototxt >other.prototxt
run calibrate other.prototxt -weights argument.caffemodel -out never.table
expect_error "weights of another net" "argument.caffemodel: holds parameters for no layer of the net"
grep -q "Ignoring source layer" log && { fail "unrelated weights are listed"; cat log; }
run calibrate other.prototxt -weights argument.caffemodel -out never.table -v 1
expect_line "unrelated weights with -v 1" 'Ignoring source layer ip1'

# ---- devices ----
image=$source_dir/examples/images/cat.jpg
cat >small_net.prototxt <<'NET'
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "ip" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } }
}
NET
cat >made.prototxt <<'SOLVER'
net: "train.prototxt" max_iter: 1 base_lr: 0.01 lr_policy: "fixed" random_seed: 3
snapshot_prefix: "made" solver_mode: CPU
SOLVER
{
  cat small_net.prototxt
  echo 'layer { name: "loss" type: "Reduction" bottom: "y" top: "l" loss_weight: 1 }'
} >train.prototxt
run train made.prototxt
expect_ok "weights for classify"
# Each command that runs a net.
devices=("classify -model small_net.prototxt -weights made_iter_1.caffemodel $image"
  "classify -compiled -model small_net.prototxt -weights made_iter_1.caffemodel $image"
  "calibrate net.prototxt -weights argument.caffemodel -iterations 2 -out scales.table"
  "benchmark deploy.prototxt -threads 1 -batch 1 -seconds 0.01"
  "extract_features argument.caffemodel net.prototxt ip1 features 1 lmdb")
for words in "${devices[@]}"; do
  rm -rf features
  # shellcheck disable=SC2086
  run $words -gpu 0
  expect_error "${words%% *} -gpu 0" "no CUDA devices" "leave the flag out"
  # shellcheck disable=SC2086
  "$crema" $words >cpu 2>/dev/null
  cp scales.table cpu.table 2>/dev/null
  rm -rf features
  # shellcheck disable=SC2086
  CREMA_SIM=2 run $words -gpu 1
  expect_ok "$words -gpu 1"
  [ "$(grep -c 'Use GPU with device ID 1' log)" -eq 1 ] || { fail "$words: not on device 1"; cat log; }
  [ "${words%% *}" = benchmark ] || [ "$(grep -v '^[IW]' log)" = "$(cat cpu)" ] ||
    { fail "$words prints otherwise on a device"; cat log cpu; }
done
# The mode GPU is a wish; the number of a GPU is not.
rm -rf features
run extract_features argument.caffemodel net.prototxt ip1 features 1 lmdb GPU
expect_ok "extract_features GPU"
expect_line "extract_features GPU" 'there is no GPU; running on the CPU'
rm -rf features
run extract_features argument.caffemodel net.prototxt ip1 features 1 lmdb GPU 0
expect_error "extract_features GPU 0" "no CUDA devices"
cmp -s scales.table cpu.table || fail "calibrate finds other scales on a device"
finish
