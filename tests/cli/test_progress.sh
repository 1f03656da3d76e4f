#!/bin/bash
# The progress line: on a terminal only, no wider than it, with the iterations that are wanted.
. "$(dirname "$0")/lib.sh"
# A terminal cannot be made where /dev/pts is not mounted, as in a bare chroot.
script -qec true /dev/null </dev/null >/dev/null 2>&1 || { echo "skipped: no terminal can be made"; exit 77; }
make_mnist
make_net bar 'max_iter: 2000000 random_seed: 1'
sed -i 's/display: 10 //; s/test_iter: 3 test_interval: 20//' bar.prototxt

# draw COLUMNS: trains on a terminal of that width until the line is there, however long that takes,
# and types Ctrl-C; what was drawn, one per line, in ./drawn.
mkfifo keys
exec 9<>keys
draw() {
  rm -f raw
  script -qfec "stty -echo cols $1; exec '$crema' train -solver bar.prototxt -iterations 1000000" raw \
    <keys >/dev/null 2>&1 &
  local terminal=$!
  for _ in $(seq 600); do
    grep -qs 'iteration [0-9]*/' raw && break
    sleep 0.05
  done
  printf '\003' >&9
  for _ in $(seq 600); do
    kill -0 "$terminal" 2>/dev/null || break
    sleep 0.05
  done
  kill -KILL "$terminal" 2>/dev/null && fail "Ctrl-C does not end the training"
  wait "$terminal" 2>/dev/null
  grep -q 'Snapshotting solver state' raw || { fail "Ctrl-C on a terminal"; cat raw; }
  tr '\r' '\n' <raw | sed 's/\x1b\[K//g' | grep '^iteration' >drawn
}

draw 200
expect_line "progress" '^iteration [0-9]+/1000000  loss .*  lr .* samples/s  [0-9hms]+ left$' drawn
grep -q '/2000000' drawn && { fail "the end is not the one that was asked for"; head -3 drawn; }
draw 30
[ -s drawn ] || fail "nothing drawn on a narrow terminal"
awk 'length($0) > 29 { exit 1 }' drawn || { fail "wider than the terminal"; head -3 drawn; }

run train -solver bar.prototxt -iterations 30
expect_ok "into a file"
grep -q 'samples/s' log && fail "a progress line in a file"
finish
