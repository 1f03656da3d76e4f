"""Layers outside of nets, and their descriptions."""
import unittest

import numpy as np
import test_layer  # noqa: F401  (its layers are found by the name of the module)

import caffe
from caffe.proto import caffe_pb2


def blob(*shape):
    """A blob of random values."""
    made = caffe.Blob(*shape)
    made.data[...] = np.random.RandomState(len(shape) + sum(shape)).randn(*shape)
    return made


class SingleLayers(unittest.TestCase):
    """caffe.create_layer."""

    def check_gradient(self, layer, bottom, top, index):
        """The gradient of a weighted sum of the tops, against differences."""
        layer.Forward(bottom, top)
        weights = [np.random.RandomState(7).randn(*t.shape) for t in top]

        def objective():
            layer.Forward(bottom, top)
            return sum(float((w * t.data).sum()) for w, t in zip(weights, top))
        for w, t in zip(weights, top):
            t.diff[...] = w
        layer.Backward(top, [i == index for i in range(len(bottom))], bottom)
        values, step = bottom[index].data, 1e-2
        for place in np.ndindex(*values.shape):
            kept = values[place]
            values[place] = kept + step
            more = objective()
            values[place] = kept - step
            less = objective()
            values[place] = kept
            self.assertAlmostEqual((more - less) / (2 * step), float(bottom[index].diff[place]), places=2)

    def test_loss(self):
        bottom, top = [blob(10, 5), blob(10, 5)], [caffe.Blob([])]
        bottom[1].data[...] += 1
        layer = caffe.create_layer(caffe_pb2.LayerParameter(type="EuclideanLoss"))
        layer.SetUp(bottom, top)
        self.assertEqual(top[0].diff, 1)
        loss = layer.Forward(bottom, top)
        wanted = ((bottom[0].data - bottom[1].data) ** 2).sum() / 20
        self.assertAlmostEqual(loss, float(wanted), places=4)
        self.assertEqual(top[0].data, np.float32(loss))
        top[0].diff[...] = 2
        layer.Backward(top, [True, False], bottom)
        np.testing.assert_allclose(bottom[0].diff, (bottom[0].data - bottom[1].data) / 5, rtol=1e-5)
        self.assertFalse(np.any(bottom[1].diff))
        self.check_gradient(layer, bottom, top, 1)

    def test_parameters(self):
        bottom, top = [blob(4, 5)], [caffe.Blob([])]
        layer = caffe.create_layer("type: 'InnerProduct' inner_product_param { num_output: 3 "
                                   "weight_filler { type: 'xavier' } }")
        self.assertEqual(len(layer.blobs), 0)
        with self.assertRaises(RuntimeError):
            layer.Forward(bottom, top)
        layer.SetUp(bottom, top)
        self.assertEqual([b.shape for b in layer.blobs], [(3, 5), (3,)])
        self.check_gradient(layer, bottom, top, 0)
        layer.Forward(bottom, top)
        np.testing.assert_allclose(top[0].data, bottom[0].data @ layer.blobs[0].data.T, rtol=1e-4, atol=1e-6)
        layer.blobs[0].diff[...] = 0
        layer.Backward(top, [False], bottom)
        np.testing.assert_allclose(layer.blobs[0].diff, top[0].diff.T @ bottom[0].data, rtol=1e-4, atol=1e-5)
        bottom[0].reshape(7, 5)
        layer.Reshape(bottom, top)
        self.assertEqual(top[0].shape, (7, 3))
        self.assertEqual((layer.type, repr(layer)), ("InnerProduct", "<caffe.SingleLayer of type InnerProduct>"))

    def test_in_place(self):
        both = [blob(3, 4)]
        wanted = np.maximum(both[0].data, 0)
        layer = caffe.create_layer(caffe.LayerParameter('name: "r", type: "ReLU"'))
        layer.SetUp(both, both)
        layer.Forward(both, both)
        np.testing.assert_array_equal(both[0].data, wanted)

    def test_python_layer(self):
        bottom, top = {0: blob(2, 3)}, {0: caffe.Blob([])}
        layer = caffe.create_layer("type: 'Python' python_param { module: 'test_layer' layer: 'Scale' "
                                   "param_str: '3' }")
        layer.SetUp(bottom, top)
        layer.Forward(bottom, top)
        np.testing.assert_allclose(top[0].data, 3 * bottom[0].data)
        self.assertGreater(layer.reshapes, 0)
        with self.assertRaises(AttributeError):
            layer.nonsense
        failing = caffe.create_layer("type: 'Python' python_param { module: 'test_layer' layer: 'Failing' "
                                     "param_str: 'forward' }")
        failing.SetUp([], top)
        with self.assertRaises(KeyError):
            failing.Forward([], top)

    def test_failures(self):
        with self.assertRaises(caffe.Error):
            caffe.create_layer("type: 'Nothing'").SetUp([], [])
        with self.assertRaises(Exception):
            caffe.create_layer("nonsense: 3")


class Descriptions(unittest.TestCase):
    """caffe.LayerParameter."""

    def test_sources(self):
        message = caffe_pb2.LayerParameter(name="a", type="Power")
        message.power_param.scale = 3
        for source in (str(message), message.SerializeToString(), message):
            param = caffe.LayerParameter(source)
            self.assertEqual(param.to_python(), message)
            self.assertEqual((param.name, param.power_param.scale), ("a", 3))
            self.assertEqual(param.field("power_param.scale"), "3.0")
            self.assertEqual(repr(param), "<caffe.LayerParameter 'a' of type Power>")
        param = caffe.LayerParameter()
        param.from_python(message)
        self.assertEqual(param.type, "Power")
        with self.assertRaises(AttributeError):
            param.nonsense

    def test_of_a_layer_in_a_net(self):
        net = test_layer.net_of(test_layer.python("a", "x", "a", "Scale", "loss_weight: 0.5", "4"))
        param = net.layers[1].layer_param
        self.assertEqual((param.python_param.param_str, list(param.loss_weight)), ("4", [0.5]))
        self.assertEqual((param.field("name"), list(param.bottom)), ("a", ["x"]))
        del net
        self.assertEqual(param.name, "a")
        with self.assertRaises(RuntimeError):
            param.field("name")


if __name__ == "__main__":
    unittest.main()
