#!/bin/sh
# Draws pictures of rectangles and discs and trains a detector (SSD) from scratch: run.sh [flags of crema train]
# TRAIN and TEST are how many pictures to draw.
. "$(dirname "$0")/../common.sh"
for part in train:${TRAIN:-2000}:1 test:${TEST:-300}:2; do
  name=${part%%:*}
  count=${part#*:}
  [ -e "$work/${name}_lmdb" ] && continue
  python3 "$root/examples/shapes/draw_shapes.py" "$work/$name" "${count%:*}" -seed "${part##*:}"
  "$crema" convert_annoset "$work/$name" "$work/$name/boxes.txt" "$work/${name}_lmdb"
done
cd "$work"
cp "$here/train_val.prototxt" "$here/deploy.prototxt" "$here/solver.prototxt" .
exec "$crema" train -solver solver.prototxt "$@"
