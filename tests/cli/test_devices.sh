#!/usr/bin/env bash
# -gpu in all its forms, CREMA_SIM, the report of memory. Runs where there is no GPU, and with
# CREMA_CUDA_PLUGIN pointing nowhere also where there is one.
. "$(dirname "$0")/lib.sh"
export CREMA_CUDA_PLUGIN=$work/none.so CREMA_OPENCL_PLUGIN=$work/nowhere.so
unset CREMA_OPENCL
unset CREMA_SIM
make_mnist
make_net tiny 'max_iter: 3' 'random_seed: 5'
run train -solver tiny.prototxt
expect_ok "train on the CPU"
mv tiny_iter_3.caffemodel cpu.caffemodel
weights=(-weights cpu.caffemodel)

# Without devices each command says so in one clear sentence.
for flag in 0 0,1 7; do
  run device_query -gpu $flag
  expect_error "device_query -gpu $flag" "no CUDA devices"
done
run device_query -gpu all
expect_ok "device_query -gpu all"
expect_line "device_query -gpu all" '^No GPU\.$'
[ "$(grep -c none.so log)" -le 1 ] || fail "more than one line reports the missing plug-in"
for flag in 0 all; do
  run train -solver tiny.prototxt -gpu $flag
  expect_error "train -gpu $flag" "no CUDA devices" "leave the flag out"
  run test -model net.prototxt "${weights[@]}" -iterations 1 -gpu $flag
  expect_error "test -gpu $flag" "no CUDA devices"
  run time -model net.prototxt -iterations 1 -gpu $flag
  expect_error "time -gpu $flag" "no CUDA devices"
done
for flag in opencl:0 opencl:all; do
  run device_query -gpu opencl:0
  expect_error "device_query -gpu opencl:0" "no OpenCL devices" "nowhere.so"
  run train -solver tiny.prototxt -gpu $flag
  expect_error "train -gpu $flag" "no OpenCL devices" "leave the flag out"
done
for flag in x 1,x -1 , 0,,1 sim 0x opencl opencl: opencl:x; do
  run device_query "-gpu=$flag"
  expect_usage "-gpu $flag" "expected numbers of GPUs" "\"$flag\""
done
run device_query -gpu 3,3
expect_usage "-gpu 3,3" "named twice"
for flag in sim:0 sim:17 sim:devices=99; do
  run train -solver tiny.prototxt -gpu $flag
  expect_usage "$flag" "-gpu $flag"
done

# -math: only CUDA devices compute faster.
run train -solver tiny.prototxt -math fast
expect_ok "train -math fast"
expect_line "train -math fast" 'math fast has no effect on cpu:0'
cmp -s tiny_iter_3.caffemodel cpu.caffemodel || fail "-math fast changes the weights on the CPU"
sed '$a math: FAST' tiny.prototxt >fast.prototxt
run train -solver fast.prototxt
expect_ok "math: FAST"
expect_line "math: FAST" 'math fast has no effect on cpu:0'
run train -solver fast.prototxt -math exact
expect_ok "math: FAST, -math exact"
if grep -q 'math fast' log; then fail "math: FAST, -math exact: the field is followed"; fi
for command in test time; do
  run $command -model net.prototxt "${weights[@]}" -iterations 1 -math fast -gpu sim:1
  expect_ok "$command -math fast"
  expect_line "$command -math fast" 'math fast has no effect on sim:0'
  run $command -model net.prototxt "${weights[@]}" -iterations 1 -math fats
  expect_usage "$command -math fats" '-math: expected exact or fast, found "fats"; did you mean fast'
done

# Simulated devices by the flag and by the environment.
run device_query -gpu sim:4
expect_ok "device_query -gpu sim:4"
[ "$(grep -c '^Device simulated' log)" -eq 4 ] || fail "sim:4 shows other than 4 devices"
expect_line "peers" '^ 3 +yes +yes +yes +yes$'
for text in 4 devices=4; do
  export CREMA_SIM=$text
  run device_query
  expect_ok "device_query, CREMA_SIM=$text"
  [ "$(grep -c '^Device simulated' log)" -eq 4 ] || fail "CREMA_SIM=$text shows other than 4 devices"
  run device_query -gpu 1,3
  expect_ok "device_query -gpu 1,3"
  [ "$(grep '^Device' log | tr '\n' ' ')" = "Device simulated 1 Device simulated 3 " ] ||
    fail "device_query -gpu 1,3 shows others"
  run device_query -gpu 4
  expect_error "device_query -gpu 4" "no device sim:4: there are 4"
