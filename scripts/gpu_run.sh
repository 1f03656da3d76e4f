#!/bin/sh
# Runs a pack of scripts/gpu_pack.sh on a GPU. Each part takes less than 8 minutes and ends with one table.
#
#   run.sh [-gpu DEVICE] PART [ARGUMENT...]        DEVICE: 0, opencl:0 (default 0)
#
#   A       tests: conformance, rows, kernels, windows, shapes, training, exchange, golden data in three types
#   B       training steps of AlexNet, GoogLeNet and ResNet-50 in three precisions, alongside PyTorch
#   C       launches and time of each kernel, and the host's time to queue each op
#   D       compute-sanitizer: memory, races, uninitialised memory, barriers
#   E       kernel, engine and time of each convolution
#   bench   memory, products, inference and training against the CPU (bench/gpu)
#   mnist   LeNet trained on MNIST
#
# Arguments go to the part's program: `run.sh B -batch 32 alexnet`, `run.sh bench memory`. A selects its tests by them:
# `run.sh A rows golden`. B, C and E need Python (PYTHON, or python3) with NumPy, and PyTorch for its columns. D needs
# compute-sanitizer.
#
# A part stops its programs after CREMA_PART_SECONDS (450). Tables and output are in the folder log next to this file.
# The exit code is 0 if everything passed, 1 after a failure, 77 if the part was skipped.
#
# cuBLASLt and cuDNN are looked for under CREMA_CUDA_PATH (folders separated by colons: toolkits, or the folder nvidia
# of Python's packages), on the loader's path, and in /usr/local/cuda. Without CREMA_CUDA_PATH, Python is asked for such
# packages.
set -u
here=$(cd "$(dirname "$0")" && pwd)
log=$here/log
usage() { sed -n '2,/^set -u/s/^# \{0,1\}//p' "$0" | sed '/^set -u/d' >&2; exit 2; }
gpu=0
[ "${1:-}" = -gpu ] && [ $# -ge 2 ] && { gpu=$2; shift 2; }
part=${1:-}
[ -n "$part" ] || usage
shift
mkdir -p "$log"

LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
CREMA_LIBRARY=$(ls "$here"/lib/libcrema.so* | head -1)
CREMA_COMMAND=$here/bin/crema
PYTHONPATH=$here/python${PYTHONPATH:+:$PYTHONPATH}
CREMA_TEST_SEED=${CREMA_TEST_SEED:-1}
if [ -z "${CREMA_CUDA_PATH:-}" ] && command -v python3 >/dev/null; then
  CREMA_CUDA_PATH=$(python3 - <<'PYTHON'
import os, sys
folders = [os.path.join(p, "nvidia") for p in sys.path if p]
print(":".join(f for f in folders if os.path.isdir(f)))
PYTHON
  )
fi
export LD_LIBRARY_PATH CREMA_LIBRARY CREMA_COMMAND PYTHONPATH CREMA_TEST_SEED CREMA_CUDA_PATH OMP_WAIT_POLICY=passive

echo "crema on $gpu, $(date +%F)"
"$here/bin/crema" device_query -gpu "$gpu" 2>&1 | tee "$log/device_query.txt"
# Some tests use device 0: of OpenCL, if CREMA_OPENCL names it.
case $gpu in
  opencl:*) kind=opencl
    export CREMA_OPENCL="${CREMA_OPENCL:-$(sed -n 's/^ *Name: *//p' "$log/device_query.txt" | head -1)}" ;;
  *) kind=cuda ;;
esac

began=$(date +%s)
failed=0
ran=0
table=$log/$part.tsv
: >"$table"
left() { echo $((${CREMA_PART_SECONDS:-450} - $(date +%s) + began)); }

