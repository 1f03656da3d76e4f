#!/bin/bash
# What train, test and time refuse: one clear message, nothing lost.
. "$(dirname "$0")/lib.sh"
make_mnist

# refuse WHAT SED TEXT...: training with the net changed by sed fails with these texts.
refuse() {
  local what=$1 change=$2
  shift 2
  make_net good 'max_iter: 20 random_seed: 1'
  sed -i "$change" net.prototxt
  run train -solver good.prototxt
  expect_error "$what" "$@"
}

# refuse_solver WHAT SED TEXT...: the same with the solver file changed.
refuse_solver() {
  local what=$1 change=$2
  shift 2
  make_net good 'max_iter: 20 random_seed: 1'
  sed -i "$change" good.prototxt
  run train -solver good.prototxt
  expect_error "$what" "$@"
}

make_net good 'max_iter: 20 random_seed: 1'
run train -solver good.prototxt
expect_ok "the net that the rest of this test spoils"

refuse "syntax error" 's/top: "ip1"$/top "ip1"/' "net.prototxt:8:"
refuse "unknown layer" 's/"InnerProduct"/"InnerProdukt"/' "InnerProdukt'; did you mean 'InnerProduct'?"
refuse "unknown field" 's/num_output: 10/num_outputs: 10/' "num_outputs" "num_output"
refuse "bottom that no layer makes" 's/bottom: "ip2" bottom/bottom: "ipp2" bottom/' "ipp2" "loss" "ip2"
refuse "no database" 's/"mnist_lmdb"/"no_lmdb"/' "no_lmdb"
refuse "label out of range" 's/num_output: 10/num_output: 5/' "label" "loss" "labels start at 0, and the scores have 5 classes"
refuse "crop too large" 's/crop_size: 24/crop_size: 29/' "29" "28"

refuse_solver "no net" 's/net: "net.prototxt"//' "good.prototxt" "net"
refuse_solver "net missing" 's/net.prototxt/nett.prototxt/' "nett.prototxt"
# Caffe's files name each other relative to Caffe's own folder.
mkdir -p caffe/models/digits
make_net good 'max_iter: 20 random_seed: 1'
mv net.prototxt caffe/models/digits/
sed 's|net.prototxt|models/digits/net.prototxt|' good.prototxt >caffe/models/digits/solver.prototxt
run train -solver caffe/models/digits/solver.prototxt
expect_error "a net named from a folder above" "models/digits/net.prototxt: no such file"
expect_line "the folder that it is found from" "models/digits/net.prototxt is not found.* from .*/caffe$"
refuse_solver "two nets" 's/^net:/train_net: "x" net:/' "train_net" "net"
refuse_solver "policy" 's/"inv"/"invv"/' "invv" "inv" "good.prototxt"
refuse_solver "no policy" 's/lr_policy: "inv"//' "lr_policy"
refuse_solver "solver type" 's/^net:/type: "Adamm" net:/' "Adamm" "Adam"
refuse_solver "AdaGrad with momentum" 's/^net:/type: "AdaGrad" momentum: 0.9 net:/' "AdaGrad" "momentum"
refuse_solver "regularization" 's/^net:/regularization_type: "L3" net:/' "L3" "L1" "L2"
refuse_solver "iter_size" 's/^net:/iter_size: 0 net:/' "iter_size"
refuse_solver "average_loss" 's/^net:/average_loss: 0 net:/' "average_loss"
refuse_solver "no step size" 's/"inv"/"step"/' "stepsize"
refuse_solver "no test_interval" 's/test_interval: 20//' "test_interval"
refuse_solver "test_iter -1" 's/test_iter: 3/test_iter: -1/' "test_iter"
refuse_solver "test_state without net" 's/^net:/test_state { } test_state { } net:/' "test_state"
refuse_solver "solver syntax" 's/base_lr: /base_lr: x/' "good.prototxt:1:"
refuse_solver "unwritable folder" 's/"good"/"no\/such\/folder\/good"/' "no/such/folder" "snapshot_prefix"
[ "$(grep -c 'Iteration' log)" -eq 0 ] || fail "training began before the folder was checked"

# A loss that is not a number: the layer is named and nothing is written.
make_net nan 'max_iter: 50 random_seed: 1'
sed -i 's/base_lr: 0.05/base_lr: 1e30/' nan.prototxt
run train -solver nan.prototxt
expect_error "loss not finite" "iteration" "layer 'ip"
ls nan_iter_* >/dev/null 2>&1 && fail "a snapshot of weights that are not finite"
# The same when the step that spoils the weights is the last one before a snapshot.
make_net spoilt 'max_iter: 1 random_seed: 1'
sed -i 's/base_lr: 0.05/base_lr: 1e38/' spoilt.prototxt
sed -i 's/name: "ip2" type/param { lr_mult: 1e10 } &/' net.prototxt
run train -solver spoilt.prototxt
expect_error "weights not finite" "snapshot after 1 iterations" "layer 'ip2' (InnerProduct): param 0" "not finite"
ls spoilt_iter_* >/dev/null 2>&1 && fail "a last snapshot of weights that are not finite"

