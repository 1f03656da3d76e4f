#!/bin/bash
# Tools that are killed leave nothing that looks finished, and the next run removes what they left.
. "$(dirname "$0")/lib.sh"
seed=${CREMA_TEST_SEED:-$RANDOM}
echo "seed $seed (set CREMA_TEST_SEED to repeat)"
RANDOM=$seed
images=$source_dir/data/mnist/t10k-images-idx3-ubyte.gz
labels=$source_dir/data/mnist/t10k-labels-idx1-ubyte.gz

# wait_for PATTERN FILE: until a line matches, as long as the process $pid runs.
wait_for() {
  while kill -0 $pid 2>/dev/null; do
    grep -q -- "$1" "$2" 2>/dev/null && return
    sleep 0.02
  done
  fail "no line '$1' in $2"
  cat "$2"
}

# drafts NAME: how many half-written files of that name there are.
drafts() {
  find . -maxdepth 1 -name "$1.tmp.*" | wc -l
}

# ---- images: killed in front of a picture that never comes ----
mkdir pictures
cp "$source_dir/examples/images/cat.jpg" pictures/one.jpg
printf '%s\n' "one.jpg 1" "slow.jpg 2" >list.txt
for backend in lmdb leveldb; do
  rm -f pictures/slow.jpg
  mkfifo pictures/slow.jpg
  "$crema" convert_imageset -backend $backend -resize_height 8 -resize_width 8 pictures list.txt \
    "set_$backend/" >killed.log 2>&1 &
  pid=$!
  if [ $backend = lmdb ]; then
    wait_for 'Waiting for data from pictures/slow.jpg, which is a pipe' killed.log
  else
    while kill -0 $pid 2>/dev/null && [ "$(drafts set_$backend)" -eq 0 ]; do sleep 0.02; done
  fi
  [ ! -e set_$backend ] || fail "$backend: there is something before it is whole"
  [ "$(drafts set_$backend)" -eq 1 ] || fail "$backend: not written beside its place"
  # One that runs is left alone by others that write the same.
  printf '%s\n' "one.jpg 1" >one.txt
  run convert_imageset -backend $backend -gray pictures one.txt set_$backend
  expect_ok "$backend: beside one that waits"
  [ "$(drafts set_$backend)" -eq 1 ] || fail "$backend: what another still writes was removed"
  rm -r set_$backend
  kill -KILL $pid
  wait $pid 2>/dev/null
  [ ! -e set_$backend ] || fail "$backend: a killed run leaves a database"
  [ "$(drafts set_$backend)" -eq 1 ] || fail "$backend: nothing is left half written"
  rm pictures/slow.jpg
  cp pictures/one.jpg pictures/slow.jpg
  run convert_imageset -backend $backend -resize_height 8 -resize_width 8 pictures list.txt set_$backend
  expect_ok "$backend: after a kill"
  expect_line "$backend: after a kill" "Removed set_$backend\.tmp\..*half written"
  [ "$(drafts set_$backend)" -eq 0 ] || fail "$backend: the killed run's files stay"
  run data_stats set_$backend
  expect_line "$backend: after a kill" '2 records,.* 0 damaged'
done

# ---- digits: killed at any moment ----
killed=0
for round in $(seq 6); do
  backend=lmdb
  [ $((round % 3)) -ne 0 ] || backend=leveldb
  rm -rf digits
  "$crema" convert_mnist -backend $backend "$images" "$labels" digits >killed.log 2>&1 &
  pid=$!
  sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
  kill -KILL $pid 2>/dev/null && killed=$((killed + 1))
  wait $pid 2>/dev/null
  [ -e digits ] || continue
  run data_stats digits
  expect_line "round $round: a database under its name" ' 10000 records,.* 0 damaged'
done
echo "$killed of 6 killed"
rm -rf digits
run convert_mnist "$images" "$labels" digits
expect_ok "after the kills"
[ "$(drafts digits)" -eq 0 ] || fail "the killed runs' files stay"

# ---- features ----
cat >features.prototxt <<'NET'
name: "features"
layer {
  name: "in" type: "Data" top: "data" top: "label"
  data_param { source: "digits" batch_size: 100 backend: LMDB }
}
NET
printf '\242\006\003\012\001x' >none.caffemodel # a layer named x without parameters
for kind in lmdb hdf5; do
  "$crema" extract_features none.caffemodel features.prototxt data features_$kind 1000000 $kind \
    >killed.log 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    size=$(du -sk features_$kind.tmp.* 2>/dev/null | cut -f 1)
    [ "${size:-0}" -lt 1000 ] || break
    sleep 0.02
  done
  kill -KILL $pid
  wait $pid 2>/dev/null
  [ ! -e features_$kind ] || fail "$kind: killed features have their name"
  [ "$(drafts features_$kind)" -eq 1 ] || fail "$kind: features were not being written"
  run extract_features none.caffemodel features.prototxt data features_$kind 1 $kind
  expect_ok "$kind: features after a kill"
  [ "$(drafts features_$kind)" -eq 0 ] || fail "$kind: the killed run's features stay"
done

# ---- what is there stays ----
for backend in lmdb leveldb; do
  mkdir taken
  run convert_mnist -backend $backend "$images" "$labels" taken
  expect_error "$backend: an empty folder of that name" "taken: already exists"
  [ -d taken ] && [ "$(drafts taken)" -eq 0 ] || fail "$backend: the folder was touched"
  rmdir taken
  ln -s nowhere taken
  run convert_mnist -backend $backend "$images" "$labels" taken
  expect_error "$backend: a link that leads nowhere" "taken: already exists"
  [ ! -e nowhere ] || fail "$backend: the link was followed"
  rm taken
done
echo precious >victim
for name in mean.binaryproto net_out.prototxt; do ln -s "$work/victim" "$name.tmp.$$"; done
run compute_image_mean digits mean.binaryproto
expect_ok "a mean beside planted links"
run upgrade_net_proto_text features.prototxt net_out.prototxt
expect_ok "a net beside planted links"
[ "$(cat victim)" = precious ] || fail "a planted link was followed"
run compute_image_mean digits no/such/mean.binaryproto
expect_error "a mean that cannot be written" "no/such/mean.binaryproto"
grep -q Processed log && fail "that the mean cannot be written shows after the work"
finish
