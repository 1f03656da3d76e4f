#!/bin/bash
# Databases that are truncated, replaced or overwritten while a net is trained from them: an error
# that names the database, a snapshot of what was done, and training goes on once the data are back.
. "$(dirname "$0")/lib.sh"
make_mnist
cp -r mnist_lmdb whole_lmdb
"$crema" convert_mnist -backend leveldb "$source_dir/data/mnist/t10k-images-idx3-ubyte.gz" \
  "$source_dir/data/mnist/t10k-labels-idx1-ubyte.gz" whole_leveldb >/dev/null 2>&1 ||
  fail "convert_mnist"
mkdir list
for i in 1 2 3; do cp "$source_dir/examples/images/cat.jpg" "list/$i.jpg"; echo "$i.jpg $i"; done >list.txt
"$crema" convert_imageset -resize_height 300 -resize_width 300 list/ list.txt other_lmdb >/dev/null 2>&1 ||
  fail "convert_imageset"

# spoil WHAT SHUFFLE COMMAND: trains, spoils the database when training runs, and goes on after that.
spoil() {
  local what=$1 extra=$2 command=$3 pid state
  make_net run 'max_iter: 2000000000 random_seed: 1'
  sed -i "s/backend: LMDB/backend: LMDB $extra/" net.prototxt
  rm -rf mnist_lmdb run_iter_*
  cp -r "${whole:-whole_lmdb}" mnist_lmdb
  timeout 120 "$crema" train -solver run.prototxt >log 2>&1 &
  pid=$!
  while ! grep -q 'Iteration 20' log; do
    kill -0 $pid 2>/dev/null || break
    sleep 0.05
  done
  eval "$command"
  wait $pid
  code=$?
  expect_error "$what" "mnist_lmdb"
  state=$(echo run_iter_*.solverstate)
  [ -f "$state" ] || { fail "$what: no snapshot"; cat log; return; }
  rm -rf mnist_lmdb
  cp -r "${whole:-whole_lmdb}" mnist_lmdb
  iteration=${state#run_iter_}
  iteration=${iteration%.solverstate}
  sed -i "s/max_iter: 2000000000/max_iter: $((iteration + 5))/" run.prototxt
  run train -solver run.prototxt -snapshot "$state"
  expect_ok "$what: going on"
  expect_line "$what: going on" "Optimization Done"
}

spoil "cut to a half" "" 'truncate -s 4000000 mnist_lmdb/data.mdb'
spoil "cut to nothing" "" 'truncate -s 0 mnist_lmdb/data.mdb'
spoil "lock file cut as well" "" 'truncate -s 0 mnist_lmdb/lock.mdb mnist_lmdb/data.mdb'
spoil "another database" "" 'cp other_lmdb/data.mdb mnist_lmdb/data.mdb'
spoil "noise" "" 'head -c 12000000 /dev/urandom >mnist_lmdb/data.mdb'
spoil "cut while it is cached" "shuffle: true" 'truncate -s 4000000 mnist_lmdb/data.mdb'
finish
