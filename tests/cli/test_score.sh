#!/bin/bash
# test without -iterations, and test_iter 0: each sample counts once, with a short last batch, for every kind of input.
. "$(dirname "$0")/lib.sh"

# 75 images of one pixel: the brightest channel is the predicted class. Class 2 is only in the last samples.
python=$(command -v python3)
"$python" - <<'EOF'
import random
random.seed(3)
right = [0, 0, 0]
count = [0, 0, 0]
with open("list.txt", "w") as names:
    for i in range(75):
        guess = random.randrange(3)
        label = 2 if i >= 66 else random.randrange(2)
        bgr = [200 if c == guess else 10 for c in range(3)]
        with open("%02d.ppm" % i, "wb") as file:
            file.write(b"P6 1 1 255\n" + bytes(bgr[::-1]))
        names.write("%02d.ppm %d\n" % (i, label))
        right[label] += guess == label
        count[label] += 1
with open("truth", "w") as file:
    file.write("%.6g\n" % (sum(right) / 75))
    for c in range(3):
        file.write("%.6g\n" % (right[c] / count[c]))
EOF
"$crema" convert_imageset ./ list.txt lmdb -backend lmdb 2>log || fail "lmdb"
"$crema" convert_imageset ./ list.txt leveldb -backend leveldb 2>log || fail "leveldb"

# make NAME SOURCE_LAYER
make() {
  cat >"$1.prototxt" <<EOF
layer { name: "d" $2 top: "data" top: "label" }
layer { name: "a" type: "Accuracy" bottom: "data" bottom: "label" top: "accuracy" top: "each" }
EOF
}
make lmdb 'type: "Data" data_param { source: "lmdb" backend: LMDB batch_size: 32 }'
make leveldb 'type: "Data" data_param { source: "leveldb" backend: LEVELDB batch_size: 32 }'
make image 'type: "ImageData" image_data_param { source: "list.txt" batch_size: 32 }'
make whole 'type: "ImageData" image_data_param { source: "list.txt" batch_size: 25 }'
make large 'type: "Data" data_param { source: "lmdb" backend: LMDB batch_size: 100 }'
cat >weights.prototxt <<EOF
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 1 dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 1 } }
layer { name: "l" type: "Reduction" bottom: "y" top: "l" loss_weight: 1 }
EOF
echo 'net: "weights.prototxt" base_lr: 0 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "w"' >weights_solver.prototxt
run train -solver weights_solver.prototxt
expect_ok weights
# The nets have no parameters: a layer of the file's name makes the file fit.
for net in lmdb leveldb image whole large; do
  cat weights.prototxt | grep -v Reduction >>$net.prototxt
done

# means: the means of the last run, without the means of y, one number per line.
means() {
  sed -n 's/.*\] \(accuracy\|each\) = //p' log >means
}

for net in lmdb leveldb image whole large; do
  for flags in "" "-iterations all"; do
    run test -model $net.prototxt -weights w_iter_1.caffemodel $flags
    expect_ok "$net $flags"
    expect_line "$net $flags" 'Each of 75 samples is scored once\.'
    means
    cmp -s means truth || { fail "$net $flags: other means"; paste means truth; }
  done
done
grep -q "Running for 1 iterations" log || fail "one batch of more samples than there are"

# HDF5Data: the mean of all values, with batches that do and do not divide the samples.
run extract_features w_iter_1.caffemodel whole.prototxt data data.h5 3 hdf5
expect_ok "an HDF5 file"
echo data.h5 >files
for size in 75 32; do
  cat >hdf5.prototxt <<EOF
layer { name: "d" type: "HDF5Data" top: "data" hdf5_data_param { source: "files" batch_size: $size } }
layer { name: "m" type: "Reduction" bottom: "data" top: "mean" reduction_param { operation: MEAN } }
EOF
  grep -v Reduction weights.prototxt >>hdf5.prototxt
  run test -model hdf5.prototxt -weights w_iter_1.caffemodel
  expect_ok "HDF5Data, $size"
  sed -n 's/.*\] mean = //p' log >mean_$size
