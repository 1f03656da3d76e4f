"""What several tests of the Python package use."""
import contextlib
import os
import shutil
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SMALL = """
name: 'small' force_backward: true
layer { name: 'data' type: 'DummyData' top: 'data' top: 'label'
  dummy_data_param { num: 5 channels: 2 height: 3 width: 4 num: 5 channels: 1 height: 1 width: 1
    data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  param { decay_mult: 1 } param { decay_mult: 0 }
  convolution_param { num_output: 11 kernel_size: 2 pad: 3
    weight_filler { type: 'gaussian' std: 1 } bias_filler { type: 'constant' value: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip_blob'
  inner_product_param { num_output: %d weight_filler { type: 'gaussian' std: 2.5 }
    bias_filler { type: 'constant' value: -3 } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip_blob' bottom: 'label' top: 'loss' }
"""

DEPLOY = """
name: 'deploy'
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }
layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'
  pooling_param { global_pooling: true pool: AVE } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }
"""


class FolderCase(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        """The path of a file in the folder."""
        return os.path.join(self.folder, name)

    def write(self, name, text):
        """Writes a file in the folder; its path."""
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def small_net(self, outputs=10):
        """The file of a net with data of its own and a loss."""
        return self.write("net.prototxt", SMALL % outputs)

    def solver_file(self, text="", net=None):
        """The file of a solver that trains it."""
        return self.write("solver.prototxt", """
net: '%s' test_iter: 10 test_interval: 10 base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005
lr_policy: 'inv' gamma: 0.0001 power: 0.75 display: 100 max_iter: 100 snapshot_after_train: false
snapshot_prefix: '%s' %s""" % (net or self.small_net(), self.path("model"), text))


@contextlib.contextmanager
def quiet():
    """Sends the error output of the process, the library's included, to nowhere."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
