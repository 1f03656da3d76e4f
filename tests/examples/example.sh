#!/usr/bin/env bash
# An example, shortened: its command runs, and the net learns. Usage: example.sh CREMA SOURCE_DIR NAME PHOTOS
name=$3
photos=$4
. "$(dirname "$0")/../cli/lib.sh"
# The nets are small, and threads that wait for each other would take most of the time.
export OMP_NUM_THREADS=1 CREMA=$crema WORK=$work/here
examples=$source_dir/examples
# The scripts take any path.
short="short [1], & 2"

# example NAME [ARGUMENT...]: runs it; output in ./log.
example() {
  "$examples/$1/run.sh" "${@:2}" >log 2>&1
  code=$?
  expect_ok "$*"
}

# last NAME: the last value of the output of a test.
last() {
  sed -n "s/.*Test net output #[0-9]*: $1 = \([-+0-9.e]*\).*/\1/p" log | tail -n 1
}

# expect_value WHAT NAME COMPARISON: of a test's last output, such as "> 0.9".
expect_value() {
  local value
  value=$(last "$2")
  [ -n "$value" ] && awk "BEGIN { exit !($value $3) }" || { fail "$1: $2 = $value is not $3"; tail -n 30 log; }
}

# shorter FILE FIELD VALUE...: copies of the example's files in which fields of the solver have other values, and a seed,
# so that each run gives the same.
shorter() {
  local file=$1
  shift
  mkdir -p "$short"
  cp -r "$source_dir/examples" "$short/examples"
  cp -r "$source_dir/models" "$short/models"
  ln -sfn "$source_dir/data" "$short/data"
  examples=$work/$short/examples
  while [ $# -gt 0 ]; do
    sed -i "s/^$1:.*/$1: $2/" "$short/$file"
    shift 2
  done
  grep -q '^random_seed' "$short/$file" || echo 'random_seed: 1' >>"$short/$file"
}

case $name in
  mnist)
    shorter models/lenet/solver.prototxt test_iter 10 test_interval 60 max_iter 60
    example mnist lenet
    expect_value "LeNet after 60 iterations" accuracy "> 0.8"
    example mnist autoencoder -iterations 1
    before=$(last cross_entropy_loss)
    shorter examples/mnist/autoencoder_solver.prototxt test_iter 1 test_interval 60 max_iter 60 display 1
    example mnist autoencoder
    # Guessing each pixel's mean costs 206.
    expect_value "autoencoder" cross_entropy_loss "< 300 && $before > 500"
    shorter examples/mnist/siamese_solver.prototxt test_iter 3 test_interval 60 max_iter 60
    example mnist siamese
    # It begins at 0.26.
    expect_value "siamese" loss "< 0.08" ;;
  cifar10)
    # The archive's form, with few pictures: red ones are of class 0, green ones of class 9.
    python3 - <<'PYTHON'
