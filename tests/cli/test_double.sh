#!/bin/bash
# The command on nets in DOUBLE: they are timed, trained and tested as nets in FLOAT are.
. "$(dirname "$0")/lib.sh"
number='[-+0-9.e]+'

# write_net TYPE: net.prototxt and solver.prototxt, a small LeNet on random numbers.
write_net() {
  cat >net.prototxt <<NET
name: "lenet" default_forward_type: $1 default_backward_type: $1
layer { name: "data" type: "DummyData" top: "data" top: "label" include { phase: TRAIN }
  dummy_data_param { shape { dim: 8 dim: 1 dim: 12 dim: 12 } shape { dim: 8 }
    data_filler { type: "gaussian" std: 1 } data_filler { type: "constant" value: 3 } } }
layer { name: "test" type: "DummyData" top: "data" top: "label" include { phase: TEST }
  dummy_data_param { shape { dim: 8 dim: 1 dim: 12 dim: 12 } shape { dim: 8 }
    data_filler { type: "constant" value: 0.3 } data_filler { type: "constant" value: 2 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 6 kernel_size: 2 weight_filler { type: "xavier" } } }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
NET
  echo "net: 'net.prototxt' base_lr: 0.02 lr_policy: 'fixed' momentum: 0.9 display: 1 max_iter: 5
test_iter: 2 test_interval: 5 random_seed: 7 snapshot: 5 snapshot_prefix: '$1'" >solver.prototxt
}

# losses FILE: the loss of each iteration, one a line.
losses() {
  sed -nE 's/.*Iteration [0-9]+ .*loss = ([-+0-9.e]+).*/\1/p' "$1"
}

# like WHAT FILE FILE: lines of numbers that agree to a few parts in 100,000.
like() {
  [ "$(wc -l <"$2")" -ge 5 ] || { fail "$1: too few numbers"; cat "$2"; }
  paste "$2" "$3" | awk '{ d = $1 - $2; if (NF != 2 || d > 5e-5 || d < -5e-5) exit 1 }' ||
    { fail "$1: other numbers than in FLOAT"; paste "$2" "$3"; }
}

for solver in "type: 'SGD'" "type: 'Adam'"; do
  for type in FLOAT DOUBLE; do
    write_net $type
    sed -i "1s/^/$solver /" solver.prototxt
    run time -model net.prototxt -iterations 2
    expect_ok "time in $type"
    expect_line "time in $type" "Average Forward-Backward: $number ms\\.\$"
    run train -solver solver.prototxt
    expect_ok "train in $type"
    losses log >$type.losses
    run test -model net.prototxt -weights ${type}_iter_5.caffemodel -iterations 2
    expect_ok "test in $type"
    expect_line "test in $type" "accuracy = $number\$"
    sed -nE 's/.*Batch [0-9]+, loss = ([-+0-9.e]+)$/\1/p; s/.*Loss: ([-+0-9.e]+)$/\1/p' log >>$type.losses
  done
  like "$solver" DOUBLE.losses FLOAT.losses
done

# The weights were kept as doubles.
float=$(wc -c <FLOAT_iter_5.caffemodel) double=$(wc -c <DOUBLE_iter_5.caffemodel)
[ $((double * 2)) -gt $((float * 3)) ] || fail "$double bytes of weights in DOUBLE, $float in FLOAT"

# Training goes on from a snapshot in DOUBLE.
sed -i 's/max_iter: 5/max_iter: 8/' solver.prototxt
run train -solver solver.prototxt -snapshot DOUBLE_iter_5.solverstate
expect_ok "resuming in DOUBLE"
expect_line "resuming in DOUBLE" 'Iteration 8, loss = '
finish
