#!/bin/sh
# Draws images of rectangles and discs and trains a detector (SSD) from scratch: run.sh [flags of crema train]
# TRAIN and TEST are the numbers of images to draw.
. "$(dirname "$0")/../common.sh"
draw_boxes "${TRAIN:-2000}" "${TEST:-300}"
cd "$work"
cp "$here/train_val.prototxt" "$here/deploy.prototxt" "$here/solver.prototxt" .
exec "$crema" train -solver solver.prototxt "$@"
