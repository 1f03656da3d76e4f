#!/usr/bin/env bash
# test_onnx.sh BUILD [TASK...]: compares crema with ONNX Runtime, the package onnx and PyTorch. TASK is a subcommand of
# onnx_check.py: layers, operators, models, golden, nodes, torchvision. Without a task it makes the Python environment
# BUILD/onnx-python and exits. Exit code 77: there is no such environment yet.
set -eu
cd "$(dirname "$0")/.."
build=${1:?"usage: $0 BUILD [TASK...]"}
shift
environment=$build/onnx-python
packages="h5py numpy onnx onnxruntime onnxscript torch torchvision"
# Importing PyTorch would take seconds.
has_packages="import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, '$packages'.split())))"

if [ $# = 0 ]; then
  [ -x "$environment/bin/python" ] || python3 -m venv "$environment"
  "$environment/bin/python" -c "$has_packages" && exit 0
  exec "$environment/bin/pip" install --quiet protobuf $packages
fi

if ! "$environment/bin/python" -c "$has_packages" 2>/dev/null; then
  echo "no environment $environment; make test-onnx makes it"
  exit 77
fi
for task in "$@"; do
  "$environment/bin/python" scripts/onnx_check.py -build "$build" "$task"
done
