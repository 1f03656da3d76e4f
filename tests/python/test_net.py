"""Nets: building, running, blobs and weights."""
import copy
import os
import pickle
import threading
import unittest
import weakref
from collections import OrderedDict

import numpy as np

import caffe
import case


class SmallNet(case.FolderCase):
    """A net with data of its own, a convolution, an inner product and a loss."""

    def setUp(self):
        super().setUp()
        self.file = self.small_net()
        self.net = caffe.Net(self.file, caffe.TRAIN)
        self.net.blobs["label"].data[...] = np.random.randint(10, size=self.net.blobs["label"].shape)

    def test_memory_outlives_the_net(self):
        params = sum((list(blobs) for blobs in self.net.params.values()), [])
        blobs = list(self.net.blobs.values())
        arrays = [blob.data for blob in params + blobs] + [blob.diff for blob in params + blobs]
        del self.net, blobs, params
        self.assertTrue(np.isfinite(sum(array.sum() for array in arrays)))

    def test_layers_and_parameters(self):
        self.assertEqual([layer.type for layer in self.net.layers],
                         ["DummyData", "Convolution", "InnerProduct", "SoftmaxWithLoss"])
        self.assertEqual(list(self.net.layer_dict), ["data", "conv", "ip", "loss"])
        self.assertEqual(self.net.layer_dict["conv"].type, "Convolution")
        self.assertEqual(len(self.net.layer_dict["ip"].blobs), 2)
        self.assertEqual(list(self.net._layer_names), ["data", "conv", "ip", "loss"])
        self.assertEqual(list(self.net.params), ["conv", "ip"])
        self.assertEqual(self.net.params["conv"][0].shape, (11, 2, 2, 2))

    def test_forward_and_backward(self):
        loss = self.net.forward()["loss"]
        self.assertEqual(loss.shape, ())
        self.assertGreater(float(loss), 0)
        self.net.backward()
        self.assertGreater(np.abs(self.net.params["conv"][0].diff).sum(), 0)
        gradients = self.net.params["ip"][0].diff.copy()
        self.net.backward()
        np.testing.assert_allclose(self.net.params["ip"][0].diff, 2 * gradients, rtol=1e-4, atol=1e-5)

    def test_clear_param_diffs(self):
        self.net.forward()
        self.net.backward()
        held = self.net.params["conv"][0].diff
        self.assertTrue(np.any(held))
        self.net.clear_param_diffs()
        self.assertFalse(np.any(held))

    def test_names(self):
        self.assertEqual(self.net.top_names, OrderedDict([
            ("data", ["data", "label"]), ("conv", ["conv"]), ("ip", ["ip_blob"]), ("loss", ["loss"])]))
        self.assertEqual(self.net.bottom_names, OrderedDict([
            ("data", []), ("conv", ["data"]), ("ip", ["conv"]), ("loss", ["ip_blob", "label"])]))
        self.assertEqual(self.net.inputs, [])
        self.assertEqual(self.net.outputs, ["loss"])
        self.assertEqual(self.net.blob_loss_weights["loss"], 1)
        self.assertEqual(self.net.blob_loss_weights["conv"], 0)
        self.assertEqual(self.net._bottom_ids(1), [0])
        self.assertEqual(self.net._top_ids(0), [0, 1])

    def test_parts_of_a_pass(self):
        whole = self.net.forward(blobs=["conv", "ip_blob"])
        conv = whole["conv"].copy()
        self.net.blobs["conv"].data[...] = 0
        part = self.net.forward(start="ip", end="ip")
        self.assertEqual(list(part), ["ip_blob"])
        np.testing.assert_allclose(part["ip_blob"], -3)
        self.net.blobs["conv"].data[...] = conv
        self.net.forward(start="ip")
        self.net.backward()
        diffs = self.net.backward(start="ip", end="conv")
        self.assertEqual(list(diffs), ["data"])
        with self.assertRaises(ValueError):
            self.net.forward(start="nothing")

    def test_views_are_live(self):
        weights, conv = self.net.params["conv"][0].data, self.net.blobs["conv"].data
        weights[...] = 0
        self.net.forward()
        np.testing.assert_allclose(conv, 2)
        self.net.params["conv"][1].data[...] = 7
        self.net.forward()
        np.testing.assert_allclose(conv, 7)
        self.assertIs(conv.base is None, False)
        self.assertEqual(conv.dtype, np.float32)
        self.assertTrue(np.shares_memory(conv, self.net.blobs["conv"].data))

    def test_save_and_read(self):
        path = self.path("weights.caffemodel")
        self.net.params["conv"][0].data[0, 0, 0, 0] = 1234
        self.net.save(path)
        for make in (lambda: caffe.Net(self.file, path, caffe.TEST),
                     lambda: caffe.Net(self.file, caffe.TEST, weights=path)):
            other = make()
            for name in self.net.params:
                for mine, theirs in zip(self.net.params[name], other.params[name]):
                    self.assertTrue(np.array_equal(mine.data, theirs.data))

    def test_save_hdf5(self):
        path = self.path("weights.any")
        self.net.save_hdf5(path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(4), b"\x89HDF")
        other = caffe.Net(self.file, caffe.TRAIN)
        other.load_hdf5(path)
        for name in self.net.params:
            for mine, theirs in zip(self.net.params[name], other.params[name]):
                self.assertTrue(np.array_equal(mine.data, theirs.data))

    def test_share_with(self):
        other = caffe.Net(self.file, caffe.TEST)
        other.share_with(self.net)
        self.net.params["ip"][0].data[...] = 5
        self.assertTrue(np.all(other.params["ip"][0].data == 5))
        del self.net
        self.assertTrue(np.all(other.params["ip"][0].data == 5))

    def test_assignments_are_refused(self):
        net, array = self.net, np.full((3,), 7, "f4")

        def add(blobs):
            blobs += [array]
        for attempt in (
                lambda: net.params["conv"].__setitem__(0, array),
                lambda: net.params["conv"].__delitem__(0),
                lambda: net.params["conv"].append(array),
                lambda: add(net.params["conv"]),
                lambda: net.params.__setitem__("conv", [array]),
                lambda: net.params.pop("conv"),
                lambda: net.blobs.__setitem__("data", array),
                lambda: net.blobs.update(data=array),
                lambda: net.layers[1].blobs.__setitem__(0, array),
                lambda: net.layers.__setitem__(0, net.layers[1]),
                lambda: net.layer_dict.clear(),
                lambda: net.blob_loss_weights.__setitem__("loss", 2)):
            with self.assertRaisesRegex(TypeError, "belongs to the net and cannot be changed; "):
                attempt()
        with self.assertRaisesRegex(TypeError, r"as in blobs\['data'\]"):
            net.blobs["data"] = array
        with self.assertRaises(AttributeError):
            net.params["conv"][1].data = array
        with self.assertRaises(AttributeError):
            net.params = {}
        # Copies are the program's.
        for own in (net.blobs.copy(), copy.copy(net.blobs), dict(net.blobs)):
            own["data"] = array
        own = copy.copy(net.params["conv"])
        own.append(array)
        self.assertEqual(len(own), 3)
        self.assertEqual(type(own), caffe.BlobVec)
        self.assertEqual(list(copy.deepcopy(net.params)), list(net.params))

    def test_pickle(self):
        deploy = caffe.Net.from_text(case.DEPLOY)
        deploy.blobs["data"].reshape(2, 3, 8, 8)
        deploy.blobs["data"].data[...] = np.random.rand(2, 3, 8, 8)
        other = pickle.loads(pickle.dumps(deploy))
        other.blobs["data"].data[...] = deploy.blobs["data"].data
        np.testing.assert_array_equal(other.forward()["prob"], deploy.forward()["prob"])

    def test_copies_are_the_same_net(self):
        """What the file says beside layers, names of any letters, and what stages and level have chosen."""
        text = """name: 'a "b" \\\\ c' force_backward: true default_forward_type: DOUBLE """ + case.DEPLOY.replace(
            "name: 'deploy'", "").replace("type: 'Softmax'", "include { stage: 'deploy' min_level: 2 } type: 'Softmax'")
        net = caffe.Net.from_text(text, caffe.TEST, level=3, stages=["deploy"])
        for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net), caffe.Net.from_text(net.to_prototxt())):
            self.assertEqual(other.name, 'a "b" \\ c')
            self.assertEqual(list(other.blobs), list(net.blobs))
            self.assertEqual(other.blobs["ip"].types, ("double", "float"))
            other.blobs["prob"].diff[...] = np.arange(20).reshape(4, 5)
            other.forward(data=np.random.rand(4, 3, 8, 8))
            self.assertTrue(np.any(other.backward()["data"]))

    def test_attributes_are_copied(self):
        self.net.number = 3
        self.net.before_forward(lambda layer: None)
        self.net.forward()
        for other in (pickle.loads(pickle.dumps(self.net)), copy.deepcopy(self.net)):
            self.assertEqual(other.number, 3)
            other.forward()

    def test_a_name_can_be_given(self):
        self.net.name = "mine"
        self.assertEqual(self.net.name, "mine")
        self.assertIn("'mine'", repr(self.net))
        self.assertEqual(caffe.Net(self.file, caffe.TEST).name, "small")

    def test_printing(self):
        deploy = caffe.Net.from_text(case.DEPLOY)
        self.assertIn("4 x 3 x 8 x 8", repr(deploy))
        self.assertIn("<td>conv</td>", deploy._repr_html_())
        self.assertIn("4x3x8x8", repr(deploy.blobs["data"]))

    def test_failures(self):
        with self.assertRaises(RuntimeError):
            caffe.Net(self.path("missing.prototxt"), caffe.TEST)
        with self.assertRaises(TypeError):
            caffe.Net(self.file)
        bad = self.write("bad.prototxt", "layer { name: 'x' type: 'Convolutoin' }")
        with self.assertRaises(caffe.Error) as caught:
            caffe.Net(bad, caffe.TEST)
        self.assertIn("Convolution", str(caught.exception))
        self.assertEqual(caught.exception.layer, "x")
        self.assertEqual(caught.exception.status, "E_UNKNOWN_NAME")
        self.assertEqual((caught.exception.file, caught.exception.line), (bad, 1))
        with self.assertRaises(RuntimeError):
            self.net.copy_from(self.path("missing.caffemodel"))
        with self.assertRaises(RuntimeError):
            caffe.Net.__new__(caffe.Net).forward()


    def test_constructors(self):
        """All forms that pycaffe has, by place and by name; `level` and `stages` are looked at in States."""
        weights = self.path("w.caffemodel")
        self.net.params["ip"][0].data[...] = 3
        self.net.save(weights)
        made = [caffe.Net(self.file, weights, caffe.TEST), caffe.Net(self.file, caffe.TEST, weights=weights),
                caffe.Net(self.file, phase=caffe.TEST, weights=weights),
                caffe.Net(network_file=self.file, phase=caffe.TEST, level=0, stages=["x"], weights=weights),
                caffe.Net(self.file, caffe.TEST, 0, ["x"], weights),
                caffe.Net(self.file, weights, phase=caffe.TEST, level=1),
                caffe.Net(self.file.encode(), caffe.TEST, weights=weights.encode())]
        for number, net in enumerate(made):
            self.assertTrue(np.all(net.params["ip"][0].data == 3), number)
            self.assertEqual(net.phase, caffe.TEST)
        self.assertFalse(np.all(caffe.Net(self.file, caffe.TRAIN).params["ip"][0].data == 3))
        for args, options in (((self.file,), {}), ((self.file, weights), {}),
                              ((self.file, weights, caffe.TEST), dict(weights=weights)),
                              ((self.file, caffe.TEST), dict(phase=caffe.TEST)),
                              ((self.file, caffe.TEST, 0, [], weights, 1), {}),
                              ((self.file, caffe.TEST), dict(nonsense=1)),
                              ((self.file, caffe.TEST), dict(stages="deploy"))):
            with self.assertRaises(TypeError):
                caffe.Net(*args, **options)
        for file, given in ((self.path("none"), weights), (self.file, self.path("none"))):
            with self.assertRaisesRegex(RuntimeError, "Could not open file .*none") as caught:
                caffe.Net(file, given, caffe.TEST)
            error = caught.exception
            self.assertIsInstance(error, caffe.Error)
            self.assertEqual((error.status, error.file, error.line, error.layer, error.blob),
                             ("E_NOT_FOUND", self.path("none"), 0, "", ""))
        with self.assertRaisesRegex(caffe.Error, "Could not open file .*none"):
            caffe.get_solver(self.path("none"))
        with self.assertRaisesRegex(TypeError, "requires a phase: caffe.TEST to run"):
            caffe.Net(self.file)
        with self.assertRaisesRegex(ValueError, "expected caffe.TRAIN or caffe.TEST, found 5"):
            caffe.Net(self.file, 5)

    def test_numbers_of_settings(self):
        for name, call in (("set_device", caffe.set_device), ("set_devices", lambda x: caffe.set_devices([x])),
                           ("set_random_seed", caffe.set_random_seed),
                           ("phase", lambda x: caffe.Net(self.file, phase=x))):
            with self.assertRaisesRegex(ValueError, "^%s: expected a whole number, found 'x'$" % name):
                call("x")

    def test_unknown_math(self):
        with self.assertRaisesRegex(ValueError, "^set_math: expected 'exact', 'fast' or None, found 'fats'$"):
            caffe.set_math("fats")

    def test_scalars_are_shown(self):
        net = caffe.Net.from_text("layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { "
                                  "shape { dim: 2 } } }"
                                  "layer { name: 's' type: 'Reduction' bottom: 'x' top: 's' }")
        self.assertIn("output s: scalar>", repr(net))
        self.assertEqual(repr(net.blobs["s"]), "<caffe.Blob scalar>")
        self.assertIn("s (scalar)", net._repr_html_())


