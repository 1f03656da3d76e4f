#!/bin/bash
# A training on a terminal: a progress line no wider than the terminal, a banner, a summary and colours, and no
# prefixes. A file gets the lines of Caffe only.
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
expect_line "progress" \
  '^iteration [0-9]+/1000000  [0-9]+ %  [0-9hms]+ left  loss [^ ]+  lr [^ ]+  [0-9]+ samples/s$' drawn
grep -q '/2000000' drawn && { fail "the end is not the one that was asked for"; head -3 drawn; }
draw 30
[ -s drawn ] || fail "nothing drawn on a narrow terminal"
awk 'length($0) > 29 { exit 1 }' drawn || { fail "wider than the terminal"; head -3 drawn; }

# show ARGUMENTS: trains on a terminal to the end; its lines without the progress line in ./lines.
show() {
  rm -f raw
  script -qfec "stty -echo cols 200; exec '$crema' train -solver short.prototxt $*" raw </dev/null >/dev/null 2>&1
  sed 's/^.*\r\x1b\[K//; s/\r$//' raw | grep -v '^Script' >lines
}
make_net short 'max_iter: 40 random_seed: 1 snapshot: 20'
show
for line in 'Training digits \(short.prototxt\)' '  data        mnist_lmdb, 10000 records' \
  '  device      CPU \(.*\), 2 threads' '  parameters  14098' '  batch size  16' '  iterations  0 to 40' \
  'Done after 40 iterations in [0-9hms]+ \([0-9]+ samples/s\)' \
  '  best test   accuracy = 0\.[0-9]+ at iteration (0|20|40)' \
  '  snapshot    short_iter_40.caffemodel and .solverstate' 'Optimization Done.'; do
  expect_line "on a terminal" "^$line\$" lines
done
[ "$(grep -c 'Optimization Done' lines)" -eq 1 ] || fail "a terminal shows the end of the log twice"
grep -q ']' <(sed 's/.*samples\/s//' lines) && { fail "a prefix on a terminal"; cat lines; }
show -snapshot short_iter_20.solverstate -iterations 10
expect_line "stopped" '^  iterations  20 to 30$' lines
expect_line "stopped" '^Stopped after 10 iterations in ' lines
expect_line "stopped" '^Optimization stopped early.$' lines
grep -q 'Optimization Done' lines && fail "both endings of the log"
show -log_prefix
expect_line "with a prefix" '^I[0-9]{4} .* train.c:[0-9]+\] Starting Optimization$' lines

# Warnings and errors are coloured unless NO_COLOR says otherwise.
yellow=$(printf '\033[33mwarning: \033[0m')
red=$(printf '\033[31mcrema: error:\033[0m')
export TERM=xterm
show -phase TEST -iterations 1
grep -qF "${yellow}-phase has no effect on train" raw || { fail "no yellow warning"; cat -v raw; }
show -snapshot none
grep -qF "$red cannot resume: none: no such file" raw || { fail "no red error"; cat -v raw; }
NO_COLOR=1 show -phase TEST -snapshot none
grep -q 'warning: -phase has no effect on train' lines || { fail "no plain warning"; cat -v raw; }
grep -q "$(printf '\033\\[3')" raw && { fail "a colour in spite of NO_COLOR"; cat -v raw; }

# A pipe gets all lines with Caffe's prefixes, and nothing else.
"$crema" train -solver short.prototxt -log_file file.log 2>&1 | cat >log
grep -vE '^[IWE][0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} +[0-9]+ [a-z_]+\.c:[0-9]+\] ' log &&
  fail "lines without a prefix in a pipe"
grep -q "$(printf '\033')" log && fail "control codes in a pipe"
cmp -s log file.log || fail "the log file differs from the pipe"
sed -E 's/^.*\.c:[0-9]+\] //; s/[0-9]+(\.[0-9]+)?(e-?[0-9]+)?/N/g' log | sort -u >piped
sort -u >expected <<'LINES'
Creating training net from net file: net.prototxt
Creating test net (#N) specified by net file: net.prototxt
output data size: N,N,N,N
Test net #N: a test of N batches scores N of N samples and omits N (test_iter: N scores each sample once)
Starting Optimization
Solving digits
Learning Rate Policy: inv
Iteration N, Testing net (#N)
    Test net output #N: accuracy = N
    Test net output #N: loss = N (* N = N loss)
Iteration N (N iter/s, Ns/N iters), loss = N
    Train net output #N: loss = N (* N = N loss)
Iteration N, lr = N
Snapshotting to binary proto file short_iter_N.caffemodel
Snapshotting solver state to binary proto file short_iter_N.solverstate
Iteration N, loss = N
Optimization Done.
LINES
diff expected piped || fail "other lines in a pipe than Caffe's"
[ "$(grep -c 'Optimization Done.$' log)" -eq 2 ] || fail "Caffe prints its last line twice"
finish
