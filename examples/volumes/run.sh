#!/bin/sh
# Draws volumes with boxes and balls and trains a 3-D U-Net to label each voxel's shape: run.sh [flags of crema
# train]. TRAIN and TEST are the numbers of volumes to draw.
. "$(dirname "$0")/../common.sh"
for part in train:${TRAIN:-100}:1 test:${TEST:-20}:2; do
  name=${part%%:*}
  count=${part#*:}
  [ -e "$work/$name.txt" ] && continue
  python3 "$here/draw_volumes.py" "$work/$name" "${count%:*}" -seed "${part##*:}"
done
cd "$work"
cp "$here/train_val.prototxt" "$here/deploy.prototxt" "$here/solver.prototxt" .
exec "$crema" train -solver solver.prototxt "$@"