# check NAME COMMAND...: adds a line to the table.
check() {
  name=$1
  shift
  start=$(date +%s)
  seconds=$(left)
  if [ "$seconds" -lt 5 ]; then
    result='NO TIME LEFT'
    failed=1
    text=
  else
    timeout -k 10 "$seconds" "$@" >"$log/$name.txt" 2>&1
    code=$?
    text=$(grep -aE 'weights differ|passed,|skipped:|accuracy = |ERROR SUMMARY' "$log/$name.txt" | tail -1)
    case $code in
      0) result=passed ran=1 ;;
      77) result=skipped ;;
      *) result="FAILED ($code)" failed=1 ran=1
        grep -aE 'differs|rror|skipped' "$log/$name.txt" | head -5 ;;
    esac
  fi
  printf '%s\t%s\t%s\t%s\n' "$name" "$result" "$(($(date +%s) - start))" "$text" >>"$table"
  echo "$name: $result" >&2
}

print_table() {
  printf '\n%-24s %-14s %5s  %s\n' check result s ''
  while IFS='	' read -r name result seconds text; do
    printf '%-24s %-14s %5s  %s\n' "$name" "$result" "$seconds" "$text"
  done <"$table"
}

# wanted NAME WORD...: whether a part's arguments select a check; all are without arguments.
wanted() {
  name=$1
  shift
  [ $# -eq 0 ] && return 0
  for word; do [ "$word" = "$name" ] && return 0; done
  return 1
}

tests() {
  for test in rows kernels windows shapes train exchange; do
    wanted $test "$@" || continue
    case $test in
      rows) check rows "$here/bin/device_rows" $kind ;;
      train) check train "$here/bin/cuda_train" ${CREMA_TRAIN:-} ;;
      *) check $test "$here/bin/cuda_$test" ;;
    esac
  done
  wanted conformance "$@" && check conformance "$here/bin/device_conformance" $kind
  cd "$here/golden" || exit 1
  wanted golden "$@" && check golden "$here/bin/golden" -q -gpu "${gpu#*:}" -pending pending.txt layers solvers nets
  for type in FLOAT16 BFLOAT16; do
    wanted golden_$type "$@" && check golden_$type "$here/bin/golden" -q -gpu "${gpu#*:}" -type $type layers
  done
  wanted python "$@" && check python "${PYTHON:-python3}" "$here/python/gpu_check.py"
  print_table
}

# Programs that are long under a sanitizer run a part of their tests.
sanitize() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo "skipped: compute-sanitizer is not installed"
    exit 77
  fi
  for tool in ${*:-memcheck racecheck initcheck synccheck}; do
    for program in conformance rows train; do
      case $program in
        conformance) set -- "$here/bin/device_conformance" $kind ;;
        rows) set -- "$here/bin/device_rows" $kind ;;
        train) set -- "$here/bin/cuda_train" small ;;
      esac
      check "$tool $program" compute-sanitizer --tool "$tool" --error-exitcode 9 --kernel-name-exclude regex:cudnn "$@"
    done
  done
  print_table
}

# peer SCRIPT ARGUMENT...: a script of bench/peers, whose output ends with its table.
peer() {
  script=$1
  shift
  python=${PYTHON:-python3}
  if ! "$python" -c 'import numpy' 2>/dev/null; then
    echo "skipped: $python has no NumPy"
    exit 77
  fi
  timeout -k 10 "$(left)" "$python" "$here/bench/peers/$script" -gpu "$gpu" "$@" >"$log/$part.txt" 2>&1
  code=$?
  cat "$log/$part.txt"
  [ $code -eq 0 ] || failed=1
  [ $code -eq 124 ] && echo "$script: NO TIME LEFT"
  ran=1
}

case $part in
  A) tests "$@" ;;
  B) peer training.py -batch 64 -rounds 1 -steps 3 "$@" ;;
  C) peer kernels.py "$@" ;;
  D) sanitize "$@" ;;
  E) peer convolutions.py "$@" ;;
  bench)
    timeout -k 10 "$(left)" "$here/bin/gpu" -root "$here" -gpu "$gpu" "$@" 2>&1 | tee "$log/bench.txt"
    ran=1
    grep -q . "$log/bench.txt" || failed=1 ;;
  mnist)
    check mnist env CREMA="$here/bin/crema" WORK="$here/work" sh "$here/examples/mnist/run.sh" lenet -gpu "$gpu"
    print_table ;;
  *) usage ;;
esac
[ $failed -eq 0 ] || exit 1
[ $ran -eq 1 ] || exit 77
