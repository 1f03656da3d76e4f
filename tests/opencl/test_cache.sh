#!/usr/bin/env bash
# Compiled OpenCL kernels on disk: they are made once, and a damaged file is made again.
. "$(dirname "$0")/../cli/lib.sh"
export CREMA_OPENCL_CACHE=$work/cache POCL_CACHE_DIR=$work/pocl
cat >net.prototxt <<'NET'
name: "net"
input: "data" input_shape { dim: 2 dim: 3 dim: 8 dim: 8 }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
layer { name: "softmax" type: "Softmax" bottom: "relu" top: "softmax" }
NET
go() { run time -model net.prototxt -iterations 1 -gpu opencl:0; }
go
grep -q "no OpenCL devices" log && exit 77
expect_ok "time -gpu opencl:0"
files=$(ls cache | wc -l)
[ "$files" -ge 2 ] || fail "$files files in the cache"
ls -l --time-style=full-iso cache >before
go
expect_ok "a second run"
ls -l --time-style=full-iso cache >after
cmp -s before after || fail "the second run changed the cache"
# Cut off, of another program, and empty.
for file in cache/*; do truncate -s 100 "$file"; done
go
expect_ok "a run with short files"
ls -l cache | awk '$5 == 100 { exit 1 }' || fail "short files stay"
first=$(ls cache | head -1)
printf 'x' | dd of="cache/$first" bs=1 seek=60 conv=notrunc 2>/dev/null
go
expect_ok "a run with a changed file"
# A folder that cannot be written costs nothing but time.
CREMA_OPENCL_CACHE=/proc/none go
expect_ok "a run without a folder"
# A compiler's complaint names the device and the kernel.
CREMA_OPENCL_OPTIONS="-D cr_relu_fwd_device=1" go
expect_error "a kernel that does not compile" "does not compile" "relu_fwd"
finish
