#!/bin/bash
# Flags in all their forms, wrong ones, and help.
. "$(dirname "$0")/lib.sh"

run
expect_ok "no command"
expect_line "no command" '^  crema train solver\.prototxt '
[ "$(wc -l <log)" -le 12 ] || fail "crema by itself prints more than 12 lines"
run tran
expect_usage "mistyped command" 'unknown command "tran"' "did you mean train?"
run frobnicate
expect_usage "foreign command" 'unknown command "frobnicate"'
run help nets
expect_usage "help on a foreign command" '"nets"'
run train a.prototxt extra
expect_usage "surplus argument" 'unexpected argument "extra"'
run -v 1
expect_usage "flags without a command" "flags belong to a command" "crema train -v"
run help eval
expect_usage "help on a name of another program" "use test"
run summary net.prototxt -gpu 0
expect_usage "a device without a run" "there is no flag -gpu, as the command does not run a net"
# Names of the same work in other programs.
while read -r word hint; do
  run "$word" x
  expect_usage "crema $word" "unknown command \"$word\"; use $hint"
done <<'HINTS'
predict classify
infer classify
eval test
validate test
fit train
convert convert_model
export compile
quantize calibrate
profile benchmark
HINTS
run train -slover x
expect_usage "mistyped flag" "unknown flag -slover" "did you mean -solver?"
run train --zzzz=1
expect_usage "foreign flag" "unknown flag -zzzz"
run train -solver
expect_usage "flag without value" "flag -solver requires a value: -solver FILE"
run time -model net.prototxt -iterations many
expect_usage "not a number" "-iterations" "a whole number" '"many"'
run time -model net.prototxt -iterations 99999999999999999999
expect_usage "too large a number" "-iterations"
run time -model net.prototxt -level 4294967296
expect_usage "a level that no state has" "-level" "4294967296"
run train -solver x -level -99999999999
expect_usage "a level that no state has" "-level" "-99999999999"
run train -solver no.prototxt -minloglevel 99999999999
expect_error "errors are always shown" "no.prototxt"
run time -model net.prototxt -iterations 0
expect_usage "no iterations" "-iterations"
run train -warn_unknown_fields=maybe -solver x
expect_usage "not a bool" "true or false" '"maybe"'
run train -solver x -sigint_effect explode
expect_usage "foreign effect" "-sigint_effect" "stop, snapshot or none" '"explode"'
run train -solver x -weights a -snapshot b
expect_usage "weights and snapshot" "-snapshot" "-weights" "not both"
run train
expect_usage "no solver" "-solver"
run test -model x
expect_usage "no weights" "-weights"
run test -weights x
expect_usage "no model" "-model"
run time
expect_usage "no model" "-model"
run time -model x -phase DREAM
expect_usage "foreign phase" "TRAIN or TEST" '"DREAM"'
run train -solver x -gpu twelve
expect_usage "not a GPU number" "-gpu" '"twelve"'
run train -solver x -log_file no/such/folder/log
expect_error "log file" "no/such/folder/log"

# Every form of a flag means the same: the error names the file.
for form in "-solver no.prototxt" "--solver no.prototxt" "-solver=no.prototxt" \
  "--solver=no.prototxt" "-nowarn-unknown-fields --solver=no.prototxt" \
  "-logtostderr=1 -solver no.prototxt" "-warn_unknown_fields=false -solver no.prototxt"; do
  run train $form
  expect_error "train $form" "no.prototxt" "no such file"
done
run -solver=no.prototxt train
expect_error "flags before the command" "no.prototxt"

# Every command and every topic of the list.
commands=$("$crema" help | awk '/^Topics:/ { exit } /^  [a-z]/ { print $1 }')
[ "$(echo "$commands" | wc -l)" -ge 20 ] || fail "crema help lists too few commands"
for command in $commands; do
  run help "$command"
  expect_ok "help $command"
  expect_line "help $command" '^Usage: crema '
  expect_line "help $command" '^Examples?:'
  awk 'length > 100' log | grep . && fail "help $command has lines of more than 100 columns"
  run "$command" -help
  expect_ok "$command -help"
  run "$command" -nosuchflag
  expect_usage "$command with a foreign flag" "nosuchflag"
done
for topic in $("$crema" help | awk '/^Topics:/ { on = 1 } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }'); do
  run help "$topic"
  expect_ok "help $topic"
  awk 'length > 100' log | grep . && fail "help $topic has lines of more than 100 columns"
done
[ -n "$topic" ] || fail "crema help lists no topics"
run help logging
expect_line "help logging" '^  -minloglevel N '
run help train
expect_line "help train" '^  -solver FILE '
expect_line "help train" '^  -weights FILE,\.\.\. '
[ "$(grep -c minloglevel log)" -eq 1 ] || fail "help train lists the flags of the log"

# The page of the environment names every variable that the sources read.
run help environment
sources=$(find "$source_dir/src" "$source_dir/tools" -name '*.c')
# shellcheck disable=SC2086
for name in $(sed -nE 's/.*(getenv|number_in_environment)\("([A-Z_]+)"\).*/\2/p
    s/.*cr_module_open\([a-z_]+, "([A-Z_0-9]+)".*/\1/p' $sources | sort -u); do
  grep -q "$name" log || fail "help environment lacks $name"
done
grep -q CREMA_MAX_FILE log || fail "help environment lacks CREMA_MAX_FILE"

run layers
expect_ok layers
expect_line layers '^Convolution$'
[ "$(wc -l <log)" -eq "$(grep -c '^CR_LAYER(' "$source_dir/src/layers/layers.inc")" ] ||
  fail "crema layers lists other than all layers"
run layers Convolutoin
expect_error "layers of an unknown type" 'no layer type "Convolutoin"' "did you mean Convolution?"
run version
expect_ok version
expect_line version '^crema [0-9]+\.[0-9]+'
run device_query
expect_ok device_query
expect_line device_query '^Device CPU 0'

# complete WORD... : the completions of the last word.
run completion bash
expect_ok "completion bash"
mkdir bin
ln -s "$crema" bin/crema
complete_words() {
  PATH=$work/bin:$PATH bash -c '. ./log; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _crema; echo "${COMPREPLY[*]}"' \
    completion "$@"
}
[ "$(complete_words crema trai)" = train ] || fail "completion of trai: $(complete_words crema trai)"
[ "$(complete_words crema summary -js)" = -json ] || fail "completion of -js: $(complete_words crema summary -js)"
[ "$(complete_words crema help envi)" = environment ] || fail "completion of envi"
[ -z "$(complete_words crema envi)" ] || fail "a topic is completed as a command"
run completion fish
expect_usage "completion of another shell" 'SHELL: expected bash, found "fish"'

# The man page.
sh "$source_dir/tools/man_page.sh" "$crema" >crema.1 2>log || { fail "man_page.sh"; cat log; }
expect_line "man page" '^\.SH CREMA TRAIN$' crema.1
expect_line "man page" '^  \\-solver FILE ' crema.1
expect_line "man page" 'CREMA_MAX_FILE=SIZE' crema.1

# Under the name caffe.
ln -s "$crema" caffe
./caffe version >log 2>&1 || fail "caffe version"
finish
