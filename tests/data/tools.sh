#!/bin/bash
# The data tools: convert_mnist, convert_imageset, compute_image_mean, extract_features, classify.
. "$(dirname "$0")/../cli/lib.sh"

cat_image=$source_dir/examples/images/cat.jpg
model=$source_dir/models/squeezenet_v1.0

# ---- convert_mnist ----
make_mnist
run compute_image_mean mnist_lmdb mnist.mean
expect_ok "mean of MNIST"
expect_line "mean of MNIST" 'Processed 10000 files\.'
expect_line "mean of MNIST" 'mean_value channel \[0\]: 33\.79' # of the test images
[ -s mnist.mean ] || fail "no mean file"
run data_stats mnist_lmdb
expect_ok "what is in MNIST"
expect_line "what is in MNIST" 'mnist_lmdb \(lmdb\): 10000 records, 7950000 bytes; 0 encoded, 0 damaged'
expect_line "what is in MNIST" 'Shape 1 x 28 x 28: 10000'
expect_line "what is in MNIST" 'Mean of channel 0: 33\.79'
expect_line "what is in MNIST" 'Label 1: 1135'
run data_stats nowhere
expect_error "no database" "nowhere"
images=$source_dir/data/mnist/t10k-images-idx3-ubyte.gz
labels=$source_dir/data/mnist/t10k-labels-idx1-ubyte.gz
run convert_mnist "$images" "$labels" mnist_lmdb
expect_error "existing database" "mnist_lmdb" "exists"
run compute_image_mean mnist_lmdb
expect_ok "the existing database is still whole"
run convert_mnist "$labels" "$images" other_lmdb
expect_error "files the wrong way round" "t10k-labels" "images"
head -c 300000 "$images" >cut.gz
run convert_mnist cut.gz "$labels" cut_lmdb
expect_error "truncated file" "cut.gz" "truncated"
[ ! -e cut_lmdb ] || fail "a half-written database was left"
gunzip -c "$images" >plain
run convert_mnist plain "$labels" plain_lmdb
expect_ok "plain file"
cmp -s mnist_lmdb/data.mdb plain_lmdb/data.mdb || fail "plain and packed files differ"
# The file must have exactly the size that its header says.
gunzip -c "$labels" >plain_labels
# refuse_idx WHAT IMAGES LABELS TEXT...
refuse_idx() {
  local what=$1 image_file=$2 label_file=$3
  shift 3
  run convert_mnist "$image_file" "$label_file" odd_lmdb
  expect_error "$what" "$@"
  ls -d odd_lmdb* >/dev/null 2>&1 && fail "$what: something was left"
}
cp plain odd
printf 'more' >>odd
refuse_idx "trailing bytes" odd "$labels" "odd: too long: 10000 images of 28 x 28" 7840016 7840020
gzip -k odd
refuse_idx "packed trailing bytes" odd.gz "$labels" "odd.gz: too long" 7840020
cp "$images" odd.gz
printf 'more' >>odd.gz
refuse_idx "bytes behind the packed ones" odd.gz "$labels" "odd.gz: 4 bytes follow"
cp plain_labels odd_labels
printf '\7' >>odd_labels
refuse_idx "a label too many" plain odd_labels "odd_labels: too long: 10000 labels" 10008 10009
head -c 10007 plain_labels >odd_labels
refuse_idx "a label too few" plain odd_labels "odd_labels: truncated" 10007
printf '\0\0\10\3\377\377\377\377\0\0\20\0\0\0\20\0' >odd
refuse_idx "a header of 72 petabytes" odd plain_labels "odd: truncated: 4294967295 images" 72057594021150736
printf '\0\0\10\3\0\0\0\1' >odd
refuse_idx "half a header" odd plain_labels "odd: truncated"
head -c 2000000 /dev/zero | gzip >bomb.gz
export CREMA_MAX_FILE=1M
refuse_idx "a file that unpacks to much more" bomb.gz plain_labels "bomb.gz" "CREMA_MAX_FILE" 1048576
unset CREMA_MAX_FILE
# Concatenated gzip files.
{ head -c 5000000 plain | gzip -1; tail -c +5000001 plain | gzip -1; } >joined.gz
run convert_mnist joined.gz <(cat plain_labels) joined_lmdb
expect_ok "two packed pieces, and a pipe"
cmp -s mnist_lmdb/data.mdb joined_lmdb/data.mdb || fail "a file in two packed pieces differs"

