#!/bin/bash
# HDF5 lies in a module that is opened when a file of its kind is asked for.
. "$(dirname "$0")/lib.sh"

cat >net.prototxt <<'NET'
layer {
  name: "data" type: "DummyData" top: "data"
  dummy_data_param { shape { dim: 2 dim: 3 } data_filler { type: "gaussian" } }
}
layer {
  name: "target" type: "DummyData" top: "target"
  dummy_data_param { shape { dim: 2 dim: 1 } data_filler { type: "constant" value: 1 } }
}
layer {
  name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } }
}
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "target" top: "loss" }
NET
for format in HDF5 BINARYPROTO; do
  cat >"$format.prototxt" <<SOLVER
net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 2 solver_mode: CPU
snapshot_prefix: "$format" snapshot_format: $format
SOLVER
done

ldd "$crema" 2>/dev/null | grep -qi hdf5 && fail "the command is linked against HDF5"

# A bare name found on PATH, from a folder whose neighbours have the module's name.
mkdir -p trap/bin lib trap/lib
for decoy in trap/bin trap/lib; do
  echo "not a module" | tee $decoy/libcrema-hdf5.so >$decoy/libcrema-cuda.so
done
cp ./*.prototxt trap/bin/
path=$(dirname "$crema"):$PATH
(cd trap/bin && PATH=$path crema train -solver HDF5.prototxt) >log 2>&1
code=$?
expect_ok "a command that is found on PATH"
(cd trap/bin && PATH=$path crema device_query -gpu 0) >log 2>&1
grep -q '\.\./lib' log && fail "a plug-in near the working directory was opened"
mv trap/bin/HDF5_iter_2.* .
[ -s HDF5_iter_2.solverstate.h5 ] || fail "no snapshot"

run test -model net.prototxt -weights HDF5_iter_2.caffemodel.h5 -iterations 1
expect_ok "weights in HDF5"
cp HDF5_iter_2.caffemodel.h5 disguised.caffemodel
run test -model net.prototxt -weights disguised.caffemodel -iterations 1
expect_ok "weights in HDF5 by another name"
{ head -c 512 /dev/zero; cat disguised.caffemodel; } >block.caffemodel
run test -model net.prototxt -weights block.caffemodel -iterations 1
expect_ok "weights in HDF5 behind a block of the user's"

# Without the module everything but HDF5 works.
export CREMA_HDF5_MODULE=$work/missing.so
missing=("no HDF5 files: CREMA_HDF5_MODULE: $work/missing.so")
run train -solver BINARYPROTO.prototxt
expect_ok "a run without HDF5"
run test -model net.prototxt -weights BINARYPROTO_iter_2.caffemodel -iterations 1
expect_ok "binary weights without HDF5"
run train -solver HDF5.prototxt
expect_error "snapshots, before training" "snapshot_format: HDF5: ${missing[0]}"
grep -q 'Iteration 0' log && fail "training began without a way to write its snapshot"
run test -model net.prototxt -weights HDF5_iter_2.caffemodel.h5 -iterations 1
expect_error "weights" "HDF5_iter_2.caffemodel.h5: ${missing[0]}"
run train -solver BINARYPROTO.prototxt -snapshot HDF5_iter_2.solverstate.h5
expect_error "resuming" "HDF5_iter_2.solverstate.h5: ${missing[0]}"
echo "HDF5_iter_2.caffemodel.h5" >list.txt
cat >reads.prototxt <<'NET'
layer { name: "in" type: "HDF5Data" top: "data" hdf5_data_param { source: "list.txt" batch_size: 1 } }
NET
run test -model reads.prototxt -weights BINARYPROTO_iter_2.caffemodel -iterations 1
expect_error "HDF5Data" "layer 'in'" "${missing[0]}"
cat >writes.prototxt <<'NET'
layer {
  name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param { shape { dim: 1 dim: 1 } }
}
layer {
  name: "out" type: "HDF5Output" bottom: "data" bottom: "label"
  hdf5_output_param { file_name: "out.h5" }
}
NET
run test -model writes.prototxt -weights BINARYPROTO_iter_2.caffemodel -iterations 1
expect_error "HDF5Output" "layer 'out'" "${missing[0]}"
run extract_features BINARYPROTO_iter_2.caffemodel net.prototxt ip ip.h5 1 hdf5
expect_error "extract_features" "${missing[0]}"

# Where only the loader finds it, and it is broken.
unset CREMA_HDF5_MODULE
mkdir -p alone broken
cp "$(command -v "$crema")" alone/crema
echo "not a module" >broken/libcrema-hdf5.so
LD_LIBRARY_PATH=$work/broken${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} alone/crema test -model net.prototxt \
  -weights HDF5_iter_2.caffemodel.h5 -iterations 1 >log 2>&1
code=$?
expect_error "a broken module" "no HDF5 files: $work/broken/libcrema-hdf5.so: "

# Something else by that name.
export CREMA_HDF5_MODULE=libz.so.1
run test -model net.prototxt -weights HDF5_iter_2.caffemodel.h5 -iterations 1
expect_error "a foreign module" "no HDF5 files: libcrema-hdf5.so is of another version"
finish
