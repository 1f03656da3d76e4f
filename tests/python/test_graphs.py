"""Nets and solvers whose passes a device captures (caffe.set_graphs). Needs a GPU, or fake CUDA libraries
(tests/cuda/tests.cmake)."""
import ctypes
import os
import unittest

import caffe
import case
import numpy as np
from caffe import _core

CUDA = 1


def graphs_started():
    """The number of graphs that the fake libraries have started; None on a GPU."""
    plugin = ctypes.CDLL(os.environ.get("CREMA_CUDA_PLUGIN"))
    return plugin.fake_graphs_started() if hasattr(plugin, "fake_graphs_started") else None


@unittest.skipUnless(_core.device_count(CUDA) > 0, "there is no CUDA device")
class Graphs(case.FolderCase):
    def setUp(self):
        super().setUp()
        caffe.set_mode_gpu()
        caffe.set_device(0)
        caffe.set_random_seed(5)

    def tearDown(self):
        caffe.set_graphs(False)
        caffe.set_mode_cpu()
        super().tearDown()

    def check(self, run):
        """`run` has the same results with graphs, and starts graphs only then."""
        results = []
        for graphs in False, True:
            caffe.set_graphs(graphs)
            caffe.set_random_seed(5)
            before = graphs_started()
            results.append(run())
            if before is not None:
                self.assertEqual(graphs_started() > before, graphs)
        np.testing.assert_array_equal(results[0], results[1])

    def test_net(self):
        def run():
            net = caffe.Net.from_text(case.DEPLOY)
            net.blobs["data"].data[...] = np.arange(768).reshape(4, 3, 8, 8) % 17
            prob, weights = net.blobs["prob"].data, net.params["ip"][0].data
            results = []
            for number in range(8):
                weights[number % 5] += 0.25
                net.forward()
                results.append(prob.copy())
            return np.array(results)
        self.check(run)

    def test_solver(self):
        path = self.solver_file("random_seed: 3")

        def run():
            solver = caffe.SGDSolver(path)
            solver.step(6)
            return solver.net.params["ip"][0].data.copy()
        self.check(run)


if __name__ == "__main__":
    unittest.main()