# ---- convert_imageset ----
mkdir -p "pictures/a folder"
cp "$cat_image" "pictures/a folder/one.jpg"
cp "$cat_image" pictures/two.jpg
printf '%s\n' "a folder/one.jpg 3" "two.jpg -4" >list.txt
for how in "" "-encoded" "-encode_type png"; do
  rm -rf set_lmdb
  # shellcheck disable=SC2086
  run convert_imageset $how pictures list.txt set_lmdb
  expect_ok "convert_imageset $how"
  expect_line "convert_imageset $how" 'Processed 2 files\.'
  run compute_image_mean set_lmdb set.mean
  expect_ok "mean of $how"
  # Raw pixels, the original file and a lossless copy decode to the same mean image.
  [ -e first.mean ] || cp set.mean first.mean
  cmp -s first.mean set.mean || fail "the mean image with '$how' differs"
done
rm -rf set_lmdb
run convert_imageset -encoded pictures list.txt set_lmdb
[ "$(grep -c 'a folder/one.jpg' set_lmdb/data.mdb)" -ge 1 ] || fail "no key with the file's name"
# The same as a LevelDB; its records are in the order of their keys too.
run convert_imageset -backend leveldb pictures list.txt set_leveldb
expect_ok "convert_imageset to LevelDB"
run compute_image_mean set_leveldb set.mean
expect_ok "mean of the LevelDB"
cmp -s first.mean set.mean || fail "the mean image of the LevelDB differs"
# A BMP of 2 x 2 pixels becomes a PNG of the same pixels.
printf '%b' 'BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x2\0\0\0\x2\0\0\0\x1\0\x18\0\0\0\0\0\x10\0\0\0' \
  '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x1\x2\x3\x4\x5\x6\0\0\x7\x8\x9\xa\xb\xc\0\0' >pictures/four.bmp
echo "four.bmp 1" >bmp.txt
for how in "" "-encoded"; do
  rm -rf bmp_lmdb
  # shellcheck disable=SC2086
  run convert_imageset $how pictures bmp.txt bmp_lmdb
  expect_ok "convert_imageset $how of a BMP"
  run compute_image_mean bmp_lmdb "bmp$how.mean"
  expect_ok "mean of the BMP with '$how'"
done
cmp -s bmp.mean bmp-encoded.mean || fail "the mean image of an encoded BMP differs"
rm -rf gray_lmdb
run convert_imageset -gray -resize_height 20 -resize_width 30 -shuffle -seed 5 pictures list.txt gray_lmdb
expect_ok "gray, resized, shuffled"
run compute_image_mean gray_lmdb
expect_line "gray" 'Number of channels: 1'

