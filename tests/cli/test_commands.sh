#!/bin/bash
# The lines of train, test and time that log parsers match on, and starting from weights.
. "$(dirname "$0")/lib.sh"
make_mnist
number='[-+0-9.e]+'
stamp='^I[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} +[0-9]+ [a-z_]+\.c:[0-9]+\] '

make_net lines 'max_iter: 40 snapshot: 20 random_seed: 1 momentum: 0.9 test_compute_loss: true'
run train -solver lines.prototxt -log_file copy.log
expect_ok train
expect_line train "${stamp}Solving digits\$"
expect_line train "${stamp}Learning Rate Policy: inv\$"
expect_line train "${stamp}Iteration 0, Testing net \(#0\)\$"
expect_line train "${stamp}Test loss: $number\$"
expect_line train "${stamp}    Test net output #0: accuracy = $number\$"
expect_line train "${stamp}    Test net output #1: loss = $number \(\* 1 = $number loss\)\$"
expect_line train "${stamp}Iteration 10 \($number iter/s, ${number}s/10 iters\), loss = $number\$"
expect_line train "${stamp}    Train net output #0: loss = $number \(\* 1 = $number loss\)\$"
expect_line train "${stamp}Iteration 10, lr = $number\$"
expect_line train "${stamp}Snapshotting to binary proto file lines_iter_20.caffemodel\$"
expect_line train "${stamp}Snapshotting solver state to binary proto file lines_iter_20.solverstate\$"
expect_line train "${stamp}Iteration 40, loss = $number\$"
expect_line train "${stamp}Optimization Done.\$"
cmp -s log copy.log || fail "-log_file has other lines than standard error"
[ "$(grep -c 'Snapshotting to' log)" -eq 2 ] || fail "two snapshots are due, none of them twice"

run test -model net.prototxt -weights lines_iter_40.caffemodel -iterations 3
expect_ok test
expect_line test "${stamp}Running for 3 iterations\.\$"
expect_line test "${stamp}Batch 2, accuracy = $number\$"
expect_line test "${stamp}Batch 2, loss = $number\$"
expect_line test "${stamp}Loss: $number\$"
expect_line test "${stamp}accuracy = $number\$"
expect_line test "${stamp}loss = $number \(\* 1 = $number loss\)\$"

# Finetuning from the end is better than the start was; two files in a list work too.
make_net tune 'max_iter: 1 random_seed: 2'
run train -solver tune.prototxt
cold=$(sed -n 's/.*Iteration 0 .*loss = //p' log)
run train -solver tune.prototxt -weights lines_iter_20.caffemodel,lines_iter_40.caffemodel
expect_ok "finetuning"
warm=$(sed -n 's/.*Iteration 0 .*loss = //p' log)
awk -v a="$warm" -v b="$cold" 'BEGIN { exit !(a < b) }' || fail "finetuning: $warm is not below $cold"

# A snapshot is found beside its state when both were moved.
mkdir moved
mv lines_iter_20.* moved/
make_net lines 'max_iter: 40 random_seed: 1 momentum: 0.9'
run train -solver lines.prototxt -snapshot moved/lines_iter_20.solverstate
expect_ok "a snapshot in another folder"

run time -model net.prototxt -iterations 2
expect_ok time
expect_line time "${stamp}Iteration: 2 forward-backward time: $number ms\.\$"
expect_line time "${stamp} +ip1.forward: $number ms\.\$"
expect_line time "${stamp} +ip1.backward: $number ms\.\$"
expect_line time "${stamp}Average Forward pass: $number ms\.\$"
expect_line time "${stamp}Average Backward pass: $number ms\.\$"
expect_line time "${stamp}Average Forward-Backward: $number ms\.\$"
expect_line time "${stamp}Total Time: $number ms\.\$"
run time -model net.prototxt -iterations 1 -phase TEST
expect_ok "time -phase TEST"
expect_line "time -phase TEST" "accuracy.forward: "
# As in Caffe, -phase is for time alone; elsewhere a warning says so.
run test -model net.prototxt -weights lines_iter_40.caffemodel -iterations 1 -phase TRAIN
expect_ok "test -phase TRAIN"
expect_line "test -phase TRAIN" '^W.*-phase has no effect on test'
expect_line "test -phase TRAIN" 'accuracy = '
run test -model net.prototxt -weights lines_iter_40.caffemodel -iterations 1 -phase TEST
grep -q '^W' log && { fail "test -phase TEST warns"; cat log; }
run test -model net.prototxt -weights lines_iter_40.caffemodel -phase DREAM
expect_usage "foreign phase on test" "TRAIN or TEST" '"DREAM"'

