"""What holds for a whole process: its end, its log, its imports."""
import os
import subprocess
import sys
import tempfile
import unittest

import caffe
import case

WITH_LAYER = """
import sys, threading
sys.path.insert(0, %r)
import caffe, case, test_layer
net = test_layer.net_of(test_layer.python('a', 'x', 'a', 'Scale'))
solver = None
""" % os.path.dirname(os.path.abspath(__file__))


class Processes(unittest.TestCase):
    """Programs of their own."""

    def run_program(self, text, **environment):
        """Runs it in another process; (exit code, output, error output)."""
        done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(os.environ, **environment), timeout=100)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_end_with_a_net_alive(self):
        code, out, error = self.run_program(WITH_LAYER + "net.forward(); print('done')")
        self.assertEqual((code, out), (0, "done\n"), error)

    def test_math(self):
        code, _, error = self.run_program("""
import caffe
for math in ("fast", "exact", None):
    caffe.set_math(math)
    caffe.Net.from_text("layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 } } }")
""", GLOG_minloglevel="0")
        self.assertEqual(code, 0, error)
        self.assertEqual(error.count("math fast has no effect on cpu:0"), 1, error)

    def test_end_while_another_thread_runs(self):
        code, out, error = self.run_program(WITH_LAYER + """
def run():
    while True:
        net.forward()
threading.Thread(target=run, daemon=True).start()
import time
time.sleep(0.1)
print('done', flush=True)
""")
        self.assertEqual((code, out), (0, "done\n"), error)

    def test_use_after_the_end(self):
        code, out, error = self.run_program(WITH_LAYER + """
import atexit
class Late:
    def __del__(self):
        try:
            net.forward()
        except RuntimeError as error:
            print(type(error).__name__, flush=True)
late = Late()
import os
atexit.register(lambda: None)
""")
        self.assertEqual(code, 0, error)
        self.assertIn(out, ("", "Error\n"))

    def test_making_nets_after_a_fork(self):
        """Not when nets ran before it: their threads are not in the child. Nothing may hang."""
        text = """
import os, sys, signal, threading, numpy as np
import caffe, case
def child(use):
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            said = str(use())
        except RuntimeError as error:
            said = 'RuntimeError ' + ('fork' if 'fork' in str(error) else str(error))
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.wait()
    print(os.read(reader, 1000).decode(), flush=True)
    os.close(reader)
TEXT = case.DEPLOY.replace('dim: 4 dim: 3 dim: 8 dim: 8', 'dim: 4 dim: 3 dim: 64 dim: 64')
def fresh():
    return caffe.Net.from_text(TEXT).forward()['prob'].shape
child(fresh)
with open(sys.argv[1], 'w') as file:
    file.write(TEXT)
net = caffe.Net.from_text(TEXT)
net.forward()
model = caffe.Model(sys.argv[1])
data = np.zeros((1, 3, 64, 64))
model(data)
def emptied():
    model._idle.clear()
    return model(data)
for use in (fresh, net.forward, lambda: model(data), emptied, lambda: caffe.Model(sys.argv[1]),
            lambda: caffe.Blob(2, 3).data.shape):
    child(use)
"""
        with tempfile.TemporaryDirectory() as folder:
            program = "import sys; sys.path.insert(0, %r); sys.argv.append(%r)\n" % (
                os.path.dirname(os.path.abspath(__file__)), os.path.join(folder, "net.prototxt"))
            code, out, error = self.run_program(program + text)
        self.assertEqual((code, out.splitlines()),
                         (0, ["(4, 5)"] + ["RuntimeError fork"] * 5 + ["(2, 3)"]), error)

    def test_log(self):
        text = WITH_LAYER + "caffe.init_log(%s); caffe.log('a line'); print(caffe.TEST)"
        code, out, error = self.run_program(text % "0")
        self.assertRegex(error, r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ .*\] a line")
        self.assertEqual((code, out), (0, "1\n"))

    def test_no_second_pool(self):
        """Another schema of the name in the default pool is left alone."""
        code, out, error = self.run_program("""
from google.protobuf import descriptor_pb2, descriptor_pool
file = descriptor_pb2.FileDescriptorProto(name='caffe.proto', package='caffe', syntax='proto2')
file.message_type.add(name='NetParameter')
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
from caffe.proto import caffe_pb2
print(len(caffe_pb2.NetParameter.DESCRIPTOR.fields) > 3)
""")
        self.assertEqual((code, out), (0, "True\n"), error)

    def test_module_functions(self):
        self.assertRegex(caffe.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual((caffe.TRAIN, caffe.TEST), (0, 1))
        if caffe.has_nccl():
            self.assertEqual(len(caffe.NCCL.new_uid()), 128)
        else:
            for call in (caffe.NCCL.new_uid, lambda: caffe.NCCL(None, None)):
                with self.assertRaisesRegex(RuntimeError, "set_devices.*mpirun"):
                    call()
        caffe.set_solver_rank(1)
        caffe.set_solver_count(2)
        self.assertEqual((caffe.solver_rank(), caffe.solver_count(), caffe.root_solver()), (1, 2, False))
        caffe.set_multiprocess(True)
        caffe.set_multiprocess(False)
        caffe.set_solver_rank(0)
        caffe.set_solver_count(1)
        timer = caffe.Timer()
        timer.start()
        timer.stop()
        self.assertGreaterEqual(timer.ms, 0)
        with self.assertRaises(ValueError):
            caffe.set_devices([])

    def test_opencl(self):
        if caffe._core.device_count(3) == 0:
            self.skipTest("there is no OpenCL device")
        for environment, device in (({}, "'opencl:0'"), ({"CREMA_OPENCL": " "}, "0")):
            code, out, error = self.run_program("""
import numpy
import caffe, case
values = []
for start in caffe.set_mode_cpu, caffe.set_mode_gpu:
    start()
    caffe.set_device(%s)
    caffe.set_random_seed(1)
    net = caffe.Net.from_text(case.DEPLOY)
    net.blobs['data'].data[...] = numpy.linspace(-1, 1, net.blobs['data'].data.size).reshape(net.blobs['data'].shape)
    values.append(net.forward()['prob'].copy())
print(abs(values[0] - values[1]).max() < 1e-5)
try:
    caffe.set_devices(['opencl:0', 0])
except ValueError as error:
    print(error)""" % device, **environment)
            wanted = "True\n" if environment else "True\nset_devices() needs devices of one type\n"
            self.assertEqual((code, out), (0, wanted), error)

    def test_mode_gpu_without_a_gpu(self):
        if caffe._core.device_count(1) > 0:
            self.skipTest("the mode then takes the GPU, and nothing is to be warned about")
        code, out, error = self.run_program("""
import sys, warnings
import caffe, case
caffe.set_mode_gpu()
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter('always')
    net = caffe.Net.from_text(case.DEPLOY)
print(len(found), found[0].message, net.forward()['prob'].shape)
caffe.set_device(0)
try:
    caffe.Net.from_text(case.DEPLOY)
except caffe.Error as error:
    print(error.status)
caffe.set_mode_cpu()
print(caffe.Net.from_text(case.DEPLOY).inputs)""")
        self.assertEqual((code, out), (0, "1 set_mode_gpu: there is no GPU; nets run on the CPU (4, 5)\n"
                                          "E_NO_DEVICE\n['data']\n"), error)

    def test_modules_are_there(self):
        """Programs use them without importing each; only those that are used are loaded."""
        code, out, error = self.run_program("""
import sys
import caffe
before = 'google.protobuf' in sys.modules or 'caffe.draw' in sys.modules
message = caffe.proto.caffe_pb2.NetParameter(name='n')
print(before, message.name, caffe.draw.get_edge_label.__name__, caffe.plot.tile.__name__,
      caffe.coord_map.crop.__name__, caffe.model_libs.VGGNetBody.__name__, caffe._caffe.Net.__name__, hasattr(caffe, 'nonsense'))
""")
        self.assertEqual((code, out), (0, "False n get_edge_label tile crop VGGNetBody Net False\n"), error)


if __name__ == "__main__":
    unittest.main()
