#!/bin/sh
# Fine-tunes SqueezeNet on your photos: run.sh PHOTOS [flags of crema train]
# PHOTOS is a folder with one folder of photos per class. Every fourth photo is kept back for tests.
# docs/tutorial.md explains each step. ITERATIONS (60) is the number of training iterations.
. "$(dirname "$0")/../common.sh"
[ $# -ge 1 ] && [ -d "$1" ] || { echo "run.sh: usage: run.sh PHOTOS [flags of crema train]" >&2; exit 1; }
photos=$(cd "$1" && pwd)
shift
iterations=${ITERATIONS:-60}
cd "$work"
: >all.txt
: >labels.txt
classes=0
for folder in "$photos"/*/; do
  name=$(basename "$folder")
  (cd "$photos" && find "./$name" -type f) | sort | sed "s|^\./||; s|\$| $classes|" >>all.txt
  echo "$name" >>labels.txt
  classes=$((classes + 1))
done
[ "$classes" -ge 2 ] || { echo "run.sh: $photos: expected a folder for each of two or more classes" >&2; exit 1; }
awk 'NR % 4 != 0' all.txt >train.txt
awk 'NR % 4 == 0' all.txt >val.txt
for part in train val; do
  rm -rf ${part}_lmdb
  "$crema" convert_imageset -resize_height 256 -resize_width 256 -shuffle -seed 1 "$photos" $part.txt ${part}_lmdb
done
# The nets have two classes, the solver a schedule for two dozen photos.
for net in train_val deploy; do
  sed "s/num_output: 2 /num_output: $classes /" "$here/$net.prototxt" >$net.prototxt
done
sed "s/^max_iter:.*/max_iter: $iterations/; s/^test_interval:.*/test_interval: $iterations/; s/^display:.*/display: 10/
  s/^test_iter:.*/test_iter: $((($(wc -l <val.txt) + 5) / 6))/" "$here/solver.prototxt" >solver.prototxt
# A link, because -weights separates files by commas, which may also be in the path.
ln -sf "$root/models/squeezenet_v1.0/squeezenet_v1.0.caffemodel" start.caffemodel
exec "$crema" train -solver solver.prototxt -weights start.caffemodel "$@"
