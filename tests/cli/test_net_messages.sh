#!/bin/bash
# Messages about a net name the file, the line and the layer, wherever the net's text stands.
. "$(dirname "$0")/lib.sh"

# A net without layers runs nothing.
: >empty.prototxt
echo 'layer { name: "in" type: "Input" top: "x" include { phase: TEST } }' >tests_only.prototxt
run time -model empty.prototxt
expect_error "timing an empty net" "empty.prototxt: the net has no layers in phase TRAIN"
run time -model tests_only.prototxt
expect_error "timing a net of the other phase" "tests_only.prototxt: the net has no layers in phase TRAIN"
run test -model empty.prototxt -weights nowhere
expect_error "testing an empty net" "empty.prototxt: the net has no layers in phase TEST"

# Upgrades name the file, also the one that a solver file or an upgrading command names.
cat >old.prototxt <<'NET'
input: "x" input_dim: 1 input_dim: 1 input_dim: 1 input_dim: 1
layers { name: "pool" type: POOLING bottom: "x" top: "y" pooling_param { kernel_size: 1 } }
NET
run time -model old.prototxt -iterations 1
expect_line "upgrade by time" 'old.prototxt: upgrading layers of the second format'
expect_line "upgrade by time" 'old.prototxt: upgrading "input" fields to an Input layer'
run upgrade_net_proto_text old.prototxt new.prototxt
expect_ok "upgrade_net_proto_text"
expect_line "upgrade_net_proto_text" 'old.prototxt: upgrading "input" fields'
run upgrade_net_proto_text new.prototxt newer.prototxt
expect_line "upgrade_net_proto_text of today's" "new.prototxt is in today's format already"
echo 'layers { name: "odd" type: 99 }' >odd.prototxt
sed -i 's/type: 99/type: POOLING/; s/$/ layer { name: "other" }/' odd.prototxt
run upgrade_net_proto_text odd.prototxt nothing.prototxt
expect_error "a net of two formats" "odd.prototxt: "
[ "$(grep '^crema: error' log | grep -o odd.prototxt | wc -l)" -eq 1 ] || fail "the file is named once: $(cat log)"

# Errors of nets inside solver files have the line in that file.
solver() {
  echo 'base_lr: 0.1 lr_policy: "fixed" max_iter: 1 solver_type: SGD'
}
{
  solver
  echo 'net_param {'
  echo '  layer { name: "in" type: "Input" top: "x" }'
  echo '  layer { name: "bad" type: "ReLU" bottom: "y" top: "z" }'
  echo '}'
} >inline.prototxt
run train -solver inline.prototxt
expect_error "inline net" "inline.prototxt:4: layer 'bad' (ReLU): bottom 0 'y'"
expect_line "upgrade of a solver" 'inline.prototxt: upgrading solver_type to type: "SGD"'
{
  solver
  echo 'train_net_param { layer { name: "bad" type: "Input" top: "x" } }'
  echo 'test_iter: 1 test_iter: 1 test_interval: 1'
  echo 'test_net_param { layer { name: "bad" type: "Input" top: "x" } }'
  echo 'test_net_param {'
  echo '  input: "old" input_dim: 1 input_dim: 1 input_dim: 1 input_dim: 1'
  echo '  layer { name: "bad" type: "Imput" top: "x" } }'
} >tests.prototxt
run train -solver tests.prototxt
expect_error "inline test net" "test net #1" "tests.prototxt:7: layer 'bad'" "did you mean 'Input'"
expect_line "upgrade of an inline net" 'tests.prototxt: test_net_param 1: upgrading "input" fields'

# Of two layers of one name, the one that is wrong, and the one that it collides with.
cat >twins.prototxt <<'NET'
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 } } }
layer { name: "twin" type: "Sigmoid" bottom: "x" top: "y" include { phase: TRAIN } }

layer { name: "twin" type: "Sigmoid" bottom: "x" top: "y" }
layer {
  type: "TanH" bottom: "y" top: "y" top: "x"
  name: "twin"
}
NET
run time -model twins.prototxt
expect_error "two layers of one name and top" \
  "twins.prototxt:4: layer 'twin' (Sigmoid): top 'y' is already made by layer 'twin' (line 2)"
run time -model twins.prototxt -phase TEST
expect_error "the second of one name" "twins.prototxt:5: layer 'twin' (TanH): takes 1 top"
cat >same.prototxt <<'NET'
layer { name: "data" type: "DummyData" top: "x" top: "y" dummy_data_param { shape { dim: 1 dim: 2 } } }
layer { name: "fc" type: "InnerProduct" bottom: "x" top: "a" inner_product_param { num_output: 2 } }
layer { name: "fc" type: "Sigmoid" bottom: "a" top: "b" }
layer { name: "fc" type: "Scale" bottom: "b" top: "c" }
layer { name: "loss" type: "EuclideanLoss" bottom: "c" bottom: "y" top: "loss" }
NET
{
  solver
  echo 'net: "same.prototxt" snapshot_format: HDF5'
} >same_solver.prototxt
run train -solver same_solver.prototxt
expect_error "two layers of one name in HDF5" \
  "two layers are named 'fc': InnerProduct (line 2), Scale (line 4)"

# Lines are known although a pipe cannot be read again.
mkfifo pipe.prototxt
cat twins.prototxt >pipe.prototxt &
timeout 60 "$crema" time -model pipe.prototxt >log 2>&1
code=$?
expect_error "a net from a pipe" "pipe.prototxt:4: layer 'twin' (Sigmoid): top 'y' is already made"
wait

# Long names do not push the reason out of the message.
long=$(printf 'n%.0s' $(seq 100000))
echo "layer { name: \"$long\" type: \"ReLU\" bottom: \"$long\" top: \"y\" }" >long.prototxt
run time -model long.prototxt
expect_error "a long name" "long.prototxt:1: layer 'nnnn" "is not made by any earlier layer"
finish
