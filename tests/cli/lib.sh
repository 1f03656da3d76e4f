# Shared by the tests of the command. Usage: test.sh CREMA SOURCE_DIR
# Each test works in a folder of its own, which is removed at the end.
set -u
crema=$1
source_dir=$2
# Threads that spin would slow down whatever else runs on the machine.
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAIL: $*"
  failures=$((failures + 1))
}

# Runs crema; output in ./log, exit code in $code.
run() {
  "$crema" "$@" >log 2>&1
  code=$?
}

# expect_ok WHAT: the last run succeeded.
expect_ok() {
  [ "$code" -eq 0 ] || { fail "$1: exit code $code"; cat log; }
}

# expect_error WHAT TEXT...: the last run exited with 1 and said each text in one error line.
expect_error() {
  expect_exit 1 "$@"
}

# expect_usage WHAT TEXT...: the same for exit code 2, of an error in the command line.
expect_usage() {
  expect_exit 2 "$@"
}

# expect_exit CODE WHAT TEXT...
expect_exit() {
  local wanted=$1 what=$2 text
  shift 2
  [ "$code" -eq "$wanted" ] || { fail "$what: exit code $code, not $wanted"; cat log; }
  [ "$(grep -c '^crema: error: ' log)" -eq 1 ] || { fail "$what: not one error line"; cat log; }
  for text in "$@"; do
    grep '^crema: error: ' log | grep -qF -- "$text" || {
      fail "$what: the error does not say '$text'"
      cat log
    }
  done
}

# expect_line WHAT PATTERN: the output has such a line.
expect_line() {
  grep -Eq -- "$2" "${3:-log}" || { fail "$1: no line matches '$2'"; cat "${3:-log}"; }
}

make_mnist() {
  "$crema" convert_mnist "$source_dir/data/mnist/t10k-images-idx3-ubyte.gz" \
    "$source_dir/data/mnist/t10k-labels-idx1-ubyte.gz" mnist_lmdb >/dev/null 2>&1 ||
    fail "convert_mnist"
}

# A net of two inner products with dropout on cropped and mirrored digits, and a solver for it.
# make_net NAME [SOLVER LINE...]
make_net() {
  local name=$1
  shift
  cat >net.prototxt <<'NET'
name: "digits"
layer {
  name: "digits" type: "Data" top: "data" top: "label"
  transform_param { scale: 0.00390625 mirror: true crop_size: 24 }
  data_param { source: "mnist_lmdb" batch_size: 16 backend: LMDB }
}
layer {
  name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param { num_output: 24 weight_filler { type: "xavier" } }
}
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "drop1" type: "Dropout" bottom: "ip1" top: "ip1" }
layer {
  name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } }
}
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
layer {
  name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
  include { phase: TEST }
}
NET
  {
    echo 'net: "net.prototxt" base_lr: 0.05 lr_policy: "inv" gamma: 0.01 power: 0.75'
    echo 'display: 10 test_iter: 3 test_interval: 20 solver_mode: CPU'
    echo "snapshot_prefix: \"$name\""
    for line in "$@"; do echo "$line"; done
  } >"$name.prototxt"
}

# proved NAME: unless anything has failed, says that the rows that the name begins with are proved, for
# scripts/conformance.py.
proved() {
  [ "$failures" -ne 0 ] || echo "[       OK ] $1"
}

finish() {
  [ "$failures" -eq 0 ] || { echo "$failures failures"; exit 1; }
  echo "ok"
  exit 0
}
