#!/bin/bash
# Flags in all their forms, wrong ones, and help.
. "$(dirname "$0")/lib.sh"

run
expect_error "no command" "no command given"
run tran
expect_error "mistyped command" 'unknown command "tran"' "did you mean train?"
run frobnicate
expect_error "foreign command" 'unknown command "frobnicate"'
run help nets
expect_error "help on a foreign command" '"nets"'
run train extra
expect_error "surplus argument" 'unexpected argument "extra"'
run train -slover x
expect_error "mistyped flag" "unknown flag -slover" "did you mean -solver?"
run train --zzzz=1
expect_error "foreign flag" "unknown flag -zzzz"
run train -solver
expect_error "flag without value" "-solver needs a value"
run time -model net.prototxt -iterations many
expect_error "not a number" "-iterations" "a whole number" '"many"'
run time -model net.prototxt -iterations 99999999999999999999
expect_error "too large a number" "-iterations"
run time -model net.prototxt -level 4294967296
expect_error "a level that no state has" "-level" "4294967296"
run train -solver x -level -99999999999
expect_error "a level that no state has" "-level" "-99999999999"
run train -solver no.prototxt -minloglevel 99999999999
expect_error "errors are always shown" "no.prototxt"
run time -model net.prototxt -iterations 0
expect_error "no iterations" "-iterations"
run train -warn_unknown_fields=maybe -solver x
expect_error "not a bool" "true or false" '"maybe"'
run train -solver x -sigint_effect explode
expect_error "foreign effect" "-sigint_effect" "stop, snapshot or none" '"explode"'
run train -solver x -weights a -snapshot b
expect_error "weights and snapshot" "-snapshot" "-weights" "not both"
run train
expect_error "no solver" "-solver"
run test -model x
expect_error "no weights" "-weights"
run test -weights x
expect_error "no model" "-model"
run time
expect_error "no model" "-model"
run time -model x -phase DREAM
expect_error "foreign phase" "TRAIN or TEST" '"DREAM"'
run train -solver x -gpu twelve
expect_error "not a GPU number" "-gpu" '"twelve"'
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

for command in $("$crema" help | awk '/^  [a-z]/ { print $1 }'); do
  run help "$command"
  expect_ok "help $command"
  expect_line "help $command" '^Usage: crema '
  expect_line "help $command" '^Examples?:'
  run "$command" -help
  expect_ok "$command -help"
  run "$command" -nosuchflag
  expect_error "$command with a foreign flag" "nosuchflag"
done
run version
expect_ok version
expect_line version '^crema [0-9]+\.[0-9]+'
run device_query
expect_ok device_query
expect_line device_query '^Device CPU 0'

# Under the name caffe.
ln -s "$crema" caffe
./caffe version >log 2>&1 || fail "caffe version"
finish
