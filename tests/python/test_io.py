"""Pictures, messages of arrays, classification and detection."""
import copy
import io
import os
import pickle
import tempfile
import unittest

import numpy as np

import caffe
import case

CAT = os.path.join(case.ROOT, "examples", "images", "cat.jpg")


class Messages(unittest.TestCase):
    """Caffe's messages of arrays."""

    def test_blobproto(self):
        values = np.random.rand(2, 3, 4)
        blob = caffe.io.array_to_blobproto(values, diff=values + 1)
        np.testing.assert_allclose(caffe.io.blobproto_to_array(blob), values, rtol=1e-6)
        np.testing.assert_allclose(caffe.io.blobproto_to_array(blob, True), values + 1, rtol=1e-6)

    def test_blobproto_of_old_shape(self):
        blob = caffe.proto.caffe_pb2.BlobProto()
        blob.data.extend(range(100))
        blob.num, blob.channels, blob.height, blob.width = 1, 1, 10, 10
        self.assertEqual(caffe.io.blobproto_to_array(blob).shape, (1, 1, 10, 10))

    def test_scalar(self):
        blob = caffe.proto.caffe_pb2.BlobProto(data=[123], shape={"dim": []})
        found = caffe.io.blobproto_to_array(blob)
        self.assertEqual((found.shape, found), ((), 123))

    def test_vectors(self):
        arrays = [np.random.rand(5), np.random.rand(2, 3)]
        text = caffe.io.arraylist_to_blobprotovector_str(arrays)
        for mine, theirs in zip(arrays, caffe.io.blobprotovector_str_to_arraylist(text)):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6)

    def test_datum(self):
        values = np.random.randint(0, 256, (3, 4, 5), dtype=np.uint8)
        datum = caffe.io.array_to_datum(values, 7)
        self.assertEqual((datum.label, datum.channels, datum.height, datum.width), (7, 3, 4, 5))
        np.testing.assert_array_equal(caffe.io.datum_to_array(datum), values)
        caffe.io.datum_to_array(datum)[...] = 0  # an array of the program's own
        self.assertFalse(caffe.io.array_to_datum(values).HasField("label"))
        np.testing.assert_allclose(
            caffe.io.datum_to_array(caffe.io.array_to_datum(values / 7.0)), values / 7.0, rtol=1e-6)
        with self.assertRaises(ValueError):
            caffe.io.array_to_datum(values[0])

    def test_schema(self):
        pb2 = caffe.proto.caffe_pb2
        self.assertEqual((pb2.TRAIN, pb2.TEST, pb2.Phase.Name(1)), (0, 1, "TEST"))
        layer = pb2.LayerParameter()
        layer.exp_param.base = 2
        self.assertIn("base: 2", str(layer))
        self.assertEqual(pb2.LayerParameter.FromString(layer.SerializeToString()), layer)
        self.assertEqual(pb2.PoolingParameter.MAX, 0)
        self.assertEqual(pb2.V1LayerParameter.CONVOLUTION, 4)


class Pictures(unittest.TestCase):
    """Loading and resizing."""

    def test_load(self):
        picture = caffe.io.load_image(CAT)
        self.assertEqual((picture.shape, picture.dtype), ((300, 451, 3), np.float32))
        self.assertTrue(0 <= picture.min() and 0.5 < picture.max() <= 1)
        self.assertGreater(picture[..., 0].mean(), picture[..., 2].mean())  # a ginger cat
        grey = caffe.io.load_image(CAT, color=False)
        self.assertEqual(grey.shape, (300, 451, 1))
        with self.assertRaises(FileNotFoundError):
            caffe.io.load_image(CAT + "x")

    def test_load_from_open_files(self):
        with open(CAT, "rb") as file:
            content = file.read()
        np.testing.assert_array_equal(caffe.io.load_image(io.BytesIO(content)), caffe.io.load_image(CAT))

    def test_other_formats(self):
        for content in (b"P6 2 1 255\n\xff\0\0\0\xff\0", b"P3 2 1 1 1 0 0 0 1 0"):
            picture = caffe.io.load_image(io.BytesIO(content))
            np.testing.assert_array_equal(picture, [[[1, 0, 0], [0, 1, 0]]])

    def test_files_that_are_cut_off(self):
        for begin in (b"\x89PNG\r\n\x1a\n\x00\x00", b"\xff\xd8\xff\xc0"):
            with tempfile.NamedTemporaryFile() as file:
                file.write(begin)
                file.flush()
                with self.assertRaisesRegex((ValueError, OSError), file.name):
                    caffe.io.load_image(file.name)

    def test_resize(self):
        picture = np.random.rand(6, 8, 3).astype(np.float32)
        np.testing.assert_allclose(caffe.io.resize_image(picture, (6, 8)), picture, atol=1e-6)
        ramp = np.tile(np.arange(8, dtype=np.float32)[np.newaxis, :, np.newaxis], (4, 1, 2))
        wide = caffe.io.resize_image(ramp, (4, 16))
        np.testing.assert_allclose(wide[0, 1:-1, 0], np.arange(0.25, 7, 0.5), atol=1e-5)
        half = caffe.io.resize_image(ramp, (2, 4))
        np.testing.assert_allclose(half[0, :, 1], [0.5, 2.5, 4.5, 6.5], atol=1e-5)
        flat = caffe.io.resize_image(np.full((3, 3, 5), 0.5), (7, 2))
        self.assertTrue(flat.shape == (7, 2, 5) and np.all(flat == 0.5))
        near = caffe.io.resize_image(ramp, (4, 4), interp_order=0)
        self.assertTrue(set(near.ravel()) <= set(range(8)))

    def test_oversample(self):
        pictures = np.random.rand(2, 6, 7, 3)
        crops = caffe.io.oversample(pictures, (4, 4))
        self.assertEqual(crops.shape, (20, 4, 4, 3))
        np.testing.assert_allclose(crops[0], pictures[0, :4, :4], rtol=1e-6)
        np.testing.assert_allclose(crops[3], pictures[0, 2:, 3:], rtol=1e-6)
        np.testing.assert_allclose(crops[14], pictures[1, 1:5, 1:5], rtol=1e-6)
        np.testing.assert_allclose(crops[5], crops[0][:, ::-1], rtol=1e-6)


