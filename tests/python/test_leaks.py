"""Memory stays flat: nets made and dropped, passes with arrays kept, layers in Python.

CREMA_LEAK_ROUNDS multiplies the numbers, which are small for the suite: 100 makes 10,000 nets and 100,000
forward passes of them, and 0 leaves the tests out.
"""
import gc
import os
import unittest

import caffe
import case
import test_layer

ROUNDS = int(os.environ.get("CREMA_LEAK_ROUNDS", "1"))


def resident():
    """Bytes of memory that the process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@unittest.skipIf(ROUNDS == 0, "memory is not counted here")
class Leaks(case.FolderCase):
    """Each part is run until memory is warm, and then again."""

    def check(self, run, count, most):
        """`count` more runs take less than `most` bytes."""
        for _ in range(max(count // 4, 20)):
            run()
        gc.collect()
        before = resident()
        for _ in range(count):
            run()
        gc.collect()
        self.assertLess(resident() - before, most)

    def test_nets(self):
        def run():
            net = caffe.Net.from_text(case.DEPLOY)
            net.blobs["data"].data[...] = 1
            net.forward()
        self.check(run, 100 * ROUNDS, 4 << 20)

    def test_forwards_with_views(self):
        net = caffe.Net.from_text(case.DEPLOY)
        kept = [net.blobs["conv"].data, net.params["conv"][0].data]

        def run():
            found = net.forward()
            kept[0] = net.blobs["conv"].data
            net.params["ip"][0].data[...] += found["prob"].sum() * 0
        self.check(run, 1000 * ROUNDS, 2 << 20)

    def test_python_layers(self):
        def run():
            net = test_layer.net_of(test_layer.python("a", "x", "a", "Scale"))
            net.after_forward(lambda layer, kept=net: None)
            net.forward()
            net.backward()
        self.check(run, 40 * ROUNDS, 4 << 20)

    def test_failures(self):
        net = test_layer.net_of(test_layer.python("f", "", "f", "Failing", param="forward"))

        def run():
            try:
                net.forward()
            except KeyError:
                pass
            try:
                net.forward(start="none")
            except ValueError:
                pass
        self.check(run, 200 * ROUNDS, 2 << 20)

    def test_solvers(self):
        path = self.solver_file()

        def run():
            solver = caffe.SGDSolver(path)
            kept = solver.net.params["ip"][0].data
            solver.add_callback(lambda: kept, None)
            solver.step(1)
        self.check(run, 20 * ROUNDS, 6 << 20)

    def test_growing_blobs(self):
        blob = caffe.Blob(1, 1)

        def run():
            kept = []
            for size in (10, 1000, 10, 20000):
                blob.reshape(size)
                kept.append(blob.data)
            kept[0][...] = 1
        self.check(run, 200 * ROUNDS, 4 << 20)


if __name__ == "__main__":
    unittest.main()
