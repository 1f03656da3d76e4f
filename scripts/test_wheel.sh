#!/usr/bin/env bash
# test_wheel.sh PYTHON [REQUIREMENT...]: runs the tests of the Python package from the wheel in dist/ (`make wheel`),
# in a new environment of that interpreter, with packages such as numpy==1.24.0 protobuf==3.20.0, or with the newest.
set -eu
cd "$(dirname "$0")/.."
python=${1:?"usage: $0 PYTHON [REQUIREMENT...]"}
shift
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
"$python" -m venv "$environment"
"$environment/bin/pip" install --quiet "$@" dist/crema_caffe-*.whl
"$environment/bin/pip" list
"$environment/bin/crema" version
CREMA_TEST_PYTHON=$environment/bin/python tests/python/run.sh "$environment"