refuse() {
  local what=$1
  shift
  local wanted=$1
  shift
  rm -rf bad_lmdb
  run convert_imageset "$@" bad_lmdb
  expect_error "$what" $wanted
  [ ! -e bad_lmdb ] || fail "$what: a half-written database was left"
}
printf '%s\n' "two.jpg 1" "nothing.jpg 2" >missing.txt
refuse "missing file" "missing.txt:2 nothing.jpg" pictures missing.txt
run convert_imageset -skip_corrupt pictures missing.txt skip_lmdb
expect_ok "missing file, skipped"
expect_line "missing file, skipped" 'nothing\.jpg.*skipped'
expect_line "missing file, skipped" 'Processed 1 files'
head -c 20000 "$cat_image" >pictures/cut.jpg
printf '%s\n' "two.jpg 1" "cut.jpg 2" >cut.txt
refuse "truncated JPEG" "cut.txt:2 cut.jpg JPEG" pictures cut.txt
refuse "truncated JPEG, encoded" "cut.txt:2 cut.jpg JPEG" -encoded pictures cut.txt
rm -rf bad_lmdb
run convert_imageset -backend leveldb pictures cut.txt bad_lmdb
expect_error "truncated JPEG, LevelDB" "cut.txt:2"
[ ! -e bad_lmdb ] || fail "a half-written LevelDB was left"
printf '%s\n' "two.jpg one" >label.txt
refuse "label that is no number" "label.txt:1" pictures label.txt
printf '\n' >empty.txt
refuse "empty list" "empty.txt" pictures empty.txt
refuse "no list" "nolist.txt" pictures nolist.txt
refuse "unknown encoding" "gif" -encode_type gif pictures list.txt
refuse "half a size" "-resize_width" -resize_height 20 pictures list.txt
run convert_imageset pictures list.txt no/such/folder
expect_error "unwritable place" "no/such/folder"
run convert_imageset -backend sqlite pictures list.txt bad_lmdb
expect_usage "unknown kind of database" '-backend: expected lmdb or leveldb, found "sqlite"'

# ---- a damaged record in the middle ----
for name in one two three; do cp "$cat_image" "pictures/$name.jpg"; done
printf '%s\n' "one.jpg 0" "two.jpg 1" "three.jpg 2" >three.txt
run convert_imageset -encoded pictures three.txt damaged_lmdb
expect_ok "encoded images"
# Zeroes over the beginning of the second file.
at=$(grep -abo JFIF damaged_lmdb/data.mdb | sed -n 2p | cut -d: -f1)
head -c 6 /dev/zero | dd of=damaged_lmdb/data.mdb bs=1 seek=$((at - 6)) conv=notrunc 2>/dev/null
run data_stats damaged_lmdb
expect_error "data_stats of damage" "damaged_lmdb: 1 of 3 records are damaged"
expect_line "data_stats of damage" '^Damaged record .*two\.jpg'
expect_line "data_stats of damage" '3 records, .* 2 encoded, 1 damaged'
run compute_image_mean damaged_lmdb damaged.mean
expect_error "mean of damage" "damaged_lmdb: record '00000001_two.jpg'"
[ ! -e damaged.mean ] || fail "a mean of damage was written"
run compute_image_mean -skip_corrupt damaged_lmdb damaged.mean
expect_ok "mean around damage"
expect_line "mean around damage" "^W.*record '00000001_two\.jpg'.*skipped"
expect_line "mean around damage" 'Processed 2 files\.'
expect_line "mean around damage" '^W.*1 damaged records are not in the mean'
cmp -s damaged.mean first.mean || fail "the mean of two equal images is not one of them"
cat >damaged.prototxt <<'NET'
name: "damaged"
layer {
  name: "in" type: "Data" top: "data" top: "label"
  data_param { source: "damaged_lmdb" batch_size: 2 backend: LMDB }
  transform_param { crop_size: 32 }
}
layer {
  name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 }
}
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
NET
echo 'net: "damaged.prototxt" base_lr: 0.001 lr_policy: "fixed" max_iter: 3 snapshot_prefix: "damaged"' \
  >damaged_solver.prototxt
run train -solver damaged_solver.prototxt
expect_error "damaged record" "layer 'in'" "record '00000001_two.jpg'" "damaged_lmdb"
run train -skip_corrupt -input_report -solver damaged_solver.prototxt
expect_ok "damaged record, skipped"
expect_line "input report" '^Input of layer in: [0-9]+ samples in 3 batches, [0-9]+ decoding thread'
expect_line "input report" 'samples/s: reader [0-9]+, decoder [1-9][0-9]*, transformer [1-9][0-9]*'
expect_line "damaged record, skipped" "00000001_two\.jpg.*skipped"

