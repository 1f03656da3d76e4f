"""What holds for a whole process: its end, its log, its imports."""
import os
import subprocess
import sys
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
        self.assertFalse(caffe.has_nccl())
        with self.assertRaises(RuntimeError):
            caffe.NCCL(None, None)
        with self.assertRaises(RuntimeError):
            caffe.NCCL.new_uid()
        caffe.set_solver_rank(1)
        caffe.set_solver_count(2)
        self.assertEqual((caffe.solver_rank(), caffe.solver_count(), caffe.root_solver()), (1, 2, False))
        caffe.set_solver_rank(0)
        caffe.set_solver_count(1)
        timer = caffe.Timer()
        timer.start()
        timer.stop()
        self.assertGreaterEqual(timer.ms, 0)
        caffe.set_mode_gpu()
        try:
            with self.assertRaises(RuntimeError):
                caffe.Net.from_text(case.DEPLOY)
        finally:
            caffe.set_mode_cpu()
        caffe.Net.from_text(case.DEPLOY)
        with self.assertRaises(ValueError):
            caffe.set_devices([])

    def test_modules_are_there(self):
        """Programs use them without importing each; only those that are used are loaded."""
        code, out, error = self.run_program("""
import sys
import caffe
before = 'google.protobuf' in sys.modules or 'caffe.draw' in sys.modules
message = caffe.proto.caffe_pb2.NetParameter(name='n')
print(before, message.name, caffe.draw.get_edge_label.__name__, caffe.plot.tile.__name__,
      caffe.coord_map.crop.__name__, caffe.model_libs.VGGNetBody.__name__, hasattr(caffe, 'nonsense'))
""")
        self.assertEqual((code, out), (0, "False n get_edge_label tile crop VGGNetBody False\n"), error)


if __name__ == "__main__":
    unittest.main()