# Training can be told to go on; even then no snapshot is written.
run train -solver nan.prototxt -on_nan warn
expect_error "continuing with a loss that is not finite" "snapshot after 50 iterations" "not finite"
expect_line "continuing with a loss that is not finite" 'iteration 10: the loss is .*nan'
expect_line "continuing with a loss that is not finite" 'iteration 40: the loss is .*nan'
ls nan_iter_* >/dev/null 2>&1 && fail "a snapshot of weights that are not finite, despite the warning"
run train -solver nan.prototxt -on_nan ignore
expect_usage "-on_nan" "-on_nan" "stop or warn" '"ignore"'

# A disk that is full: the error is clear and the older snapshot stays.
make_net disk 'max_iter: 10 random_seed: 1'
run train -solver disk.prototxt
expect_ok "before the disk is full"
cp disk_iter_10.caffemodel before.caffemodel
( ulimit -f 8; exec "$crema" train -solver disk.prototxt 2>&1 ) | cat >log
code=${PIPESTATUS[0]}
expect_error "full disk" "disk_iter_10" "snapshot after 10 iterations"
cmp disk_iter_10.caffemodel before.caffemodel || fail "the older snapshot is lost"
ls ./*.tmp.* >/dev/null 2>&1 && fail "a full disk leaves a temporary file"
sed -i 's/^net:/snapshot_format: HDF5 net:/' disk.prototxt
run train -solver disk.prototxt
expect_ok "HDF5 before the disk is full"
cp disk_iter_10.caffemodel.h5 before.caffemodel.h5
( ulimit -f 8; exec "$crema" train -solver disk.prototxt 2>&1 ) | cat >log
code=${PIPESTATUS[0]}
expect_error "full disk, HDF5" "disk_iter_10"
cmp disk_iter_10.caffemodel.h5 before.caffemodel.h5 || fail "the older HDF5 snapshot is lost"

# Batches with more samples than an integer can count.
for layer in Data:data ImageData:image_data HDF5Data:hdf5_data WindowData:window_data \
  AnnotatedData:data MemoryData:memory_data; do
  for size in 4000000000 0; do
    echo "layer { name: 'in' type: '${layer%:*}' top: 'data' top: 'label' ${layer#*:}_param {" \
      "batch_size: $size } }" >batch.prototxt
    case $layer in
      MemoryData*) sed -i 's/batch_size/channels: 1 height: 1 width: 1 &/' batch.prototxt ;;
      *) sed -i 's/batch_size/source: "mnist_lmdb" &/' batch.prototxt ;;
    esac
    run time -model batch.prototxt
    wanted="batch_size is required"
    case $layer:$size in *:4000000000) wanted="1 to 2147483647" ;; MemoryData*) wanted="batch_size" ;; esac
    expect_error "$layer, batch_size $size" "layer 'in'" "${layer#*:}_param" "$wanted"
  done
done

# Snapshots and weights that cannot be used.
make_net good 'max_iter: 20 random_seed: 1'
run train -solver good.prototxt -snapshot no.solverstate
expect_error "no snapshot" "no.solverstate"
head -c 100 good_iter_20.solverstate >cut.solverstate
run train -solver good.prototxt -snapshot cut.solverstate
expect_error "truncated snapshot" "cut.solverstate"
run train -solver good.prototxt -snapshot good_iter_20.caffemodel
expect_usage "a model for a snapshot" "good_iter_20.caffemodel holds weights" "-weights good_iter_20.caffemodel"
head -c 1000 good_iter_20.caffemodel >cut.caffemodel
run train -solver good.prototxt -weights cut.caffemodel
expect_error "truncated weights" "cut.caffemodel"
echo "text" >foreign.caffemodel
run train -solver good.prototxt -weights foreign.caffemodel
expect_error "foreign weights" "foreign.caffemodel"
head -c 3000 before.caffemodel.h5 >cut.caffemodel.h5
run train -solver good.prototxt -weights cut.caffemodel.h5
expect_error "truncated HDF5 weights" "cut.caffemodel.h5"
head -c 3000 disk_iter_10.solverstate.h5 >cut.solverstate.h5
run train -solver good.prototxt -snapshot cut.solverstate.h5
expect_error "truncated HDF5 snapshot" "cut.solverstate.h5"
make_net other 'max_iter: 20 random_seed: 1 type: "Adam"'
run train -solver other.prototxt -snapshot good_iter_20.solverstate
expect_error "another rule's snapshot" "4 history blobs" "Adam" "8"
make_net wide 'max_iter: 40 random_seed: 1'
sed -i 's/num_output: 24/num_output: 25/' net.prototxt
run train -solver wide.prototxt -snapshot good_iter_20.solverstate
expect_error "another net's snapshot" "good_iter_20.solverstate" "24" "25"
run train -solver wide.prototxt -weights good_iter_20.caffemodel
expect_error "another net's weights" "ip1" "24" "25"
run test -model net.prototxt -weights no.caffemodel
expect_error "test without weights file" "no.caffemodel"
run time -model no.prototxt
expect_error "time without model file" "no.prototxt"
finish
