#!/bin/bash
# crema convert_model: what it says and writes, and that the models it writes score as before.
. "$(dirname "$0")/lib.sh"

make_mnist
make_net own 'max_iter: 60 random_seed: 1'
sed -i 's/mirror: true/mirror: false/' net.prototxt # so that every test sees the same pictures
run train -solver own.prototxt
expect_ok "training"
model=own_iter_60.caffemodel

accuracy() { sed -n 's/.*] accuracy = \([0-9.]*\).*/\1/p' log | tail -1; }
score() { run test -model net.prototxt -weights "$1" -iterations 10; }

score $model
expect_ok "scoring"
before=$(accuracy)
[ -n "$before" ] || fail "no accuracy"
for type in FLOAT16 BFLOAT16 FLOAT DOUBLE; do
  for format in "" -old_format; do
    # shellcheck disable=SC2086
    run convert_model -to $type $model out.caffemodel $format
    expect_ok "$type $format"
    expect_line "$type $format" 'Wrote out.caffemodel: 4 blobs, 14098 values'
    expect_line "$type $format" '0 values overflowed to infinity, 0 became 0'
    expect_line "$type $format" 'Largest relative error of all other values: [0-9]'
    score out.caffemodel
    expect_ok "scoring $type $format"
    awk -v a="$before" -v b="$(accuracy)" 'BEGIN { exit !(b != "" && a - b < 0.02 && b - a < 0.02) }' ||
      fail "$type $format: accuracy $(accuracy) instead of $before"
  done
done
bytes=$(stat -c %s $model)
"$crema" convert_model -to FLOAT16 $model half.caffemodel >/dev/null 2>&1
[ "$(stat -c %s half.caffemodel)" -lt $((bytes * 55 / 100)) ] || fail "a half model is half as large"
# There and back, and into the file itself: what is rounded already stays.
cp half.caffemodel same.caffemodel
run convert_model -to=FLOAT16 same.caffemodel same.caffemodel
expect_ok "into itself"
expect_line "into itself" 'all other values: 0$'
cmp -s half.caffemodel same.caffemodel || fail "the same file again"
run convert_model -to FLOAT $model float.caffemodel
cmp -s $model float.caffemodel || fail "a float model to FLOAT is the same file"

# refuse WHAT TEXT ARGUMENT...; refuse_usage: with the exit code of an error in the command line.
refuse() {
  refuse_with 1 "$@"
}
refuse_usage() {
  refuse_with 2 "$@"
}
refuse_with() {
  local wanted=$1 what=$2
  shift 2
  run convert_model "${@:2}"
  expect_exit "$wanted" "$what" "$1"
  [ ! -e never ] && [ ! -e never.h5 ] || { fail "$what: leaves a file"; rm -f never*; }
}
refuse_usage "no type" "missing required flag -to WORD" $model never
refuse_usage "a type that does not exist" '-to: expected FLOAT16, BFLOAT16, FLOAT or DOUBLE, found "FLOAT8"' \
  -to FLOAT8 $model never
refuse_usage "integers" 'found "INT"' -to INT $model never
refuse "no such file" "none.caffemodel" -to FLOAT none.caffemodel never
refuse_usage "HDF5" "binary models are written" -to FLOAT $model never.h5
refuse "text" "looks like text" -to FLOAT net.prototxt never
head -c 20000 $model >cut
refuse "a truncated model" "cut: byte" -to FLOAT16 cut never
: >empty
refuse "an empty file" "the file is empty" -to FLOAT16 empty never
refuse "no such folder" "nowhere/never" -to FLOAT $model nowhere/never
refuse_usage "one file" "" -to FLOAT $model
[ -z "$(ls ./*.tmp.* 2>/dev/null)" ] || fail "leaves drafts"

# A net of halves says how often it converts, one of floats nothing.
run time -model net.prototxt -iterations 2
expect_ok "time"
grep -q 'Type conversions' log && fail "a net of floats converts"
{ echo 'default_forward_type: FLOAT16 default_backward_type: FLOAT16'; cat net.prototxt; } >half.prototxt
run time -model half.prototxt -iterations 2
expect_ok "time, half"
expect_line "time, half" 'Type conversions per iteration: [1-9]'
sed -i 's/net.prototxt/half.prototxt/; s/max_iter: 60/max_iter: 1/' own.prototxt
run train -solver own.prototxt -memory_report
expect_ok "memory report"
expect_line "memory report" '^  ip1 +float16/float16 '
expect_line "memory report" '^  tops, shared ones again '
finish
