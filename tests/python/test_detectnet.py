"""DetectNet's Python layers: lists of boxes from a grid, and their scores."""
import unittest

import numpy as np

import caffe
from caffe.layers.detectnet import clustering, mean_ap
from case import FolderCase

# Rectangles, threshold, eps; then the groups and their sizes as OpenCV 4.14.0 (groupRectangles) computes them.
GROUPS = [
    ([[43, 111, 65, 27], [126, 5, 34, 34], [84, 104, 12, 10], [62, 103, 9, 55], [78, 101, 11, 11], [35, 108, 59, 22],
      [44, 112, 67, 27], [23, 7, 54, 69]], 2, 0.6, [[41, 110, 64, 25]], [3]),
    ([[108, 171, 60, 59], [108, 170, 60, 61], [109, 172, 61, 63], [108, 170, 61, 63], [111, 172, 61, 60],
      [112, 170, 64, 65]], 1, 0.6, [[109, 171, 61, 62]], [6]),
    ([[67, 94, 24, 62]], 0, 0.1, [[67, 94, 24, 62]], [1]),
    ([[0, 0, 100, 100]] * 5 + [[40, 40, 20, 20]] * 2, 1, 0.1, [[0, 0, 100, 100]], [5]),
    ([[0, 0, 100, 100]] * 3 + [[40, 40, 20, 20]] * 3, 1, 0.1, [[0, 0, 100, 100], [40, 40, 20, 20]], [3, 3]),
]

NET = """
layer { name: 'in' type: 'Input' top: 'cvg' top: 'box' top: 'cvg-label' top: 'box-label'
  input_param { shape { dim: 1 dim: 2 dim: 2 dim: 4 } shape { dim: 1 dim: 4 dim: 2 dim: 4 }
    shape { dim: 1 dim: 2 dim: 2 dim: 4 } shape { dim: 1 dim: 4 dim: 2 dim: 4 } } }
layer { name: 'found' type: 'Python' bottom: 'cvg' bottom: 'box' top: 'found0' top: 'found1' python_param {
  module: 'caffe.layers.detectnet.clustering' layer: 'ClusterDetections' param_str: '64, 32, 16, 0.5, 1, 0.2, 10, 2' } }
layer { name: 'truth' type: 'Python' bottom: 'cvg-label' bottom: 'box-label' top: 'truth0' top: 'truth1' python_param {
  module: 'caffe.layers.detectnet.clustering' layer: 'ClusterGroundtruth' param_str: '64,32,16,2' } }
layer { name: 'score' type: 'Python' bottom: 'truth0' bottom: 'found0' top: 'marks' python_param {
  module: 'caffe.layers.detectnet.mean_ap' layer: 'ScoreDetections' } }
layer { name: 'map' type: 'Python' bottom: 'marks' top: 'mAP' top: 'precision' top: 'recall' python_param {
  module: 'caffe.layers.detectnet.mean_ap' layer: 'mAP' param_str: '64,32,16' } }
"""


class DetectNet(FolderCase):
    """The layers in a net, and their functions."""

    def test_groups(self):
        for rectangles, threshold, eps, groups, sizes in GROUPS:
            found, members = clustering.group_rectangles(rectangles, threshold, eps)
            self.assertEqual((found.tolist(), members.tolist()), (groups, sizes))
        self.assertEqual(len(clustering.group_rectangles([], 1, 0.2)[0]), 0)

    def test_net(self):
        net = caffe.Net(self.write("net.prototxt", NET), caffe.TEST)
        # Class 0: an object in two cells, whose sides are relative to their corners, and one in a single cell.
        for name, cells in (("cvg", [(0, 1), (0, 2)]), ("cvg-label", [(0, 1), (0, 2), (1, 0)])):
            for y, x in cells:
                net.blobs[name].data[0, 0, y, x] = 1
        for name in ("box", "box-label"):
            for (y, x), sides in {(0, 1): (-6, 2, 34, 30), (0, 2): (-22, 2, 18, 30), (1, 0): (0, -4, 12, 12)}.items():
                net.blobs[name].data[0, :, y, x] = sides
        net.blobs["cvg"].data[0, 0, 1, 3] = 0.4  # below the threshold
        net.forward()
        self.assertEqual(net.blobs["found0"].data.shape, (1, 50, 5))
        np.testing.assert_allclose(net.blobs["found0"].data[0, :2], [[10, 2, 50, 30, np.log(2)], [0] * 5], rtol=1e-6)
        self.assertFalse(net.blobs["found1"].data.any())
        self.assertEqual(net.blobs["truth0"].data[0, :3].tolist(), [[0, 12, 12, 28, 0], [10, 2, 50, 30, 0], [0] * 5])
        self.assertEqual(net.blobs["marks"].data[0, :3].tolist(), [[10, 2, 50, 30, 1], [0, 12, 12, 28, 3], [0] * 5])
        self.assertEqual([float(net.blobs[name].data[0]) for name in ("mAP", "precision", "recall")], [50, 100, 50])

    def test_many_boxes(self):
        """Of more boxes than the list has places, the larger groups remain."""
        layer = clustering.ClusterDetections.__new__(clustering.ClusterDetections)
        layer.gridbox_rect_thresh, layer.gridbox_rect_eps, layer.min_height = 1, 0.01, 5
        boxes = [[i * 100, 0, i * 100 + 50, 50] for i in range(60) for _ in range(3 if i % 6 else 2)]
        found = layer.find(np.array(boxes, dtype=float))
        self.assertEqual(found.shape, (50, 5))
        self.assertEqual(sorted(found[:, 0]), [i * 100 for i in range(60) if i % 6])

    def test_bad_parameters(self):
        for change, text in ((("0.5, 1", "much, 1"), "gridbox_cvg_threshold is 'much'"),
                             (("64,32,16,2", "64,32"), "image_size_x,image_size_y,stride,num_classes"),
                             (("10, 2'", "10, 3'"), "num_classes is 3, bottom 0 has 2 channels")):
            path = self.write("net.prototxt", NET.replace(*change))
            with self.assertRaisesRegex(Exception, text):
                caffe.Net(path, caffe.TEST)

    def test_marks(self):
        self.assertEqual(mean_ap.iou([0, 0, 2, 2], [1, 0, 3, 2]), 1 / 3)
        self.assertEqual(mean_ap.iou([0, 0, 2, 2], [2, 0, 3, 2]), 0)
        self.assertEqual(mean_ap.mark([[0, 0, 10, 10]] * 2, [[0, 0, 10, 9]] * 3),
                         [[0, 0, 10, 9, 1]] * 2 + [[0, 0, 10, 9, 2]])

    def test_layers_stay_callable(self):
        """The package of these layers does not hide the functions that make layers."""
        self.assertEqual(caffe.layers.ReLU(caffe.layers.Input(shape=dict(dim=[1, 2]))).fn.type_name, "ReLU")
        with self.assertRaises(AttributeError):
            caffe.layers._nothing


if __name__ == "__main__":
    unittest.main()
