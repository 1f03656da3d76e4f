#!/bin/bash
# Weights that have nothing for some of the net's layers: an error in the commands that use a net, unless
# -allow_missing; a warning in training and timing. No such net may run in silence.
. "$(dirname "$0")/lib.sh"
squeezenet=$source_dir/models/squeezenet_v1.0
cat_image=$source_dir/examples/images/cat.jpg

expect_warning() {
  expect_line "$1" "^W.*layer '$2' \\(InnerProduct\\) gets no weights and keeps its initial values"
}

make_mnist
for format in BINARYPROTO HDF5; do
  make_net own "max_iter: 2 random_seed: 1 snapshot_format: $format"
  run train -solver own.prototxt
  expect_ok "training, $format"
  weights=$(ls own_iter_2.caffemodel*)
  missing=("$weights: holds no parameters for 1 of the net's 2 layers that have some"
    "'ip3' (InnerProduct) (the file has a layer 'ip2'")

  for command in test time; do
    run $command -model net.prototxt -weights "$weights" -iterations 1
    expect_ok "$command with all weights, $format"
    grep -q 'gets no weights' log && fail "$command prints no warning, $format"
  done

  sed -i 's/name: "ip2"/name: "ip3"/' net.prototxt
  run test -model net.prototxt -weights "$weights" -iterations 1
  expect_error "test, $format" "${missing[@]}" "allow_missing"
  run test -model net.prototxt -weights "$weights" -iterations 1 -allow_missing
  expect_ok "test -allow_missing, $format"
  expect_warning "test -allow_missing, $format" ip3
  run extract_features "$weights" net.prototxt ip1 features.h5 1 hdf5
  expect_error "extract_features, $format" "${missing[@]}"
  [ ! -e features.h5 ] || fail "extract_features leaves a file"
  run extract_features "$weights" net.prototxt ip1 features.h5 1 hdf5 -allow_missing
  expect_ok "extract_features -allow_missing, $format"
  expect_warning "extract_features -allow_missing, $format" ip3
  rm -f features.h5
  run time -model net.prototxt -weights "$weights" -iterations 1
  expect_ok "time, $format"
  expect_warning "time, $format" ip3
  run train -solver own.prototxt -weights "$weights"
  expect_ok "fine-tuning, $format"
  expect_warning "fine-tuning, $format" ip3
  [ "$(grep -c 'gets no weights' log)" -eq 1 ] || fail "fine-tuning warns once, $format"

  # A state belongs to a whole model.
  make_net own "max_iter: 4 random_seed: 1 snapshot_format: $format"
  sed -i 's/name: "ip2"/name: "ip4"/' net.prototxt
  run train -solver own.prototxt -snapshot "$(ls own_iter_2.solverstate*)"
  expect_error "resuming, $format" "'ip4' (InnerProduct)" "the file has a layer 'ip3'"
  rm -f own_iter_*
done

# Two files that have one half each; the list is not cut off, however long.
make_net own 'max_iter: 2 random_seed: 1'
cp net.prototxt whole.prototxt
sed 's/name: "ip2"/name: "last"/' whole.prototxt >net.prototxt
run train -solver own.prototxt
mv own_iter_2.caffemodel first
sed 's/name: "ip1"/name: "other"/' whole.prototxt >net.prototxt
run train -solver own.prototxt
mv own_iter_2.caffemodel second
list=first
for i in $(seq 70); do list=$list,first; done
run test -model whole.prototxt -weights "$list,second" -iterations 1
expect_ok "weights in several files"
run test -model whole.prototxt -weights "$list" -iterations 1
expect_error "weights in several files" "first: this file and those before it hold no" "'ip2'"
cp whole.prototxt net.prototxt
run train -solver own.prototxt -weights first,second
expect_ok "fine-tuning from two files"
grep -q 'gets no weights' log && fail "fine-tuning from two files warns"

# Layers that only the test net has.
sed -i 's/^layer { name: "loss"/layer { name: "only" type: "InnerProduct" bottom: "ip1" top: "only" inner_product_param { num_output: 2 } include { phase: TEST } }\n&/' net.prototxt
run train -solver own.prototxt -weights first
expect_ok "a layer of the test net"
expect_warning "a layer of the test net" only
[ "$(grep -c "'ip2' .* gets no weights" log)" -eq 1 ] || fail "warnings of both nets"

# classify
sed 's,name: "conv_final",name: "conv_last",' "$squeezenet/deploy.prototxt" >deploy.prototxt
classify=(classify -model deploy.prototxt -weights "$squeezenet/squeezenet_v1.0.caffemodel")
run "${classify[@]}" "$cat_image"
expect_error "classify" "squeezenet_v1.0.caffemodel: holds no" "1 of the net's 26 layers" \
  "'conv_last' (Convolution)"
grep -q Prediction log && fail "classify without weights predicts"
run "${classify[@]}" -allow_missing "$cat_image"
expect_ok "classify -allow_missing"
expect_line "classify -allow_missing" "^W.*'conv_last'"
finish
