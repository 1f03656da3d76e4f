#!/usr/bin/env bash
# run_layer: one layer from its text.
. "$(dirname "$0")/lib.sh"

# layer NAME TYPE REST: a file NAME.prototxt with one layer from x to y.
layer() { echo "layer { name: \"$1\" type: \"$2\" bottom: \"x\" top: \"y\" ${3:-} }" >"$1.prototxt"; }
filler='weight_filler { type: "xavier" }'
layer conv Convolution "convolution_param { num_output: 4 kernel_size: 3 pad: 1 $filler }"
layer pool Pooling 'pooling_param { kernel_size: 2 stride: 2 }'
layer norm BatchNorm
layer softmax Softmax
layer drop Dropout
layer embed Embed "embed_param { input_dim: 7 num_output: 3 weight_filler { type: \"gaussian\" } }"
layer argmax ArgMax
echo 'layer { name: "relu" type: "ReLU" bottom: "x" top: "x" }' >relu.prototxt
echo 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "score" bottom: "label" top: "loss" }' >loss.prototxt
echo 'layer { name: "square" type: "Eltwise" bottom: "x" bottom: "x" top: "y" eltwise_param { operation: PROD } }' >square.prototxt
echo 'layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "marks" top: "y"
  recurrent_param { num_output: 3 weight_filler { type: "gaussian" std: 0.3 } } }' >lstm.prototxt

run run_layer conv.prototxt -input 2x3x6x6
expect_ok "a convolution"
expect_line "the layer" '^layer   conv \(Convolution\), phase TRAIN$'
expect_line "the bottom" '^bottom  x +2x3x6x6 +min -[0-9.]+ max [0-9.]+ mean [-0-9.e]+ NaN 0$'
expect_line "the weights" '^param   0 +4x3x3x3 +min '
expect_line "the bias" '^param 1 is all 0 in the text and gets random values$'
expect_line "the top" '^top     y +2x4x6x6 +min '
expect_line "the time" '^time    forward [0-9.e-]+ ms, backward [0-9.e-]+ ms \(mean of 10\)$'
cp log first
run run_layer conv.prototxt -input 2,3,6,6 -iterations 10
diff <(grep -v '^time' first) <(grep -v '^time' log) >/dev/null || fail "two runs with one seed differ"
run run_layer conv.prototxt -input 2x3x6x6 -seed 2
diff <(grep '^top' first) <(grep '^top' log) >/dev/null && fail "another seed gives the same values"

# ---- gradients ----
while read -r name input checked; do
  run run_layer "$name.prototxt" -input "$input" -check
  expect_ok "-check $name"
  expect_line "-check $name" '^PASS$'
  [ "$(grep -c '^check ' log)" -eq "$checked" ] || { fail "$name: not $checked blobs are checked"; cat log; }
done <<'LIST'
conv 2x3x6x6 3
pool 2x3x6x6 1
norm 4x3x5x5 1
softmax 3x5 1
drop 4x16 1
relu 4x16 1
embed 4x2 2
loss 6x5;6 1
square 3x4 1
lstm 3x2x4;3x2 4
LIST
run run_layer conv.prototxt -input 2x3x6x6 -check -gpu sim:1
expect_ok "-check on a device"
expect_line "-check on a device" '^PASS$'
run run_layer loss.prototxt -input '6x5;6' -labels 3
expect_line "labels" '^bottom  label +6 +min [01] max [12] '
run run_layer relu.prototxt -input 2x4 -fill counting
expect_line "counting" '^bottom  x +2x4 +min 0 max 7 mean 3.5 NaN 0$'
echo 'layer { name: "dummy" type: "DummyData" top: "y" dummy_data_param { shape { dim: 2 } } }' >dummy.prototxt
run run_layer dummy.prototxt
expect_ok "a layer without bottoms"
expect_line "a layer without bottoms" '^time    forward [0-9.e-]+ ms'
layer log Log
run run_layer log.prototxt -input 2x4 -fill counting
expect_line "infinite values" '^top     y +2x4 +min 0 max .* infinite 1 NaN 0$'
layer root Power 'power_param { power: 0.5 }'
run run_layer root.prototxt -input 2x40
expect_line "NaN" '^top     y +2x40 +min .* NaN [1-9]'
run run_layer relu.prototxt -input 2x40 -fill positive
expect_line "positive" '^bottom  x +2x40 +min 0\.[1-9]'
run run_layer norm.prototxt -input 2x3x4x4 -phase TEST
expect_line "phase TEST" ', phase TEST$'

# What is above the tolerance fails.
run run_layer conv.prototxt -input 2x3x6x6 -check -tolerance 1e-12
expect_error "a tolerance that nothing meets" "conv.prototxt: gradients differ from finite differences"
expect_line "a tolerance that nothing meets" 'FAIL$'

# ---- what is wrong is named ----
run run_layer conv.prototxt
expect_error "no -input" "-input must give one shape for each bottom of layer 'conv' (Convolution), 1 in all" "found 0"
run run_layer loss.prototxt -input 6x5
expect_error "a shape too few" "each bottom of layer 'loss' (SoftmaxWithLoss), 2 in all" "found 1"
run run_layer conv.prototxt -input 2x3xx
expect_error "no shape" 'expected shapes such as 8x3x32x32;8, found "2x3xx"'
run run_layer conv.prototxt -input 2x3x0
expect_error "an extent of 0" 'found "2x3x0"'
run run_layer missing.prototxt -input 2
expect_error "no file" "missing.prototxt"
cat conv.prototxt relu.prototxt >two.prototxt
run run_layer two.prototxt -input 2x3x6x6
expect_error "two layers" "two.prototxt:2: expected a file with one layer, found 2"
: >none.prototxt
run run_layer none.prototxt -input 2x3
expect_error "no layer" "none.prototxt: expected a file with one layer, found 0"
printf '\nlayer { name: "x" type: "Convolutin" bottom: "x" top: "y" }\n' >type.prototxt
run run_layer type.prototxt -input 2x3
expect_error "a type that is not known" "type.prototxt:2" "Convolutin" "did you mean 'Convolution'"
printf 'layer { name: "x" type: "ReLU"\n  bottm: "x" top: "y" }\n' >field.prototxt
run run_layer field.prototxt -input 2x3
expect_error "a field that is not known" "field.prototxt:2" "bottm"
run run_layer conv.prototxt -input 2x3x2x2 -fill zeros
expect_usage "a fill that is not known" '-fill: expected random, positive or counting, found "zeros"'
run run_layer argmax.prototxt -input 3x4
expect_ok "no backward pass"
run run_layer argmax.prototxt -input 3x4 -check
expect_error "no backward pass" "layer 'argmax' (ArgMax) has no backward pass"
run run_layer conv.prototxt -input absent.h5
expect_error "no dump" "absent.h5"
finish
