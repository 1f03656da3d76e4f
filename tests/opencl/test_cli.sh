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

# The memory report: memory is counted.
run train -solver tiny.prototxt -gpu opencl:0 -memory_report
expect_ok "train -memory_report"
number='([1-9][0-9]*\.[0-9]+|0\.[0-9]*[1-9][0-9]*)'
expect_line "report of the device" \
  "^Device 0: $number MB in use, at most $number MB, [0-9.]+ MB pooled, $number MB pinned, $number MB of scratchpad\$"
expect_line "report of fallbacks" '^Device 0: 0 times an op ran on the CPU'
expect_line "report of kernels" '^Device 0: [1-9][0-9]* kernels and library calls were started'
expect_line "report of all devices" "^All devices: $number MB in use, at most $number MB, grown by 128 MiB 0 times\$"
# 24 x 24 x 24 floats of weights.
expect_line "MB of a parameter" '^  ip1, parameter 0 +float/float +[0-9.]+ +0.055 '

# A layer without a kernel runs on the CPU, with one warning for all of its kind.
cat >flip.prototxt <<'NET'
name: "flip"
input: "data" input_shape { dim: 2 dim: 3 dim: 8 dim: 8 }
layer { name: "one" type: "Flip" bottom: "data" top: "one" flip_param { flip_width: true } }
layer { name: "two" type: "Flip" bottom: "one" top: "two" flip_param { flip_height: true } }
NET
run time -model flip.prototxt -iterations 1 -gpu opencl:0
expect_ok "time with layers without a kernel"
[ "$(grep -c 'op flip has no kernel on opencl and runs on the CPU' log)" -eq 1 ] ||
  { fail "not one warning about flip"; cat log; }

run time -model net.prototxt -iterations 1 -gpu opencl:0
expect_ok "time -gpu opencl:0"
grep -q "ran on the CPU" log && fail "ops ran on the CPU"
proved s1_26_s3_01_s4_31_trainings_on_opencl_devices
finish
