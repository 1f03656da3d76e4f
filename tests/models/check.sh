#!/bin/sh
# Model-checks one model: check.sh MODEL good|bad [-Dflag...]. "bad": the model has a mistake, which
# must be found.
set -eu
model=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
expected=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
spin -a "$@" "$model" >spin.log || { cat spin.log; exit 1; }
${CC:-cc} -O2 -w -DSAFETY -o pan pan.c
./pan -m200000 >pan.log 2>&1 || { cat pan.log; exit 1; }
# An answer counts only when the search was complete.
if grep -qE "max search depth too small|out of memory|MEMLIM|not completed" pan.log &&
  [ "$expected" = good ]; then
  cat pan.log
  exit 1
fi
errors=$(sed -n 's/.*errors: \([0-9][0-9]*\).*/\1/p' pan.log)
grep -E "errors|states, stored|^pan:" pan.log
case $expected:$errors in
  good:0) ;;
  bad:[1-9]*) ;;
  *) cat pan.log; exit 1 ;;
esac
