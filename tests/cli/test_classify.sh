#!/bin/bash
# classify: the net's own preprocessing and labels, mean files of another size, outputs that are no scores.
. "$(dirname "$0")/lib.sh"
image=$source_dir/examples/images/cat.jpg

# make_deploy NAME INPUT_FIELDS LAYERS
make_deploy() {
  mkdir -p "$1"
  cat >"$1/deploy.prototxt" <<EOF
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 20 dim: 20 } } $2 }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param {
  num_output: 3 weight_filler { type: "constant" value: 0.001 } bias_filler { value: 0.5 } } }
$3
EOF
}

# The sum over all values shows each part of the preprocessing.
make_deploy plain "" ""
make_deploy own "transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.5 resize_param { height: 32 width: 32 } }" ""
make_deploy reversed "transform_param { mean_value: 123 mean_value: 117 mean_value: 104 bgr2rgb: true }" ""
make_deploy maps "" 'layer { name: "up" type: "Convolution" bottom: "data" top: "maps" convolution_param { num_output: 2 kernel_size: 1 } }
layer { name: "s" type: "Silence" bottom: "fc" }'
cat >train.prototxt <<EOF
layer { name: "data" type: "DummyData" top: "data" dummy_data_param { shape { dim: 1 dim: 3 dim: 20 dim: 20 } } }
layer { name: "label" type: "DummyData" top: "label" dummy_data_param { shape { dim: 1 } } }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param {
  num_output: 3 weight_filler { type: "constant" value: 0.001 } bias_filler { value: 0.5 } } }
layer { name: "up" type: "Convolution" bottom: "data" top: "maps" convolution_param { num_output: 2 kernel_size: 1 } }
layer { name: "s" type: "Silence" bottom: "maps" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" }
EOF
echo 'net: "train.prototxt" base_lr: 0 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "w"' >solver.prototxt
run train -solver solver.prototxt
expect_ok weights

# classify NAME FLAGS...: the scores are in ./scores.
classify() {
  local name=$1
  shift
  run classify -model "$name/deploy.prototxt" -weights w_iter_1.caffemodel "$@" "$image"
  expect_ok "classify $name $*"
  grep -E '^-?[0-9.]+ - ' log >scores
}

# same WHAT: the scores equal those that were kept.
same() {
  cmp -s scores kept || { fail "$1: other scores"; cat scores kept; }
}

classify plain
grep -q "plain/deploy.prototxt: the Input layer 'data' has no transform_param, so the values are a guess" log ||
  fail "a guess without a word"
cp scores guessed
classify plain -mean_value 104,117,123 -scale 0.5 -resize 32
grep -q "a guess" log && fail "nothing is guessed"
cp scores kept
cmp -s guessed kept && fail "the flags change nothing"
classify own
grep -q "a guess" log && fail "the net says all"
same "transform_param of the Input layer"
classify own -compiled
same "transform_param of a compiled net"
classify own -scale 1 -mean_value 0 -resize 0
cp scores kept
classify plain -scale 1 -mean_value 0
same "flags over transform_param"
classify plain -rgb -mean_value 123,117,104
cp scores kept
classify reversed
same "red, green, blue"

# Labels beside the net.
grep -q -- '- class 0' log || fail "a class without a label has its number"
printf 'cat\ndog\ntree\n' >reversed/labels.txt
classify reversed
grep -q -- '- "cat"' log || fail "labels.txt"
printf 'Katze\nHund\nBaum\n' >names
classify reversed -labels names
grep -q -- '- "Katze"' log || fail "-labels comes before labels.txt"

# A mean file of another size: its mean colour.
python=$(command -v python3)
"$python" - <<'EOF' || fail "a mean file"
import struct
values = [float(i % 50 + 80 + 10 * (i // 900)) for i in range(3 * 900)]
data = struct.pack("<%df" % len(values), *values)
head = bytes([8, 1, 16, 3, 24, 30, 32, 30, 42]) + bytes([len(data) & 127 | 128, len(data) >> 7])
open("mean.binaryproto", "wb").write(head + data)
open("colour", "w").write(",".join(repr(sum(values[c * 900:c * 900 + 900]) / 900) for c in range(3)))
EOF
classify plain -mean_value "$(cat colour)"
cp scores kept
classify plain -mean_file mean.binaryproto
same "the mean colour"
classify plain -mean_file mean.binaryproto -resize 30
cmp -s scores kept && fail "a mean file of the size before the crop is a mean image"

run classify -model maps/deploy.prototxt -weights w_iter_1.caffemodel "$image"
expect_error "maps" "the output 'maps' has the shape 1 2 20 20" "classify needs one score per class" \
  "extract_features stores"

finish
