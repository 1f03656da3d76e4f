#!/bin/sh
# Runs a pack of scripts/gpu_pack.sh on a GPU and prints a table: one line a check, then the benchmark.
# Arguments go to the benchmark (run.sh memory lenet; run.sh -gpu 1). A check that takes longer than
# CREMA_CHECK_SECONDS (600) has failed; CREMA_MNIST=none leaves out the training on MNIST.
#
# cuBLASLt and cuDNN are looked for under CREMA_CUDA_PATH (folders separated by colons, toolkits or the
# nvidia folder of Python packages), where the loader looks, and in /usr/local/cuda. When CREMA_CUDA_PATH
# is not set, Python is asked for such packages. Logs lie in the folder log beside this file.
set -u
here=$(cd "$(dirname "$0")" && pwd)
log=$here/log
mkdir -p "$log"
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
CREMA_CUDA_PLUGIN=${CREMA_CUDA_PLUGIN:-$here/lib/libcrema-cuda.so}
CREMA_TEST_SEED=${CREMA_TEST_SEED:-1}
if [ -z "${CREMA_CUDA_PATH:-}" ] && command -v python3 >/dev/null; then
  CREMA_CUDA_PATH=$(python3 - <<'PYTHON'
import os, sys
folders = [os.path.join(p, "nvidia") for p in sys.path if p]
print(":".join(f for f in folders if os.path.isdir(f)))
PYTHON
  )
fi
export LD_LIBRARY_PATH CREMA_CUDA_PLUGIN CREMA_CUDA_PATH CREMA_TEST_SEED OMP_WAIT_POLICY=passive

failed=0
# check NAME COMMAND...
check() {
  name=$1
  shift
  start=$(date +%s)
  timeout -k 10 "${CREMA_CHECK_SECONDS:-600}" "$@" >"$log/$name.txt" 2>&1
  code=$?
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    *) result="FAILED ($code)" ;;
  esac
  [ $code -eq 0 ] || failed=1
  printf '%-14s %-12s %4d s  %s\n' "$name" "$result" $(($(date +%s) - start)) \
    "$(grep -aE 'weights differ|passed,|skipped:|accuracy = ' "$log/$name.txt" | tail -1)"
  [ $code -eq 0 ] || grep -aE 'differs|rror|skipped' "$log/$name.txt" | head -5
}

"$here/bin/crema" device_query -gpu all 2>&1 | tee "$log/device_query.txt"
check conformance "$here/bin/device_conformance" cuda
check rows "$here/bin/device_rows" cuda
check kernels "$here/bin/cuda_kernels"
check windows "$here/bin/cuda_windows"
check shapes "$here/bin/cuda_shapes"
check train "$here/bin/cuda_train" ${CREMA_TRAIN:-}
check exchange "$here/bin/cuda_exchange"
[ "${CREMA_MNIST:-}" = none ] || check mnist env CREMA="$here/bin/crema" WORK="$here/work" sh "$here/examples/mnist/run.sh" lenet -gpu 0
cd "$here/golden" || exit 1
check golden "$here/bin/golden" -q -gpu 0 -pending pending.txt layers solvers nets
check golden_FLOAT16 "$here/bin/golden" -q -gpu 0 -type FLOAT16 layers
check golden_BFLOAT16 "$here/bin/golden" -q -gpu 0 -type BFLOAT16 layers
"$here/bin/gpu" -root "$here" "$@" 2>&1 | tee "$log/bench.txt"
exit $failed
