#!/bin/bash
# Compiled nets: compile explains, test, time, extract_features and classify run them, benchmark
# measures them.
. "$(dirname "$0")/lib.sh"

cat >blocks.prototxt <<'NET'
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "conv" type: "Convolution" bottom: "x" top: "y"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } }
}
layer { name: "norm" type: "BatchNorm" bottom: "y" top: "z" }
layer { name: "relu" type: "ReLU" bottom: "z" top: "r" }
layer { name: "spare" type: "TanH" bottom: "r" top: "s" }
layer { name: "hush" type: "Silence" bottom: "s" }
layer { name: "drop" type: "Dropout" bottom: "r" top: "out" }
NET
run compile -explain blocks.prototxt
expect_ok "compile -explain"
expect_line "compile" "^train: Dropout 'drop' is left out"
expect_line "compile" "^dead: TanH 'spare' is left out"
expect_line "compile" "^fold: BatchNorm 'norm' into Convolution 'conv'"
expect_line "compile" "^fuse: ReLU 'relu' into Convolution 'conv'"
run compile blocks.prototxt
expect_line "compile" "^8 layers of the net became 2$"
[ "$(wc -l <log)" -eq 1 ] || fail "compile without -explain says more than the sum"
run compile -explain -without fold,dead -keep z blocks.prototxt
expect_line "compile -without" "^fold: switched off"
grep -q "^fuse: ReLU" log && fail "a kept blob's layer is fused over BatchNorm"
run compile -without folds blocks.prototxt
expect_error "an unknown pass" "did you mean 'fold'"
run compile -keep q blocks.prototxt
expect_error "an unknown blob" "has no blob 'q'"
run compile
expect_usage "no net" "compile: missing required flag -model FILE"

run benchmark -seconds 0.01 -threads 1 -batch 1,3 blocks.prototxt
expect_ok "benchmark"
expect_line "benchmark" "^ +1 +3 \|( +[0-9.]+){3} \|( +[0-9.]+){4} \| [0-9.]+$"
expect_line "benchmark" "^ +[0-9]+ +3 \|( +[0-9.]+){2} \| [0-9.]+$"
run benchmark -threads 0 blocks.prototxt
expect_usage "no threads" "-threads 0"
run benchmark nothing.prototxt
expect_error "benchmark of no file" "nothing.prototxt"

run time -model blocks.prototxt -compiled -iterations 1
expect_ok "time -compiled"
expect_line "time -compiled" "conv.*forward"
grep -q backward log && fail "time -compiled reports a backward pass"
run time -model blocks.prototxt -compiled -phase TRAIN
expect_usage "time -compiled -phase TRAIN" "-phase TEST"

# The classes and scores are those of the plain net.
for flag in "" -compiled; do
  run classify $flag "$source_dir/examples/images/cat.jpg"
  expect_ok "classify $flag"
  grep "^[-0-9]" log >"classified$flag"
done
cmp classified classified-compiled || fail "classify -compiled says something else"

make_mnist
make_net digits "max_iter: 30"
run train -solver digits.prototxt
expect_ok "train"
sed -i "s/mirror: true //" net.prototxt # which are drawn anew each time
weights=$(ls ./*.caffemodel | tail -1)
for flag in "" -compiled; do
  run test -model net.prototxt -weights "$weights" -iterations 4 $flag
  expect_ok "test $flag"
  grep -o "] accuracy = [0-9.]*" log >"accuracy$flag"
  run extract_features $flag "$weights" net.prototxt ip1,ip2 "ip1$flag,ip2$flag" 1 lmdb
  expect_ok "extract_features $flag"
  run data_stats "ip2$flag"
  expect_ok "features $flag"
done
cmp accuracy accuracy-compiled || fail "test -compiled scores otherwise"
[ -s accuracy ] || fail "test reports no accuracy"

finish
