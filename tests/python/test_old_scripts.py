"""Programs as users of pycaffe have them: the tests do what such programs do, in their idioms."""
import collections
import os
import sys
import unittest

import numpy as np
from google.protobuf import text_format

import caffe
import caffe.draw
import caffe.proto.caffe_pb2 as caffe_pb2
import case
from caffe import layers as L
from caffe import params as P
from caffe import to_proto

PICTURE = os.path.join(case.ROOT, "examples", "images", "cat.jpg")

CLASSIFIER = """
name: "small"
input: "data" input_shape { dim: 10 dim: 3 dim: 24 dim: 24 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 6 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "fc6" type: "InnerProduct" bottom: "pool1" top: "fc6"
  inner_product_param { num_output: 12 weight_filler { type: "gaussian" std: 0.05 } } }
layer { name: "relu6" type: "ReLU" bottom: "fc6" top: "fc6" }
layer { name: "drop6" type: "Dropout" bottom: "fc6" top: "fc6" dropout_param { dropout_ratio: 0.5 } }
layer { name: "fc7" type: "InnerProduct" bottom: "fc6" top: "fc7"
  inner_product_param { num_output: 5 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "prob" type: "Softmax" bottom: "fc7" top: "prob" }
"""


class SimpleData(caffe.Layer):
    """A data layer in Python: its parameters are a dictionary in param_str, evaluated."""

    def setup(self, bottom, top):
        self.top_names = ["data", "label"]
        params = eval(self.param_str)
        self.batch_size = params["batch_size"]
        self.random = np.random.RandomState(params.get("seed", 0))
        if len(top) != 2:
            raise Exception("Need to define two tops: data and label.")
        top[0].reshape(self.batch_size, 4)
        top[1].reshape(self.batch_size, 1)

    def forward(self, bottom, top):
        for i in range(self.batch_size):
            label = self.random.randint(2)
            top[0].data[i, ...] = self.random.randn(4) * 0.1 + (1 if label else -1)
            top[1].data[i, ...] = label

    def reshape(self, bottom, top):
        pass

    def backward(self, top, propagate_down, bottom):
        pass


