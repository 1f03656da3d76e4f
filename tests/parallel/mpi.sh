#!/usr/bin/env bash
# mpi.sh PROGRAM COUNT WHAT: runs COUNT processes of PROGRAM (mpi_ranks) under mpirun and checks how
# they end.
set -u
program=$1 count=$2 what=$3

if ! command -v mpirun >/dev/null; then
  echo "skipped: no mpirun on this machine"
  exit 77
fi
if ! mpirun --version 2>/dev/null | grep -qE "Open MPI|OpenRTE"; then
  echo "skipped: this machine's mpirun is not that of Open MPI"
  exit 77
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
touch "$folder/notes"

# hwloc's OpenCL plug-in would load PoCL into mpirun, and PoCL's LLVM takes over SIGUSR1 there.
export HWLOC_COMPONENTS=-opencl

options=(--oversubscribe --bind-to none)
[ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)

die() {
  echo "$1"
  cat "$folder/log" "$folder/notes"
  exit 1
}

# How many lines begin with a word.
noted() {
  grep -c "^$1 " "$folder/notes"
}

mpirun "${options[@]}" -n "$count" "$program" "$what" "$folder/notes" >"$folder/log" 2>&1 &
mpirun=$!
if [[ $what = signals* ]]; then
  until [ "$(noted ready)" = "$count" ]; do
    kill -0 $mpirun 2>/dev/null || die "mpirun has ended early"
    sleep 0.05
  done
  kill -"${what#signals-}" $mpirun
fi
wait $mpirun
status=$?

case $what in
  all)
    [ $status = 0 ] || die "mpirun returned $status"
    [ "$(noted passed)" = "$count" ] || die "not all ranks have passed" ;;
  kill | freed-kill)
    [ $status != 0 ] || die "mpirun returned 0 though a process was killed"
    [ "$(noted started)" = "$count" ] || die "not all ranks have started"
    [ "$(noted passed)" = $((count - 1)) ] || die "not all ranks have noticed it" ;;
  signals*)
    number=$(kill -l "${what#signals-}")
    [ "$(grep -c "^signal $number " "$folder/notes")" = "$count" ] || die "not all know of the signal" ;;
  *)
    [ $status = 7 ] || die "mpirun returned $status"
    [ "$(noted passed)" = "$count" ] || die "not all ranks have heard of the failure" ;;
esac
# One that has ended but that nobody has asked for yet, a zombie, is no process any more.
is_there() {
  case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in '' | Z*) return 1 ;; esac
}
# The last word of each note is a process. With a sanitizer it may end a little later than mpirun.
for process in $(sed 's/.* //' "$folder/notes" | sort -u); do
  for _ in $(seq 200); do
    is_there "$process" || continue 2
    sleep 0.05
  done
  die "process $process is still there"
done
grep -a "heard after" "$folder/log"
# What scripts/conformance.py looks for, once for all ranks.
grep -aoE '^\[ +OK \] s[0-9]_[0-9]{2}_\w+' "$folder/log" | sort -u
exit 0
