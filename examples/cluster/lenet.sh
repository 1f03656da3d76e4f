#!/bin/sh
# Trains LeNet on MNIST with several processes on this machine: lenet.sh [PROCESSES]. Run it in the folder of the
# sources, with the databases in build/mnist (`make run` makes them).
set -eu
cd "$(dirname "$0")/../.."

processes=${1:-2}
crema=${CREMA:-build/bin/crema}
cores=$(nproc)
threads=$((cores / processes))
[ "$threads" -ge 1 ] || threads=1

if [ ! -e build/mnist/train_lmdb/data.mdb ]; then
  echo "lenet.sh: build/mnist is empty; \`make run\` fills it" >&2
  exit 1
fi
as_root=
[ "$(id -u)" != 0 ] || as_root=--allow-run-as-root
# Each process computes on its share of the cores, whichever these are.
exec mpirun $as_root --oversubscribe --bind-to none -x OMP_NUM_THREADS="$threads" -n "$processes" \
  "$crema" train -solver models/lenet/solver.prototxt