done
cmp -s mean_75 mean_32 || { fail "HDF5Data"; paste mean_75 mean_32; }

# AnnotatedData: three images of two boxes each in batches of two; the last one has the rows of one image.
for i in 0 1 2; do
  { echo "P5 16 16 255"; printf '%256s' ''; } >box$i.pgm
  printf '1 1 2 8 9\n2 3 4 10 12\n' >box$i.txt
  echo "box$i.pgm box$i.txt"
done >boxes
run convert_annoset ./ boxes boxes_lmdb
expect_ok "boxes"
cat >boxes.prototxt <<EOF
layer { name: "d" type: "AnnotatedData" top: "pixels" top: "boxes" data_param { source: "boxes_lmdb" batch_size: 2 }
  transform_param { resize_param { height: 8 width: 8 } } annotated_data_param { } }
layer { name: "s" type: "Silence" bottom: "pixels" }
EOF
grep -v Reduction weights.prototxt >>boxes.prototxt
run test -model boxes.prototxt -weights w_iter_1.caffemodel
expect_ok "AnnotatedData"
[ "$(grep -c 'Batch 0, boxes' log)" -eq 32 ] || fail "two images have four rows"
[ "$(grep -c 'Batch 1, boxes' log)" -eq 16 ] || { fail "one image has two rows"; cat log; }

# Numbers of batches: Caffe's arithmetic, and one line if samples count unequally.
run test -model lmdb.prototxt -weights w_iter_1.caffemodel -iterations 2
expect_line "omitted" "a test of 2 batches scores 64 of 75 samples and omits 11"
run test -model lmdb.prototxt -weights w_iter_1.caffemodel -iterations 3
expect_line "repeated" "a test of 3 batches scores 96 samples, but the data has 75"
run test -model whole.prototxt -weights w_iter_1.caffemodel -iterations 3
grep -q "a test of" log && fail "a pass of three batches is exact"
means
cmp -s means truth || { fail "three batches of 25"; paste means truth; }
run test -model lmdb.prototxt -weights w_iter_1.caffemodel -iterations none
expect_usage "no number" '-iterations: expected a number above 0 or all, found "none"'
run test -model weights.prototxt -weights w_iter_1.caffemodel
expect_ok "no end"
expect_line "no end" "no layer reads samples from files: 50 batches are scored"

# test_iter 0, several times in a training.
for net in lmdb leveldb image large; do
  cat >solver.prototxt <<EOF
train_net: "weights.prototxt" test_net: "$net.prototxt" test_iter: 0 test_interval: 1 test_initialization: true
base_lr: 0 lr_policy: "fixed" max_iter: 2 snapshot_after_train: false snapshot_prefix: "s"
EOF
  run train -solver solver.prototxt
  expect_ok "test_iter 0 of $net"
  sed -n 's/.*Test net output #[0-9]*: \(accuracy\|each\) = //p' log >means
  cat truth truth truth | cmp -s means - || { fail "test_iter 0 of $net"; paste means <(cat truth truth truth); }
done
sed -i 's/test_iter: 0/test_iter: 2/' solver.prototxt
sed -i 's/large/lmdb/' solver.prototxt
run train -solver solver.prototxt
expect_line "test_iter 2" "Test net #0: a test of 2 batches scores 64 of 75 samples and omits 11"
sed -i 's/test_iter: 2/test_iter: -1/' solver.prototxt
run train -solver solver.prototxt
expect_error "test_iter -1" "test_iter must not be negative, found -1"
sed -i 's/test_iter: -1/test_iter: 0/; s/lmdb/weights/' solver.prototxt
run train -solver solver.prototxt
expect_error "test_iter 0 without an end" "test_iter: 0 is not possible: no layer reads samples from files"

finish