import io, random, tarfile
draw = random.Random(1)
with tarfile.open("cifar [1].tar.gz", "w:gz") as archive:
    for name, count in (("data_batch_1.bin", 300), ("data_batch_2.bin", 100), ("test_batch.bin", 100)):
        data = bytearray()
        for _ in range(count):
            kind = draw.randrange(2)
            data.append(9 * kind)
            for channel in range(3):
                high = 200 if channel == kind else 60
                data += bytes(high + (noise & 31) for noise in draw.randbytes(1024))
        member = tarfile.TarInfo("cifar-10-batches-bin/" + name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
PYTHON
    for model in quick:4 full:4 resnet20:12; do
      steps=${model#*:}
      model=${model%:*}
      shorter models/cifar10_$model/solver.prototxt test_iter 1 test_interval "$steps" max_iter "$steps"
      example cifar10 $model "cifar [1].tar.gz"
      [ "$(last accuracy)" ] || { fail "$model: no accuracy"; cat log; }
    done
    expect_value "ResNet-20" accuracy "> 0.9"
    run data_stats here/examples/cifar10/cifar10_test_lmdb
    expect_line "test pictures" '100 records'
    # Pixels are as in the archive: planes are blue, green, red.
    expect_line "blue" 'Mean of channel 0: 7[0-9]\.'
    # The second part goes on where the first ended.
    shorter models/cifar10_quick/solver.prototxt test_iter 1 test_interval 4000 test_initialization false max_iter 4000
    cp here/models/cifar10_quick/cifar10_quick_iter_4.solverstate here/models/cifar10_quick/cifar10_quick_iter_4000.solverstate
    example cifar10 quick "cifar [1].tar.gz" -iterations 1
    expect_line "the second part" 'Snapshotting to binary proto file .*cifar10_quick_iter_5\.caffemodel' ;;
  char_lstm)
    shorter examples/char_lstm/solver.prototxt test_iter 2 test_interval 60 max_iter 60 base_lr 0.02
    printf 'hello, %.0s' $(seq 2500) >"a text [1].txt"
    TEXT="$work/a text [1].txt" example char_lstm
    # A word again and again: without a look at the letter before, its seven places cost 1.8.
    expect_value "a word" loss "< 0.9" ;;
  fine_tuning)
    "$photos" . "$source_dir/examples/images/cat.jpg" || fail "photos"
    mv photos "my photos [1], & 2"
    shorter examples/fine_tuning/solver.prototxt
    ITERATIONS=12 example fine_tuning "my photos [1], & 2"
    expect_value "photos kept back" accuracy "== 1"
    run classify -model here/deploy.prototxt -weights here/fine_tuned_iter_12.caffemodel -labels here/labels.txt \
      -mean_value 104,117,123 -resize 256 "my photos [1], & 2"/cats/*
    expect_ok "classify"
    grep -A1 Prediction log | grep -q ' - "others"' && fail "a cat is taken for another" ;;
  detection)
    shorter examples/detection/solver.prototxt test_iter 2 test_interval 120 max_iter 120
    TRAIN=200 TEST=40 example detection
    expect_value "a detector from scratch" detection_eval "> 0.5"
    # Devices and processes that share the test find the same.
    sed -i 's/^test_initialization: .*/test_initialization: true/; s/^max_iter: .*/max_iter: 1/; s/^test_iter: .*/test_iter: 2/
      s/^snapshot_prefix: .*/snapshot_prefix: "again"/' here/solver.prototxt
    first() { sed -n 's/.*Test net output #0: detection_eval = //p' log | head -n 1; }
    again=(train -solver here/solver.prototxt -weights here/shapes_iter_120.caffemodel)
    run "${again[@]}"
    expect_ok "one device"
    alone=$(first)
    CREMA_SIM=devices=2,memory=256M run "${again[@]}" -gpu all -exchange reduce
    expect_ok "two devices"
    awk "BEGIN { exit !($(first) == $alone) }" || fail "two devices: $(first), not $alone"
    if command -v mpirun >/dev/null && [ -z "${CREMA_NO_MPIRUN:-}" ]; then
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 100 \
        mpirun --oversubscribe -n 2 "$crema" "${again[@]}" >log 2>&1
      code=$?
      expect_ok "two processes"
      awk "BEGIN { exit !($(first) == $alone) }" || fail "two processes: $(first), not $alone"
    fi ;;
  faster_rcnn)
    shorter examples/faster_rcnn/solver.prototxt test_iter 40 test_interval 700 max_iter 700
    TRAIN=200 TEST=40 example faster_rcnn
    expect_value "regions from scratch" detection_eval "> 0.5"
    # The net that is deployed takes the weights.
    run test -model here/deploy.prototxt -weights here/shapes_iter_700.caffemodel -iterations 1
    expect_ok "deployed" ;;
  segmentation)
    shorter examples/segmentation/solver.prototxt test_iter 2 test_interval 40 max_iter 40
    TRAIN=100 TEST=40 example segmentation
    # Three of four pixels are background.
    expect_value "segmentation" accuracy "> 0.85" ;;
  volumes)
    shorter examples/volumes/solver.prototxt test_iter 2 test_interval 40 max_iter 40
    TRAIN=20 TEST=10 example volumes
    expect_value "volumes" accuracy "> 0.95"
    # The net that is deployed takes the weights.
    run test -model here/deploy.prototxt -weights here/volumes_iter_40.caffemodel -iterations 1
    expect_ok "deployed" ;;
esac
finish
