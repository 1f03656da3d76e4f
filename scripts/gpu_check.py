#!/usr/bin/env python3
"""Compares LeNet's values and gradients on a GPU with the CPU's, through the Python package.

Exits with 77 if NumPy, protobuf or the package is missing. The device is the first one: CUDA's, or OpenCL's if
CREMA_OPENCL names it.
"""
import pathlib
import sys
import tempfile

try:
    import numpy
    import google.protobuf  # noqa: F401  the package needs it
    import caffe
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TOLERANCE = 1e-4  # largest difference over largest magnitude

NET = """layer { name: "data" type: "Input" top: "data" top: "label"
  input_param { shape { dim: 8 dim: 1 dim: 28 dim: 28 } shape { dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "relu" type: "ReLU" bottom: "pool" top: "pool" }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


def values(path):
    """The loss and all gradients of one pass."""
    caffe.set_random_seed(1)
    net = caffe.Net(str(path), caffe.TRAIN)
    random = numpy.random.default_rng(1)
    net.blobs["data"].data[...] = random.normal(0, 1, net.blobs["data"].data.shape)
    net.blobs["label"].data[...] = numpy.arange(8)
    net.forward()
    net.backward()
    return [net.blobs["loss"].data.copy()] + [blob.diff.copy() for name in net.params for blob in net.params[name]]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "net.prototxt"
        path.write_text(NET)
        caffe.set_mode_cpu()
        wanted = values(path)
        caffe.set_mode_gpu()
        caffe.set_device(0)
        found = values(path)
    worst = max(abs(a - b).max() / abs(a).max() for a, b in zip(wanted, found))
    print(f"1 passed, largest relative difference {worst:.1e}" if worst <= TOLERANCE else f"differs by {worst:.1e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