class DeployNet(unittest.TestCase):
    """A net with an input."""

    def setUp(self):
        caffe.set_random_seed(3)
        self.net = caffe.Net.from_text(case.DEPLOY)

    def test_keywords(self):
        data = np.random.rand(4, 3, 8, 8)
        first = self.net.forward(data=data)["prob"].copy()
        self.net.blobs["data"].data[...] = data
        np.testing.assert_array_equal(self.net.forward()["prob"], first)
        with self.assertRaises(Exception):
            self.net.forward(other=data)
        with self.assertRaises(Exception):
            self.net.forward(data=data[:2])

    def test_forward_all(self):
        data = np.random.rand(10, 3, 8, 8).astype(np.float32)
        found = self.net.forward_all(blobs=["ip"], data=data)
        self.assertEqual(found["prob"].shape, (10, 5))
        self.assertEqual(found["ip"].shape, (10, 5))
        self.net.blobs["data"].data[...] = data[4:8]
        np.testing.assert_allclose(found["prob"][4:8], self.net.forward()["prob"], rtol=1e-5)

    def test_forward_backward_all(self):
        net = caffe.Net.from_text("force_backward: true " + case.DEPLOY, caffe.TRAIN)
        data, diff = np.random.rand(6, 3, 8, 8), np.random.rand(6, 5)
        blobs, diffs = net.forward_backward_all(blobs=["ip"], diffs=["ip"], data=data, prob=diff)
        self.assertEqual(blobs["ip"].shape, (6, 5))
        self.assertEqual(diffs["data"].shape, (6, 3, 8, 8))
        self.assertTrue(np.any(diffs["ip"]))

    def test_reshape(self):
        old = self.net.blobs["data"].data
        self.net.blobs["data"].reshape(9, 3, 10, 12)
        self.net.reshape()
        self.assertEqual(self.net.blobs["prob"].shape, (9, 5))
        self.assertEqual(self.net.blobs["conv"].shape, (9, 4, 8, 10))
        self.assertEqual(old.shape, (4, 3, 8, 8))
        old[...] = 3  # of nobody any more, and still there
        self.net.blobs["data"].data[...] = 1
        self.assertEqual(self.net.forward()["prob"].shape, (9, 5))

    def test_fusion_is_off_in_parts(self):
        data = np.random.rand(4, 3, 8, 8) - 0.5
        whole = self.net.forward(data=data)["prob"].copy()
        self.assertLess(self.net.forward(end="conv")["conv"].min(), 0)
        np.testing.assert_allclose(self.net.forward(start="relu")["prob"], whole, rtol=1e-5)

    def test_hooks(self):
        seen = []
        self.net.before_forward(lambda i: seen.append(("before", i)))
        self.net.after_forward(lambda i: seen.append(("after", i)))
        low = []
        self.net.after_forward(lambda i: low.append(self.net.blobs["conv"].data.min()) if i == 1 else None)
        self.net.forward(data=np.random.rand(4, 3, 8, 8) - 0.5)
        self.assertEqual(seen[:4], [("before", 0), ("after", 0), ("before", 1), ("after", 1)])
        self.assertEqual(len(seen), 12)
        self.assertLess(low[0], 0)  # before the ReLU in place

        def fail(layer):
            raise ZeroDivisionError(layer)
        self.net.before_forward(fail)
        with self.assertRaises(ZeroDivisionError):
            self.net.forward()

    def test_backward_hooks(self):
        net = caffe.Net.from_text("force_backward: true " + case.DEPLOY, caffe.TRAIN)
        seen = []
        net.before_backward(lambda i: seen.append(i))
        net.after_backward(lambda i: seen.append(-i))
        net.forward()
        net.backward()
        self.assertEqual(seen, [5, -5, 4, -4, 3, -3, 2, -2, 1, -1, 0, 0])

    def test_subclass(self):
        class Mine(caffe.Net):
            """A class of a program's own."""

            def __init__(self, text, number):
                self._make("net", text, caffe.TEST)
                self.number = number
        net = Mine(case.DEPLOY, 3)
        self.assertEqual((net.number, net.outputs), (3, ["prob"]))

    def test_seed(self):
        def weights():
            caffe.set_random_seed(11)
            nets = [caffe.Net.from_text(case.DEPLOY) for _ in range(2)]
            return [net.params["conv"][0].data.copy() for net in nets]
        first, second = weights(), weights()
        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(first[1], second[1])
        self.assertFalse(np.array_equal(first[0], first[1]))

    def test_blob(self):
        blob = self.net.blobs["data"]
        self.assertEqual((blob.num, blob.channels, blob.height, blob.width), (4, 3, 8, 8))
        self.assertEqual(blob.count, 4 * 3 * 64)
        blob.copy_from(np.arange(768).reshape(4, 3, 8, 8))
        self.assertEqual(np.from_dlpack(blob)[3, 2, 7, 7], 767)
        self.assertEqual(np.asarray(blob).sum(), 767 * 384)
        self.assertIn("4 3 8 8", blob.text())
        own = caffe.Blob(2, 3)
        own.data[...] = 4
        copy = pickle.loads(pickle.dumps(own))
        self.assertTrue(np.array_equal(copy.data, own.data))
        own.reshape(1, 2, 3, 4, 5)
        with self.assertRaises(ValueError):
            own.num
        with self.assertRaises(RuntimeError):
            own.reshape(-1)

    def test_threads(self):
        text = case.DEPLOY.replace("dim: 4 dim: 3 dim: 8 dim: 8", "dim: 2 dim: 3 dim: 32 dim: 32")
        nets = [caffe.Net.from_text(text) for _ in range(4)]
        data = np.random.rand(2, 3, 32, 32)
        alone = [net.forward(data=data)["prob"].copy() for net in nets]
        wrong = []

        def run(index):
            for _ in range(20):
                if not np.array_equal(nets[index].forward(data=data)["prob"], alone[index]):
                    wrong.append(index)
        threads = [threading.Thread(target=run, args=(i % 4,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_after_fork(self):
        data = self.net.blobs["data"]
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for use in (self.net.forward, lambda: data.data):
                try:
                    use()
                except RuntimeError as error:
                    said.append(str(error))
            os.write(writer, " ".join(said).encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        said = os.read(reader, 4096).decode()
        os.close(reader)
        self.assertEqual(said.count("fork"), 2)
        self.net.forward()


class States(case.FolderCase):
    """Levels, stages, and one file for all phases."""

    TEXT = """
layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: 1 dim: 2 } } }
layer { name: 'none' type: 'InnerProduct' bottom: 'data' top: 'none'
  inner_product_param { num_output: 1 } }
layer { name: 'zero' include { %s: %s } type: 'InnerProduct' bottom: 'data' top: 'zero'
  inner_product_param { num_output: 1 } }
layer { name: 'some' include { %s: %s } type: 'InnerProduct' bottom: 'data' top: 'some'
  inner_product_param { num_output: 1 } }
"""

    def names(self, text, phase=caffe.TEST, **options):
        """The names of the layers of a net."""
        return set(caffe.Net(self.write("state.prototxt", text), phase, **options)._layer_names)

    def test_levels(self):
        text = self.TEXT % ("min_level", "1", "max_level", "0")
        self.assertEqual(self.names(text) & {"zero", "some"}, {"some"})
        self.assertEqual(self.names(text, level=1) & {"zero", "some"}, {"zero"})

    def test_stages(self):
        text = self.TEXT % ("stage", "'A'", "stage", "'B'")
        self.assertEqual(self.names(text) & {"zero", "some"}, set())
        self.assertEqual(self.names(text, stages=["A"]) & {"zero", "some"}, {"zero"})
        self.assertEqual(self.names(text, stages=["A", "B"]) & {"zero", "some"}, {"zero", "some"})
        with self.assertRaises(TypeError):
            self.names(text, stages="A")

    def test_all_in_one(self):
        text = """
layer { name: 'train' type: 'DummyData' include { phase: TRAIN } top: 'data' top: 'label'
  dummy_data_param { shape { dim: 1 dim: 1 dim: 10 dim: 10 } shape { dim: 1 } } }
layer { name: 'val' type: 'DummyData' include { phase: TEST stage: 'val' } top: 'data' top: 'label'
  dummy_data_param { shape { dim: 1 dim: 1 dim: 10 dim: 10 } shape { dim: 1 } } }
layer { name: 'deploy' type: 'Input' include { phase: TEST stage: 'deploy' } top: 'data'
  input_param { shape { dim: 1 dim: 1 dim: 10 dim: 10 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 2 } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss'
  include { phase: TRAIN } include { phase: TEST stage: 'val' } }
"""
        self.assertEqual(self.names(text, caffe.TRAIN), {"train", "ip", "loss"})
        self.assertEqual(self.names(text, stages=["val"]), {"val", "ip", "loss"})
        self.assertEqual(self.names(text, stages=["deploy"]), {"deploy", "ip"})


class InputArrays(unittest.TestCase):
    """Samples for a MemoryData layer of 1 x 1 x 3 values in batches of two."""

    TEXT = """
layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label'
  memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }
layer { name: 's' type: 'Power' bottom: 'data' top: 'y' power_param { scale: 2 } }"""

    def setUp(self):
        self.net = caffe.Net.from_text(self.TEXT)
        self.data = np.arange(12, dtype=np.float32).reshape(4, 1, 1, 3)
        self.labels = np.arange(4, dtype=np.float32)

    def test_batches(self):
        self.net.set_input_arrays(self.data.copy(), self.labels.copy())
        self.net._set_input_arrays(self.data.copy(), self.labels.copy())
        for begin in (0, 2, 0):
            found = self.net.forward(blobs=["label"])
            np.testing.assert_array_equal(found["y"], 2 * self.data[begin:begin + 2])
            np.testing.assert_array_equal(found["label"].reshape(-1), self.labels[begin:begin + 2])

    def refuse(self, data, labels, words):
        """They are refused with those words."""
        with self.assertRaisesRegex(RuntimeError, words):
            self.net.set_input_arrays(data, labels)

    def test_missing_samples(self):
        with self.assertRaisesRegex(caffe.Error, "no samples; .* set_input_arrays"):
            self.net.forward()

    def test_other_arrays_are_refused(self):
        data, labels = self.data, self.labels
        self.refuse(data.astype(float), labels, "float32")
        self.refuse(data, labels[::-1], "C-contiguous")
        self.refuse(data[:3], labels[:3], "multiple of batch_size")
        self.refuse(data[:2], labels, "first dimension")
        with self.assertRaises(RuntimeError):
            caffe.Net.from_text(case.DEPLOY).set_input_arrays(data, labels)

    def test_other_sizes_are_refused(self):
        data, labels = self.data, self.labels
        self.refuse(data.reshape(4, 3), labels, "4 axes")
        self.refuse(data.reshape(4, 3, 1, 1), labels, "number of channels: 3; the layer's is 1")
        self.refuse(data.reshape(4, 1, 3, 1), labels, "wrong height: 3")
        self.refuse(data[..., :2].copy(), labels, "wrong width: 2")
        self.refuse(data, np.zeros((4, 0), np.float32), "one value for each sample")
        self.refuse(data, np.zeros((4, 2), np.float32), "one value for each sample")
        # What a program does to the top does not change what the layer reads.
        self.net.blobs["data"].reshape(2, 1, 1, 2)
        self.refuse(data[..., :2].copy(), labels, "wrong width: 2")

    def give(self, value):
        """The net gets samples of this value, of which nobody else has the arrays; whether they are there."""
        data = np.full((2, 1, 1, 3), value, np.float32)
        self.net.set_input_arrays(data, np.zeros(2, np.float32))
        return weakref.ref(data)

    def test_arrays_are_there_as_long_as_a_blob_shows_them(self):
        first = self.give(1)
        self.net.forward()
        unused, last = self.give(2), self.give(3)
        self.assertIsNone(unused())
        self.assertIsNotNone(first())
        np.testing.assert_array_equal(self.net.blobs["data"].data, np.full((2, 1, 1, 3), 1))
        self.net.forward()
        self.give(4)
        self.assertIsNone(first())
        self.assertIsNotNone(last())


if __name__ == "__main__":
    unittest.main()