done
for flag in 0,1 all; do
  run train -solver tiny.prototxt -gpu $flag
  expect_ok "train -gpu $flag"
  expect_line "train -gpu $flag" 'Using GPUs 0, 1'
  expect_line "train -gpu $flag" 'Exchange: reduce'
  run time -model net.prototxt -iterations 1 -gpu $flag
  expect_ok "time -gpu $flag"
  expect_line "time -gpu $flag" 'Use GPU with device ID 0'
done
run test -model net.prototxt "${weights[@]}" -iterations 1 -gpu 2
expect_ok "test -gpu 2"
expect_line "test -gpu 2" 'Use GPU with device ID 2'
unset CREMA_SIM
CREMA_SIM=nonsense "$crema" device_query >log 2>&1
code=$?
expect_ok "a CREMA_SIM that is not understood"
[ "$(grep -c nonsense log)" -eq 1 ] || fail "not one line reports CREMA_SIM=nonsense"

# Training is the same, bit for bit; nothing warns of a device that was named.
CREMA_SIM=2 "$crema" train -solver tiny.prototxt -gpu 1 -memory_report >log 2>&1
code=$?
expect_ok "train -gpu 1 with CREMA_SIM=2"
expect_line "train -gpu 1" 'Using GPUs 1'
grep -q 'opened by its first' log && fail "a warning about a named device"
cmp -s tiny_iter_3.caffemodel cpu.caffemodel || fail "the simulated device gives other weights"

# The report: each blob with its types, the parameters, the devices.
expect_line "report of blobs" '^  data +float/float +[0-9.]+ +[0-9.]+'
expect_line "report of parameters" '^  ip1, parameter 0 +float/float +[0-9.]+ +[0-9.]+'
expect_line "report of the net for training" '^Memory of net .* \(TRAIN\) in MB'
expect_line "report of the net for testing" '^Memory of net .* \(TEST\) in MB'
for sum in 'tops, all' 'tops, shared ones again' 'bottoms, all' 'parameters, all' 'parameters, shared ones again'; do
  [ "$(grep -c "^  $sum  " log)" -eq 2 ] || fail "the report has no '$sum' for each phase"
done
# 24 x 24 x 24 floats of weights.
expect_line "MB of a parameter" '^  ip1, parameter 0 +float/float +[0-9.]+ +0.055 '
expect_line "report of the device" \
  '^Device 1: [0-9.]+ MB in use, at most [0-9.]+ MB, [0-9.]+ MB pooled, [0-9.]+ MB pinned, [0-9.]+ MB of scratchpad$'
expect_line "report of fallbacks" '^Device 1: 0 times an op ran on the CPU'
expect_line "report of the host" '^Host: [0-9.]+ MB in use in [1-9][0-9]* blocks$'
expect_line "report of all devices" \
  '^All devices: [0-9.]+ MB in use, at most [0-9.]+ MB, grown by 128 MiB 0 times$'

# How device memory is pooled, and where host memory lies, changes no value.
less=0
for pool in none bins cub; do
  CREMA_GPU_POOL=$pool CREMA_NUMA=1 run train -solver tiny.prototxt -gpu sim:1 -memory_report
  expect_ok "CREMA_GPU_POOL=$pool"
  cmp -s tiny_iter_3.caffemodel cpu.caffemodel || fail "CREMA_GPU_POOL=$pool gives other weights"
  # Blocks as they are asked for, of powers of 2, of powers of 8.
  used=$(sed -n 's/^Device 0: \([0-9.]*\) MB in use.*/\1/p' log)
  awk -v a="$used" -v b="$less" 'BEGIN { exit !(a > b) }' ||
    fail "CREMA_GPU_POOL=$pool: $used MB in use, $less MB with the pool before it"
  less=$used
done
CREMA_GPU_POOL=thc run device_query -gpu sim:1
expect_line "CREMA_GPU_POOL=thc" 'CREMA_GPU_POOL=thc: .*one stream'
CREMA_GPU_POOL=heap run train -solver tiny.prototxt -gpu sim:2
expect_error "CREMA_GPU_POOL=heap" "CREMA_GPU_POOL" "heap" "none, bins, cub, thc"

run train -solver tiny.prototxt -gpu sim:1 -memory_report
expect_ok "train -gpu sim:1"
expect_line "report of the first device" '^Device 0: '

# On SIGUSR1 the same in the middle of a run.
make_net long 'max_iter: 1000000'
"$crema" train -solver long.prototxt -gpu sim:1 >log 2>&1 &
pid=$!
for _ in $(seq 100); do
  grep -q "Starting Optimization" log && break
  sleep 0.1
done
kill -USR1 $pid
for _ in $(seq 100); do
  grep -q '^Device 0: ' log && break
  sleep 0.1
done
kill -KILL $pid
wait $pid 2>/dev/null
expect_line "report on SIGUSR1" '^Device 0: [0-9.]+ MB in use'
finish
