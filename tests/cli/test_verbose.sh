#!/usr/bin/env bash
# What runs: CREMA_VERBOSE, time -ops, -dump_blobs.
. "$(dirname "$0")/lib.sh"

cat >net.prototxt <<'NET'
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 8 dim: 9 dim: 9 } } }
layer { name: "a/conv,1" type: "Convolution" bottom: "data" top: "a/conv"
  convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "a/conv" top: "a/conv" }
layer { name: "ip" type: "InnerProduct" bottom: "a/conv" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "Reduction" bottom: "ip" top: "loss" loss_weight: 1 }
NET
fields() { grep "crema_verbose,$1," log; }

# ---- CREMA_VERBOSE ----
run time -model net.prototxt -iterations 1
expect_ok "not verbose"
grep -q crema_verbose log && fail "verbose lines without CREMA_VERBOSE"

CREMA_VERBOSE=1 run time -model net.prototxt -iterations 2 -nolog_prefix
expect_ok "CREMA_VERBOSE=1"
expect_line "versions" '^crema_verbose,info,crema [0-9.]+,oneDNN [0-9.]+,[^,]+,threads [0-9]+$'
expect_line "the names of the fields" \
  '^crema_verbose,fields,run,layer,pass,op,kernel,device,in,out,conversions,threads,launches,prepare_us,queue_us,run_us$'
expect_line "a run" \
  '^crema_verbose,run,a/conv;1,forward,conv_fwd,[a-z0-9_]+,cpu:0,float[^,]*:2x8x9x9 [^,]+,float[^,]*:2x16x7x7,[0-9]+,[0-9]+,0,[0-9.]+,[0-9.]+,[0-9.]+$'
expect_line "backward" '^crema_verbose,run,ip,backward,ip_bwd_data,'
names=$(grep '^crema_verbose,fields,run,' log | head -1 | tr -cd , | wc -c)
fields run | while read -r line; do
  [ $(($(echo "$line" | tr -cd , | wc -c) + 1)) -eq "$names" ] || echo "$line"
done | grep . && fail "lines of another number of fields than the head has"
[ "$(grep -c '^crema_verbose,info' log)" -eq 1 ] || fail "the head is not printed once"
grep -q '^crema_verbose,\(declined\|copy\|state\|planned\)' log && fail "lines of level 2 at level 1"

CREMA_VERBOSE=2 run time -model net.prototxt -iterations 1 -nolog_prefix -gpu sim:1
expect_ok "CREMA_VERBOSE=2"
expect_line "a kernel that is chosen" '^crema_verbose,planned,ip,ip_fwd,[a-z0-9_]+,sim:0,[0-9]+$'
expect_line "a kernel that declines" '^crema_verbose,declined,[^,]+,[a-z0-9_]+,[a-z0-9_]+,sim:0,.+'
expect_line "a copy" '^crema_verbose,copy,ip\[0\],[0-9]+,host,sim:0,[0-9.]+$'
expect_line "a transition" '^crema_verbose,state,ip\[0\],[0-9]+,HEAD_AT_CPU,SYNCED$'
expect_line "a gradient" '^crema_verbose,state,ip\[0\]\.diff,[0-9]+,UNINITIALIZED,HEAD_AT_GPU$'
expect_line "an op on the device" '^crema_verbose,run,ip,forward,ip_fwd,[a-z0-9_]+,sim:0,'

# A compiled net runs from a list of commands otherwise; verbose, each pass shows its ops.
CREMA_VERBOSE=1 run benchmark -threads 1 -batch 1 -seconds 0.05 -nolog_prefix net.prototxt
expect_ok "compiled"
[ "$(fields run | grep -c ',forward,ip_fwd,')" -ge 5 ] || fail "passes of a compiled net are not shown"

CREMA_VERBOSE=loud run time -model net.prototxt -iterations 1
expect_ok "a value that is not known"
expect_line "a value that is not known" '^W.*CREMA_VERBOSE=loud: expected 0, 1 or 2'
CREMA_VERBOSE=1 run time -model net.prototxt -iterations 1 -minloglevel 1
grep -q crema_verbose log && fail "lines in spite of -minloglevel 1"