class OldScripts(case.FolderCase):
    """One test for each kind of program."""

    def setUp(self):
        super().setUp()
        caffe.set_mode_cpu()
        caffe.set_device(0)
        caffe.set_random_seed(1701)
        self.model = self.write("deploy.prototxt", CLASSIFIER)
        self.weights = self.path("small.caffemodel")
        caffe.Net(self.model, caffe.TEST).save(self.weights)

    def test_deep_dream(self):
        model = caffe.io.caffe_pb2.NetParameter()
        with open(self.model) as file:
            text_format.Merge(file.read(), model)
        model.force_backward = True
        net = caffe.Classifier(self.write("tmp.prototxt", str(model)), self.weights,
                               mean=np.float32([104.0, 116.0, 122.0]), channel_swap=(2, 1, 0))

        def preprocess(net, img):
            return np.float32(np.rollaxis(img, 2)[::-1]) - net.transformer.mean["data"]

        def deprocess(net, img):
            return np.dstack((img + net.transformer.mean["data"])[::-1])

        def make_step(net, step_size=1.5, end="pool1", jitter=4):
            src, dst = net.blobs["data"], net.blobs[end]
            ox, oy = np.random.randint(-jitter, jitter + 1, 2)
            src.data[0] = np.roll(np.roll(src.data[0], ox, -1), oy, -2)
            net.forward(end=end)
            dst.diff[:] = dst.data
            net.backward(start=end)
            g = src.diff[0]
            src.data[:] += step_size / np.abs(g).mean() * g
            src.data[0] = np.roll(np.roll(src.data[0], -ox, -1), -oy, -2)
            bias = net.transformer.mean["data"]
            src.data[:] = np.clip(src.data, -bias, 255 - bias)
            return (dst.data ** 2).sum()
        image = np.uint8(caffe.io.load_image(PICTURE)[:40, :48] * 255)
        src = net.blobs["data"]
        src.reshape(1, 3, 40, 48)
        src.data[0] = preprocess(net, image)
        found = [make_step(net) for _ in range(4)]
        self.assertGreater(found[-1], found[0])
        picture = deprocess(net, src.data[0])
        self.assertEqual(picture.shape, (40, 48, 3))
        self.assertTrue(0 <= picture.min() and picture.max() <= 255.001)

    def test_saliency(self):
        net = caffe.Net(self.write("back.prototxt", "force_backward: true\n" + CLASSIFIER), self.weights,
                        caffe.TEST)
        net.blobs["data"].data[...] = np.random.rand(10, 3, 24, 24)
        out = net.forward()
        label = out["prob"][0].argmax()
        probs = np.zeros_like(net.blobs["prob"].data)
        probs[0][label] = 1
        back = net.backward(prob=probs)
        saliency = np.abs(back["data"][0]).max(axis=0)
        self.assertEqual(saliency.shape, (24, 24))
        self.assertTrue(saliency.any())
        self.assertFalse(back["data"][1].any())
        net.blobs["fc7"].diff[...] = 0
        net.blobs["fc7"].diff[0, label] = 1
        grads = net.backward(start="fc7", end="conv1", diffs=["pool1"])
        self.assertEqual(sorted(grads), ["data", "pool1"])
        self.assertTrue(grads["data"].any())

    def test_features(self):
        net = caffe.Net(self.model, 1, weights=self.weights)
        transformer = caffe.io.Transformer({"data": net.blobs["data"].data.shape})
        transformer.set_transpose("data", (2, 0, 1))
        np.save(self.path("mean.npy"), np.random.rand(3, 32, 32) * 100)
        transformer.set_mean("data", np.load(self.path("mean.npy")).mean(1).mean(1))
        transformer.set_raw_scale("data", 255)
        transformer.set_channel_swap("data", (2, 1, 0))
        net.blobs["data"].reshape(2, 3, 24, 24)
        images = [PICTURE] * 2
        net.blobs["data"].data[...] = list(map(
            lambda x: transformer.preprocess("data", caffe.io.load_image(x)), images))
        output = net.forward()
        top = output["prob"][0].argsort()[::-1][:3]
        self.assertEqual(len(top), 3)
        self.assertEqual([(k, v.data.shape) for k, v in net.blobs.items()][1], ("conv1", (2, 6, 20, 20)))
        self.assertEqual({k: v[0].data.shape for k, v in net.params.items()}["fc7"], (5, 12))
        feat = net.blobs["fc6"].data[0].flat[:]
        self.assertEqual(feat.shape, (12,))
        filters = net.params["conv1"][0].data
        self.assertEqual(filters.transpose(0, 2, 3, 1).shape, (6, 5, 5, 3))
        picture = transformer.deprocess("data", net.blobs["data"].data[0])
        small = caffe.io.resize_image(caffe.io.load_image(PICTURE), (24, 24))
        np.testing.assert_allclose(picture, small, atol=1e-4)
        for index, name in enumerate(net._layer_names):
            self.assertEqual(net.layers[index].type, net.layer_dict[name].type)
        self.assertEqual(list(net._blob_names)[net._inputs[0]], "data")
        self.assertEqual(net._blobs[net._outputs[0]].data.shape, (2, 5))

    def test_surgery_to_convolutions(self):
        net = caffe.Net(self.model, self.weights, caffe.TEST)
        text = CLASSIFIER.replace('"fc6"', '"fc6-conv"').replace('"fc7"', '"fc7-conv"').replace(
            "dim: 10 dim: 3 dim: 24 dim: 24", "dim: 1 dim: 3 dim: 40 dim: 56").replace(
            "InnerProduct", "Convolution").replace(
            "inner_product_param { num_output: 12", "convolution_param { kernel_size: 10 num_output: 12").replace(
            "inner_product_param { num_output: 5", "convolution_param { kernel_size: 1 num_output: 5")
        net_full_conv = caffe.Net(self.write("full_conv.prototxt", text), self.weights, caffe.TEST)
        params, params_full_conv = ["fc6", "fc7"], ["fc6-conv", "fc7-conv"]
        fc_params = {pr: (net.params[pr][0].data, net.params[pr][1].data) for pr in params}
        conv_params = {pr: (net_full_conv.params[pr][0].data, net_full_conv.params[pr][1].data)
                       for pr in params_full_conv}
        for pr, pr_conv in zip(params, params_full_conv):
            conv_params[pr_conv][0].flat = fc_params[pr][0].flat
            conv_params[pr_conv][1][...] = fc_params[pr][1]
        net_full_conv.save(self.path("full_conv.caffemodel"))
        data = np.random.rand(1, 3, 40, 56).astype(np.float32)
        out = net_full_conv.forward_all(data=data)
        self.assertEqual(out["prob"][0].argmax(axis=0).shape, (9, 17))
        single = net.forward_all(data=data[:, :, 2:26, 4:28])
        np.testing.assert_allclose(out["prob"][0, :, 1, 2], single["prob"][0], rtol=1e-4)
        again = caffe.Net(self.path("full_conv.prototxt"), self.path("full_conv.caffemodel"), caffe.TEST)
        np.testing.assert_allclose(again.forward_all(data=data)["prob"], out["prob"], rtol=1e-5)

    def test_solver_loop(self):
        module = "python_param { module: 'test_old_scripts' layer: 'SimpleData' param_str: \"{'batch_size': 16}\" }"
        net = self.write("net.prototxt", """
layer { name: 'data' type: 'Python' top: 'data' top: 'label' %s }
layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1' inner_product_param { num_output: 8
  weight_filler { type: 'xavier' } } }
layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }
layer { name: 'score' type: 'InnerProduct' bottom: 'ip1' top: 'score' inner_product_param { num_output: 2
  weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' bottom: 'label' top: 'loss' }
""" % module)
        s = caffe_pb2.SolverParameter()
        s.train_net = net
        s.test_net.append(net)
        s.test_interval, s.max_iter, s.base_lr, s.lr_policy = 500, 1000, 0.1, "step"
        s.test_iter.append(100)
        s.gamma, s.stepsize, s.momentum = 0.1, 2000, 0.9
        s.solver_mode = caffe_pb2.SolverParameter.CPU
        s.snapshot_prefix, s.snapshot = self.path("net"), 5000
        solver = caffe.get_solver(self.write("solver.prototxt", str(s)))
        solver.net.forward()
        solver.test_nets[0].forward()
        niter, test_interval = 40, 20
        train_loss, test_acc = np.zeros(niter), np.zeros(niter // test_interval)
        for it in range(niter):
            solver.step(1)
            train_loss[it] = solver.net.blobs["loss"].data
            solver.test_nets[0].forward(start="ip1")
            if it % test_interval == 0:
                correct = 0
                for test_it in range(5):
                    solver.test_nets[0].forward()
                    correct += sum(solver.test_nets[0].blobs["score"].data.argmax(1) ==
                                   solver.test_nets[0].blobs["label"].data.flatten())
                test_acc[it // test_interval] = correct / 80.0
        self.assertLess(train_loss[-1], train_loss[0])
        self.assertGreater(test_acc[-1], 0.9)
        solver.snapshot()
        solver.net.save(self.path("my_model.caffemodel"))
        other = caffe.SGDSolver(self.path("solver.prototxt"))
        other.restore(self.path("net_iter_40.solverstate"))
        self.assertEqual(other.iter, 40)
        other.net.copy_from(self.path("my_model.caffemodel"))
        test = caffe.Net(net, caffe.TEST)
        test.share_with(solver.net)
        self.assertTrue(np.array_equal(test.params["ip1"][0].data, other.net.params["ip1"][0].data))
        self.assertEqual(solver.net.params["ip1"][0].diff.shape, (8, 4))

    def test_lmdb(self):
        try:
            import lmdb
        except ImportError:
            self.skipTest("the package lmdb is not installed")
        pictures = np.random.RandomState(3).randint(0, 256, (6, 3, 5, 4)).astype(np.uint8)
        env = lmdb.open(self.path("db"), map_size=1 << 24)
        with env.begin(write=True) as txn:
            for i, picture in enumerate(pictures):
                datum = caffe.io.array_to_datum(picture, label=i)
                txn.put("{:08}".format(i).encode("ascii"), datum.SerializeToString())
        with env.begin() as txn:
            for i, (key, value) in enumerate(txn.cursor()):
                datum = caffe_pb2.Datum()
                datum.ParseFromString(value)
                np.testing.assert_array_equal(caffe.io.datum_to_array(datum), pictures[i])
                self.assertEqual(datum.label, i)
        env.close()
        blob = caffe.io.array_to_blobproto(pictures.mean(0)[np.newaxis])
        with open(self.path("mean.binaryproto"), "wb") as file:
            file.write(blob.SerializeToString())
        n = caffe.NetSpec()
        n.data, n.label = L.Data(source=self.path("db"), backend=P.Data.LMDB, batch_size=6, ntop=2,
                                 transform_param=dict(mean_file=self.path("mean.binaryproto")))
        net = caffe.Net(self.write("data.prototxt", str(n.to_proto())), caffe.TEST)
        net.forward()
        np.testing.assert_allclose(net.blobs["data"].data, pictures - pictures.mean(0), atol=1e-3)
        np.testing.assert_array_equal(net.blobs["label"].data, np.arange(6))

    def test_mean_file(self):
        blob = caffe_pb2.BlobProto()
        mean = np.random.rand(1, 3, 8, 8)
        with open(self.path("mean.binaryproto"), "wb") as file:
            file.write(caffe.io.array_to_blobproto(mean).SerializeToString())
        with open(self.path("mean.binaryproto"), "rb") as file:
            blob.ParseFromString(file.read())
        found = np.array(caffe.io.blobproto_to_array(blob))
        np.testing.assert_allclose(found[0], mean[0], rtol=1e-6)

    def test_siamese(self):
        tower = """
layer { name: 'ip1%s' type: 'InnerProduct' bottom: '%s' top: 'ip1%s' param { name: 'ip1_w' lr_mult: 1 }
  param { name: 'ip1_b' lr_mult: 2 } inner_product_param { num_output: 6 weight_filler { type: 'xavier' } } }
layer { name: 'relu1%s' type: 'ReLU' bottom: 'ip1%s' top: 'ip1%s' }
layer { name: 'feat%s' type: 'InnerProduct' bottom: 'ip1%s' top: 'feat%s' param { name: 'feat_w' }
  param { name: 'feat_b' } inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }"""
        text = """
layer { name: 'pair_data' type: 'Input' top: 'pair_data' top: 'sim'
  input_param { shape { dim: 8 dim: 2 dim: 3 dim: 3 } shape { dim: 8 } } }
layer { name: 'slice_pair' type: 'Slice' bottom: 'pair_data' top: 'data' top: 'data_p'
  slice_param { slice_dim: 1 slice_point: 1 } }
""" + tower % (("", "data") + ("",) * 7) + tower % (("_p", "data_p") + ("_p",) * 7) + """
layer { name: 'loss' type: 'ContrastiveLoss' bottom: 'feat' bottom: 'feat_p' bottom: 'sim' top: 'loss'
  contrastive_loss_param { margin: 1 } }"""
        solver = caffe.SGDSolver(self.write("solver.prototxt", """
net: '%s' base_lr: 0.05 lr_policy: 'inv' gamma: 0.0001 power: 0.75 momentum: 0.9 max_iter: 100
snapshot_after_train: false""" % self.write("siamese.prototxt", text)))
        random = np.random.RandomState(5)
        losses = []
        for _ in range(60):
            kind = random.randint(2, size=(8, 2))
            pairs = random.randn(8, 2, 3, 3) * 0.1 + (kind * 2 - 1)[:, :, None, None]
            solver.net.blobs["pair_data"].data[...] = pairs
            solver.net.blobs["sim"].data[...] = kind[:, 0] == kind[:, 1]
            solver.step(1)
            losses.append(float(solver.net.blobs["loss"].data))
        self.assertLess(np.mean(losses[-10:]), 0.5 * np.mean(losses[:5]))
        np.testing.assert_array_equal(solver.net.params["ip1"][0].data, solver.net.params["ip1_p"][0].data)
        solver.net.save(self.path("siamese.caffemodel"))
        deploy = self.write("siamese_deploy.prototxt", "input: 'data' input_dim: 4 input_dim: 1 input_dim: 3 "
                            "input_dim: 3\n" + tower % (("", "data") + ("",) * 7))
        net = caffe.Net(deploy, self.path("siamese.caffemodel"), caffe.TEST)
        out = net.forward_all(data=random.rand(10, 1, 3, 3) * 0.00390625)
        self.assertEqual(out["feat"].shape, (10, 2))

    def test_net_spec(self):
        weight_param, learned = dict(lr_mult=1, decay_mult=1), None
        bias_param = dict(lr_mult=2, decay_mult=0)
        learned = [weight_param, bias_param]

        def conv_relu(bottom, ks, nout, stride=1, pad=0, group=1, param=learned):
            conv = L.Convolution(bottom, kernel_size=ks, stride=stride, num_output=nout, pad=pad, group=group,
                                 param=param, weight_filler=dict(type="gaussian", std=0.01),
                                 bias_filler=dict(type="constant", value=0.1), engine=P.Convolution.CAFFE)
            return conv, L.ReLU(conv, in_place=True)

        def max_pool(bottom, ks, stride=1):
            return L.Pooling(bottom, pool=P.Pooling.MAX, kernel_size=ks, stride=stride)
        n = caffe.NetSpec()
        n.data, n.label = L.Python(module="test_old_scripts", layer="SimpleData", ntop=2,
                                   param_str=str(dict(batch_size=4, seed=7)))
        n.image = L.Reshape(n.data, reshape_param=dict(shape=dict(dim=[0, 1, 2, 2])))
        n.big = L.Deconvolution(n.image, convolution_param=dict(
            num_output=2, kernel_size=4, stride=4, weight_filler=dict(type="bilinear"), bias_term=False))
        n.conv1, n.relu1 = conv_relu(n.big, 3, 4, pad=1)
        n.pool1 = max_pool(n.relu1, 2, stride=2)
        n.norm1 = L.LRN(n.pool1, local_size=5, alpha=1e-4, beta=0.75)
        n.conv2, n.relu2 = conv_relu(n.norm1, 3, 4, group=2, param=[dict(lr_mult=0), dict(lr_mult=0)])
        n.fc = L.InnerProduct(n.relu2, num_output=2, weight_filler=dict(type="xavier"), param=learned)
        n.drop = fc = L.Dropout(n.fc, in_place=True)
        n.loss = L.SoftmaxWithLoss(fc, n.label)
        n.acc = L.Accuracy(fc, n.label, include=dict(phase=getattr(caffe_pb2, "TEST")))
        with open(self.path("train.prototxt"), "w") as f:
            print(n.to_proto(), file=f)
        net = caffe.Net(self.path("train.prototxt"), caffe.TRAIN)
        self.assertNotIn("acc", net.blobs)
        net.forward()
        net.backward()
        self.assertTrue(net.params["conv1"][0].diff.any())
        self.assertIn("acc", caffe.Net(self.path("train.prototxt"), caffe.TEST).blobs)
        loss, acc = n.loss, L.Accuracy(fc, n.label)
        proto = to_proto(loss, acc)
        self.assertEqual([layer.type for layer in proto.layer][-2:], ["SoftmaxWithLoss", "Accuracy"])
        proto.name = "named"
        self.assertTrue(str(proto).startswith('name: "named"') or 'name: "named"' in str(proto))
        self.assertTrue(caffe.draw.get_pydot_graph is not None)

    def test_command_line_tools(self):
        mean = np.array([104.0, 117, 123])
        classifier = caffe.Classifier(self.model, self.weights, image_dims=[32, 32], mean=mean, input_scale=None,
                                      raw_scale=255.0, channel_swap=[2, 1, 0])
        inputs = [caffe.io.load_image(PICTURE)]
        predictions = classifier.predict(inputs, True)
        self.assertEqual(predictions.shape, (1, 5))
        np.save(self.path("out.npy"), predictions)
        self.assertAlmostEqual(float(np.load(self.path("out.npy")).sum()), 1, places=5)
        self.assertEqual(classifier.predict(inputs * 3, not True).shape, (3, 5))
        detector = caffe.Detector(self.model, self.weights, mean=mean, raw_scale=255.0, channel_swap=[2, 1, 0],
                                  context_pad=4)
        found = detector.detect_windows([(PICTURE, np.array([[0, 0, 50, 60], [10, 20, 100.0, 120]])),
                                         (PICTURE, [(5, 5, 70, 70)])])
        self.assertEqual(len(found), 3)
        self.assertEqual(sorted(found[0]), ["filename", "prediction", "window"])
        counted = collections.Counter(row["prediction"].shape for row in found)
        self.assertEqual(counted, {(5,): 3})
        self.assertTrue(np.all(np.stack([row["prediction"] for row in found]) > 0))

    def test_names_of_modules(self):
        from caffe import _caffe
        from caffe._caffe import Layer, Net, SGDSolver, set_mode_cpu  # noqa: F401
        from caffe.classifier import Classifier  # noqa: F401
        from caffe.pycaffe import Net as same
        self.assertTrue(issubclass(caffe.Net, _caffe.Net) and same is caffe.Net)
        self.assertIs(sys.modules["caffe.proto.caffe_pb2"], caffe.io.caffe_pb2)

    def test_vectors(self):
        from caffe._caffe import (BlobVec, BoolVec, DtypeVec, IntVec, LayerVec, NetVec, RawBlobVec,  # noqa: F401
                                  StringVec)
        blobs = RawBlobVec()
        blobs.append(caffe.Blob(2, 3))
        blobs.extend([caffe.Blob(1)])
        self.assertEqual([blob.shape for blob in blobs], [(2, 3), (1,)])
        self.assertEqual(list(IntVec([1, 2])), [1, 2])
        layer = caffe.create_layer("type: 'ReLU'")
        top = RawBlobVec([caffe.Blob()])
        layer.SetUp(RawBlobVec(blobs[:1]), top)
        self.assertEqual(top[0].shape, (2, 3))


if __name__ == "__main__":
    unittest.main()
