#!/bin/sh
# The archive for a machine with a GPU, packed, unpacked and run over the fake runtime. Arguments: the
# source folder, the build folder, the fake plug-in, a folder of packages with the fake libraries.
set -u
[ -x "$2/bench/gpu" ] || { echo "skipped: built without benchmarks"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$1/scripts/gpu_pack.sh" "$2" "$dir/pack.tar.gz" || exit 1
tar -C "$dir" -xzf "$dir/pack.tar.gz" || exit 1
# Nothing of the build folder may be needed but the fakes.
env -i PATH="$PATH" CREMA_CUDA_PLUGIN="$3" CREMA_CUDA_PATH="$4" CREMA_TRAIN=small CREMA_MNIST=none \
  "$dir/crema-gpu/run.sh" memory >"$dir/out.txt" 2>&1
code=$?
cat "$dir/out.txt"
[ $code -eq 0 ] || exit 1
for name in conformance rows kernels windows shapes train exchange golden golden_FLOAT16 golden_BFLOAT16; do
  grep -q "^$name  *passed" "$dir/out.txt" || { echo "no line for $name"; exit 1; }
done
grep -q 'cuBLASLt 13' "$dir/out.txt" && grep -q 'a small kernel and a wait' "$dir/out.txt" || exit 1
# A check that fails is told.
mv "$dir/crema-gpu/bin/cuda_shapes" "$dir/crema-gpu/bin/hidden"
printf '#!/bin/sh\nexit 3\n' >"$dir/crema-gpu/bin/cuda_shapes"
chmod +x "$dir/crema-gpu/bin/cuda_shapes"
sed -i '/^check \(kernels\|windows\|train\|golden\)/d' "$dir/crema-gpu/run.sh"
env -i PATH="$PATH" CREMA_CUDA_PLUGIN="$3" CREMA_CUDA_PATH="$4" CREMA_MNIST=none \
  "$dir/crema-gpu/run.sh" none >"$dir/out.txt" 2>&1 && { echo "a failure was passed over"; exit 1; }
grep -q '^shapes  *FAILED (3)' "$dir/out.txt"
