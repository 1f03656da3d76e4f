#!/bin/sh
# The archive of scripts/gpu_pack.sh, unpacked, and each part of scripts/gpu_run.sh on a device. Arguments: the source
# folder, the build folder, the device (0, opencl:0).
set -u
[ -x "$2/bench/gpu" ] || { echo "skipped: built without benchmarks"; exit 77; }
python=
for candidate in ${CREMA_TEST_PYTHON:-python3 /usr/bin/python3}; do
  [ -n "$python" ] || ! "$candidate" -c 'import numpy, google.protobuf' 2>/dev/null || python=$candidate
done
[ -n "$python" ] || { echo "skipped: no Python here has NumPy and protobuf"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$1/scripts/gpu_pack.sh" "$2" "$dir/pack.tar.gz" || exit 1
tar -C "$dir" -xzf "$dir/pack.tar.gz" || exit 1
kit=$dir/crema-gpu
device=$3

# part CODE PART ARGUMENT...: runs a part without the build folder, and expects the exit code.
part() {
  expected=$1
  began=$(date +%s)
  shift
  env -i PATH="$PATH" HOME="$dir" PYTHON="$python" CREMA_TRAIN=small \
    ${CREMA_CUDA_PLUGIN:+"CREMA_CUDA_PLUGIN=$CREMA_CUDA_PLUGIN"} ${CREMA_CUDA_PATH:+"CREMA_CUDA_PATH=$CREMA_CUDA_PATH"} \
    ${CREMA_OPENCL_BLAS:+"CREMA_OPENCL_BLAS=$CREMA_OPENCL_BLAS"} \
    ${CREMA_OPENCL_CACHE:+"CREMA_OPENCL_CACHE=$CREMA_OPENCL_CACHE"} ${POCL_CACHE_DIR:+"POCL_CACHE_DIR=$POCL_CACHE_DIR"} \
    ${LD_LIBRARY_PATH:+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} ${seconds:+"CREMA_PART_SECONDS=$seconds"} \
    ${no_work:+"FAKE_CUDA_NO_WORK=$no_work"} "$kit/run.sh" -gpu "$device" "$@" >"$dir/out.txt" 2>&1
  code=$?
  cat "$dir/out.txt"
  echo "part $1: $(($(date +%s) - began)) s"
  [ $code -eq "$expected" ] || { echo "part $*: exit code $code, not $expected"; exit 1; }
}
# has TEXT: the output has the line (extended regular expression).
has() { grep -qE "$1" "$dir/out.txt" || { echo "no line '$1'"; exit 1; }; }
seconds=
no_work=

tests="conformance rows train exchange golden_BFLOAT16 python"
part 0 A $tests
for name in $tests; do has "^$name  *passed "; done
has '^check  *result  *s'

# The fake libraries check calls and compute nothing. On other devices this variable has no effect.
no_work=1
few="-batch 1 alexnet"
modes="crema_fast crema_bf16_fast"
[ "$device" = 0 ] || modes=crema_bf16
part 0 B -modes "$(echo $modes | tr ' ' ,)" -row 1 -steps 1 $few
for mode in $modes; do has "^alexnet  *$mode  *[0-9.]+ +[0-9]+$"; done
part 0 C -modes crema_bf16 -iterations 1 $few
has '^conv_fwd_[a-z0-9_]+ +5 +[0-9]+ +[0-9.]+ +[0-9.]+$'
has '^alexnet  *crema_bf16  *[0-9]+ +[0-9.]+ +[0-9.]+ +- +-$'
part 0 E -modes crema -iterations 1 $few
has '^forward +1 +[0-9.]+ +[0-9.]+ +conv_fwd_[a-z0-9_]+ '
has '^alexnet  *crema  *14 +[0-9.]+$'
part 0 bench memory
has 'a small kernel and a wait'
no_work=

# Without compute-sanitizer the part is skipped. A stand-in runs the program, and reports an error for one of them.
command -v compute-sanitizer >/dev/null || part 77 D
mkdir "$dir/tools"
cat >"$dir/tools/compute-sanitizer" <<'TOOL'
#!/bin/sh
tool=$2
shift 6
[ "$tool" = racecheck ] && { echo "ERROR SUMMARY: 1 error"; exit 9; }
"$@" && echo "ERROR SUMMARY: 0 errors"
TOOL
chmod +x "$dir/tools/compute-sanitizer"
PATH=$dir/tools:$PATH
part 0 D memcheck
has '^memcheck rows  *passed .*ERROR SUMMARY: 0 errors$'
part 1 D racecheck
has '^racecheck rows  *FAILED \(9\) .*ERROR SUMMARY: 1 error$'

# A check that fails, and one that gets no time.
mv "$kit/bin/cuda_shapes" "$kit/bin/hidden"
printf '#!/bin/sh\nexit 3\n' >"$kit/bin/cuda_shapes"
chmod +x "$kit/bin/cuda_shapes"
part 1 A shapes
has '^shapes  *FAILED \(3\) '
seconds=1
part 1 A rows
has '^rows  *NO TIME LEFT '
seconds=
part 2 Z
part 1 B -modes crema -batch 1 none
has '^none .*failed: '
