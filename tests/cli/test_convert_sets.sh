#!/bin/bash
# convert_cifar_data and convert_mnist_siamese_data: records as Caffe's tools write them.
. "$(dirname "$0")/lib.sh"
python=$(command -v python3)

# Files of two records: the label, then planes of red, green and blue.
mkdir batches
"$python" - <<'EOF'
for name, first in [("data_batch_%d" % i, 2 * (i - 1)) for i in range(1, 6)] + [("test_batch", 3)]:
    with open("batches/%s.bin" % name, "wb") as file:
        for i in range(2):
            file.write(bytes([(first + i) % 10]) + bytes([200] * 1024 + [100] * 1024 + [first + i] * 1024))
EOF
for kind in lmdb leveldb; do
  run convert_cifar_data batches . $kind
  expect_ok "convert_cifar_data $kind"
  run data_stats cifar10_train_$kind
  expect_ok "statistics of $kind"
  cp log train_$kind
done
grep -q 10 train_lmdb || { fail "10 records"; cat train_lmdb; }
# Red first: the means of the channels.
run compute_image_mean cifar10_test_lmdb
expect_line "red, green, blue" 'mean_value channel \[0\]: 200'
expect_line "red, green, blue" 'mean_value channel \[1\]: 100'
expect_line "red, green, blue" 'mean_value channel \[2\]: 3\.5'
run convert_cifar_data batches . lmdb
expect_error "databases that exist" "cifar10_train_lmdb"
truncate -s 3074 batches/data_batch_3.bin
mkdir damaged missing
run convert_cifar_data batches damaged lmdb
expect_error "a truncated file" "data_batch_3.bin: 3074 bytes are no whole number of records of 3073 bytes"
[ -e damaged/cifar10_train_lmdb ] && fail "a part of a database stays"
printf '\377%3072s' >batches/data_batch_3.bin
run convert_cifar_data batches damaged lmdb
expect_error "a label" "record 0 has label 255"
rm batches/data_batch_3.bin
run convert_cifar_data batches missing lmdb
expect_error "a missing file" "data_batch_3.bin"

images=$source_dir/data/mnist/t10k-images-idx3-ubyte.gz
labels=$source_dir/data/mnist/t10k-labels-idx1-ubyte.gz
run convert_mnist_siamese_data "$images" "$labels" pairs
expect_ok "pairs"
cat >net.prototxt <<'EOF'
layer { name: "d" type: "Data" top: "x" top: "y" data_param { source: "pairs" batch_size: 100 } }
layer { name: "s" type: "Silence" bottom: "x" }
layer { name: "m" type: "Reduction" bottom: "y" top: "same" reduction_param { operation: MEAN } }
EOF
run summary net.prototxt
expect_line "two channels" '100x2x28x28'
run convert_mnist_siamese_data "$images" "$labels" lmdb_pairs -backend lmdb -seed 2
expect_ok "pairs in LMDB"

finish
