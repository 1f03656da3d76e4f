#!/bin/bash
# Slightly wrong numbers and unusual outputs: each is refused, or does exactly what was asked.
. "$(dirname "$0")/lib.sh"
model=$source_dir/models/squeezenet_v1.0
cat_image=$source_dir/examples/images/cat.jpg

# refuse_classify WHAT FLAGS... -- TEXT...
refuse_classify() {
  local what=$1 flags=()
  shift
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  run classify -model "$model/deploy.prototxt" -weights "$model/squeezenet_v1.0.caffemodel" \
    "${flags[@]}" "$cat_image"
  expect_usage "$what" "$@"
}

printf 'one\ntwo\n' >names.txt
run classify -model "$model/deploy.prototxt" -weights "$model/squeezenet_v1.0.caffemodel" -labels names.txt "$cat_image"
expect_error "labels of another net" names.txt "2 classes" 1000
refuse_classify "no classes wanted" -top 0 -- "-top"
refuse_classify "negative side" -resize -7 -- "-resize" "-7"
refuse_classify "too large a side" -resize 1000000000 -- "-resize" "65500"
refuse_classify "scale" -scale nan -- "-scale"

# Numbers in a solver that make no sense.
# refuse_solver WHAT LINE TEXT...
refuse_solver() {
  local what=$1 line=$2
  shift 2
  make_net any 'random_seed: 1' "$line"
  run train -solver any.prototxt
  expect_error "$what" "any.prototxt" "$@"
}
make_mnist
refuse_solver "negative max_iter" 'max_iter: -3' "max_iter" "-3"
refuse_solver "momentum" 'max_iter: 3 momentum: inf' "momentum" "inf"
refuse_solver "weight decay" 'max_iter: 3 weight_decay: nan' "weight_decay" "nan"

# Nothing to train.
make_net any 'max_iter: 3'
: >net.prototxt
run train -solver any.prototxt
expect_error "an empty net" "any.prototxt" "no layers"

# Weights that share no layer with the net are refused, in both formats.
for format in BINARYPROTO HDF5; do
  make_net own "max_iter: 2 random_seed: 1 snapshot_format: $format"
  run train -solver own.prototxt
  expect_ok "training, $format"
  weights=$(ls own_iter_2.caffemodel*)
  run test -model net.prototxt -weights "$weights" -iterations 1
  expect_ok "its own weights, $format"
  sed -i 's/name: "ip/name: "fc/' net.prototxt
  run test -model net.prototxt -weights "$weights" -iterations 1
  expect_error "foreign weights, $format" "$weights" "'fc1'" "matched by name"
  rm -f own_iter_2.*
done

# A pipe or a device is written to, not replaced by a file; a folder stays one.
make_net any 'max_iter: 2'
mkfifo pipe
cat pipe >from_pipe &
run upgrade_net_proto_text net.prototxt pipe
expect_ok "output to a pipe"
wait
[ -p pipe ] || fail "the pipe was replaced"
grep -q '"digits"' from_pipe || fail "nothing came out of the pipe"
mkdir folder
run upgrade_net_proto_text net.prototxt folder
expect_error "output to a folder" "folder"
[ -d folder ] || fail "the folder is gone"
ls folder.tmp.* >/dev/null 2>&1 && fail "a temporary file stays"

finish
