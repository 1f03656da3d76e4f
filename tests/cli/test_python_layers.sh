#!/bin/bash
# Layers of type Python in the command: they run in the interpreter that CREMA_PYTHON names, or in python3.
. "$(dirname "$0")/lib.sh"

package=$(dirname "$crema")/../python
[ -e "$package/caffe/_core.abi3.so" ] || { echo "the Python package is not built"; exit 77; }
python=
for candidate in ${CREMA_TEST_PYTHON:-python3 /usr/bin/python3}; do
  PYTHONPATH=$package "$candidate" -c 'import caffe' 2>/dev/null && { python=$candidate; break; }
done
[ -n "$python" ] || { echo "no Python here has NumPy and protobuf"; exit 77; }
export CREMA_PYTHON=$python

cat >mine.py <<'END'
import sys

import caffe


class Scale(caffe.Layer):
    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = 2
        caffe.init_log(3)
        print("set up", self.name, sys.argv)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        if self.param_str == "fail":
            raise KeyError("no such thing")
        top[0].data[...] = self.blobs[0].data * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[...] += (top[0].diff * bottom[0].data).sum()
        bottom[0].diff[...] = self.blobs[0].data * top[0].diff
END
net() {
  cat <<END
layer { name: 'd' type: 'DummyData' top: 'x' top: 't' dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 2 }
  data_filler { type: 'constant' value: 1 } data_filler { type: 'constant' value: 4 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y'
  inner_product_param { num_output: 2 weight_filler { type: 'constant' value: 1 } } }
layer { name: 's' type: 'Python' bottom: 'y' top: 'z' python_param { module: '$1' layer: 'Scale' param_str: '$2' } }
layer { name: 'l' type: 'EuclideanLoss' bottom: 'z' bottom: 't' top: 'l' }
END
}
net mine "" >net.prototxt
net mine fail >fails.prototxt
net theirs "" >absent.prototxt
echo "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 4 display: 1 test_iter: 1 test_interval: 2
snapshot_prefix: 's' solver_mode: CPU" >solver.prototxt

run train -solver solver.prototxt
expect_ok "trained"
expect_line "the layer writes" "^set up s \['crema'\]$"
expect_line "the log stays the command's" "^I.*Iteration 0 .*loss = 4"
expect_line "the loss falls" "^I.*Iteration 4, loss = 0\.25"
run test -model net.prototxt -weights s_iter_4.caffemodel -iterations 1
expect_ok "tested"
PYTHONHOME= run summary net.prototxt
expect_ok "looked at"

run time -model fails.prototxt -iterations 1
expect_error "raises" "layer 's' (Python): KeyError('no such thing')"
expect_line "with a traceback" "mine.py\", line [0-9]+, in forward"
run time -model absent.prototxt -iterations 1
expect_error "no module" "absent.prototxt:5: layer 's' (Python): ModuleNotFoundError" "PYTHONPATH"

CREMA_PYTHON=$work/none run summary net.prototxt
expect_error "no interpreter" "net.prototxt:5: layer 's'" "none; CREMA_PYTHON names another" "No such file"
printf '#!/bin/sh\nexit 1\n' >silent && chmod +x silent
CREMA_PYTHON=$work/silent run summary net.prototxt
expect_error "no answer" "it does not answer"
printf '#!/bin/sh\necho ok\necho none.so\necho /usr:/usr\necho pass\n' >static && chmod +x static
CREMA_PYTHON=$work/static run summary net.prototxt
expect_error "no library" "none.so" "install Python's shared library"
mkdir -p other/caffe && echo "__version__ = '1.0.0'" >other/caffe/__init__.py
PYTHONPATH=$work/other run summary net.prototxt
expect_error "another Caffe" "has caffe 1.0.0 in $work/other/caffe; the command is crema"
echo "import numpy_of_another_name" >other/caffe/__init__.py
PYTHONPATH=$work/other run summary net.prototxt
expect_error "no NumPy" "cannot import caffe: No module named 'numpy_of_another_name'"

# The package calls the library in the command, so the command must have all its functions.
names() {
  nm -D --defined-only "$1" | sed -n 's/^[0-9a-f]* T \(crema_[a-z_0-9]*\).*/\1/p' | sort
}
if command -v nm >/dev/null; then
  missing=$(comm -13 <(names "$crema") <(names "$(dirname "$crema")/../lib/libcrema.so"))
  [ -z "$missing" ] || fail "the command lacks $missing"
fi
finish
