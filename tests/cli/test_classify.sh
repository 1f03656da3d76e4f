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
open("nan.binaryproto", "wb").write(head + struct.pack("<f", float("nan")) * len(values))
open("colour", "w").write(",".join(repr(sum(values[c * 900:c * 900 + 900]) / 900) for c in range(3)))
EOF
classify plain -mean_value "$(cat colour)"
cp scores kept
classify plain -mean_file mean.binaryproto
same "the mean colour"
classify plain -mean_file mean.binaryproto -resize 30
cmp -s scores kept && fail "a mean file of the size before the crop is a mean image"

run classify -model plain/deploy.prototxt -weights w_iter_1.caffemodel -mean_file nan.binaryproto "$image"
expect_ok "a mean of NaN"
expect_line "a mean of NaN" '^W.*the score of class 0 is NaN; is there a NaN in the weights or the mean'

# A fault of the files beside a net is an error that names the file, not other scores.
make_deploy bad 'transform_param { mean_file: "none.binaryproto" }' ""
run classify -model bad/deploy.prototxt -weights w_iter_1.caffemodel "$image"
expect_error "a missing mean file" "layer 'data' (Input)" "transform_param: mean_file: " "none.binaryproto"
echo "no mean" >bad/none.binaryproto
run classify -model bad/deploy.prototxt -weights w_iter_1.caffemodel "$image"
expect_error "a wrong mean file" "layer 'data' (Input)" "bad/none.binaryproto"
make_deploy bad 'transform_param { crop_size: 19 }' ""
run classify -model bad/deploy.prototxt -weights w_iter_1.caffemodel "$image"
expect_error "a wrong crop" "bad/deploy.prototxt:1: layer 'data' (Input)" "a crop of 19 x 19 for an input"
printf 'cat\ndog\n' >own/labels.txt
run classify -model own/deploy.prototxt -weights w_iter_1.caffemodel "$image"
expect_error "two labels" "own/labels.txt: names 2 classes, but the net has 3"
rm own/labels.txt
mkdir own/labels.txt
run classify -model own/deploy.prototxt -weights w_iter_1.caffemodel "$image"
expect_error "unreadable labels" "labels: " "own/labels.txt"
rmdir own/labels.txt

# Grey, alpha and 16 bits: the same colours give the same scores.
"$python" - <<'END' || fail "images"
import struct, zlib
def part(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, depth, kind, values, alpha):
    pixel = lambda x: [8 * x * (257 if depth == 16 else 1)] * values + [9] * alpha
    row = b"\0" + b"".join(struct.pack(">%d%s" % (values + alpha, "BH"[depth == 16]), *pixel(x)) for x in range(30))
    head = struct.pack(">IIBBBBB", 30, 30, depth, kind, 0, 0, 0)
    open(name + ".png", "wb").write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) +
                                    part(b"IDAT", zlib.compress(row * 30)) + part(b"IEND", b""))
png("gray", 8, 0, 1, 0)
png("gray16", 16, 0, 1, 0)
png("alpha", 8, 4, 1, 1)
png("color", 8, 2, 3, 0)
png("color16", 16, 2, 3, 0)
png("rgba", 8, 6, 3, 1)
END
for name in gray gray16 alpha color color16 rgba; do
  run classify -model own/deploy.prototxt -weights w_iter_1.caffemodel $name.png
  expect_ok "$name.png"
  grep -E '^-?[0-9.]+ - ' log >scores
  [ $name = gray ] && cp scores kept
  same "$name.png"
done

# Features of images, with the same preprocessing.
printf '%s\n\n%s\n' "$image" gray.png >images.txt
run extract_features -images images.txt w_iter_1.caffemodel own/deploy.prototxt fc features 10 lmdb
expect_ok "features of images"
grep -q "a guess" log && fail "features: the net says all"
run data_stats features
expect_ok "features"
grep -q "records *2" log || grep -q "2 records" log || { fail "features: one item per image"; cat log; }
run extract_features -images images.txt w_iter_1.caffemodel plain/deploy.prototxt fc guessed_features 1 lmdb
expect_ok "features with a guess"
grep -q "so the values are a guess" log || fail "features: a guess without a word"
: >empty.txt
run extract_features -images empty.txt w_iter_1.caffemodel own/deploy.prototxt fc none 1 lmdb
expect_error "an empty list" "empty.txt: -images names no file"
run extract_features w_iter_1.caffemodel own/deploy.prototxt fc zeros 1 lmdb
expect_ok "features of zeros"
grep -q "nothing fills the input 'data'" log || fail "features of zeros without a word"

run test -model own/deploy.prototxt -weights w_iter_1.caffemodel -iterations 1
expect_ok "a test of zeros"
grep -q "nothing fills the input 'data', which is 0; crema classify" log || fail "a test of zeros without a word"

run classify -model maps/deploy.prototxt -weights w_iter_1.caffemodel "$image"
expect_error "maps" "the output 'maps' has the shape 1 2 20 20" "classify needs one score per class" \
  "extract_features stores"

finish
