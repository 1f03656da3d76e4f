#!/bin/bash
# 100 iterations equal 50 and, after a resume, 50 more: weights, history and log, bit for bit.
. "$(dirname "$0")/lib.sh"
make_mnist

# The log of training, without times.
said() {
  sed -e 's/^[^]]*\] //' -e 's/ ([0-9.e+-]* iter.*iters)//' "$1" |
    grep -E '^(Iteration|    T)' | grep -vE "^Iteration $2[,]? loss|Testing net"
}

# resume_equals NAME ENDING SOLVER LINE...
resume_equals() {
  local name=$1 ending=$2
  shift 2
  make_net "$name" 'max_iter: 100 snapshot: 50' "$@"
  run train -solver "$name.prototxt"
  expect_ok "$name: 100 iterations"
  said log 100 >whole
  [ -s "${name}_iter_100.caffemodel$ending" ] || fail "$name: no model after 100 iterations"
  mkdir first
  mv "${name}"_iter_100.* first/
  run train -solver "$name.prototxt" -snapshot "${name}_iter_50.solverstate$ending"
  expect_ok "$name: resumed"
  said log 100 >second
  tail -n "$(wc -l <second)" whole | cmp -s - second || {
    fail "$name: the resumed run logs other numbers"
    diff whole second
  }
  for file in first/*; do
    cmp "$file" "$(basename "$file")" || fail "$name: $file differs after resume"
  done
  rm -rf first "${name}"_iter_*
}

resume_equals sgd "" 'random_seed: 7 momentum: 0.9 weight_decay: 0.001'
resume_equals noseed "" 'momentum: 0.9 average_loss: 7 iter_size: 2'
resume_equals adam "" 'type: "Adam" momentum: 0.9 clip_gradients: 1 random_seed: 3'
resume_equals adadelta "" 'type: "AdaDelta" momentum: 0.95 delta: 1e-6'
resume_equals hdf5 ".h5" 'type: "Nesterov" momentum: 0.9 snapshot_format: HDF5'

# The weights that a solver file names are where training begins unless the flags say otherwise.
make_net begun 'max_iter: 20 random_seed: 1'
run train -solver begun.prototxt
expect_ok "a first training"
mv begun_iter_20.caffemodel begun.caffemodel
make_net fine 'max_iter: 20 random_seed: 2 weights: "begun.caffemodel"'
for flags in "" -resume_auto; do
  run train -solver fine.prototxt $flags
  expect_ok "weights of the solver file, $flags"
  expect_line "weights of the solver file, $flags" 'Finetuning from begun.caffemodel'
  rm -f fine_iter_20.*
done
run train -solver fine.prototxt
mv begun.caffemodel moved.caffemodel
sed -i 's/max_iter: 20/max_iter: 22/' fine.prototxt
for flags in "-snapshot fine_iter_20.solverstate" -resume_auto; do
  rm -f fine_iter_22.*
  run train -solver fine.prototxt $flags
  expect_ok "$flags does not need the weights of the solver file"
  grep -q Finetuning log && fail "$flags loads the weights of the solver file"
done
rm -f fine_iter_*
run train -solver fine.prototxt -weights ' moved.caffemodel '
expect_ok "-weights instead of the weights of the solver file"
[ "$(grep -c Finetuning log)" -eq 1 ] || fail "-weights and the weights of the solver file"
rm -f fine_iter_*
run train -solver fine.prototxt -resume_auto
expect_error "-resume_auto without a snapshot or weights" begun.caffemodel

# A state goes on with its own model wherever the pair is, and with no other.
make_net first 'max_iter: 20 random_seed: 1'
run train -solver first.prototxt
expect_ok "the first run"
mkdir kept
cp first_iter_20.* kept/
make_net first 'max_iter: 20 random_seed: 2'
run train -solver first.prototxt
expect_ok "another run with the same prefix"
make_net more 'max_iter: 25 random_seed: 1'
run train -solver more.prototxt -snapshot kept/first_iter_20.solverstate
expect_ok "a copied pair"
expect_line "a copied pair" 'Restoring the model from kept/first_iter_20.caffemodel'
cp first_iter_20.caffemodel kept/
run train -solver more.prototxt -snapshot kept/first_iter_20.solverstate
expect_error "another run's model" "kept/first_iter_20.solverstate" "expected a file of" \
  "found kept/first_iter_20.caffemodel of"
finish
