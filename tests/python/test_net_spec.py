"""NetSpec, coordinate maps and pictures of nets."""
import glob
import os
import shutil
import unittest

import numpy as np
from google.protobuf import text_format

import caffe
import caffe.draw
import case
from caffe import layers as L
from caffe import params as P
from caffe.coord_map import (AxisMismatchException, UndefinedMapException, coord_map_from_to, crop)
from caffe.proto import caffe_pb2


def lenet(batch):
    """The tops of a LeNet, named by hand."""
    data, label = L.DummyData(shape=[dict(dim=[batch, 1, 28, 28]), dict(dim=[batch, 1, 1, 1])],
                              transform_param=dict(scale=1. / 255), ntop=2)
    conv1 = L.Convolution(data, kernel_size=5, num_output=20, weight_filler=dict(type="xavier"))
    pool1 = L.Pooling(conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    ip1 = L.InnerProduct(pool1, num_output=50, weight_filler=dict(type="xavier"))
    relu1 = L.ReLU(ip1, in_place=True)
    ip2 = L.InnerProduct(relu1, num_output=10, weight_filler=dict(type="xavier"))
    return L.SoftmaxWithLoss(ip2, label)


class Specs(case.FolderCase):
    """Nets that are described in Python."""

    def load(self, proto):
        """The net of a message, through a file."""
        return caffe.Net(self.write("net.prototxt", "force_backward: true\n" + str(proto)), caffe.TRAIN)

    def test_names_of_their_own(self):
        net = self.load(lenet(7).to_proto())
        self.assertEqual(list(net._layer_names), ["DummyData1", "Convolution1", "Pooling1", "InnerProduct1",
                                                  "ReLU1", "InnerProduct2", "SoftmaxWithLoss1"])
        self.assertEqual(net.top_names["ReLU1"], ["InnerProduct1"])
        net.forward()
        net.backward()

    def test_spec(self):
        n = caffe.NetSpec()
        n.data, n.label = L.DummyData(shape=[dict(dim=[2, 3, 8, 8]), dict(dim=[2])], ntop=2)
        n.conv = L.Convolution(n.data, kernel_size=3, num_output=4,
                               param=[dict(lr_mult=1), dict(lr_mult=2)])
        n["relu"] = L.ReLU(n.conv, in_place=True)
        n.ip = L.InnerProduct(n["relu"], num_output=5, name="named")
        n.loss = L.SoftmaxWithLoss(n.ip, n.label)
        n.silence = L.Silence(n.data, ntop=0)
        proto = n.to_proto()
        self.assertEqual([layer.name for layer in proto.layer],
                         ["data", "conv", "relu", "named", "loss", "silence"])
        self.assertEqual(list(proto.layer[3].bottom), ["conv"])
        self.assertEqual(list(proto.layer[3].top), ["ip"])
        self.assertEqual([p.lr_mult for p in proto.layer[1].param], [1, 2])
        self.assertEqual(proto.layer[1].convolution_param.num_output, 4)
        self.load(proto).forward()
        n.update("ip", dict(num_output=6))
        self.assertEqual(n.to_proto().layer[3].inner_product_param.num_output, 6)
        self.assertEqual(n.keys(), ["data", "label", "conv", "relu", "ip", "loss", "silence"])
        self.assertEqual(len(n.vals()), 7)
        self.assertIn("ip", n)
        del n.silence
        del n["loss"]
        self.assertEqual(len(n.to_proto().layer), 4)
        with self.assertRaises(AttributeError):
            n.silence

    def test_params(self):
        for value, wanted in ((P.Pooling.MAX, 0), (P.Pooling.AVE, 1), (P.Eltwise.SUM, 1)):
            self.assertEqual(value, wanted)
        layer = L.Python(module="m", layer="l", param_str="x", ntop=1).to_proto().layer[0]
        self.assertEqual(layer.python_param.module, "m")
        layer = L.Data(source="x", backend=P.Data.LMDB, batch_size=3, include=dict(phase=1)).to_proto().layer[0]
        self.assertEqual((layer.data_param.backend, layer.include[0].phase), (1, 1))
        layer = L.Convolution(L.Input(), num_output=8 / 2, kernel_size=[6 / 2], engine=P.Convolution.CAFFE,
                              loss_weight=2, convolution_param=dict(group=2)).to_proto().layer[1]
        conv = layer.convolution_param
        self.assertEqual((conv.engine, conv.num_output, list(conv.kernel_size), conv.group), (1, 4, [3], 2))
        self.assertEqual((layer.engine, list(layer.loss_weight)), ("", [2]))

    def test_extents_of_pooling(self):
        pooling = L.Pooling(L.Input(), kernel_size=[1, 2, 2], stride=2).to_proto().layer[1].pooling_param
        self.assertEqual((list(pooling.kernel_size_3d), pooling.stride, list(pooling.stride_3d)), ([1, 2, 2], 2, []))

    def test_type_errors(self):
        data = L.DummyData(ntop=2)
        with self.assertRaises(TypeError):
            L.Convolution("data")
        with self.assertRaises(TypeError) as caught:
            L.Silence(data, ntop=0)
        self.assertIn("not a Top", str(caught.exception))
        with self.assertRaises(AttributeError):
            L.Convolution(data[0], nonsense=3).to_proto()
        with self.assertRaises(AttributeError):
            L.AbsVal(data[0], nonsense=3).to_proto()
        with self.assertRaises(TypeError):
            L.Convolution(data[0], num_output=1.5).to_proto()


class CoordMaps(unittest.TestCase):
    """Where a point of one top lies in another."""

    def spec(self, kernel=5, stride=1, pad=0, pool=None, dilation=1):
        """A net down to a convolution or pooling."""
        n = caffe.NetSpec()
        n.data = L.Input(shape=dict(dim=[2, 1, 100, 100]))
        n.conv = L.Convolution(n.data, num_output=10, kernel_size=kernel, stride=stride, pad=pad,
                               dilation=dilation)
        n.relu = L.ReLU(n.conv, in_place=True)
        if pool:
            n.pool = L.Pooling(n.relu, kernel_size=pool, stride=pool, pad=0)
        return n

    def test_convolutions(self):
        n = self.spec()
        axis, a, b = coord_map_from_to(n.relu, n.data)
        self.assertEqual((axis, a, b), (1, 1, 2))
        n = self.spec(kernel=3, stride=2, pad=1)
        axis, a, b = coord_map_from_to(n.relu, n.data)
        self.assertEqual((axis, a, b), (1, 2, 0))
        n = self.spec(kernel=3, dilation=2)
        self.assertEqual(coord_map_from_to(n.relu, n.data)[2], 2)

    def test_pooling_and_back(self):
        n = self.spec(kernel=1, pool=2)
        axis, a, b = coord_map_from_to(n.pool, n.data)
        self.assertEqual((a, b), (2, 0.5))
        n.up = L.Deconvolution(n.pool, num_output=10, kernel_size=4, stride=2, pad=0)
        axis, a, b = coord_map_from_to(n.up, n.data)
        self.assertEqual((axis, a, b), (1, 1, -1))
        n.crop = crop(n.up, n.data)
        param = n.crop.fn.params["crop_param"]
        self.assertEqual((param["axis"], param["offset"]), (2, [1]))
        self.assertEqual(coord_map_from_to(n.crop, n.data)[1:], (1, 0))
        self.assertEqual(list(n.to_proto().layer[-1].bottom), ["up", "data"])

    def test_branches(self):
        n = self.spec(kernel=3, pad=1)
        n.other = L.Convolution(n.data, num_output=3, kernel_size=5)
        axis, a, b = coord_map_from_to(n.relu, n.other)
        self.assertEqual((axis, a, b), (1, 1, -2))

    def test_several_axes(self):
        n = caffe.NetSpec()
        n.data = L.Input(shape=dict(dim=[1, 1, 9, 9]))
        n.conv = L.Convolution(n.data, num_output=2, kernel_size=[3, 5], pad=[1, 0], stride=[1, 2])
        axis, a, b = coord_map_from_to(n.conv, n.data)
        np.testing.assert_array_equal(a, [1, 2])
        np.testing.assert_array_equal(b, [0, 2])

    def test_failures(self):
        n = self.spec()
        n.ip = L.InnerProduct(n.relu, num_output=10)
        with self.assertRaises(RuntimeError):
            coord_map_from_to(n.ip, n.data)
        self.assertTrue(issubclass(UndefinedMapException, Exception))
        n.flat = L.Convolution(n.relu, num_output=1, kernel_size=1, axis=2)
        with self.assertRaises(AxisMismatchException):
            coord_map_from_to(n.flat, n.data)
        n.stride = L.Convolution(n.data, num_output=1, kernel_size=2, stride=2)
        with self.assertRaises(AssertionError):
            crop(n.stride, n.data)
        with self.assertRaises(AssertionError):
            crop(n.data, n.relu) and crop(n.relu, n.data)


class Pictures(unittest.TestCase):
    """draw."""

    def test_every_model(self):
        paths = glob.glob(os.path.join(case.ROOT, "models", "**", "*.prototxt"), recursive=True)
        drawn = 0
        for path in paths:
            net = caffe_pb2.NetParameter()
            with open(path) as file:
                try:
                    text_format.Parse(file.read(), net)
                except text_format.ParseError:
                    continue  # a solver
            for phase in (None, caffe.TRAIN, caffe.TEST):
                text = caffe.draw.draw_net(net, "LR", "dot", phase).decode()
                self.assertEqual(text.count("{"), text.count("}"))
                self.assertIn("rankdir=LR", text)
            drawn += 1
        self.assertGreater(drawn, 3)

    def test_labels(self):
        n = caffe.NetSpec()
        n.data = L.Input(shape=dict(dim=[1, 1, 9, 9]))
        n.conv = L.Convolution(n.data, num_output=7, kernel_size=3, param=[dict(lr_mult=2)])
        n.pool = L.Pooling(n.conv, pool=P.Pooling.AVE, kernel_size=2)
        text = caffe.draw.get_dot(n.to_proto(), "TB", display_lrm=True)
        for words in ("kernel size: 3", "AVE pooling", "lr mult: 2.0, 1.0", 'label="7"', '"conv_blob"'):
            self.assertIn(words, text)
        self.assertNotIn("lr mult", caffe.draw.get_dot(n.to_proto(), "TB"))
        for text, factors in (("type: 'Convolution'", (1, 1)), ("type: 'InnerProduct' param { lr_mult: 3 }", (3, 1)),
                              ("type: 'Deconvolution' param { lr_mult: 0 } param { lr_mult: 2 }", (0, 2))):
            self.assertEqual(caffe.draw.get_layer_lr_mult(caffe.LayerParameter(text)), factors)
        with self.assertRaises(ValueError):
            caffe.draw.get_layer_lr_mult(caffe.LayerParameter("type: 'ReLU'"))

    @unittest.skipIf(shutil.which("dot") is None, "Graphviz is not installed")
    def test_graphviz(self):
        picture = caffe.draw.draw_net(lenet(1).to_proto(), "LR", "png")
        self.assertEqual(picture[1:4], b"PNG")
        self.assertGreater(len(picture), 1000)


if __name__ == "__main__":
    unittest.main()
