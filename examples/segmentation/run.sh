#!/bin/sh
# Draws images of rectangles and discs and trains a U-Net to label each pixel's shape: run.sh [flags of crema
# train]. TRAIN and TEST are the numbers of images to draw.
. "$(dirname "$0")/../common.sh"
for part in train:${TRAIN:-1000}:1 test:${TEST:-200}:2; do
  name=${part%%:*}
  count=${part#*:}
  [ -e "$work/${name}_maps_lmdb" ] && continue
  python3 "$root/examples/shapes/draw_shapes.py" "$work/$name" "${count%:*}" -seed "${part##*:}"
  "$crema" convert_imageset "$work/$name" "$work/$name/images.txt" "$work/${name}_images_lmdb"
  "$crema" convert_imageset -gray "$work/$name" "$work/$name/maps.txt" "$work/${name}_maps_lmdb"
done
cd "$work"
cp "$here/train_val.prototxt" "$here/deploy.prototxt" "$here/solver.prototxt" .
exec "$crema" train -solver solver.prototxt "$@"
