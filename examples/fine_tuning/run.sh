#!/bin/sh
# Teaches SqueezeNet to tell your photos apart: run.sh PHOTOS [flags of crema train]
# PHOTOS is a folder with a folder of photos for each class. Every fourth photo is kept back for tests.
# docs/tutorial.md explains each step. ITERATIONS (60) is how long to train.
. "$(dirname "$0")/../common.sh"
[ $# -ge 1 ] && [ -d "$1" ] || { echo "run.sh: usage: run.sh PHOTOS [flags of crema train]" >&2; exit 1; }
photos=$(cd "$1" && pwd)
shift
squeezenet=$root/models/squeezenet_v1.0
cd "$work"
: >all.txt
: >labels.txt
classes=0
for folder in "$photos"/*/; do
  name=$(basename "$folder")
  find "$folder" -type f | sort | sed "s|^$photos/||; s|\$| $classes|" >>all.txt
  echo "$name" >>labels.txt
  classes=$((classes + 1))
done
[ "$classes" -ge 2 ] || { echo "run.sh: $photos: expected a folder for each of two or more classes" >&2; exit 1; }
awk 'NR % 4 != 0' all.txt >train.txt
awk 'NR % 4 == 0' all.txt >val.txt
for part in train val; do
  rm -rf ${part}_lmdb
  "$crema" convert_imageset -resize_height 256 -resize_width 256 -shuffle -seed 1 "$photos" $part.txt ${part}_lmdb
done

data() {
  cat <<LAYER
layer {
  name: "data" type: "Data" top: "data" top: "label" include { phase: $1 }
  transform_param { crop_size: 227 $2 mean_value: 104 mean_value: 117 mean_value: 123 }
  data_param { source: "$3_lmdb" backend: LMDB batch_size: 6 }
}
LAYER
}

# SqueezeNet without its input and its last convolution.
sed '1,2d; /"conv_final"/,$d' "$squeezenet/deploy.prototxt" | sed '$d' >body.prototxt
cat >head.prototxt <<LAYERS
layer {
  name: "conv_mine" type: "Convolution" bottom: "fire9/concat" top: "conv_mine"
  propagate_down: false
  convolution_param { num_output: $classes kernel_size: 1 }
}
layer {
  name: "pool_mine" type: "Pooling" bottom: "conv_mine" top: "scores"
  pooling_param { pool: AVE global_pooling: true }
}
LAYERS
{
  echo 'name: "photos"'
  data TRAIN "mirror: true" train
  data TEST "" val
  cat body.prototxt head.prototxt
  echo 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }'
  echo 'layer { name: "accuracy" type: "Accuracy" bottom: "scores" bottom: "label" top: "accuracy"'
  echo '  include { phase: TEST } }'
} >train.prototxt
{
  echo 'name: "photos"'
  echo 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 227 dim: 227 } } }'
  cat body.prototxt head.prototxt
  echo 'layer { name: "prob" type: "Softmax" bottom: "scores" top: "prob" }'
} >deploy.prototxt
tests=$((($(wc -l <val.txt) + 5) / 6))
cat >solver.prototxt <<SOLVER
net: "train.prototxt"
base_lr: 0.00001
lr_policy: "fixed"
momentum: 0.9
max_iter: ${ITERATIONS:-60}
display: 10
test_iter: $tests
test_interval: ${ITERATIONS:-60}
random_seed: 1
snapshot_prefix: "photos"
SOLVER
exec "$crema" train -solver solver.prototxt -weights "$squeezenet/squeezenet_v1.0.caffemodel" "$@"
