"""caffe.onnx: nets out to ONNX files and back."""
import os
import unittest

import numpy as np

import caffe
import case

NET = """
name: 'small'
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 5 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
layer { name: 'prob' type: 'Softmax' bottom: 'conv' top: 'prob' }
"""


class Onnx(case.FolderCase):
    """Export, import and comparison."""

    def setUp(self):
        super().setUp()
        caffe.set_random_seed(3)
        self.net = caffe.Net(self.write("net.prototxt", NET), caffe.TEST)
        self.data = np.random.RandomState(1).rand(4, 3, 8, 8).astype(np.float32)
        self.wanted = self.net.forward(data=self.data)["prob"].copy()
        self.file = self.path("net.onnx")

    def check(self, net):
        np.testing.assert_allclose(net.forward(data=self.data)["prob"], self.wanted, rtol=1e-6, atol=1e-7)

    def test_back(self):
        caffe.onnx.export(self.net, self.file)
        self.check(caffe.onnx.load(self.file))
        self.check(caffe.Net(self.file, caffe.TEST))
        self.check(caffe.Net(self.file, phase=caffe.TEST))
        np.testing.assert_allclose(caffe.Model(self.file)(self.data)["prob"], self.wanted, rtol=1e-5, atol=1e-6)

    def test_files(self):
        weights, net, other = self.path("net.caffemodel"), self.path("net.prototxt"), self.path("other.prototxt")
        self.net.save(weights)
        caffe.set_random_seed(4)
        caffe.onnx.export(net, self.file, weights=weights, opset=14)
        caffe.onnx.convert(self.file, other, self.path("other.caffemodel"))
        self.check(caffe.Net(other, caffe.TEST, weights=self.path("other.caffemodel")))

    def test_batch(self):
        caffe.onnx.export(self.net, self.file, batch=2)
        self.assertEqual(tuple(caffe.onnx.load(self.file).blobs["data"].shape), (2, 3, 8, 8))
        self.assertEqual(tuple(self.net.blobs["prob"].shape), (4, 5, 6, 6))
        caffe.onnx.export(self.net, self.file, batch="dynamic")
        self.assertEqual(tuple(caffe.onnx.load(self.file).blobs["data"].shape), (1, 3, 8, 8))
        for wrong in (0, -1, "any"):
            with self.assertRaisesRegex(ValueError, "batch: expected a number above 0 or 'dynamic'"):
                caffe.onnx.export(self.net, self.file, batch=wrong)

    def test_compare(self):
        caffe.onnx.export(self.net, self.file)
        found = caffe.onnx.compare(self.net, self.file)
        self.assertLess(found.difference, 1e-6)
        self.net.params["conv"][0].data[...] *= 2
        found = caffe.onnx.compare(self.net, self.file)
        self.assertGreater(found.difference, 1e-3)
        self.assertEqual(found.output, "prob")

    def test_rejected(self):
        train = caffe.Net(self.path("net.prototxt"), caffe.TRAIN)
        with self.assertRaisesRegex(caffe.Error, "only a net of phase TEST"):
            caffe.onnx.export(train, self.file)
        with self.assertRaisesRegex(caffe.Error, "operator set 5; sets 11 to 21 are supported"):
            caffe.onnx.export(self.net, self.file, opset=5)
        self.assertFalse(os.path.exists(self.file))
        with self.assertRaisesRegex(ValueError, "must end in .onnx"):
            caffe.onnx.load(self.path("net.prototxt"))
        with self.assertRaisesRegex(caffe.Error, "none.onnx"):
            caffe.onnx.convert(self.path("none.onnx"), self.path("a"), self.path("b"))
        with self.assertRaisesRegex(TypeError, "expected a Net"):
            caffe.onnx.compare("net", self.file)
        for call in (caffe.onnx.load, caffe.onnx.convert):
            self.write("bad.onnx", "no protobuf")
            arguments = [self.path("bad.onnx")] + [self.path("a"), self.path("b")] * (call is caffe.onnx.convert)
            with self.assertRaisesRegex(caffe.Error, "bad.onnx"):
                call(*arguments)


if __name__ == "__main__":
    unittest.main()
