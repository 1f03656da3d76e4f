#!/usr/bin/env bash
# The command on OpenCL devices: device_query, training from a database on one device and on two.
. "$(dirname "$0")/../cli/lib.sh"
unset CREMA_SIM
run device_query -gpu opencl:all
grep -q "no OpenCL devices" log && exit 77
expect_ok "device_query -gpu opencl:all"
expect_line "device_query" '^Device opencl 1$'
expect_line "device_query" 'Libraries: +OpenCL .*driver'
run device_query
expect_ok "device_query"
expect_line "device_query without flags" '^Device opencl 0$'
grep -q "No GPU" log && fail "device_query does not count OpenCL devices as GPUs"
run device_query -gpu opencl:99
expect_error "device_query -gpu opencl:99" "no device opencl:99"

make_mnist
make_net tiny 'max_iter: 6' 'random_seed: 5'
# CREMA_OPENCL lets numbers mean OpenCL's devices.
for flag in opencl:0 1; do
  run train -solver tiny.prototxt -gpu $flag
  expect_ok "train -gpu $flag"
done
for exchange in tree reduce; do
  run train -solver tiny.prototxt -gpu opencl:0,1 -exchange $exchange
  expect_ok "train on two devices with $exchange"
  expect_line "train on two devices" "Using GPUs 0, 1"
done
run time -model net.prototxt -iterations 1 -gpu opencl:0
expect_ok "time -gpu opencl:0"
grep -q "ran on the CPU" log && fail "ops ran on the CPU"
finish
