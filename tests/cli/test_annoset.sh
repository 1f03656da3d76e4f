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

# The rows of a database `rows_lmdb`, as above.
expect_rows() {
  sed -i 's/"[a-z]*_lmdb"/"rows_lmdb"/' show.prototxt
  "$crema" train -solver show_solver.prototxt >log 2>&1 || fail "$1: the rows"
  diff <(sed -n 's/.*Train net output #[0-9]*: flat = //p' log | head -n $(($# * 8 - 8))) \
    <(for row in "${@:2}"; do tr ' ' '\n' <<<"$row"; done) || fail "$1: other rows"
}

# PASCAL VOC: names by the map, sides divided by the size in the file.
cat >map.txt <<'MAP'
cat:1:a cat
dog:2:a "dog"
MAP
run create_label_map -include_background -delimiter : map.txt map.prototxt
expect_ok "a label map"
diff map.prototxt - <<'MAP' || fail "another map"
item {
  name: "none_of_the_above"
  label: 0
  display_name: "background"
}
item {
  name: "cat"
  label: 1
  display_name: "a cat"
}
item {
  name: "dog"
  label: 2
  display_name: "a \"dog\""
}
MAP
object() {
  echo "<object><name>$1</name>${6-}<bndbox><ymin>$3</ymin><xmin> $2 </xmin><xmax>$4</xmax><ymax>$5</ymax></bndbox>"
  echo "<part><name>head</name><bndbox><xmin>0</xmin></bndbox></part></object>"
}
{
  echo '<?xml version="1.0"?><annotation><filename>a.png</filename>'
  echo '<size><width>64</width><height>32</height><depth>3</depth></size>'
  object dog 8 8 16 16 '<difficult>1</difficult>'
  object cat 4 5 4 9
  object 'a cat' 0 0 64 32
  echo '</annotation>'
} >one/a.xml
echo "a.png a.xml" >one/list.txt
run convert_annoset -label_type xml -label_map_file map.prototxt -check_label one one/list.txt rows_lmdb
expect_ok "VOC"
# Labels of real data sets have such boxes; the other boxes of the image count.
expect_line "a flat box" 'one/a.xml:5: the box has no area; skipped'
expect_rows "VOC" "0 2 0 0.125 0.25 0.25 0.5 1" "0 1 0 0 0 1 1 0"
voc=(-label_type xml -label_map_file map.prototxt)
while IFS='|' read -r edit text; do
  sed -i.good "$edit" one/a.xml
  run convert_annoset "${voc[@]}" one one/list.txt bad_lmdb
  expect_error "$edit" "one/a.xml:" "one/list.txt:1" "$text"
  mv one/a.xml.good one/a.xml
done <<'LINES'
s/>dog</>dogs</|has no class "dogs"; did you mean "dog"?
s/annotation>/html>/g|expected <annotation>, as in files of PASCAL VOC, found <html>
s/<ymin>8/<yyy>8/|mismatched tag
s/<ymin>8</<ymin>eight</|annotation/object/bndbox/ymin: expected a number, found "eight"
/^<object><name>dog/s/<ymin>.*<xmin>/<xmin>/|the object's box has no ymin
s/<name>dog<.name>//|the object has no name
s/<xmax>16/<xmax>7/|left and top are less than
s/<.annotation>//|XML:
LINES
run convert_annoset -label_type xml one one/list.txt bad_lmdb
expect_error "no map" "give -label_map_file"
printf 'a 1\nb 1\n' >twice.txt
run create_label_map twice.txt twice.prototxt
run convert_annoset -label_type xml -label_map_file twice.prototxt -check_label one one/list.txt bad_lmdb
expect_error "a label of two names" "twice.prototxt: the label 1 appears twice"
: >twice.txt
run create_label_map twice.txt twice.prototxt
expect_error "no class" "twice.txt names no class"
printf 'a 1\nb\n' >twice.txt
run create_label_map twice.txt twice.prototxt
expect_error "other fields" "twice.txt:2: 1 fields, but the first line has 2"

# COCO: one file for all images. The categories get labels in the order of their ids.
rm -r rows_lmdb
cp one/a.png one/b.png
cat >coco.json <<'JSON'
{"info": {"year": 2017, "x": [[1.5e3, -2], {}, null, true, "\u00e9\n"]},
 "annotations": [
  {"id": 7, "image_id": 20, "category_id": 44, "bbox": [8, 16, 16, 16], "iscrowd": 1,
   "segmentation": [[1, 2, 3.5]]},
  {"id": 8, "image_id": 10, "category_id": 3, "bbox": [0, 0, 32, 8.0], "iscrowd": 0},
  {"id": 9, "image_id": 20, "category_id": 3, "bbox": [0, 0, 4, 4], "area": 16}],
 "categories": [{"id": 44, "name": "dog"}, {"id": 3, "name": "cat", "supercategory": "animal"}],
 "images": [{"id": 20, "file_name": "b.png", "width": 32, "height": 32},
  {"id": 10, "file_name": "a.png"}]}
JSON
run convert_annoset -label_type json one coco.json rows_lmdb
expect_ok "COCO"
expect_rows "COCO" "0 2 0 0.25 0.5 0.75 1 1" "0 1 0 0 0 0.125 0.125 0"
run data_stats rows_lmdb
expect_line "COCO" '^Boxes: 3 in 2 records$'
run create_label_map coco.json coco.prototxt
expect_ok "a map of COCO"
expect_line "its names" 'display_name: "dog"' coco.prototxt
rm -r rows_lmdb
sed 's/label: 1/label: 7/' map.prototxt >other.prototxt
run convert_annoset -label_type json -label_map_file other.prototxt one coco.json rows_lmdb
expect_rows "a map" "0 2 0 0.25 0.5 0.75 1 1" "0 7 0 0 0 0.125 0.125 0"
while IFS='|' read -r edit text; do
  sed "$edit" coco.json >bad.json
  run convert_annoset -label_type json one bad.json bad_lmdb
  expect_error "$edit" "bad.json" "$text"
done <<'LINES'
s/"image_id": 10/"image_id": 11/|bad.json:5: no image has the id "11"
s/"category_id": 44/"category_id": 4/|bad.json:3: no category has the id "4"
s/"file_name": "a.png"/"name": "a.png"/|image 2 has no file_name
s/\[8, 16, 16, 16\]/[8, 16, 16]/|bad.json:3: a bbox has four numbers
s/"bbox": \[8/"bbox": ["8"/|bad.json:3: JSON: expected a number
s/"iscrowd": 1,/"iscrowd": 1;/|JSON: expected "," or "}"
$s/}$//|JSON: expected "," or "}", found the end
$s/$/x/|JSON: expected the end
s/u00e9/u00g9/|JSON: expected a character of UTF-16 after
s/\\n"/\\q"/|JSON: expected an escaped character
s/{}/{1}/|JSON: expected a name in quotes
LINES
python3 -c "print('{\"x\": ' + '[' * 1000 + ']' * 1000 + '}')" >bad.json
run convert_annoset -label_type json one bad.json bad_lmdb
expect_error "deep nesting" "fewer nested values"

# One file for each image, with numbers or names of the map.
rm -r rows_lmdb
echo '{"image": {"id": 1, "width": 64, "height": 32}, "annotation": [' \
  '{"bbox": [16, 16, 16, 8], "category_id": 2}, {"bbox": [0, 0, 64, 16], "category_id": "1"}]}' >one/a.json
echo "a.png a.json" >one/list.txt
run convert_annoset -label_type json one one/list.txt rows_lmdb
expect_rows "COCO, one image" "0 2 0 0.25 0.5 0.5 0.75 0" "0 1 0 0 0 1 0.5 0"
sed -i.good 's/"annotation"/"labels"/' one/a.json
run convert_annoset -label_type json one one/list.txt bad_lmdb
expect_error "no annotation" "one/list.txt:1" "one/a.json: expected the member \"annotation\""
mv one/a.json.good one/a.json
sed -i 's/"1"/"cat"/; s/: 2}/: "dog"}/' one/a.json
run convert_annoset -label_type json one one/list.txt bad_lmdb
expect_error "names without a map" "one/a.json:1" "without a label map" "one/list.txt:1"
rm -r rows_lmdb
run convert_annoset -label_type json -label_map_file map.prototxt one one/list.txt rows_lmdb
expect_rows "COCO, names" "0 2 0 0.25 0.5 0.5 0.75 0" "0 1 0 0 0 1 0.5 0"

# YOLO, and boxes that are parts of the image.
echo "a.png a.txt" >one/list.txt
printf '0 0.5 0.25 0.5 0.5\n1 0.25 0.875 0.5 0.25\n' >one/a.txt
rm -r rows_lmdb
run convert_annoset -label_type yolo one one/list.txt rows_lmdb
expect_rows "YOLO" "0 1 0 0.25 0 0.75 0.5 0" "0 2 0 0 0.75 0.5 1 0"
while IFS='|' read -r line text; do
  printf '0 0.5 0.25 0.5 0.5\n%s\n' "$line" >one/two.txt
  echo "a.png two.txt" >two_list.txt
  run convert_annoset -label_type yolo one two_list.txt bad_lmdb
  expect_error "YOLO: $line" "one/two.txt:2" "two_list.txt:1" "$text"
done <<'LINES'
-1 0.5 0.5 0.2 0.2|a class of YOLO is 0 or more; found -1
0 16 8 4 4|are parts of the image, between 0 and 1
0 0.5 nan 0.2 0.2|are parts of the image, between 0 and 1
0 0.5 0.5 0.2|expected a class from 0 on
LINES
printf '0 0.5 0.25 0.5 0.5\n1 0.5 0.5 0 0.2\n' >one/two.txt
rm -r rows_lmdb
run convert_annoset -label_type yolo one two_list.txt rows_lmdb
expect_line "YOLO: a box without area" '^W.*one/two.txt:2: the box has no area; skipped'
expect_rows "YOLO: a box without area" "0 1 0 0.25 0 0.75 0.5 0"
refuse "YOLO's files as text" "one/a.txt:1" "-label_type yolo"
printf '1 0.25 0 0.75 0.5\n' >one/a.txt
refuse "parts of the image" "one/list.txt: the boxes of all images lie between 0 and 1" "-normalised_boxes"
expect_line "parts of the image" '^W.*one/a.txt: all boxes of the image .a.png. lie between 0 and 1'
rm -r rows_lmdb
run convert_annoset -normalised_boxes one one/list.txt rows_lmdb
expect_rows "parts" "0 1 0 0.25 0 0.75 0.5 0"

# Other sizes, colours and types of images, which the boxes follow.
shape() {
  local wanted=$1
  shift
  rm -rf rows_lmdb
  run convert_annoset -normalised_boxes "$@" one one/list.txt rows_lmdb
  expect_ok "$*"
  run data_stats rows_lmdb
  expect_line "$*" "^Shape $wanted: 1\$"
}
shape "1 x 32 x 32" -gray
shape "1 x 16 x 8" -gray -encoded=false -resize_height 16 -resize_width 8
shape "3 x 48 x 48" -min_dim 48
shape "3 x 24 x 24" -min_dim 48 -max_dim 24 -encode_type jpg
expect_line "a JPEG" '1 encoded'
run convert_annoset -max_dim -1 one one/list.txt bad_lmdb
expect_error "a negative side" "-max_dim -1"
run convert_annoset -label_type csv one one/list.txt bad_lmdb
expect_error "another format" "-label_type csv: expected txt, yolo, xml or json"
run convert_annoset -anno_type classification one one/list.txt bad_lmdb
expect_error "no boxes" "convert_imageset"

# The sizes of images, with a second column or without, by name or by id.
printf 'a.png a.xml\n\nb.png\n' >one/list.txt
run get_image_size one one/list.txt sizes.txt
expect_ok "sizes"
diff sizes.txt <(printf 'a 32 32\nb 32 32\n') || fail "other sizes"
printf 'b 12\na 11\n' >ids.txt
run get_image_size -name_id_file ids.txt one one/list.txt sizes.txt
diff sizes.txt <(printf '11 32 32\n12 32 32\n') || fail "other ids"
echo "none.png" >one/list.txt
run get_image_size one one/list.txt sizes.txt
expect_error "no image" "one/none.png" "one/list.txt:1"
finish