# Stages reach the rules of the train net, and snapshots go to the solver file's own name.
make_net stage 'max_iter: 2 random_seed: 1'
sed -i 's/snapshot_prefix.*//' stage.prototxt
sed -i 's/name: "drop1" type: "Dropout"/& include { stage: "noisy" min_level: 2 }/' net.prototxt
run train -solver stage.prototxt -stage a,noisy -level 2
expect_ok "stages"
grep -q . stage_iter_2.caffemodel || fail "no snapshot under the solver file's name"
grep -qa drop1 stage_iter_2.caffemodel || fail "the layer of the stage is missing"
run train -solver stage.prototxt -stage noisy
expect_ok "a level too low"
grep -qa drop1 stage_iter_2.caffemodel && fail "the layer of the level is there"

# As many stages as there are, with blanks or without.
many=$(seq -s, 1 100)
run train -solver stage.prototxt -stage "$many, noisy" -level 2
expect_ok "many stages"
grep -qa drop1 stage_iter_2.caffemodel || fail "the last of many stages is dropped"
run time -model net.prototxt -iterations 1 -stage "$many,noisy" -level 2
expect_ok "many stages of time"
expect_line "the last of many stages of time" 'drop1.*forward'

# Ends after -iterations; a folder for a prefix.
mkdir shots
make_net folder 'max_iter: 100 random_seed: 1'
sed -i 's/"folder"/"shots"/' folder.prototxt
run train -solver folder.prototxt -iterations 7
expect_ok "-iterations"
[ -s shots/folder_iter_7.caffemodel ] || fail "no snapshot in the folder after 7 iterations"
run train -solver folder.prototxt -iterations 3 -minloglevel 1
expect_ok "-minloglevel"
[ ! -s log ] || { fail "-minloglevel 1 leaves information in"; cat log; }
# glog's flags in the environment; those of the command line count before them.
GLOG_minloglevel=1 run train -solver folder.prototxt -iterations 3
expect_ok "GLOG_minloglevel"
[ ! -s log ] || { fail "GLOG_minloglevel=1 leaves information in"; cat log; }
GLOG_minloglevel=1 run train -solver folder.prototxt -iterations 3 -minloglevel 0 -stderrthreshold 2 -nolog_prefix
expect_ok "-nolog_prefix"
expect_line "-nolog_prefix" '^Iteration 0, lr = '
GLOG_minloglevel=none run train -solver folder.prototxt
expect_usage "a level that is no number" "GLOG_minloglevel" '"none"'
# Standard streams that are closed: their numbers must not become those of other files.
make_net closed 'max_iter: 2 random_seed: 1'
"$crema" train -solver closed.prototxt -log_file open.log >/dev/null 2>&1 </dev/null
"$crema" train -solver closed.prototxt -log_file closed.log 2>&- </dev/null >/dev/null || fail "closed streams"
[ "$(wc -l <open.log)" -eq "$(wc -l <closed.log)" ] || fail "the log file got the errors' lines too"

# Names from files neither control the terminal nor forge lines of the log.
printf '%s\n' 'layer { name: "a\033[31m\nI b" type: "Inptu" top: "t" }' >colour.prototxt
run time -model colour.prototxt
expect_error "a name with control characters" "layer 'a?[31m?I b'" "did you mean 'Input'"
[ "$(wc -l <log)" -eq 1 ] || { fail "more than one line"; cat log; }
# The same controls as characters above 127, bytes that are no characters, and letters that are.
printf 'layer { name: "\302\23331m\233\377\303\251\342\202\254" type: "Inptu" top: "t" }\n' >colour.prototxt
run time -model colour.prototxt
expect_error "a name with control characters above 127" "layer '??31m??é€'"
finish
