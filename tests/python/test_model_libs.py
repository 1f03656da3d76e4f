"""Parts of nets as SSD's scripts put them together."""
import os
import unittest

import numpy as np

import caffe
import case
import caffe.model_libs as libs
from caffe import layers as L
from caffe import params as P

SIZE = 96


def spec(size=SIZE):
    """A net with a picture."""
    net = caffe.NetSpec()
    net.data = L.Input(shape=dict(dim=[1, 3, size, size]))
    return net


def shapes(net):
    """The shapes of the blobs of a net, whose weights are zero: random ones would take time."""
    proto = net.to_proto()
    for one in proto.layer:
        if one.HasField("convolution_param"):
            one.convolution_param.ClearField("weight_filler")
    made = caffe.Net.from_text(proto)
    return {name: blob.shape for name, blob in made.blobs.items()}


def layer(net, name):
    """A layer of the net's message."""
    return next(layer for layer in net.to_proto().layer if layer.name == name)


class Helpers(case.FolderCase):
    """Small functions."""

    def test_unpack(self):
        self.assertEqual(libs.UnpackVariable(3, 2), [3, 3])
        self.assertEqual(libs.UnpackVariable([3], 2), [3, 3])
        self.assertEqual(libs.UnpackVariable([1, 7], 2), [1, 7])
        with self.assertRaises(ValueError):
            libs.UnpackVariable([1, 2, 3], 2)

    def test_folders(self):
        folder = os.path.join(self.folder, "a", "b")
        self.assertFalse(libs.check_if_exist(folder))
        libs.make_if_not_exist(folder)
        libs.make_if_not_exist(folder)
        self.assertTrue(libs.check_if_exist(folder))

    def test_convolution(self):
        net = spec()
        libs.ConvBNLayer(net, "data", "a", use_bn=True, use_relu=True, num_output=4, kernel_size=[1, 7],
                         pad=[0, 3], stride=1, bn_prefix="bn_", lr_mult=2)
        libs.ConvBNLayer(net, "a", "b", use_bn=True, use_relu=False, num_output=5, kernel_size=3, pad=2,
                         stride=2, dilation=2, use_scale=False, use_global_stats=True)
        libs.ConvBNLayer(net, "b", "c", use_bn=False, use_relu=False, num_output=6, kernel_size=3, pad=1,
                         stride=1, lr_mult=3)
        self.assertEqual(net.keys(), ["data", "a", "bn_a_bn", "a_scale", "a_relu", "b", "b_bn", "b_bias", "c"])
        conv = layer(net, "a").convolution_param
        self.assertEqual((conv.kernel_h, conv.kernel_w, conv.pad_w, conv.bias_term), (1, 7, 3, False))
        self.assertEqual([p.lr_mult for p in layer(net, "a_scale").param], [2, 2])
        self.assertEqual([p.lr_mult for p in layer(net, "b_bias").param], [0])
        self.assertTrue(layer(net, "b_bn").batch_norm_param.use_global_stats)
        self.assertFalse(layer(net, "bn_a_bn").batch_norm_param.HasField("use_global_stats"))
        self.assertEqual([p.lr_mult for p in layer(net, "c").param], [3, 6])
        self.assertEqual(shapes(net)["c"], (1, 6, 48, 48))

    def test_data(self):
        net = caffe.NetSpec()
        net.data, net.label = libs.CreateAnnotatedDataLayer(
            "some_lmdb", batch_size=8, label_map_file="map", transform_param=dict(mirror=True),
            batch_sampler=[dict(max_trials=1), dict(sampler=dict(min_scale=0.5), max_sample=1)])
        made = layer(net, "data")
        self.assertEqual((made.type, list(made.top)), ("AnnotatedData", ["data", "label"]))
        self.assertEqual((made.data_param.batch_size, made.data_param.backend), (8, P.Data.LMDB))
        self.assertEqual(made.annotated_data_param.batch_sampler[1].sampler.min_scale, 0.5)
        self.assertEqual(made.include[0].phase, caffe.TRAIN)
        one = libs.CreateAnnotatedDataLayer("db", output_label=False, train=False)
        self.assertEqual(one.to_proto().layer[0].include[0].phase, caffe.TEST)


