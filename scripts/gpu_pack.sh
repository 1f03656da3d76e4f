#!/bin/sh
# Packs a build for a machine with a GPU: the command, the plug-ins, the GPU's tests, the benchmarks, the Python
# package, and the shared libraries that they use. For CUDA, build with `make cuda` first. The other machine needs a
# driver, cuBLASLt and, for fast convolutions, cuDNN 9. It needs no compiler and no packages, except Python with NumPy
# for the Python package and the comparison with PyTorch.
#
#   scripts/gpu_pack.sh [BUILD [ARCHIVE]]     defaults: build-cuda, crema-gpu.tar.gz
#
# There:  tar xzf crema-gpu.tar.gz && crema-gpu/run.sh A
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-build-cuda}" && pwd)
archive=${2:-crema-gpu.tar.gz}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
pack=$stage/crema-gpu
programs="tests/cuda_kernels tests/cuda_windows tests/cuda_shapes tests/cuda_train tests/cuda_exchange tests/device_conformance
  tests/device_rows tests/golden bench/gpu bin/crema"

for file in $programs golden/stamp; do
  if [ ! -e "$build/$file" ]; then
    echo "gpu_pack.sh: $build/$file is missing; build everything first" >&2
    exit 1
  fi
done

mkdir -p "$pack/bin" "$pack/lib" "$pack/models" "$pack/bench" "$pack/python"
if [ ! -e "$build/lib/libcrema-cuda.so" ] && [ ! -e "$build/lib/libcrema-opencl.so" ]; then
  echo "gpu_pack.sh: $build has no plug-in for GPUs (make cuda, or OpenCL's headers)" >&2
  exit 1
fi
for program in $programs; do
  cp "$build/$program" "$pack/bin/"
done
# The modules lie where the command looks for them.
for module in "$build"/lib/libcrema-*.so; do
  cp -L "$module" "$pack/lib/"
done
cp -R "$build/golden" "$pack/golden"
cp "$source/tests/golden/pending.txt" "$pack/golden/"
for net in alexnet googlenet squeezenet_v1.0; do
  mkdir -p "$pack/models/$net"
  cp "$source/models/$net/deploy.prototxt" "$pack/models/$net/"
done
for net in alexnet googlenet resnet50; do
  mkdir -p "$pack/models/$net"
  cp "$source/models/$net/train_val.prototxt" "$pack/models/$net/"
done
cp -R "$source/bench/nets" "$source/bench/peers" "$pack/bench/"
if [ -d "$build/python/caffe" ]; then
  cp -RL "$build/python/caffe" "$pack/python/"
fi
# The example that trains LeNet.
mkdir -p "$pack/examples" "$pack/data"
cp -R "$source/examples/common.sh" "$source/examples/mnist" "$pack/examples/"
cp -R "$source/data/mnist" "$pack/data/mnist"
cp -R "$source/models/lenet" "$pack/models/lenet"
cp "$source/scripts/gpu_run.sh" "$pack/run.sh"
cp "$source/scripts/gpu_check.py" "$pack/python/"

# Everything but the C and C++ libraries, which the other machine has, not older than here; older ones in
# front of its own would be in the way of cuDNN.
for object in "$pack"/bin/* "$pack"/lib/*.so "$pack"/python/caffe/*.so; do
  [ -e "$object" ] || continue
  ldd "$object" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p'
done | sort -u | while read -r library; do
  case $(basename "$library") in
    libc.so.*|libm.so.*|libdl.so.*|librt.so.*|libpthread.so.*|libresolv.so.*|ld-linux*) ;;
    libstdc++.so.*|libgcc_s.so.*) ;;
    *) cp -L "$library" "$pack/lib/" ;;
  esac
done
tar -C "$stage" -czf "$archive" crema-gpu
echo "$archive: $(du -h "$archive" | cut -f1)"
