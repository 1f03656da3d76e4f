#!/bin/sh
# Trains a net on MNIST: run.sh lenet|autoencoder|siamese [flags of crema train]
. "$(dirname "$0")/../common.sh"
kind=${1:-lenet}
[ $# -eq 0 ] || shift
make_mnist
cd "$work"
case $kind in
  lenet)
    take models/lenet/solver.prototxt models/lenet/train_test.prototxt
    exec "$crema" train -solver models/lenet/solver.prototxt "$@" ;;
  autoencoder | siamese)
    cp "$here/$kind.prototxt" "$here/${kind}_solver.prototxt" .
    exec "$crema" train -solver "${kind}_solver.prototxt" "$@" ;;
  *)
    echo "run.sh: $kind: expected lenet, autoencoder or siamese" >&2
    exit 1 ;;
esac
