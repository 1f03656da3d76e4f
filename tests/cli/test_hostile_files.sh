#!/bin/bash
# Every command with every kind of strange file in place of the right one: it ends by itself, without
# a signal, with exit code 1 and an error that names the file.
. "$(dirname "$0")/lib.sh"
export CREMA_MAX_FILE=1M # so that endless files end soon
make_net good 'max_iter: 1 random_seed: 1' 'snapshot_after_train: false'
cp "$source_dir/examples/images/cat.jpg" cat.jpg
# One image of one pixel, and its label.
printf '\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\1x' >small_images
labels=$source_dir/data/mnist/t10k-labels-idx1-ubyte.gz
printf '%s\n' "cat.jpg 1" >list.txt
mkdir mnist_lmdb # stands for one until there is one
CREMA_MAX_FILE=1G "$crema" convert_imageset -gray -resize_height 28 -resize_width 28 . list.txt tiny_lmdb \
  >/dev/null 2>&1 || fail "a small database"
rmdir mnist_lmdb
mv tiny_lmdb mnist_lmdb
"$crema" convert_imageset -backend leveldb -gray -resize_height 28 -resize_width 28 . list.txt tiny_leveldb \
  >/dev/null 2>&1 || fail "a small LevelDB"
"$crema" compute_image_mean mnist_lmdb good.mean >/dev/null 2>&1 || fail "a small mean"
make_net writer 'max_iter: 1 random_seed: 1 test_initialization: false' 'snapshot_format: HDF5'
run train -solver writer.prototxt
expect_ok "a small model"
make_net writer 'max_iter: 1 random_seed: 1 test_initialization: false'
run train -solver writer.prototxt
expect_ok "a small model"
cat >deploy.prototxt <<'NET'
layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 24 dim: 24 } } }
layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1" inner_product_param { num_output: 24 } }
NET

# ---- the strange files ----
mkdir strange
: >strange/empty
mkdir strange/folder
ln -s /dev/zero strange/zero
ln -s nowhere strange/dangling
ln -s loop strange/loop
truncate -s 10T strange/huge 2>/dev/null || truncate -s 1T strange/huge
head -c 100000 /dev/urandom >strange/random
printf 'name: "a\0b"\n' >strange/nul
cp cat.jpg strange/picture
cp writer_iter_1.caffemodel strange/model
cp writer_iter_1.caffemodel.h5 strange/model_h5
cp net.prototxt strange/net
cp good.mean strange/mean
cp -r mnist_lmdb strange/lmdb
cp -r tiny_leveldb strange/leveldb
mkdir strange/lmdb_of_zeroes
truncate -s 1M strange/lmdb_of_zeroes/data.mdb
mkfifo strange/pipe
printf '\211HDF\r\n\032\n' >strange/hdf5_head

# A writer that opens the pipe, writes a few bytes and closes it.
feed() {
  (printf 'na' >strange/pipe) 2>/dev/null &
  feeder=$!
}

# refused WHAT FILE FLAGS...: runs the command, which has to end with one error line that names FILE.
# Only commands of the shell itself: there are hundreds of runs.
refused() {
  local what=$1 file=$2 line errors=0 named=0
  shift 2
  [ "$file" != strange/pipe ] || feed
  timeout -s KILL 60 "$crema" "$@" >log 2>&1 </dev/null
  code=$?
  if [ "$file" = strange/pipe ]; then
    kill "$feeder" 2>/dev/null
    wait "$feeder" 2>/dev/null
  fi
  while IFS= read -r line; do
    case $line in "crema: error: "*) errors=$((errors + 1)) ;; esac
    case $line in "crema: error: "*"$file"*) named=1 ;; esac
  done <log
  if [ $code -ne 1 ] || [ $errors -ne 1 ] || [ $named -ne 1 ]; then
    fail "$what, ${file#strange/}: exit code $code, $errors errors, file named: $named ($*)"
    cat log
  fi
}

