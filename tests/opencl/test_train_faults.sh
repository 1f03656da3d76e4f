#!/usr/bin/env bash
# Trainings on OpenCL devices that fail, over faulty_opencl.c: each ends with exit code 1 and one error
# that names the device and the cause; none hangs.
. "$(dirname "$0")/../cli/lib.sh"
unset CREMA_SIM
run device_query -gpu opencl:all
grep -q "no OpenCL devices" log && exit 77
device=$(sed -n 's/^  Name: *//p' log | head -1)
[ -n "$device" ] || { fail "device_query has no name"; cat log; }
make_mnist
make_net tiny 'max_iter: 40' 'random_seed: 5'

# Kills a training that takes more than two minutes: it prints no error, so the check of its message fails.
train() {
  timeout -s KILL 120 "$crema" train -solver tiny.prototxt "$@" >log 2>&1
  code=$?
}

train -gpu opencl:0
expect_ok "train -gpu opencl:0"

# The device disappears: at the first kernel, in the first test, in the middle of training, and while
# batches are copied.
for kernels in 0 10 100 400; do
  FAULTY_OPENCL_KERNELS=$kernels train -gpu opencl:0
  expect_error "a device that disappears after $kernels kernels" "$device" "OpenCL error"
  for exchange in tree reduce; do
    FAULTY_OPENCL_KERNELS=$kernels train -gpu opencl:0,1 -exchange $exchange
    expect_error "two devices that disappear after $kernels kernels, $exchange" "$device" "OpenCL error"
  done
done
for writes in 0 1 30; do
  FAULTY_OPENCL_WRITES=$writes train -gpu opencl:0
  expect_error "a device that takes $writes copies" "$device" "not available"
done

# Too little memory: for the first blob, for the net, for the updates.
for room in 1 20000 200000; do
  FAULTY_OPENCL_ROOM=$room train -gpu opencl:0
  expect_error "$room bytes of device memory" "$device" "no memory for"
done

# A kernel that does not compile, on one device and on two.
for gpu in 0 0,1; do
  CREMA_OPENCL_CACHE=$work/cache CREMA_OPENCL_OPTIONS="-D cr_update_device=1" train -gpu opencl:$gpu
  expect_error "a kernel that does not compile, -gpu opencl:$gpu" "$device" "does not compile"
done
proved s0_06_s3_31_faults_end_trainings
finish