class Bodies(unittest.TestCase):
    """Whole nets."""

    def test_vgg(self):
        net = libs.VGGNetBody(spec(), "data", fully_conv=True, reduced=True, dilated=True, dropout=False,
                              freeze_layers=["conv1_1"])
        found = shapes(net)
        self.assertEqual((found["conv4_3"], found["fc7"]), ((1, 512, 12, 12), (1, 1024, 6, 6)))
        self.assertEqual([p.lr_mult for p in layer(net, "conv1_1").param], [0, 0])
        self.assertEqual([p.lr_mult for p in layer(net, "conv1_2").param], [1, 2])
        self.assertEqual(list(layer(net, "fc6").convolution_param.dilation), [6])
        self.assertNotIn("fc6", libs.VGGNetBody(spec(), "data", need_fc=False).keys())
        without = libs.VGGNetBody(spec(), "data", need_fc=False, nopool=True)
        self.assertEqual(shapes(without)["conv5_3"], (1, 512, 6, 6))
        wide = libs.VGGNetBody(spec(), "data", need_fc=False, dilate_pool4=True)
        self.assertEqual(shapes(wide)["conv5_3"], (1, 512, 12, 12))
        with self.assertRaises(ValueError):
            libs.VGGNetBody(spec(), "picture")

    def test_zf(self):
        net = libs.ZFNetBody(spec(), "data", fully_conv=True, reduced=True, dilated=True, need_fc8=True)
        self.assertEqual(shapes(net)["prob"], (1, 1000, 7, 7))
        self.assertEqual(layer(net, "norm1").lrn_param.engine, P.LRN.CAFFE)

    def test_resnets(self):
        for make, blocks in ((libs.ResNet50Body, 16), (libs.ResNet101Body, 33), (libs.ResNet152Body, 50)):
            net = make(spec(), "data", use_pool5=False)
            kinds = [layer.type for layer in net.to_proto().layer]
            self.assertEqual((kinds.count("Eltwise"), kinds.count("Convolution")), (blocks, 3 * blocks + 5))
        self.assertIn("res4b22_branch2a", libs.ResNet101Body(spec(), "data").keys())
        self.assertIn("res4f_branch2c", libs.ResNet50Body(spec(), "data").keys())
        found = shapes(libs.ResNet50Body(spec(), "data", use_dilation_conv5=True))
        self.assertEqual((found["res5c"], found["pool5"]), ((1, 2048, 6, 6), (1, 2048, 1, 1)))

    def test_inception(self):
        net = libs.InceptionV3Body(spec(299), "data")
        found = shapes(net)
        self.assertEqual((found["mixed/join"], found["mixed_3/join"], found["mixed_10/join"]),
                         ((1, 256, 35, 35), (1, 768, 17, 17), (1, 2048, 8, 8)))
        self.assertIn("mixed_9/tower_1/mixed/conv_1_bias", net.keys())
        self.assertIn("softmax_prob", libs.InceptionV3Body(spec(), "data", output_pred=True).keys())


class Heads(unittest.TestCase):
    """What detectors predict with."""

    def test_head(self):
        net = spec()
        net.low = L.Convolution(net.data, num_output=8, kernel_size=4, stride=4)
        net.high = L.Convolution(net.low, num_output=8, kernel_size=2, stride=2)
        tops = libs.CreateMultiBoxHead(
            net, num_classes=3, from_layers=["low", "high"], normalizations=[20, -1], use_batchnorm=False,
            min_sizes=[10, 30], max_sizes=[[], 60], aspect_ratios=[[2], [2, 3]], steps=[4, 8], img_height=SIZE,
            img_width=SIZE, kernel_size=3, pad=1, prior_variance=[0.1, 0.1, 0.2, 0.2], use_objectness=True)
        self.assertEqual([top is net[name] for top, name in zip(
            tops, ("mbox_loc", "mbox_conf", "mbox_priorbox", "mbox_objectness"))], [True] * 4)
        net.conf = L.Reshape(net.mbox_conf, shape=dict(dim=[0, -1, 3]))
        net.prob = L.Softmax(net.conf, axis=2)
        net.flat = L.Flatten(net.prob, axis=1)
        net.found = L.DetectionOutput(net.mbox_loc, net.flat, net.mbox_priorbox, detection_output_param=dict(
            num_classes=3, share_location=True, background_label_id=0, code_type=P.PriorBox.CENTER_SIZE,
            nms_param=dict(nms_threshold=0.45, top_k=400), keep_top_k=20, confidence_threshold=0.01))
        made = caffe.Net.from_text(net.to_proto())
        boxes = 24 * 24 * 3 + 12 * 12 * 6
        self.assertEqual(made.blobs["mbox_loc"].shape, (1, 4 * boxes))
        self.assertEqual(made.blobs["mbox_conf"].shape, (1, 3 * boxes))
        self.assertEqual(made.blobs["mbox_priorbox"].shape, (1, 2, 4 * boxes))
        self.assertEqual(made.blobs["mbox_objectness"].shape, (1, 2 * boxes))
        for name, blobs in made.params.items():
            if "mbox_" in name:
                blobs[0].data[...] = np.random.RandomState(1).randn(*blobs[0].shape)
        made.blobs["data"].data[...] = np.random.RandomState(2).rand(1, 3, SIZE, SIZE)
        found = made.forward()["found"]
        self.assertEqual(found.shape[3], 7)
        self.assertGreater(found.shape[2], 1)

    def test_failures(self):
        net = spec()
        good = dict(num_classes=2, from_layers=["data"], min_sizes=[3])
        for wrong in (dict(num_classes=0), dict(min_sizes=[]), dict(steps=[1, 2]), dict(data_layer="none"),
                      dict(max_sizes=[[1, 2]])):
            with self.assertRaises(ValueError):
                libs.CreateMultiBoxHead(net, **dict(good, **wrong))


if __name__ == "__main__":
    unittest.main()