# ---- time -ops ----
for device in "" "-gpu sim:1"; do
  run time -model net.prototxt -iterations 3 -ops -nolog_prefix $device
  expect_ok "-ops $device"
  more=${device:+ +launches +queue us}
  expect_line "-ops $device" "^  op +kernel +calls +total ms +share +mean us +conversions$more$"
  more=${device:+ +0 +[0-9.]+}
  expect_line "-ops $device" "^  conv_fwd +[a-z0-9_]+ +3 +[0-9.]+ +[0-9.]+% +[0-9.]+ +[0-9]+$more$"
  expect_line "-ops $device" '^  ip_bwd_weights +[a-z0-9_]+ +3 '
  expect_line "-ops $device" '^All ops: [0-9.]+ ms, and [0-9.]+ ms for the memory of their arguments$'
  sed -n '/^  op /,/^All ops/p' log | grep '%' | awk '{ print $4 }' >times
  sort -rn times | cmp -s - times || fail "-ops $device: the rows are not sorted by time"
  shares=$(sed -n 's/.* \([0-9.]*\)% .*/\1/p' log | awk '{ sum += $1 } END { print (sum > 99 && sum < 101) }')
  [ "$shares" = 1 ] || fail "-ops $device: the shares do not add up"
done
run time -model net.prototxt -iterations 3 -ops -compiled -nolog_prefix
expect_ok "-ops -compiled"
expect_line "-ops -compiled" '^  ip_fwd +[a-z0-9_]+ +3 '

# ---- -dump_blobs ----
run time -model net.prototxt -iterations 1 -dump_blobs out
expect_ok "-dump_blobs"
[ -s out/blobs.h5 ] || fail "no file was written"
cat >ip.prototxt <<'NET'
layer { name: "ip" type: "InnerProduct" bottom: "a/conv" top: "ip" inner_product_param { num_output: 4 } }
NET
run run_layer ip.prototxt -input out/blobs.h5
expect_ok "a dump as input"
expect_line "a dump as input" '^bottom  a/conv +2x16x7x7 +min 0 '
if command -v h5dump >/dev/null; then
  h5dump -n out/blobs.h5 >names
  for name in /blobs/a/conv/data /blobs/a/conv/diff /blobs/loss/data /params/ip/0/data /params/ip/1/diff; do
    grep -q "dataset *$name\$" names || fail "there is no $name"
  done
fi
run time -model net.prototxt -iterations 1 -dump_blobs out/again/deep
expect_error "a folder in none" "out/again/deep: cannot make the folder"
: >file
run time -model net.prototxt -iterations 1 -dump_blobs file
expect_error "a file instead of the folder" "file/blobs.h5"
run time -model net.prototxt -iterations 1 -compiled -dump_blobs compiled
expect_ok "-dump_blobs -compiled"
[ -s compiled/blobs.h5 ] || fail "-compiled: no file was written"
cat >solver.prototxt <<'NET'
net: "learn.prototxt" base_lr: 0.1 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "learned"
NET
sed 's/type: "Input"/type: "DummyData"/; s/input_param/dummy_data_param/' net.prototxt >learn.prototxt
run train -solver solver.prototxt
expect_ok "training"
run test -model learn.prototxt -weights learned_iter_1.caffemodel -iterations 2 -dump_blobs tested
expect_ok "test -dump_blobs"
[ "$(grep -c 'Wrote .* blobs to tested/blobs.h5' log)" -eq 1 ] || fail "not one pass is written"
run run_layer ip.prototxt -input tested/blobs.h5 -dump_blobs layer
expect_ok "run_layer -dump_blobs"
[ -s layer/blobs.h5 ] || fail "run_layer: no file was written"
cat >clash.prototxt <<'NET'
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 } } }
layer { name: "relu" type: "ReLU" bottom: "x" top: "x/data" }
NET
run time -model clash.prototxt -iterations 1 -dump_blobs clash
expect_error "names that clash" "clash/blobs.h5" "/blobs/x/data/data"
[ -e clash/blobs.h5 ] && fail "half a file was left behind"

finish
