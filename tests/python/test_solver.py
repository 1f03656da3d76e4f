"""Solvers: training, snapshots, callbacks, interrupts."""
import gc
import os
import pickle
import signal
import threading
import time
import unittest
import weakref

import numpy as np

import caffe
import case


class Solving(case.FolderCase):
    """The solver of a small net."""

    def setUp(self):
        super().setUp()
        self.file = self.solver_file()
        self.solver = caffe.get_solver(self.file)

    def test_solve(self):
        self.assertEqual(self.solver.iter, 0)
        self.solver.solve()
        self.assertEqual(self.solver.iter, 100)

    def test_step(self):
        before = self.solver.net.params["conv"][0].data
        old = before.copy()
        self.solver.step(3)
        self.assertEqual(self.solver.iter, 3)
        self.assertFalse(np.array_equal(old, before))  # the array taken before is live

    def test_all_blobs_are_there_after_a_step(self):
        """Values and gradients of inner blobs, also in the test nets."""
        self.solver.step(1)
        self.solver.test_nets[0].forward()
        for net in [self.solver.net, *self.solver.test_nets]:
            for blob in net.blobs.values():
                self.assertEqual(blob.data.shape, blob.shape)
        self.assertTrue(self.solver.net.blobs["conv"].diff.any())
        self.assertTrue(self.solver.test_nets[0].blobs["conv"].data.any())

    def test_apply_update(self):
        layer = self.solver.net.layers[1]
        data = layer.blobs[0].data[...]
        data[...] = 0
        layer.blobs[0].diff[...] = 1
        rate = self.solver.lr
        self.solver.apply_update()
        np.testing.assert_allclose(data, -rate, rtol=1e-6)
        self.assertAlmostEqual(self.solver.param.base_lr, 0.01, places=6)
        self.assertEqual(self.solver.iter, 1)
        self.assertLess(self.solver.lr, self.solver.base_lr)

    def test_base_lr(self):
        self.solver.base_lr = 0.5
        self.assertEqual((self.solver.base_lr, self.solver.lr), (0.5, 0.5))
        self.solver.max_iter = 7
        self.solver.solve()
        self.assertEqual(self.solver.iter, 7)
        with self.assertRaises(RuntimeError):
            self.solver.max_iter = -1

    def test_test_nets_are_fixed(self):
        with self.assertRaisesRegex(TypeError, "the solver's file names the test nets"):
            self.solver.test_nets.append(self.solver.net)

    def test_param(self):
        """Fields of the file; those that can be changed change the solver."""
        param = self.solver.param
        self.assertEqual((param.max_iter, param.display, param.layer_wise_reduce), (100, 100, True))
        self.assertIn('lr_policy: "inv"', str(param))
        self.assertEqual(param.message.DESCRIPTOR.name, "SolverParameter")
        param.base_lr, param.max_iter = 0.5, 7
        self.assertEqual((param.base_lr, self.solver.base_lr, self.solver.lr), (0.5, 0.5, 0.5))
        self.assertEqual((self.solver.param.base_lr, self.solver.max_iter), (0.5, 7))
        with self.assertRaisesRegex(AttributeError, "momentum cannot be changed"):
            param.momentum = 0.5
        with self.assertRaises(AttributeError):
            param.nonsense

    def test_type(self):
        """Of the file, in its older and newer form, or of the class."""
        for text, name in (("", "SGD"), ("type: 'Adam'", "Adam"), ("solver_type: NESTEROV", "Nesterov")):
            solver = caffe.get_solver(self.solver_file(text))
            self.assertEqual((solver.type, solver.param.type, type(solver).__name__), (name, name, name + "Solver"))
            self.assertEqual(caffe.SGDSolver(self.solver_file(text)).type, "SGD")

    def test_test_nets(self):
        nets = self.solver.test_nets
        self.assertEqual(len(nets), 1)
        nets[0].forward()
        self.solver.net.params["ip"][0].data[...] = 2
        self.assertTrue(np.all(nets[0].params["ip"][0].data == 2))

    def test_net_outlives_the_solver(self):
        net, test_net = self.solver.net, self.solver.test_nets[0]
        weights = net.params["conv"][0].data
        del self.solver
        net.forward()
        test_net.forward()
        del net, test_net
        self.assertTrue(np.isfinite(weights.sum()))

    def test_snapshot_and_restore(self):
        self.solver.step(2)
        self.solver.snapshot()
        state, model = self.path("model_iter_2.solverstate"), self.path("model_iter_2.caffemodel")
        self.assertTrue(os.path.exists(state) and os.path.exists(model))
        other = caffe.SGDSolver(self.file)
        other.restore(state)
        self.assertEqual(other.iter, 2)
        for name, blobs in self.solver.net.params.items():
            for mine, theirs in zip(blobs, other.net.params[name]):
                np.testing.assert_array_equal(mine.data, theirs.data)
        third = caffe.get_solver(self.file)
        third.solve(state)
        self.assertEqual(third.iter, 100)

    def test_classes(self):
        self.assertIs(type(self.solver), caffe.SGDSolver)
        momentum = {"AdaGradSolver", "RMSPropSolver"}
        for name in ("SGDSolver", "NesterovSolver", "AdaDeltaSolver", "AdamSolver"):
            solver = getattr(caffe, name)(self.file)
            self.assertEqual(solver.type, name[:-6])
            solver.step(1)
        for name in momentum:
            solver = getattr(caffe, name)(self.write("plain.prototxt", """
net: '%s' base_lr: 0.01 lr_policy: 'fixed' max_iter: 1""" % self.small_net()))
            solver.step(1)
        adam = self.solver_file("type: 'Adam'")
        self.assertIs(type(caffe.get_solver(adam)), caffe.AdamSolver)

    def test_callbacks(self):
        seen = []
        self.solver.add_callback(lambda: seen.append("start"), lambda: seen.append("ready"))
        self.solver.step(2)
        self.assertEqual(seen, ["start", "ready"] * 2)

        def fail():
            raise LookupError("no more")
        self.solver.add_callback(fail, None)
        with self.assertRaisesRegex(LookupError, "no more"):
            self.solver.step(1)

    def test_callback_changes_gradients(self):
        net = self.solver.net
        weights = net.params["ip"][0].data.copy()

        def stop():
            for blobs in net.params.values():
                for blob in blobs:
                    blob.diff[...] = 0
                    blob.data[...] *= 0
        self.solver.add_callback(None, stop)
        self.solver.step(1)
        self.assertTrue(np.any(weights))
        self.assertTrue(np.all(net.params["ip"][0].data == 0))

    def test_share_weights(self):
        net = caffe.Net(self.small_net(), caffe.TEST)
        net.params["conv"][0].data[...] = 0.25
        self.solver.share_weights(net)
        self.assertTrue(np.all(self.solver.net.params["conv"][0].data == 0.25))
        self.solver.step(1)
        np.testing.assert_array_equal(net.params["conv"][0].data, self.solver.net.params["conv"][0].data)
        self.assertFalse(np.all(net.params["conv"][0].data == 0.25))

    def test_progress(self):
        with case.quiet():
            self.solver.solve(progress=True)
        self.assertEqual(self.solver.iter, 100)

    def test_seed(self):
        def trained():
            caffe.set_random_seed(5)
            solver = caffe.SGDSolver(self.file)
            solver.step(2)
            return solver.net.params["conv"][0].data.copy()
        np.testing.assert_array_equal(trained(), trained())

    def test_interrupt(self):
        self.solver.max_iter = 10 ** 7

        def press():
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
        old = signal.signal(signal.SIGINT, signal.default_int_handler)
        thread = threading.Thread(target=press)
        try:
            thread.start()
            with self.assertRaises(KeyboardInterrupt):
                self.solver.solve()
        finally:
            thread.join()
            signal.signal(signal.SIGINT, old)
        done = self.solver.iter
        self.assertLess(done, 10 ** 7)
        self.solver.step(1)
        self.assertEqual(self.solver.iter, done + 1)

    def test_input_arrays_stay_without_the_object_of_the_net(self):
        net = self.write("memory.prototxt", """
layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label'
  memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 1 } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'loss' }""")
        solver = caffe.SGDSolver(self.write("memory_solver.prototxt",
                                            "net: '%s' base_lr: 0.1 lr_policy: 'fixed'" % net))
        data, labels = np.full((2, 1, 1, 3), 7, np.float32), np.ones(2, np.float32)
        kept = weakref.ref(data), weakref.ref(labels)
        solver.net.set_input_arrays(data, labels)
        del data, labels
        gc.collect()
        self.assertTrue(all(array() is not None for array in kept))
        solver.step(1)
        np.testing.assert_array_equal(solver.net.blobs["data"].data, np.full((2, 1, 1, 3), 7))
        del solver
        gc.collect()
        self.assertTrue(all(array() is None for array in kept))

    def test_rates_cannot_be_deleted(self):
        with self.assertRaises(TypeError):
            del self.solver.base_lr
        with self.assertRaises(TypeError):
            del self.solver.max_iter

    def test_pickled_nets(self):
        other = pickle.loads(pickle.dumps(self.solver.net))
        np.testing.assert_array_equal(other.params["ip"][0].data, self.solver.net.params["ip"][0].data)

    def test_failures(self):
        with self.assertRaises(RuntimeError):
            caffe.SGDSolver(self.path("missing"))
        with self.assertRaises(RuntimeError):
            caffe.get_solver(self.write("bad.prototxt", "net: 'x' lr_policy: 'fixed'"))
        with self.assertRaises(RuntimeError):
            self.solver.restore(self.path("missing"))


if __name__ == "__main__":
    unittest.main()