class Preprocessing(unittest.TestCase):
    """The Transformer."""

    def setUp(self):
        self.transformer = caffe.io.Transformer({"data": (1, 3, 4, 6)})

    def test_all_steps(self):
        picture = np.random.rand(4, 6, 3).astype(np.float32)
        kept = picture.copy()
        t = self.transformer
        t.set_transpose("data", (2, 0, 1))
        t.set_channel_swap("data", (2, 1, 0))
        t.set_raw_scale("data", 255)
        t.set_mean("data", np.array([10, 20, 30]))
        t.set_input_scale("data", 0.5)
        found = t.preprocess("data", picture)
        wanted = (picture.transpose(2, 0, 1)[::-1] * 255 - np.array([10, 20, 30])[:, None, None]) * 0.5
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
        np.testing.assert_array_equal(picture, kept)
        np.testing.assert_allclose(t.deprocess("data", found), picture, atol=1e-5)

    def test_the_picture_stays(self):
        """Also where no step before the first that computes makes a copy."""
        picture = np.random.rand(3, 4, 6).astype(np.float32)
        kept = picture.copy()
        transformer = caffe.io.Transformer({"data": (1, 6, 3, 4)})
        transformer.set_raw_scale("data", 255)
        found = transformer.preprocess("data", picture)
        np.testing.assert_allclose(found, 255 * kept, rtol=1e-6)
        np.testing.assert_array_equal(picture, kept)

    def test_resizes(self):
        self.transformer.set_transpose("data", (2, 0, 1))
        self.assertEqual(self.transformer.preprocess("data", np.ones((9, 9, 3))).shape, (3, 4, 6))

    def test_mean(self):
        self.transformer.set_mean("data", np.ones((4, 6)))
        self.assertEqual(self.transformer.mean["data"].shape, (1, 4, 6))
        self.transformer.set_mean("data", np.full((3, 8, 12), 2.0))
        np.testing.assert_allclose(self.transformer.mean["data"], np.full((3, 4, 6), 2.0))

    def test_failures(self):
        for call, value in ((self.transformer.set_transpose, (1, 0)),
                            (self.transformer.set_channel_swap, (0, 1)),
                            (self.transformer.set_mean, np.ones(2)),
                            (self.transformer.set_mean, np.ones((2, 4, 6)))):
            with self.assertRaises(Exception):
                call("data", value)
        with self.assertRaises(Exception):
            self.transformer.set_raw_scale("other", 1)