# refuse KINDS COMMAND...: @ in the command stands for the strange file. KINDS: the kinds of files that
# are left out, because the command takes them.
refuse() {
  local right=$1 file
  shift
  for file in strange/*; do
    case " $right " in *" ${file#strange/} "*) continue ;; esac
    refused "$1" "$file" "${@//@/$file}"
    [ ! -e out ] || rm -rf out
  done
}

# An empty file is a net, or a solver, without a field.
refuse "" train -solver @
refuse "net empty" test -model @ -weights writer_iter_1.caffemodel -iterations 1
refuse "net empty" time -model @ -iterations 1
refuse "net empty" upgrade_net_proto_text @ out
# Messages in wire format have no mark: some of one kind can be read as another.
refuse "model mean" upgrade_net_proto_binary @ out
refuse "model" convert_model -to FLOAT16 @ out
refuse "empty" upgrade_solver_proto_text @ out
refuse "model model_h5" test -model net.prototxt -weights @ -iterations 1
refuse "" train -solver good.prototxt -snapshot @
refuse "model model_h5" train -solver good.prototxt -weights @
weights="deploy.prototxt -weights writer_iter_1.caffemodel"
# shellcheck disable=SC2086
{
  refuse "mean" classify -model $weights -mean_file @ cat.jpg
  refuse "" classify -model $weights -mean_value 1 -labels @ cat.jpg
  refuse "picture" classify -model $weights -mean_value 1 @
}
refuse "" convert_imageset . @ out
refuse "" convert_mnist @ "$labels" out
refuse "" convert_mnist small_images @ out
refuse "lmdb leveldb" compute_image_mean @ out
refuse "lmdb leveldb" data_stats @
refuse "lmdb" data_stats -backend lmdb @

# ---- the same as inputs that a net names ----
# refuse_source KINDS LAYER: the layer's text with @ for the file.
refuse_source() {
  local right=$1 file
  for file in strange/*; do
    case " $right " in *" ${file#strange/} "*) continue ;; esac
    echo "${2//@/$file}" >source.prototxt
    refused "$2" "$file" time -iterations 1 -model source.prototxt
  done
}
refuse_source "" 'layer { name: "l" type: "ImageData" top: "d" top: "l" image_data_param { source: "@" batch_size: 1 } }'
refuse_source "" 'layer { name: "l" type: "WindowData" top: "d" top: "l" window_data_param { source: "@" batch_size: 1 } transform_param { crop_size: 8 } }'
refuse_source "" 'layer { name: "l" type: "HDF5Data" top: "d" hdf5_data_param { source: "@" batch_size: 1 } }'
refuse_source "lmdb leveldb" 'layer { name: "l" type: "Data" top: "d" top: "l" data_param { source: "@" batch_size: 1 } }'
echo 'layer { name: "l" type: "HDF5Data" top: "d" hdf5_data_param { source: "h5.txt" batch_size: 1 } }' \
  >h5.prototxt
for file in strange/*; do
  [ "$file" != strange/pipe ] || continue # is not opened at all
  echo "$file" >h5.txt
  refused "an HDF5 file" "$file" time -iterations 1 -model h5.prototxt
done
echo strange/pipe >h5.txt
run time -iterations 1 -model h5.prototxt
expect_error "a pipe for an HDF5 file" "strange/pipe: a pipe"

# ---- output that goes nowhere ----
for command in help version "help train" device_query "data_stats mnist_lmdb" \
  "train -solver good.prototxt -memory_report" \
  "classify -model $weights -mean_value 1 -top 1 cat.jpg"; do
  # shellcheck disable=SC2086
  "$crema" $command >/dev/full 2>log
  code=$?
  expect_error "$command >/dev/full" "standard output"
done
# A pipe whose reader has gone.
mkfifo unread
exec 8<>unread 9>unread 8<&-
for command in help "data_stats mnist_lmdb" "train -solver good.prototxt -memory_report"; do
  # shellcheck disable=SC2086
  "$crema" $command >&9 2>log
  code=$?
  expect_error "$command into a closed pipe" "standard output"
done
# The log cannot be written: the result is whole, but warnings of what was left out are lost.
printf '\0\0\10\1\0\0\0\1\7' >small_labels
for lost in /dev/full "&9"; do
  for command in "convert_imageset . list.txt" "convert_mnist small_images small_labels" \
    "extract_features writer_iter_1.caffemodel net.prototxt data"; do
    rm -rf unheard
    last=${command/*extract*/1 lmdb}
    [ "$last" = "1 lmdb" ] || last=
    eval '"$crema" $command unheard $last >/dev/null 2>'"$lost"
    code=$?
    [ $code -eq 1 ] || fail "$command, its log into $lost: exit code $code"
    run data_stats unheard
    expect_line "$command, its log into $lost" ' 0 damaged'
  done
  eval '"$crema" convert_imageset -log_file heard . list.txt heard_lmdb 2>'"$lost" ||
    fail "convert_imageset with a log file, the log into $lost"
  rm -r heard_lmdb
done
exec 9>&-
run time -model deploy.prototxt -iterations 1 -log_file /dev/full
expect_ok "a log that cannot be written"
expect_line "a log that cannot be written" '^W.*log_sink\.c:.*/dev/full: cannot be written'
[ "$(grep -c '/dev/full' log)" -eq 1 ] || { fail "more than one warning about the log"; cat log; }

# ---- a program with more rights than its caller takes neither files nor code from the caller ----
# (The address sanitizer's leak checker cannot look into such a process, nor be told not to.)
if [ "$(id -u)" -eq 0 ] && ! nm "$crema" | grep -q __asan_init && grep -q '^NoNewPrivs:.0' /proc/self/status &&
  ! findmnt -no OPTIONS -T . 2>/dev/null | grep -q nosuid; then
  unset CREMA_MAX_FILE
  module=$(dirname "$crema")/libcrema-hdf5.so
  [ -e "$module" ] || module=$(dirname "$crema")/../lib/libcrema-hdf5.so
  mkdir alone
  cp "$crema" alone/ordinary
  cp "$crema" alone/privileged
  chmod 755 . alone
  chown 65534 alone/privileged
  chmod 4755 alone/privileged
  for kind in ordinary privileged; do
    CREMA_MAX_FILE=1 alone/$kind upgrade_net_proto_text net.prototxt /dev/null >log 2>&1
    code=$?
    if [ $kind = ordinary ]; then expect_error "$kind: a limit of one byte" CREMA_MAX_FILE
    else expect_ok "$kind: a limit of one byte"; fi
    [ -e "$module" ] || continue
    CREMA_HDF5_MODULE=$module alone/$kind test -model net.prototxt -iterations 1 \
      -weights writer_iter_1.caffemodel.h5 >log 2>&1
    code=$?
    if [ $kind = ordinary ]; then expect_ok "$kind: a module"
    else expect_error "$kind: a module" "libcrema-hdf5.so was not found"; fi
  done
fi
finish
