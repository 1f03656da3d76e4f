#!/bin/sh
# Trains a net on CIFAR-10: run.sh quick|full|resnet20 DATA [flags of crema train]
# DATA is cifar-10-binary.tar.gz, or a folder of images of 32 x 32 pixels with the lists train.txt and test.txt.
# The channels have the order blue, green, red, as convert_imageset writes them. Weights from Caffe's databases of
# CIFAR-10 need red, green, blue, which `crema convert_cifar_data` writes.
. "$(dirname "$0")/../common.sh"
if [ $# -lt 2 ] || [ ! -e "$2" ]; then
  echo "run.sh: usage: run.sh quick|full|resnet20 DATA [flags of crema train]; DATA: cifar-10-binary.tar.gz of" \
    "https://www.cs.toronto.edu/~kriz/cifar.html, or a folder with train.txt and test.txt" >&2
  exit 1
fi
model=models/cifar10_$1
data=$2
shift 2
[ -d "$root/$model" ] || { echo "run.sh: expected quick, full or resnet20" >&2; exit 1; }
set_of=examples/cifar10
if [ ! -e "$work/$set_of/mean.binaryproto" ]; then
  mkdir -p "$work/$set_of"
  if [ ! -d "$data" ]; then
    python3 "$here/unpack.py" "$data" "$work/images"
    data=$work/images
  fi
  for part in train test; do
    rm -rf "$work/$set_of/cifar10_${part}_lmdb"
    "$crema" convert_imageset -shuffle -seed 1 "$data" "$data/$part.txt" "$work/$set_of/cifar10_${part}_lmdb"
  done
  "$crema" compute_image_mean "$work/$set_of/cifar10_train_lmdb" "$work/$set_of/mean.binaryproto"
fi
cd "$work"
take $model/solver.prototxt $model/train_test.prototxt
if [ $model != models/cifar10_quick ]; then exec "$crema" train -solver $model/solver.prototxt "$@"; fi
"$crema" train -solver $model/solver.prototxt "$@"
state=$model/cifar10_quick_iter_4000.solverstate
[ -e $state ] || exit 0
take $model/solver_lr1.prototxt
exec "$crema" train -solver $model/solver_lr1.prototxt -snapshot $state "$@"