class Wholes(case.FolderCase):
    """Classifier and Detector."""

    def setUp(self):
        super().setUp()
        caffe.set_random_seed(1)
        self.model = self.write("deploy.prototxt", case.DEPLOY)
        self.weights = self.path("weights.caffemodel")
        caffe.Net(self.model, caffe.TEST).save(self.weights)

    def test_classifier(self):
        classifier = caffe.Classifier(self.model, self.weights, image_dims=(10, 12),
                                      mean=np.array([1.0, 2, 3]), raw_scale=255, channel_swap=(2, 1, 0))
        pictures = [np.random.rand(20, 30, 3), np.random.rand(11, 9, 3)]
        found = classifier.predict(pictures)
        self.assertEqual(found.shape, (2, 5))
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
        centre = classifier.predict(pictures, oversample=False)
        self.assertEqual(centre.shape, (2, 5))
        crop = caffe.io.resize_image(pictures[0], (10, 12))[1:9, 2:10]
        classifier.blobs["data"].data[...] = classifier.transformer.preprocess("data", crop)
        np.testing.assert_allclose(classifier.forward()["prob"][0], centre[0], rtol=1e-5)

    def test_preprocessing_of_the_deploy_file(self):
        """Arguments that are omitted come from the Input layer, labels from the net's folder."""
        self.assertEqual(caffe.Classifier(self.model, self.weights).labels, [])
        said = case.DEPLOY.replace("type: 'Input'", "type: 'Input' transform_param { mean_value: 1 mean_value: 2 "
                                   "mean_value: 3 scale: 0.5 resize_param { height: 10 width: 12 } }", 1)
        self.assertNotEqual(said, case.DEPLOY)
        model = self.write("said.prototxt", said)
        self.write("labels.txt", "cat\ndog\n")
        pictures = [np.random.RandomState(1).randint(0, 256, (20, 30, 3)).astype(np.uint8)]
        floats = [pictures[0] / np.float32(255)]
        classifier = caffe.Classifier(model, self.weights)
        compiled = caffe.Model(model, self.weights, without=["fold", "fuse", "winograd", "parts", "batch"])
        # The same image in each form gives the same bits.
        wanted = classifier.predict(pictures, oversample=False)
        np.testing.assert_array_equal(classifier.predict(floats, oversample=False), wanted)
        np.testing.assert_array_equal(compiled.preprocess(pictures[0]), classifier.blobs["data"].data[0])
        # Both average over bilinear resizing, here with 11-bit weights and 8-bit pixels, there with floats.
        close = dict(atol=0.05)
        self.assertEqual(classifier.labels, ["cat", "dog"])
        wanted = caffe.Classifier(self.model, self.weights, image_dims=(10, 12), mean=np.array([1.0, 2, 3]),
                                  raw_scale=255, channel_swap=(2, 1, 0), input_scale=0.5)
        np.testing.assert_allclose(classifier.predict(pictures), wanted.predict(floats), **close)
        reversed_order = self.write("reversed.prototxt", said.replace("scale: 0.5", "bgr2rgb: true"))
        wanted = caffe.Classifier(self.model, self.weights, image_dims=(10, 12), mean=np.array([1.0, 2, 3]),
                                  raw_scale=255)
        np.testing.assert_allclose(caffe.Classifier(reversed_order, self.weights).predict(pictures),
                                   wanted.predict(floats), **close)

    def test_copies_predict_the_same(self):
        classifier = caffe.Classifier(self.model, self.weights, image_dims=(10, 12), mean=np.array([1.0, 2, 3]),
                                      raw_scale=255)
        detector = caffe.Detector(self.model, self.weights, raw_scale=255, context_pad=2)
        pictures, windows = [np.random.rand(20, 30, 3)], [(CAT, [(10, 20, 50, 60)])]
        for make in (copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))):
            np.testing.assert_array_equal(make(classifier).predict(pictures), classifier.predict(pictures))
            found = [net.detect_windows(windows)[0]["prediction"] for net in (make(detector), detector)]
            np.testing.assert_array_equal(found[0], found[1])

    def test_crops_with_surroundings(self):
        """A window of 8 x 8 pixels becomes 6 x 6 of the input's 8 x 8: the picture around it is of 11 x 11."""
        detector = caffe.Detector(self.model, self.weights, context_pad=1)
        bright = np.full((40, 40, 3), 2, np.float32)
        crop = detector.crop(bright, np.array([10, 10, 17, 17]))
        np.testing.assert_array_equal(crop, np.full((8, 8, 3), 2))
        # At the upper left corner two rows and columns are outside, at the lower right one as many.
        for window, inside in (((0, 0, 7, 7), slice(1, 8)), ((32, 32, 39, 39), slice(0, 7))):
            crop = detector.crop(bright, np.array(window))
            wanted = np.zeros((8, 8, 3))
            wanted[inside, inside] = 2
            np.testing.assert_array_equal(crop, wanted)

    def test_detector(self):
        windows = [(0, 0, 50, 60), (100, 100, 300, 400), (10, 400, 350, 479)]
        for pad in (None, 2):
            detector = caffe.Detector(self.model, self.weights, mean=np.array([1.0, 2, 3]), raw_scale=255,
                                      channel_swap=(2, 1, 0), context_pad=pad)
            found = detector.detect_windows([(CAT, windows)])
            self.assertEqual([row["window"] for row in found], windows)
            for row in found:
                self.assertEqual(row["prediction"].shape, (5,))
                self.assertAlmostEqual(float(row["prediction"].sum()), 1, places=5)


if __name__ == "__main__":
    unittest.main()
