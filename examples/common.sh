# Code that the examples source. An example writes its files to the folder WORK, by default build/examples/NAME. $here
# is the folder of the example.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
crema=${CREMA:-$root/build/bin/crema}
if [ -z "${CREMA:-}" ] && [ ! -x "$crema" ]; then
  crema=$(command -v crema) || { echo "run.sh: \`make\` builds crema; CREMA=FILE names another one" >&2; exit 1; }
fi
work=${WORK:-$root/build/examples/$(basename "$here")}
mkdir -p "$work"
work=$(cd "$work" && pwd)

# take FILE...: copies these files, under their names in the sources.
take() {
  for name; do
    mkdir -p "$(dirname "$work/$name")"
    cp "$root/$name" "$work/$name"
  done
}

# make_once DATABASE COMMAND...: runs crema, unless the database is there.
make_once() {
  database=$1
  shift
  [ -e "$work/$database" ] || "$crema" "$@"
}

# draw_boxes TRAIN TEST: makes databases of TRAIN and TEST images of rectangles and discs, with their boxes.
draw_boxes() {
  for part in "train:$1:1" "test:$2:2"; do
    name=${part%%:*}
    count=${part#*:}
    [ -e "$work/${name}_lmdb" ] && continue
    python3 "$root/examples/shapes/draw_shapes.py" "$work/$name" "${count%:*}" -seed "${part##*:}"
    "$crema" convert_annoset "$work/$name" "$work/$name/boxes.txt" "$work/${name}_lmdb"
  done
}

# The databases of MNIST, as models/lenet names them.
make_mnist() {
  mkdir -p "$work/build/mnist"
  make_once build/mnist/train_lmdb convert_mnist "$root/data/mnist/train-images-idx3-ubyte.gz" \
    "$root/data/mnist/train-labels-idx1-ubyte.gz" "$work/build/mnist/train_lmdb"
  make_once build/mnist/test_lmdb convert_mnist "$root/data/mnist/t10k-images-idx3-ubyte.gz" \
    "$root/data/mnist/t10k-labels-idx1-ubyte.gz" "$work/build/mnist/test_lmdb"
}