# ---- extract_features ----
cat >features.prototxt <<'NET'
name: "features"
layer {
  name: "in" type: "Data" top: "data" top: "label"
  data_param { source: "mnist_lmdb" batch_size: 100 backend: LMDB }
}
layer {
  name: "pool" type: "Pooling" bottom: "data" top: "pool"
  pooling_param { pool: AVE kernel_size: 28 stride: 28 }
}
NET
printf '\242\006\003\012\001x' >none.caffemodel # a layer named x without parameters
run extract_features none.caffemodel features.prototxt data,pool data_lmdb,pool_lmdb 100 lmdb
expect_ok "extract_features"
run compute_image_mean data_lmdb features.mean
expect_ok "mean of features"
cmp -s mnist.mean features.mean || fail "the features of the data blob are not the data"
run compute_image_mean pool_lmdb
expect_line "mean of pooled features" 'mean_value channel \[0\]: 33\.79'
run extract_features none.caffemodel features.prototxt pool pool.h5 2 hdf5
expect_ok "extract_features to HDF5"
[ -s pool.h5 ] || fail "no HDF5 file"
run extract_features none.caffemodel features.prototxt pool pool.h5 2 hdf5
expect_error "an output that exists" "pool.h5: already exists"
rm -f full.h5
(ulimit -f 8; exec "$crema" extract_features none.caffemodel features.prototxt data full.h5 40 hdf5) \
  >log 2>&1
code=$?
expect_error "features on a full disk" "full.h5: cannot write"
[ ! -e full.h5 ] || fail "a full disk leaves half of the features"
# Last words as Caffe's tool takes them.
run extract_features none.caffemodel features.prototxt pool cpu_lmdb 100 lmdb CPU
expect_ok "extract_features CPU"
for words in GPU "GPU 1" "gpu DEVICE_ID=1"; do
  rm -rf gpu_lmdb
  CREMA_SIM=2 run extract_features none.caffemodel features.prototxt pool gpu_lmdb 100 lmdb $words
  expect_ok "extract_features $words"
  expect_line "extract_features $words" "Use GPU with device ID $(echo "$words" | tr -dc 1 | grep . || echo 0)"
  cmp -s cpu_lmdb/data.mdb gpu_lmdb/data.mdb || fail "$words gives other features than CPU"
done
run extract_features none.caffemodel features.prototxt pool other_lmdb 2 lmdb TPU
expect_usage "a device of another kind" "CPU or GPU" '"TPU"'
CREMA_CUDA_PLUGIN=$work/none.so run extract_features none.caffemodel features.prototxt pool other_lmdb 2 lmdb GPU 0
expect_error "a GPU that is not there" "no CUDA devices"
[ ! -e other_lmdb ] || fail "features without a device leave a database"
run extract_features none.caffemodel features.prototxt poll poll_lmdb 2 lmdb
expect_error "unknown blob" "poll" "pool"
run extract_features none.caffemodel features.prototxt pool,data only_lmdb 2 lmdb
expect_error "too few outputs" "only_lmdb"

# ---- classify ----
run classify -model "$model/deploy.prototxt" -weights "$model/squeezenet_v1.0.caffemodel" \
  -labels "$model/labels.txt" -mean_value 104,117,123 -resize 256 -top 3 "$cat_image"
expect_ok "classify"
expect_line "classify" '^0\.[0-9]+ - "n02124075 Egyptian cat"'
[ "$(grep -c ' - "n' log)" -eq 3 ] || fail "not three classes"
(cd "$source_dir" && "$crema" classify examples/images/cat.jpg) >bundled 2>&1 ||
  fail "classify with the bundled model"
expect_line "bundled model" '^0\.[0-9]+ - "n02124075 Egyptian cat"' bundled
cp cut.txt notes.jpg
run classify -model "$model/deploy.prototxt" -weights "$model/squeezenet_v1.0.caffemodel" notes.jpg
expect_error "no image" "notes.jpg" "JPEG"
run classify -model "$model/deploy.prototxt" "$cat_image"
expect_usage "no weights" "-weights"
run classify -model features.prototxt -weights none.caffemodel "$cat_image"
expect_error "net without input" "features.prototxt" "Input"

finish
