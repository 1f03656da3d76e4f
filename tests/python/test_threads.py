"""Several threads: nets that run at once, and layers in Python that crema's own threads call.

Threads meet at barriers and in pipes, so that what waits for the interpreter's lock, or for another net, fails
after a while instead of being slow.
"""
import os
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

import caffe
import case
import test_layer

WAIT = 60  # seconds, after which a test has failed


class Meeting(caffe.Layer):
    """Its passes wait until another thread is in one, too; param_str names the exception that follows."""

    barrier = threading.Barrier(2)
    threads = set()

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def meet(self):
        """Waits for the other one."""
        self.threads.add(threading.get_ident())
        self.barrier.wait(WAIT)
        if self.param_str:
            raise {"KeyError": KeyError, "IndexError": IndexError}[self.param_str](self.param_str)

    def forward(self, bottom, top):
        self.meet()
        top[0].data[...] = 2 * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        self.meet()
        bottom[0].diff[...] = 2 * top[0].diff


class Looking(caffe.Layer):
    """Looks at a net while it is trained."""

    net = None
    seen = []

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        if self.phase == caffe.TRAIN:
            self.seen.append(threading.current_thread() is threading.main_thread())
            self.seen.append(self.net.blobs["y"].shape)

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = top[0].diff


def meeting(param=""):
    """A net with such a layer."""
    return caffe.Net.from_text("""force_backward: true
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
layer { name: 'm' type: 'Python' bottom: 'x' top: 'y'
  python_param { module: 'test_threads' layer: 'Meeting' param_str: '%s' } }""" % param, caffe.TRAIN)


def at_once(*calls):
    """Makes the calls in threads of their own; what they returned or raised."""
    found = [None] * len(calls)

    def run(index):
        try:
            found[index] = calls[index]()
        except Exception as error:
            found[index] = error
    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT)
    return found


class Threads(case.FolderCase):
    """Nets in threads of the program."""

    def test_two_nets_are_in_their_passes_at_once(self):
        nets = [meeting(), meeting()]
        for net in nets:
            net.blobs["x"].data[...] = 3
        Meeting.threads.clear()
        for found in at_once(*[net.forward for net in nets]):
            np.testing.assert_array_equal(found["y"], np.full((2, 3), 6))
        self.assertEqual(len(Meeting.threads), 2)
        Meeting.threads.clear()
        for found in at_once(*[lambda net=net: net.backward(y=np.ones((2, 3))) for net in nets]):
            np.testing.assert_array_equal(found["x"], np.full((2, 3), 2))
        self.assertEqual(len(Meeting.threads), 2)

    def test_exceptions_stay_with_their_nets(self):
        """Both raise before either call returns."""
        nets = [meeting("KeyError"), meeting("IndexError")]
        for _ in range(20):
            found = at_once(*[net.forward for net in nets])
            self.assertEqual([type(error) for error in found], [KeyError, IndexError])

    def test_a_net_made_within_a_layer(self):
        """What a layer's setup makes and loses is not the business of the net that it belongs to."""
        net = test_layer.net_of(test_layer.python("a", "x", "a", "Scale")
                                + test_layer.python("n", "a", "n", "Nested"))
        self.assertIsInstance(net.layers[1], test_layer.Scale)
        self.assertIsInstance(net.layers[2], test_layer.Nested)
        self.assertIsInstance(net.layers[2].net.layers[1], test_layer.Scale)
        net.blobs["x"].data[...] = 1
        np.testing.assert_array_equal(net.forward()["n"], np.full((2, 3), 100))

    def check_others_run(self, call):
        """The interpreter does not interrupt this thread: the other one runs only when the call lets go of the
        lock. It is made until the other one has been seen to run."""
        inside, seen, over = threading.Event(), threading.Event(), threading.Event()

        def watch():
            while not over.is_set():
                if inside.is_set():
                    seen.set()
                time.sleep(0.0001)
        thread, before, end = threading.Thread(target=watch), sys.getswitchinterval(), time.monotonic() + WAIT
        sys.setswitchinterval(1000)
        try:
            thread.start()
            while not seen.is_set() and time.monotonic() < end:
                inside.set()
                call()
                inside.clear()
        finally:
            sys.setswitchinterval(before)
            over.set()
            thread.join()
        self.assertTrue(seen.is_set())

    def test_other_threads_run_meanwhile(self):
        text = "force_backward: true " + case.DEPLOY.replace("dim: 8 dim: 8", "dim: 64 dim: 64")
        file = self.write("net.prototxt", text)
        net, model = caffe.Net(file, caffe.TRAIN), caffe.Model(file)
        data, solver = np.zeros((4, 3, 64, 64)), caffe.get_solver(self.solver_file())
        solver.max_iter = 1 << 30
        for call in (net.forward, net.backward, net.reshape, lambda: caffe.Net(file, caffe.TEST), lambda: model(data),
                     lambda: solver.step(1), solver.snapshot, lambda: net.save(self.path("weights"))):
            self.check_others_run(call)


