#!/usr/bin/env bash
# A net as CRF-RNN's: its three matrices are trained, stored and read.
. "$(dirname "$0")/lib.sh"

cat >net.prototxt <<'NET'
name: "crf"
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 2 dim: 3 dim: 12 dim: 14 } shape { dim: 2 dim: 1 dim: 12 dim: 14 }
  data_filler { type: "gaussian" std: 40 } data_filler { type: "constant" value: 1 } } }
layer { name: "score" type: "Convolution" bottom: "data" top: "coarse"
  convolution_param { num_output: 3 kernel_size: 1 weight_filler { type: "gaussian" std: 0.01 } } }
layer { type: 'Split' name: 'splitting'
  bottom: 'coarse' top: 'unary' top: 'Q0'
}
layer {
  name: "inference1" type: "MultiStageMeanfield"
  bottom: "unary" bottom: "Q0" bottom: "data" top: "pred"
  param { lr_mult: 10 } param { lr_mult: 10 } param { lr_mult: 1 }
  multi_stage_meanfield_param {
    num_iterations: 3 compatibility_mode: POTTS threshold: 2
    theta_alpha: 16 theta_beta: 30 theta_gamma: 3
    spatial_filter_weight: 3 bilateral_filter_weight: 5
  }
}
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "pred" bottom: "label" top: "loss"
  loss_param { ignore_label: 255 } }
NET
cat >solver.prototxt <<'SOLVER'
net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" momentum: 0.9 max_iter: 40 display: 10
snapshot_prefix: "crf" random_seed: 3
SOLVER

run summary net.prototxt
expect_ok "the net"
expect_line "three matrices of 3 x 3" '^inference1 +MultiStageMeanfield +2x3x12x14 +27 '

run train -solver solver.prototxt
expect_ok "training"
grep -o 'loss = [-+0-9.e]*' log | awk '{ l[NR] = $3 } END { exit !(NR > 3 && l[NR] < 0.5 * l[1]) }' ||
  { fail "the loss does not fall to half"; cat log; }

run test -model net.prototxt -weights crf_iter_40.caffemodel -iterations 2
expect_ok "the trained weights"

sed -i 's/num_iterations: 3/num_iterations: 0/' net.prototxt
run train -solver solver.prototxt
expect_error "no iteration" "net.prototxt" "inference1" "num_iterations is 0"

finish
