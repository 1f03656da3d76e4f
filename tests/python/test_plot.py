"""Pictures of training and of nets."""
import importlib.util
import unittest

import numpy as np

import caffe
import caffe.plot
import case

LOG = """\
I0101 10:00:00.000000 1 train.c:1] Iteration 0, loss = 2.5
I0101 10:00:00.000000 1 train.c:1]     Train net output #0: loss = 2.5 (* 1 = 2.5 loss)
I0101 10:00:00.000000 1 train.c:1] Iteration 0, lr = 0.01
I0101 10:00:00.000000 1 train.c:1] Iteration 10 (5.5 iter/s, 1.8s/10 iters), loss = 1.25
I0101 10:00:00.000000 1 train.c:1] Iteration 10, Testing net (#0)
I0101 10:00:00.000000 1 train.c:1]     Test net output #0: accuracy = 0.75
"""


class Numbers(unittest.TestCase):
    """What needs no matplotlib."""

    def test_log(self):
        found = caffe.plot.read_log(LOG.splitlines())
        self.assertEqual(found["loss"], ([0, 10], [2.5, 1.25]))
        self.assertEqual(found["Train loss"], ([0], [2.5]))
        self.assertEqual(found["Test accuracy"], ([10], [0.75]))

    def test_tile(self):
        whole = caffe.plot.tile(np.arange(5 * 3 * 4).reshape(5, 3, 4))
        self.assertEqual(whole.shape, (8, 15))
        self.assertEqual((whole[0, 0], whole[3, 0], whole[6, 8]), (0, 1, 1))
        self.assertAlmostEqual(float(whole[4, 5]), 48 / 59, places=6)
        self.assertEqual(caffe.plot.tile(np.zeros((4, 2, 2, 3))).shape, (6, 6, 3))


@unittest.skipIf(importlib.util.find_spec("matplotlib") is None, "matplotlib is not installed")
class Pictures(case.FolderCase):
    """Pictures that are not empty."""

    def setUp(self):
        super().setUp()
        import matplotlib
        matplotlib.use("Agg")

    def drawn(self, ax):
        """Draws, checks that there is more than one colour, and closes."""
        import matplotlib.pyplot as plt
        ax.figure.canvas.draw()
        self.assertGreater(np.asarray(ax.figure.canvas.buffer_rgba()).std(), 1)
        plt.close(ax.figure)

    def test_all(self):
        with open(self.write("train.log", LOG)) as file:
            self.drawn(caffe.plot.loss(file.name))
        net = caffe.Net.from_text(case.DEPLOY)
        net.forward(data=np.random.rand(4, 3, 8, 8))
        self.drawn(caffe.plot.filters(net, "conv"))
        self.drawn(caffe.plot.features(net, "conv"))
        self.drawn(caffe.plot.confusion(np.array([[5, 1], [2, 9]]), ["cat", "dog"]))
        with self.assertRaises(ValueError):
            caffe.plot.filters(net, "ip")
        with self.assertRaises(ValueError):
            caffe.plot.features(net, "prob")

    def test_live(self):
        solver = caffe.get_solver(self.solver_file())
        live = caffe.plot.LiveLoss(solver, every=2)
        solver.step(6)
        self.assertEqual(live.iterations, [0, 2, 4])
        self.drawn(live.ax)


if __name__ == "__main__":
    unittest.main()
