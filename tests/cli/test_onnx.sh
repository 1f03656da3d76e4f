#!/usr/bin/env bash
# crema onnx: export and import, and ONNX files as nets of other commands.
. "$(dirname "$0")/lib.sh"
image=$source_dir/examples/images/cat.jpg

cat >net.prototxt <<'NET'
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 5 kernel_size: 8 weight_filler { type: "gaussian" std: 0.001 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "prob" type: "Softmax" bottom: "conv" top: "prob" }
NET

# ---- the command ----
run onnx export -verify net.prototxt net.onnx
expect_ok "export"
expect_line "export" '^Verified: all outputs agree within 0 of the largest value\.$'
run onnx import -verify net.onnx back.prototxt back.caffemodel
expect_ok "import"
expect_line "import" '^Verified: all outputs agree within 0 of the largest value\.$'
run onnx export -verify back.prototxt back.caffemodel again.onnx
expect_ok "export with weights"
# The weights of net.onnx, not random ones, are in again.onnx.
run onnx import again.onnx again.prototxt again.caffemodel
cmp -s back.caffemodel again.caffemodel || fail "export, import, export: other weights"
for opset in 11 12 16 21; do
  run onnx export -verify -opset $opset net.prototxt set.onnx
  expect_ok "operator set $opset"
done
run onnx export -batch 4 net.prototxt batch.onnx
expect_ok "a batch"
run summary batch.onnx
expect_line "a batch" '^prob +Softmax +4x5x1x1 '
run onnx export -batch dynamic net.prototxt dynamic.onnx
expect_ok "a symbolic batch"
run summary dynamic.onnx
expect_line "a symbolic batch is a batch of 1" '^prob +Softmax +1x5x1x1 '
run onnx export -verify -batch dynamic net.prototxt dynamic.onnx
expect_ok "a symbolic batch, verified"

# ---- errors ----
run onnx
expect_usage "no arguments" "too few arguments"
run onnx exprot net.prototxt net.onnx
expect_usage "another word" 'expected export or import, found "exprot"; did you mean export?'
run onnx import net.onnx only.prototxt
expect_usage "no weights" "expected IN.onnx NET WEIGHTS"
run onnx import net.prototxt a b
expect_usage "another ending" "net.prototxt: the name must end in .onnx"
for batch in 0 -3 many 2x; do
  run onnx export -batch=$batch net.prototxt never.onnx
  expect_usage "-batch $batch" "-batch $batch: expected a number above 0, or dynamic"
done
for opset in 10 22; do
  run onnx export -opset $opset net.prototxt never.onnx
  expect_error "-opset $opset" "ONNX operator set $opset; sets 11 to 21 are supported"
done
run onnx import none.onnx never never
expect_error "no file" "none.onnx"
head -c 100 net.onnx >cut.onnx
run onnx import cut.onnx never never
expect_error "a cut file" "cut.onnx"
cp "$image" image.onnx
run onnx import image.onnx never never
expect_error "an image" "image.onnx"
run onnx export net.prototxt nowhere/net.onnx
expect_error "no folder" "nowhere/net.onnx"
cat >filter.prototxt <<'NET'
layer { name: "data" type: "Input" top: "data" top: "keep"
  input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "filter" type: "Filter" bottom: "data" bottom: "keep" top: "kept" }
NET
cp net.onnx kept.onnx
run onnx export filter.prototxt kept.onnx
expect_error "Filter" "1 layer of the net"
grep -q "layer 'filter' (Filter): " log || fail "the layer is not named"
cmp -s net.onnx kept.onnx || fail "a failed export changed the file"
[ ! -e never ] && [ ! -e never.onnx ] || fail "an error left a file"

# ---- a file as the net of other commands ----
run classify -model net.onnx "$image"
expect_ok "classify"
grep -E '^[0-9.]+ - ' log >plain
run classify -model back.prototxt -weights back.caffemodel "$image"
grep -E '^[0-9.]+ - ' log | cmp -s - plain || fail "classify: other classes than the net's"
[ "$(grep -c . plain)" -eq 5 ] || fail "classify prints five classes"
run classify -compiled -model net.onnx "$image"
expect_ok "classify -compiled"
grep -E '^[0-9.]+ - ' log | cmp -s - plain || fail "classify -compiled: other classes"
run classify net.onnx
expect_usage "a net as an image" "net.onnx is a network, not an image; use -model net.onnx"
run benchmark -seconds 0.01 -batch 1 net.onnx
expect_ok "benchmark"
run compile -explain net.onnx
expect_ok "compile"
run summary net.onnx
expect_ok "summary"
expect_line "summary" '^Parameters, learned +965$'
run draw net.onnx net.dot
expect_ok "draw"
grep -q prob net.dot || fail "the drawing has no layer prob"
run test -iterations 1 net.onnx
expect_ok "test"
run test -iterations 1 net.prototxt
expect_usage "test without weights" "test: missing required flag -weights FILE"
echo "$image" >list.txt
run extract_features -images list.txt net.onnx prob features 1 lmdb
expect_ok "extract_features"
run extract_features -images list.txt back.caffemodel back.prototxt prob other 1 lmdb
cmp -s features/data.mdb other/data.mdb || fail "extract_features: other values"
run extract_features -images list.txt -model net.onnx -compiled prob compiled 1 lmdb
expect_ok "extract_features -model"
run calibrate -images list.txt -out net.table net.onnx
expect_ok "calibrate"

finish
