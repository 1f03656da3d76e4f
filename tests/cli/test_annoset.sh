#!/usr/bin/env bash
# convert_annoset: pictures with boxes, as the layer AnnotatedData reads them.
. "$(dirname "$0")/lib.sh"
python3 "$source_dir/examples/shapes/draw_shapes.py" shapes 8 -size 32 || fail "pictures"
for kind in lmdb leveldb; do
  run convert_annoset -backend $kind shapes shapes/boxes.txt shapes_$kind
  expect_ok "$kind"
  run data_stats shapes_$kind
  expect_ok "what is in $kind"
  expect_line "$kind" "^shapes_$kind \\($kind\\): 8 records, [0-9]+ bytes; 8 encoded, 0 damaged$"
  expect_line "$kind" '^Shape 3 x 32 x 32: 8$'
  expect_line "$kind" "^Boxes: $(cat shapes/boxes/*.txt | wc -l) in 8 records$"
  for label in 1 2; do
    expect_line "$kind" "^Label $label: $(grep -c "^$label " <(cat shapes/boxes/*.txt))$"
  done
done

# The rows that a net gets: in groups by class, parts of the picture; what is outside is cut off.
mkdir one
cp shapes/images/00000.png one/a.png
printf '2 8 16 24 32\n1 -4 0 16 8 1\r\n\n2 0 4 8 40\n' >one/a.txt
echo "a.png a.txt" >one/list.txt
run convert_annoset one one/list.txt one_lmdb
expect_ok "one picture"
cat >show.prototxt <<'NET'
layer { name: "in" type: "AnnotatedData" top: "data" top: "label"
  data_param { source: "one_lmdb" batch_size: 1 backend: LMDB } }
layer { name: "mute" type: "Silence" bottom: "data" }
layer { name: "flat" type: "Reshape" bottom: "label" top: "flat" reshape_param { shape { dim: -1 } } }
NET
echo 'net: "show.prototxt" base_lr: 1 lr_policy: "fixed" max_iter: 1 display: 1' >show_solver.prototxt
run train -solver show_solver.prototxt
expect_ok "the rows"
diff <(sed -n 's/.*Train net output #[0-9]*: flat = //p' log | head -n 24) <(printf '%s\n' \
  0 2 0 0.25 0.5 0.75 1 0  0 2 1 0 0.125 0.25 1 0  0 1 0 0 0 0.5 0.25 1) || fail "other rows"

# A box that is all outside the picture is no object in it.
printf '1 1 1 5 5\n1 -9 1 0 5\n1 1 32 5 40\n3 8.5 1e0 9 5\n' >one/a.txt
run convert_annoset one one/list.txt outside_lmdb
expect_ok "boxes outside"
expect_line "the left one" 'one/a.txt:2: the box is outside of the image; skipped'
expect_line "the lower one" 'one/a.txt:3: the box is outside of the image; skipped'
run data_stats outside_lmdb
expect_line "boxes inside" '^Boxes: 2 in 1 records$'

# What is wrong is named with its line.
refuse() {
  run convert_annoset one one/list.txt bad_lmdb
  expect_error "$@"
  [ -e bad_lmdb ] && fail "$1: a database of a failure"
}
echo "a.png" >one/list.txt
refuse "one name" "one/list.txt:1" "the names of an image and of a file with its boxes"
printf '\na.png a.txt c\n' >one/list.txt
refuse "three names" "one/list.txt:2"
: >one/list.txt
refuse "no picture" "one/list.txt names no image"
echo "a.png none.txt" >one/list.txt
refuse "no boxes" "one/none.txt" "one/list.txt:1"
echo "a.txt a.png" >one/list.txt
refuse "no picture" "one/a.txt"
echo "a.png a.txt" >one/list.txt
while IFS='|' read -r line text; do
  printf '1 1 1 5 5\n%s\n' "$line" >one/a.txt
  refuse "$line" "one/a.txt:2" "one/list.txt:1" "$text"
done <<'LINES'
1 2 3 4|expected a label and the box's left
cat 1 2 3 4|expected a label and the box's left
1 1 1 5 5 0 7|expected a label and the box's left
1.5 10 10 50 50|expected a label and the box's left
1 1,1 5 5|expected a label and the box's left
1 1 1 5 5x|expected a label and the box's left
-1 1 1 5 5|a label is 1 or more
0 1 1 5 5|a label is 1 or more
1 5 1 5 9|left and top are less than
1 1 9 5 5|left and top are less than
1 1 1 5 900|far outside of an image of 32 x 32
1 nan 1 5 9|far outside
LINES
run convert_annoset one one/list.txt shapes_lmdb
expect_error "an existing database" "shapes_lmdb" "exists"
finish
