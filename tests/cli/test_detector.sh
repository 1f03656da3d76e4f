#!/usr/bin/env bash
# crema test prints the average precision of a detector's classes.
. "$(dirname "$0")/lib.sh"
python3 "$source_dir/examples/shapes/draw_shapes.py" shapes 2 -size 32 || fail "pictures"
mkdir one
cp shapes/images/0000*.png one
printf '1 0 0 8 8\n2 16 16 32 32\n' >one/a.txt
printf '2 0 0 8 8\n2 16 16 32 32\n' >one/b.txt
printf '00000.png a.txt\n00001.png b.txt\n' >list.txt
"$crema" convert_annoset one list.txt one_lmdb >/dev/null 2>&1 || fail "convert_annoset"
# The detections are the objects; label 1 as class 2, if the factor is 0 and the offset 2.
net() {
  cat <<NET
layer { name: "in" type: "AnnotatedData" top: "data" top: "label"
  data_param { source: "one_lmdb" batch_size: 1 backend: LMDB } }
layer { name: "mute" type: "Silence" bottom: "data" }
layer { name: "slice" type: "Slice" bottom: "label" top: "item" top: "class" top: "score" top: "box" top: "other"
  slice_param { axis: 3 slice_point: 1 slice_point: 2 slice_point: 3 slice_point: 7 } }
layer { name: "class" type: "Power" bottom: "class" top: "found_class" power_param { scale: $1 shift: $2 } }
layer { name: "found" type: "Concat" bottom: "item" bottom: "found_class" bottom: "score" bottom: "box" top: "found"
  concat_param { axis: 3 } }
layer { name: "eval" type: "DetectionEvaluate" bottom: "found" bottom: "label" top: "detection_eval"
  detection_evaluate_param { num_classes: 3 } }
layer { name: "number" type: "DummyData" top: "number" top: "one"
  dummy_data_param { shape { dim: 1 dim: 1 } data_filler { value: 7 } } }
layer { name: "ip" type: "InnerProduct" bottom: "one" top: "ip" inner_product_param { num_output: 1 } }
layer { name: "quiet" type: "Silence" bottom: "ip" bottom: "other" }
NET
}
net 1 0 >net.prototxt
cat >solver.prototxt <<'S'
net: "net.prototxt" base_lr: 0 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "none"
S
run train -solver solver.prototxt
expect_ok "weights"
run test -model net.prototxt -weights none_iter_1.caffemodel -iterations 2
expect_ok "a detector"
expect_line "class 1" 'class1: 1$'
expect_line "class 2" 'class2: 1$'
expect_line "the mean" 'mAP \(Integral\) = 1$'
expect_line "other outputs" '\] number = 7$'
[ "$(grep -c detection_eval log)" -eq 1 ] || fail "lines of detections"
net 0 2 >net.prototxt
# Best first right, wrong, right, right: 3 objects of class 2, and 1 of class 1 that is not found.
for version in 11point:0.420455 Integral:0.402778 MaxIntegral:0.416667; do
  run test -model net.prototxt -weights none_iter_1.caffemodel -iterations 2 -ap_version "${version%:*}"
  expect_ok "$version"
  expect_line "$version: class 1" 'class1: 0$'
  expect_line "$version" "mAP \\(${version%:*}\\) = ${version#*:}\$"
done
run test -model net.prototxt -weights none_iter_1.caffemodel -ap_version 12point
expect_error "another version" "unknown ap_version '12point'; did you mean 11point"
finish
