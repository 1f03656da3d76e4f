"""Layers written in Python."""
import gc
import importlib
import pathlib
import sys
import types
import unittest
import weakref
from unittest import mock

import numpy as np

import caffe
import case


class Scale(caffe.Layer):
    """y = w x, where w is a learned parameter; param_str gives its first value."""

    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = float(self.param_str or "10")
        self.reshapes = 0

    def reshape(self, bottom, top):
        self.reshapes += 1
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.blobs[0].data * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        self.down = list(propagate_down)
        self.blobs[0].diff[...] += (top[0].diff * bottom[0].data).sum()
        bottom[0].diff[...] = self.blobs[0].data * top[0].diff


class Assigning(Scale):
    """Assigns arrays to its lists, which would be lost."""

    def forward(self, bottom, top):
        for blobs in (bottom, top, self.blobs):
            try:
                blobs[0] = np.zeros(3)
            except TypeError as error:
                self.refused = getattr(self, "refused", 0) + ("blobs[0].data[...]" in str(error))
        super().forward(bottom, top)


class Phase(caffe.Layer):
    """Tells its phase."""

    def reshape(self, bottom, top):
        top[0].reshape()

    def forward(self, bottom, top):
        top[0].data[()] = self.phase


class Growing(caffe.Layer):
    """Data of a different size each time."""

    def setup(self, bottom, top):
        self.size = 0

    def reshape(self, bottom, top):
        self.size += 1
        top[0].reshape(self.size, 2)

    def forward(self, bottom, top):
        top[0].data[...] = self.size


