#!/bin/bash
# train -input_report with layers that read files: ImageData, WindowData, HDF5Data.
. "$(dirname "$0")/lib.sh"

for i in 0 1 2; do cp "$source_dir/examples/images/cat.jpg" "$i.jpg"; done
printf '%s\n' "0.jpg 0" "1.jpg 1" "2.jpg 2" >list.txt
cat >windows.txt <<'TEXT'
# 0
0.jpg
3 360 480
2
1 0.9 20 30 119 129
2 0.1 200 100 299 199
TEXT

# A net that writes an HDF5 file, for HDF5Data to read.
cat >write.prototxt <<'NET'
name: "write"
layer {
  name: "in" type: "ImageData" top: "data" top: "label"
  image_data_param { source: "list.txt" batch_size: 3 new_height: 8 new_width: 8 }
}
layer {
  name: "out" type: "HDF5Output" bottom: "data" bottom: "label"
  hdf5_output_param { file_name: "values.h5" }
}
NET
run time -model write.prototxt -iterations 2
[ -s values.h5 ] || { fail "no HDF5 file"; cat log; }
echo values.h5 >h5.txt

# train NAME DATA_LAYER: one iteration after the other, with next to nothing to compute.
train() {
  cat >"$1.prototxt" <<NET
name: "$1"
layer { name: "in" top: "data" top: "label" $2 }
layer {
  name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 }
}
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
NET
  echo "net: '$1.prototxt' base_lr: 1e-6 lr_policy: 'fixed' max_iter: 20 snapshot_prefix: '$1'
    snapshot_after_train: false" >"$1_solver.prototxt"
  run train -input_report -solver "$1_solver.prototxt"
  expect_ok "$1"
}

train image "type: 'ImageData'
  image_data_param { source: 'list.txt' batch_size: 30 new_height: 8 new_width: 8 threads: 1 }"
expect_line "ImageData" '^Input of layer in: [0-9]+ samples in 20 batches, 1 decoding thread$'
expect_line "ImageData" 'samples/s: reader [1-9][0-9]*, decoder [1-9][0-9]*, transformer [1-9][0-9]*'
expect_line "ImageData" 'the input waited [0-9.]+ s \([0-9]+ times\), with all its batches full or in use$'
expect_line "ImageData" 'batches ready \(of 3\)'
# Decoding thirty pictures takes far longer than training on them, with ThreadSanitizer, too, which does
# not slow the decoder down.
slow='Training waited for data for [0-9.]+ % of the time\. The slow stage is the decoder; '
if [ "$(env -u OMP_NUM_THREADS nproc)" -gt 1 ]; then
  expect_line "more threads help" "${slow}image_data_param \{ threads: 2 \}"
fi
processors=$(taskset -cp $$)
processors=${processors##*: }
taskset -c "${processors%%[-,]*}" "$crema" train -input_report -solver image_solver.prototxt >log 2>&1
code=$?
expect_ok "one processor"
expect_line "more threads are of no use" "${slow}it has as many threads as there are processors\.\$"

train window "type: 'WindowData' transform_param { crop_size: 16 }
  window_data_param { source: 'windows.txt' batch_size: 4 bg_threshold: 0.3 }"
expect_line "WindowData" '^Input of layer in: [0-9]+ samples in 20 batches, [1-9] decoding thread'
expect_line "WindowData" 'The slow stage is the decoder\.$'

train hdf5 "type: 'HDF5Data' hdf5_data_param { source: 'h5.txt' batch_size: 3 }"
expect_line "HDF5Data" '^Input of layer in: 60 samples in 20 batches, nothing read ahead'
expect_line "HDF5Data" 'samples/s: reader [1-9]'
expect_line "HDF5Data" 'training waited [0-9.]+ s of [0-9.]+ s'

finish