REPLICAS = """
import sys, threading, unittest.mock
sys.path.insert(0, %r)
import caffe, numpy as np, test_threads
from test_threads import Looking, Meeting
def solver(layer='Meeting', param=''):
    with open(sys.argv[1], 'w') as file:
        file.write(test_threads.TRAINED %% (layer, param))
    with unittest.mock.patch('caffe.pycaffe.device_kind', lambda: (2, (0, 1))):
        return caffe.get_solver(sys.argv[1])
""" % os.path.dirname(os.path.abspath(__file__))

TRAINED = """net_param {
layer { name: 'd' type: 'DummyData' top: 'x' top: 't' dummy_data_param { shape { dim: 2 dim: 3 }
  shape { dim: 2 dim: 2 } data_filler { type: 'constant' value: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { num_output: 2
  weight_filler { type: 'xavier' } } }
layer { name: 'm' type: 'Python' bottom: 'y' top: 'z'
  python_param { module: 'test_threads' layer: '%s' param_str: '%s' } }
layer { name: 'l' type: 'EuclideanLoss' bottom: 'z' bottom: 't' top: 'l' } }
test_iter: 2 test_interval: 2 base_lr: 0.01 lr_policy: 'fixed' max_iter: 100 snapshot_after_train: false
"""


class Replicas(case.FolderCase):
    """Solvers that train on two simulated devices, each in a thread of the library's."""

    def run_program(self, text):
        """Runs it in a process that has such devices; its output."""
        done = subprocess.run([sys.executable, "-c", REPLICAS + text, self.path("solver.prototxt")],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=2 * WAIT,
                              env=dict(os.environ, CREMA_SIM="2"))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode().split()

    def test_layers_of_all_replicas_run_at_once(self):
        """Each pass, in training and in tests, meets that of the other replica. The objects of the solver's nets
        are those of the first replica, and of its tests."""
        found = self.run_program("""
s = solver()
train, test = s.net.layers[2], s.test_nets[0].layers[2]
print(type(train).__name__, train.phase, type(test).__name__, test.phase, train is test)
Meeting.threads.clear()
s.step(3)
print(len(Meeting.threads), threading.get_ident() in Meeting.threads, s.iter)
print(np.array_equal(s.net.blobs['z'].data, 2 * s.net.blobs['y'].data))
""")
        self.assertEqual(found, ["Meeting", "0", "Meeting", "1", "False", "2", "True", "3", "True"])

    def test_an_exception_of_a_replica(self):
        found = self.run_program("""
s = solver(param='KeyError')
try:
    s.step(1)
except KeyError as error:
    print(error.args[0])
""")
        self.assertEqual(found, ["KeyError"])

    def test_a_replica_that_uses_the_solver(self):
        """The thread of the first one may, as a hook may; the other would wait for the end of the step."""
        found = self.run_program("""
s = solver('Looking')
Looking.net = s.net
try:
    s.step(1)
except RuntimeError as error:
    print('devices' in str(error), Looking.seen.count(True), Looking.seen.count(False), Looking.seen.count((2, 2)))
""")
        self.assertEqual(found, ["True", "1", "1", "1"])


if __name__ == "__main__":
    unittest.main()