class Loss(caffe.Layer):
    """Half the squared distance per sample."""

    def setup(self, bottom, top):
        if len(bottom) != 2:
            raise ValueError("two bottoms are needed")

    def reshape(self, bottom, top):
        if bottom[0].count != bottom[1].count:
            raise ValueError("the bottoms differ")
        self.difference = np.zeros_like(bottom[0].data)
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.difference[...] = bottom[0].data - bottom[1].data
        top[0].data[...] = np.sum(self.difference ** 2) / bottom[0].num / 2.0

    def backward(self, top, propagate_down, bottom):
        for i, sign in ((0, 1), (1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = sign * top[0].diff * self.difference / bottom[i].num


class Failing(caffe.Layer):
    """Raises where param_str says so."""

    def setup(self, bottom, top):
        self.fail("setup")

    def reshape(self, bottom, top):
        self.fail("reshape")
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.fail("forward")

    def fail(self, where):
        """Raises an exception of a class that the library does not know."""
        if self.param_str == where:
            raise KeyError("in " + where)


class Nested(caffe.Layer):
    """Computes with a net of its own."""

    def setup(self, bottom, top):
        try:
            net_of(python("f", "", "f", "Failing", param="setup"))
        except KeyError:
            pass
        self.net = net_of(python("a", "x", "a", "Scale"))

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.net.forward(x=bottom[0].data)["a"]


class Named(Phase):
    """Has a name of its own."""

    @property
    def name(self):
        """Cannot be set."""
        return "mine"


class Underived:
    """Lacks the base class."""


class NoForward(caffe.Layer):
    """Lacks what every layer needs."""

    def reshape(self, bottom, top):
        top[0].reshape(1)


def net_of(layers, phase=caffe.TRAIN, inputs="x"):
    """A net of an input and these layers."""
    text = "".join("layer { name: 'in_%s' type: 'Input' top: '%s' input_param { shape { dim: 2 dim: 3 } } }"
                   % (name, name) for name in inputs)
    return caffe.Net.from_text("force_backward: true " + text + layers, phase)


def python(name, bottom, top, cls, more="", param=""):
    """The text of such a layer."""
    bottoms = "".join("bottom: '%s' " % b for b in bottom)
    return """layer { name: '%s' type: 'Python' %s top: '%s' %s
python_param { module: 'test_layer' layer: '%s' param_str: '%s' } }""" % (
        name, bottoms, top, more, cls, param)


class PythonLayers(case.FolderCase):
    """Nets with such layers."""

    def test_forward_and_backward(self):
        net = net_of(python("a", "x", "a", "Scale") + python("b", "a", "b", "Scale", param="2"))
        net.blobs["x"].data[...] = 8
        np.testing.assert_array_equal(net.forward()["b"], np.full((2, 3), 160))
        diff = np.full((2, 3), 7)
        found = net.backward(b=diff)
        np.testing.assert_array_equal(found["x"], np.full((2, 3), 140))
        self.assertEqual(net.params["b"][0].diff[0], 6 * 7 * 80)
        self.assertEqual(net.layers[1].down, [True])

    def test_assignments_are_refused(self):
        net = net_of(python("a", "x", "a", "Assigning"))
        net.forward(x=np.ones((2, 3)))
        self.assertEqual(net.layers[1].refused, 3)

    def test_reshape(self):
        net = net_of(python("a", "x", "a", "Scale"))
        net.blobs["x"].reshape(4, 5)
        net.forward()
        self.assertEqual(net.blobs["a"].shape, (4, 5))

    def test_reshape_before_every_forward(self):
        net = net_of(python("a", "x", "a", "Scale"))
        before = net.layers[1].reshapes
        net.forward()
        net.forward()
        self.assertGreaterEqual(net.layers[1].reshapes, before + 2)

    def test_data_of_changing_size(self):
        net = caffe.Net.from_text("layer { name: 'd' type: 'Python' top: 'd' python_param {"
                                  "module: 'test_layer' layer: 'Growing' } }"
                                  "layer { name: 'p' type: 'Power' bottom: 'd' top: 'y' }")
        first = net.forward()["y"].copy()
        second = net.forward()["y"]
        self.assertEqual(second.shape[0], first.shape[0] + 1)
        self.assertTrue(np.all(second == second.shape[0]))

    def test_loss(self):
        text = python("loss", "xz", "loss", "Loss", "loss_weight: 2")
        net = net_of(text, inputs="xz")
        net.blobs["x"].data[...] = 3
        net.blobs["z"].data[...] = 1
        self.assertEqual(float(net.forward()["loss"][0]), 6)
        found = net.backward()
        np.testing.assert_allclose(found["x"], 2)
        np.testing.assert_allclose(found["z"], -2)

    def test_learning(self):
        net = self.write("net.prototxt", """
layer { name: 'd' type: 'DummyData' top: 'x' top: 'z' dummy_data_param { shape { dim: 2 dim: 3 }
  data_filler { type: 'constant' value: 1 } data_filler { type: 'constant' value: 4 } } }
""" + python("s", "x", "y", "Scale", param="0") + python("loss", "yz", "loss", "Loss", "loss_weight: 1"))
        solver = caffe.SGDSolver(self.write("solver.prototxt", """
net: '%s' base_lr: 0.1 lr_policy: 'fixed' max_iter: 50 snapshot_after_train: false""" % net))
        solver.solve()
        self.assertAlmostEqual(float(solver.net.params["s"][0].data[0]), 4, places=3)

    def test_in_the_nets_of_a_solver(self):
        """They are the objects of the program's class, and know their phase; hooks stay with the solver."""
        net = self.write("net.prototxt", python("p", "", "p", "Phase") + python("g", "", "g", "Growing"))
        solver = caffe.SGDSolver(self.write("solver.prototxt", """
net: '%s' base_lr: 0.1 lr_policy: 'fixed' max_iter: 5 test_iter: 3 test_interval: 100 test_initialization: false
snapshot_after_train: false""" % net))
        train, test = solver.net.layers, solver.test_nets[0].layers
        self.assertEqual([type(layer) for layer in train + test], [Phase, Growing] * 2)
        self.assertEqual([layer.phase for layer in train + test], [caffe.TRAIN] * 2 + [caffe.TEST] * 2)
        train[1].size, before = 10, test[1].size
        seen = []
        solver.net.after_forward(seen.append)
        solver.step(2)
        self.assertGreaterEqual(solver.net.blobs["g"].shape[0], 12)
        self.assertEqual(test[1].size, before)
        gc.collect()
        solver.net.before_forward(seen.append)
        solver.step(1)
        self.assertEqual(seen, [0, 1, 0, 1, 0, 0, 1, 1])

    def test_solver_goes_with_its_layers(self):
        net = self.write("net.prototxt", python("p", "", "p", "Phase"))
        solver = caffe.SGDSolver(self.write("solver.prototxt", """
net: '%s' base_lr: 0.1 lr_policy: 'fixed' max_iter: 5 snapshot_after_train: false""" % net))
        gone = weakref.ref(solver.net.layers[0])
        solver.net.after_forward(lambda layer: None)
        del solver
        gc.collect()
        self.assertIsNone(gone())

    def test_phase_and_param(self):
        for phase in (caffe.TRAIN, caffe.TEST):
            net = net_of(python("p", "", "p", "Phase"), phase)
            self.assertEqual(int(net.forward()["p"]), phase)
        net = net_of(python("a", "x", "a", "Scale", param="{\"a\": 1}".replace("\"", "").replace(
            "{a: 1}", "5")))
        self.assertEqual(net.layers[1].param_str, "5")
        self.assertEqual(net.layer_dict["a"].type, "Python")
        self.assertIsInstance(net.layer_dict["a"], Scale)

    def test_attributes_of_the_class_stay(self):
        self.assertEqual(net_of(python("p", "", "p", "Named")).layers[1].name, "mine")

    def test_exceptions_keep_their_type(self):
        for where in ("setup", "reshape"):
            with self.assertRaisesRegex(KeyError, where):
                net_of(python("f", "", "f", "Failing", param=where))
        net = net_of(python("f", "", "f", "Failing", param="forward"))
        with self.assertRaisesRegex(KeyError, "forward"):
            net.forward()
        with self.assertRaises(NotImplementedError):
            net_of(python("n", "", "n", "NoForward")).forward()
        with self.assertRaises(AttributeError):
            net_of(python("n", "", "n", "NoSuchClass"))
        with self.assertRaisesRegex(TypeError, "Underived of the module test_layer is no class derived from caffe.Layer"):
            net_of(python("n", "", "n", "Underived"))
        with self.assertRaises(ModuleNotFoundError):
            net_of(python("n", "", "n", "X").replace("test_layer", "no_such_module"))
        # Notes, which stand below the exception, say which layer it is and where its file has it.
        path = self.write("absent.prototxt",
                          "\n" + python("n", "", "n", "X").replace("test_layer", "no_such_module"))
        with self.assertRaises(ModuleNotFoundError) as caught:
            caffe.Net(path, caffe.TEST)
        self.assertEqual(caught.exception.name, "no_such_module")
        self.assertEqual(caught.exception.__notes__, [path + ":2: layer 'n'"])
        # So they do in a pass.
        path = self.write("failing.prototxt", "\n\n" + python("f", "", "f", "Failing", param="forward"))
        net = caffe.Net(path, caffe.TEST)
        with self.assertRaises(KeyError) as caught:
            net.forward()
        self.assertEqual(caught.exception.__notes__, [path + ":3: layer 'f'"])
        # One failure leaves nothing behind for the next.
        with self.assertRaises(caffe.Error):
            caffe.Net.from_text("layer { type: 'Nothing' }")

    def test_layers_of_py_faster_rcnn(self):
        """They are crema's own unless the program has them."""
        text = ("layer { name: 's' type: 'Input' top: 's' input_param { shape { dim: [1, 18, 4, 4] } } }"
                "layer { name: 'o' type: 'Input' top: 'o' input_param { shape { dim: [1, 36, 4, 4] } } }"
                "layer { name: 'i' type: 'Input' top: 'i' input_param { shape { dim: [1, 3] } } }"
                "layer { name: 'p' type: 'Python' bottom: 's' bottom: 'o' bottom: 'i' top: 'rois'"
                "  python_param { module: 'rpn.proposal_layer' layer: 'ProposalLayer' param_str: \"'feat_stride': 16\" } }")
        net = caffe.Net.from_text(text)
        self.assertEqual(net.layers[3].type, "Proposal")
        net.blobs["i"].data[...] = 64, 64, 1
        net.forward()
        self.assertEqual(net.blobs["rois"].shape[1], 5)
        package, module = types.ModuleType("rpn"), types.ModuleType("rpn.proposal_layer")
        package.__path__ = []
        module.ProposalLayer = Phase
        with mock.patch.dict(sys.modules, {"rpn": package, "rpn.proposal_layer": module}):
            self.assertIsInstance(caffe.Net.from_text(text).layers[3], Phase)
        # A module that is there and cannot be imported is told, not replaced.
        folder = pathlib.Path(self.folder, "broken")
        (folder / "rpn").mkdir(parents=True)
        (folder / "rpn/__init__.py").write_text("")
        (folder / "rpn/proposal_layer.py").write_text("print 'Python 2'")
        with mock.patch.object(sys, "path", [str(folder), *sys.path]):
            importlib.invalidate_caches()
            with self.assertRaises(SyntaxError):
                caffe.Net.from_text(text)
        sys.modules.pop("rpn", None)

    def test_life(self):
        net = net_of(python("a", "x", "a", "Scale"))
        layer = net.layers[1]
        blob, values = layer.blobs[0], layer.blobs[0].data
        gone = weakref.ref(layer)
        del net, layer
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(values[0], 10)  # arrays stay
        for use in (lambda: blob.data, lambda: blob.shape, lambda: blob.reshape(2), blob.text):
            with self.assertRaisesRegex(RuntimeError, "gone"):
                use()

    def test_base_class(self):
        layer = caffe.Layer()
        with self.assertRaises(RuntimeError):
            layer.blobs.add_blob(1)

    def test_type_list(self):
        for name in ("Data", "Python", "Convolution", "InnerProduct"):
            self.assertIn(name, caffe.layer_type_list())


if __name__ == "__main__":
    unittest.main()
