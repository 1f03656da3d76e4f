#!/bin/sh
# Model-checks one model: check.sh MODEL good|bad [-Dflag...]. "bad": an error must be found.
set -eu
model=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
expected=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
spin -a "$@" "$model" >spin.log || { cat spin.log; exit 1; }
cc -O2 -w -DSAFETY -o pan pan.c
./pan -m200000 >pan.log 2>&1 || { cat pan.log; exit 1; }
if grep -q "max search depth too small" pan.log; then
  cat pan.log
  exit 1
fi
errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)
grep -E "errors|states, stored" pan.log
case $expected in
  good) test "$errors" = 0 || { cat pan.log; exit 1; } ;;
  bad) test "$errors" != 0 ;;
esac
