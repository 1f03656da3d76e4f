"""Compiled models."""
import os
import threading
import unittest

import numpy as np

import caffe
import case

NORMED = case.DEPLOY.replace("layer { name: 'relu'", """
layer { name: 'bn' type: 'BatchNorm' bottom: 'conv' top: 'bn' }
layer { name: 'scale' type: 'Scale' bottom: 'bn' top: 'scale' scale_param { bias_term: true } }
layer { name: 'relu'""").replace("bottom: 'conv' top: 'conv'\n", "").replace(
    "type: 'ReLU' bottom: 'conv' top: 'conv'", "type: 'ReLU' bottom: 'scale' top: 'scale'").replace(
        "bottom: 'conv' top: 'pool'", "bottom: 'scale' top: 'pool'")


class Models(case.FolderCase):
    """A model beside the net that it is made of."""

    def setUp(self):
        super().setUp()
        self.file = self.write("net.prototxt", NORMED)
        self.weights = self.path("weights.caffemodel")
        self.net = caffe.Net(self.file, caffe.TEST)
        self.net.params["bn"][0].data[...] = 0.25
        self.net.params["bn"][1].data[...] = 2
        self.net.params["bn"][2].data[...] = 1
        self.net.save(self.weights)
        self.model = caffe.Model(self.file, self.weights)

    def expected(self, data, name="prob"):
        """What the net computes."""
        self.net.blobs["data"].reshape(*data.shape)
        self.net.blobs["data"].data[...] = data
        return self.net.forward(blobs=[name])[name]

    def test_same_as_the_net(self):
        self.assertEqual((self.model.inputs, self.model.outputs), (["data"], ["prob"]))
        for count in (4, 1, 7):
            data = np.random.rand(count, 3, 8, 8)
            np.testing.assert_allclose(self.model(data)["prob"], self.expected(data), atol=1e-5)
        one = np.random.rand(3, 8, 8)
        self.assertEqual(self.model(data=one)["prob"].shape, (1, 5))
        found = self.model(data, blobs=["ip"])["ip"]
        np.testing.assert_allclose(found, self.expected(data, "ip"), rtol=1e-4, atol=1e-5)
        self.assertTrue(self.model.explain())
        self.assertGreater(self.model.memory()[0], 0)
        with self.assertRaises(TypeError):
            self.model(data, data=data)
        with self.assertRaises(RuntimeError):
            caffe.Model(self.file, self.path("missing"))

    def test_precision(self):
        data = np.random.rand(4, 3, 8, 8)
        whole = self.model(data)["prob"]
        table = self.write("table", "conv_param_0 %s\nip_param_0 %s\nconv 100\nip 100\n" % (
            " ".join(["100"] * 4), " ".join(["100"] * 5)))
        for options in (dict(precision="bf16"), dict(precision="int8", table=table)):
            with case.quiet():  # processors without bfloat16 get a warning
                model = caffe.Model(self.file, self.weights, threads=1, **options)
            np.testing.assert_allclose(model(data)["prob"], whole, atol=0.05)
        self.assertIn("int8", model.explain())
        with self.assertRaisesRegex(ValueError, "'f32', 'bf16' or 'int8', not 'fp16'"):
            caffe.Model(self.file, self.weights, precision="fp16")
        with self.assertRaisesRegex(caffe.Error, "E_ARGUMENT|table|scales"):
            caffe.Model(self.file, self.weights, precision="int8")
        with self.assertRaisesRegex(caffe.Error, "threads"):
            caffe.Model(self.file, self.weights, threads=-1)

    def test_several_blobs(self):
        """Each call asks for more of the session that the model keeps."""
        data = np.random.rand(4, 3, 8, 8)
        for names in (["conv"], ["pool", "bn"], ["conv", "ip", "scale"]):
            found = self.model(data, blobs=names)
            for name in names:
                np.testing.assert_allclose(found[name], self.expected(data, name), rtol=1e-4, atol=1e-5)

    def test_threads(self):
        batches = [np.random.rand(1 + i, 3, 8, 8) for i in range(4)]
        alone = [self.model(batch)["prob"] for batch in batches]
        wrong = []

        def run(index):
            for _ in range(20):
                if not np.array_equal(self.model(batches[index])["prob"], alone[index]):
                    wrong.append(index)
        threads = [threading.Thread(target=run, args=(i % 4,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Images(case.FolderCase):
    """Images through a model, a Classifier and a plain net."""

    TRANSFORM = ("type: 'Input' transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.017 } "
                 "image_data_param { new_height: 20 new_width: 24 }")
    WITHOUT = ["fold", "fuse", "winograd", "parts", "batch"]

    def make(self, transform=TRANSFORM, text=case.DEPLOY):
        """The files of a net."""
        caffe.set_random_seed(1)
        text = text.replace("type: 'Input'", transform).replace("dim: 4", "dim: 1", 1)
        deploy, weights = self.write("deploy.prototxt", text), self.path("weights.caffemodel")
        caffe.Net(deploy, caffe.TEST).save(weights)
        return deploy, weights

    def test_same_bits(self):
        """A path, the bytes, an open file and pixels; Model, Classifier and Net."""
        files = self.make()
        model, classifier = caffe.Model(*files, without=self.WITHOUT), caffe.Classifier(*files)
        path = self.path("small.png")
        small = (np.random.RandomState(2).rand(9, 7, 3) * 255).astype(np.uint8)
        header = b"P6 7 9 255\n"
        with open(path, "wb") as file:
            file.write(header + small.tobytes())
        wanted = model.preprocess(path)
        self.assertEqual((wanted.shape, wanted.dtype), ((3, 8, 8), np.float32))
        with open(path, "rb") as file:
            forms = [header + small.tobytes(), small, small / np.float32(255), file, small[:, :, ::-1][:, :, ::-1],
                     np.dstack([small, small[:, :, 0]])]
            for form in forms:
                np.testing.assert_array_equal(model.preprocess(form), wanted)
        np.testing.assert_array_equal(model.preprocess([path, small]), [wanted, wanted])
        net = caffe.Net(*files, caffe.TEST)
        net.blobs["data"].data[...] = wanted
        scores = net.forward()["prob"][0]
        for image in (path, small):
            np.testing.assert_array_equal(classifier.predict([image], oversample=False)[0], scores)
            found = model.classify(image)
            self.assertEqual([one.index for one in found], list(np.argsort(-scores)))
            np.testing.assert_array_equal(np.float32([one.score for one in found]), scores[np.argsort(-scores)])
        self.assertEqual(len(classifier.predict([path, small])), 2)

    def test_labels(self):
        files = self.make()
        model = caffe.Model(*files)
        image = np.zeros((8, 8), np.uint8)
        self.assertEqual(model.labels, [])
        self.assertIsNone(model.classify(image, top=1)[0].label)
        self.write("labels.txt", "ant\nbee\ncat\ndog\neel\n")
        model = caffe.Model(*files)
        self.assertEqual(model.labels[1], "bee")
        found = model.classify([image, image], top=2)
        self.assertEqual([len(one) for one in found], [2, 2])
        self.assertEqual(found[0][0].label, model.labels[found[0][0].index])
        self.assertEqual(model.classify([]), [])
        self.write("labels.txt", "ant\nbee\n")
        with self.assertRaisesRegex(caffe.Error, "labels.txt: names 2 classes, but the net has 5"):
            caffe.Model(*files).classify(image)
        os.remove(self.path("labels.txt"))
        os.mkdir(self.path("labels.txt"))
        with self.assertRaisesRegex(caffe.Error, "labels"):
            caffe.Model(*files).classify(image)

    def test_guess(self):
        model = caffe.Model(*self.make(transform="type: 'Input'"))
        with self.assertWarnsRegex(UserWarning, "'data' has no transform_param, so the values are a guess"):
            found = model.preprocess(np.full((8, 8, 3), 7, np.uint8))
        np.testing.assert_array_equal(found, np.full((3, 8, 8), 7))
        with self.assertWarnsRegex(UserWarning, "no argument describes the preprocessing"):
            caffe.Classifier(self.path("deploy.prototxt"), self.path("weights.caffemodel"))

    def test_refused(self):
        files = self.make()
        model = caffe.Model(*files)
        image = np.zeros((8, 8, 3))
        for wrong, error, words in (
                (image.astype(np.uint16), TypeError, "uint8, or floats from 0 to 1, not uint16; image // 257"),
                (image + 2, ValueError, "values from 0 to 1, as load_image returns, not from 2 to 2"),
                (image + np.nan, ValueError, "not from nan to nan"),
                (np.zeros((8, 8, 5), np.uint8), ValueError, "1 to 4 channels, not 8 x 8 x 5"),
                (np.zeros((0, 8, 3), np.uint8), caffe.Error, "0 x 8 pixels"),
                (b"text", caffe.Error, "an image file in memory"),
                (self.path("none.jpg"), caffe.Error, "none.jpg")):
            with self.assertRaisesRegex(error, words):
                model.classify(wrong)
        with self.assertRaisesRegex(ValueError, "top is a number above 0"):
            model.classify(image, top=0)
        maps = caffe.Model(self.write("maps.prototxt", case.DEPLOY.split("layer { name: 'pool'")[0]))
        with self.assertWarns(UserWarning), self.assertRaisesRegex(ValueError, "'conv' has the shape 1 x 4 x 6 x 6"):
            maps.classify(image)
        with self.assertRaisesRegex(caffe.Error, "layer 'data'.*mean_file.*none.binaryproto"):
            caffe.Model(*self.make("type: 'Input' transform_param { mean_file: 'none.binaryproto' }")).classify(image)


if __name__ == "__main__":
    unittest.main()
