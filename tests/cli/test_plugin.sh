#!/bin/bash
# Layer types in shared objects: named in the prototxt, and by -plugin.
. "$(dirname "$0")/lib.sh"

cp "$(dirname "$crema")/../examples/soft_threshold.so" shrink.so || exit 1
net() {
  cat >net.prototxt <<END
name: 'n'
layer { name: 'in' type: 'DummyData' top: 'x' dummy_data_param {
  shape { dim: 2 } data_filler { type: 'constant' value: 3 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 1 axis: 0 } }
layer { name: 'p' type: '$1' bottom: 'ip' top: 'y' plugin_param { $2 param_str: '1' } }
layer { name: 'sum' type: 'Reduction' bottom: 'y' top: 'z' loss_weight: 1 }
END
  echo "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 2 display: 1
snapshot_after_train: false solver_mode: CPU" >solver.prototxt
}

net Plugin "library: 'shrink.so'"
run time -model net.prototxt -iterations 1
expect_ok "named in the net"
run train -solver solver.prototxt
expect_ok "trained"
mkdir -p sub && mv net.prototxt solver.prototxt shrink.so sub
run train -solver sub/solver.prototxt
expect_ok "found from the net's folder"
mv sub/shrink.so .

net SoftThreshold ""
run time -model net.prototxt -iterations 1
expect_error "not known" "unknown layer type 'SoftThreshold'"
run time -model net.prototxt -iterations 1 -plugin shrink.so
expect_ok "by -plugin"
run train -solver solver.prototxt -plugin ./shrink.so,./shrink.so
expect_ok "twice"
run time -model net.prototxt -plugin other.so
expect_error "no such object" "other.so" "no such file"
run time -model net.prototxt -plugin net.prototxt
expect_error "no object" "net.prototxt"
finish
