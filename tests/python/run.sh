#!/bin/sh
# run.sh FOLDER [ARGUMENT...]: runs the tests of the Python package, which stands in FOLDER, in the first
# Python that has what it needs; CREMA_TEST_PYTHON names another one.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
shift
for python in ${CREMA_TEST_PYTHON:-python3 /usr/bin/python3}; do
  "$python" -c 'import sys, numpy, google.protobuf; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
  export PYTHONPATH="$folder:$here" PYTHONDONTWRITEBYTECODE=1 GLOG_minloglevel=2
  if [ $# -eq 0 ]; then set -- discover -s "$here" -t "$here"; fi
  exec "$python" -X faulthandler -m unittest "$@"
done
echo "no Python here has NumPy and protobuf (Debian: python3-numpy, python3-protobuf)"
exit 77
