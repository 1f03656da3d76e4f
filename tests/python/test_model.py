"""Compiled models."""
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


if __name__ == "__main__":
    unittest.main()
