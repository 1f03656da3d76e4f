#!/usr/bin/env bash
# summary: what each layer costs, by hand, as a table and as JSON.
. "$(dirname "$0")/lib.sh"
lenet=$source_dir/models/lenet/train_test.prototxt

run summary -input data=64x1x28x28,label=64 "$lenet"
expect_ok "LeNet"
expect_line "the phase" '^LeNet, phase TEST$'
# 64 pictures of 20 x 24 x 24 values, each of 25 products and a bias; 64 of 50 x 8 x 8, each of 500.
expect_line "a convolution" '^conv1 +Convolution +64x20x24x24 +520 +18,432,000 +37,601,280 +2,951,200$'
expect_line "a convolution" '^conv2 +Convolution +64x50x8x8 +25,050 +102,400,000 +205,004,800 +919,400$'
expect_line "a pooling with a 2x2 kernel" '^pool1 +Pooling +64x20x12x12 +0 +0 +737,280 +737,280$'
expect_line "an inner product" '^ip1 +InnerProduct +64x500 +400,500 +25,600,000 +51,232,000 +1,730,000$'
expect_line "in place" '^relu1 +ReLU +64x500 +0 +0 +32,000 +0$'
expect_line "two outputs" '^mnist +Input +64x1x28x28 64 '
expect_line "the sums" '^Parameters, learned +431,080$'
expect_line "the sums" '^Multiply-adds +146,752,000$'
expect_line "the sums" '^Memory of parameters +1,724,320 bytes$'
grep -q 'split' log && fail "splits are listed"
grep -q 'gradients' log && fail "phase TEST has gradients"
run summary -phase TRAIN -input data=64x1x28x28,label=64 "$lenet"
expect_ok "phase TRAIN"
grep -q 'accuracy' log && fail "a layer of phase TEST in phase TRAIN"
expect_line "gradients" '^Memory with gradients +[0-9,]+ bytes$'

cat >net.prototxt <<'NET'
name: "a \"quoted\" name"
layer { name: "in" type: "Input" top: "data" top: "cont" top: "x" input_param {
  shape { dim: 2 dim: 8 dim: 4 dim: 4 } shape { dim: 3 dim: 2 } shape { dim: 3 dim: 2 dim: 5 } } }
layer { name: "up" type: "Deconvolution" bottom: "data" top: "up"
  convolution_param { num_output: 4 kernel_size: 2 stride: 2 group: 4 bias_term: false } }
layer { name: "norm" type: "BatchNorm" bottom: "up" top: "norm" }
layer { name: "scale" type: "Scale" bottom: "norm" top: "norm" scale_param { bias_term: true } }
layer { name: "other" type: "ReLU" bottom: "up" top: "other" }
layer { name: "sum" type: "Eltwise" bottom: "norm" bottom: "other" top: "sum" }
layer { name: "flat" type: "Flatten" bottom: "sum" top: "flat" }
layer { name: "ip" type: "InnerProduct" bottom: "flat" top: "ip" param { name: "w" } param { name: "b" }
  inner_product_param { num_output: 3 } }
layer { name: "again" type: "InnerProduct" bottom: "flat" top: "again" param { name: "w" } param { name: "b" }
  inner_product_param { num_output: 3 } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "lstm" recurrent_param { num_output: 7 } }
NET
run summary net.prototxt
expect_ok "a net"
# 2 x 8 x 4 x 4 values, each of which meets 1 x 2 x 2 weights.
expect_line "a deconvolution by groups" '^up +Deconvolution +2x4x8x8 +32 +1,024 +2,048 +2,176$'
expect_line "statistics" '^norm +BatchNorm +2x4x8x8 +9 +0 +1,024 +2,084$'
expect_line "a scale in place" '^scale +Scale +2x4x8x8 +8 +0 +1,024 +32$'
expect_line "a sum" '^sum +Eltwise +2x4x8x8 +0 +0 +512 +2,048$'
expect_line "another shape of the same values" '^flat +Flatten +2x256 +0 +0 +0 +0$'
expect_line "shared parameters, their owner" '^ip +InnerProduct +2x3 +771 +1,536 +3,078 +3,108$'
expect_line "shared parameters" '^again +InnerProduct +2x3 +0 +1,536 +3,078 +24$'
# 3 steps of 2: 4 x 7 gates of 5 inputs and 7 of the output before.
expect_line "an LSTM" '^lstm +LSTM +3x2x7 +364 +2,016 +4,032 +1,624$'
expect_line "statistics apart" '^Parameters, statistics +9$'

"$crema" summary -json net.prototxt >net.json 2>log
code=$?
expect_ok "JSON"
python3 - <<'PYTHON' || fail "JSON"
import json
net = json.load(open("net.json"))
layer = {one["name"]: one for one in net["layers"]}
assert net["name"] == 'a "quoted" name' and net["phase"] == "TEST"
assert layer["up"]["tops"] == [{"name": "up", "shape": [2, 4, 8, 8]}]
assert layer["up"]["parameters"] == [[8, 1, 2, 2]]
assert layer["norm"]["statistics"] == 9 and layer["norm"]["learned"] == 0
for key in ("learned", "statistics", "multiply_adds", "flops", "value_bytes", "parameter_bytes"):
    assert net["sum"][key] == sum(one[key] for one in net["layers"]), key
assert net["sum"]["layers"] == len(net["layers"]) == 10
PYTHON

# Names need not be UTF-8, JSON must.
printf 'name: "a\\377\\355\\240\\200\\303\\244\\177" layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 } } }' >bytes.prototxt
"$crema" summary -json bytes.prototxt >bytes.json 2>log
code=$?
expect_ok "JSON of bytes"
python3 - <<'PYTHON' || fail "JSON of bytes"
import json
name = json.load(open("bytes.json", encoding="utf-8"))["name"]
assert name == "a" + 4 * "\ufffd" + "\u00e4\x7f", name
PYTHON

run summary "$source_dir/models/resnet50/deploy.prototxt"
expect_ok "ResNet-50"
expect_line "the paper's size" '^Parameters, learned +25,557,032$'
expect_line "the paper's 3.8 x 10^9" '^Multiply-adds +3,8[0-9]{2},'

run summary -input data=64x1x28x28 "$lenet"
expect_error "one of two shapes" "layer 'mnist' makes 'label', too"
run summary -input daat=1x2 "$lenet"
expect_error "another name" "-input daat=1x2: no layer without bottoms makes that blob"
for shape in 3x 3xa x 0x3 -1; do
  run summary -input data=$shape,label=1 "$lenet"
  expect_error "shape $shape" "expected a shape such as 8x3x227x227"
done
run summary "$lenet"
expect_error "no data" "test_lmdb: no such database" "-input NAME=SHAPE,... gives the shapes"
cat >plugin.prototxt <<'NET'
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 2 } } }
layer { name: "own" type: "Plugin" bottom: "data" top: "y" plugin_param { library: "nowhere.so" } }
NET
run summary plugin.prototxt
expect_error "no plug-in" "plugin.prototxt:2: layer 'own': nowhere.so: no such file"
grep -q -e '-input' log && fail "advice about data where a plug-in is missing"
run summary none.prototxt
expect_error "no file" "none.prototxt"
finish
