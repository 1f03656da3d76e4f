"""Plots of training runs and nets, with matplotlib.

    caffe.plot.loss('train.log')
    caffe.plot.filters(net, 'conv1')
    caffe.plot.features(net, 'pool1')
    caffe.plot.confusion(matrix, names)

Each function draws into the matplotlib axes `ax`, or into new axes, and returns the axes.
"""
import re

import numpy as np

_ITERATION = re.compile(r"Iteration (\d+)\b")
_LOSS = re.compile(r"\bloss = ([-+.\w]+)")
_OUTPUT = re.compile(r"(Train|Test) net output #\d+: (\S+) = ([-+.\w]+)")


def _axes(ax):
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt
    return plt.subplots()[1]


def read_log(log):
    """Reads the curves of a training log: {'loss': (iterations, values), 'Train accuracy': ...}. `log` is a
    file name or a list of lines."""
    if isinstance(log, str):
        with open(log, errors="replace") as file:
            log = file.readlines()
    found, iteration = {}, 0
    for line in log:
        number = _ITERATION.search(line)
        if number:
            iteration = int(number.group(1))
        loss = _LOSS.search(line) if number else None
        output = _OUTPUT.search(line)
        pairs = [("loss", loss.group(1))] if loss else []
        if output:
            pairs.append(("%s %s" % output.group(1, 2), output.group(3)))
        for name, value in pairs:
            iterations, values = found.setdefault(name, ([], []))
            iterations.append(iteration)
            values.append(float(value))
    return found


def loss(log, names=None, ax=None):
    """Plots the curves of a training log (see read_log): all of them, or the curves listed in `names`."""
    found = read_log(log)
    ax = _axes(ax)
    for name, (iterations, values) in found.items():
        if names is None or name in names:
            ax.plot(iterations, values, label=name)
    ax.set_xlabel("iteration")
    if ax.lines:
        ax.legend()
    return ax


class LiveLoss:
    """A live plot of a solver's loss during training, in a notebook or a window.

        live = caffe.plot.LiveLoss(solver, every=20)
        solver.solve()
    """

    def __init__(self, solver, every=10, output=None, ax=None):
        self.ax = _axes(ax)
        self.iterations, self.values = [], []
        self.line, = self.ax.plot([], [])
        self.ax.set_xlabel("iteration")
        self._solver, self._every = solver, every
        net = solver.net
        self._output = output or net.outputs[0]
        solver.add_callback(None, self._note)

    def _note(self):
        iteration = self._solver.iter
        if iteration % self._every:
            return
        self.iterations.append(iteration)
        self.values.append(float(np.sum(self._solver.net.blobs[self._output].data)))
        self.line.set_data(self.iterations, self.values)
        self.ax.relim()
        self.ax.autoscale_view()
        self.ax.figure.canvas.draw_idle()


def tile(images, padding=1):
    """Arranges images in a grid that is nearly square. `images` has the shape n x height x width (x 3) and is
    scaled to 0..1."""
    images = np.asarray(images, dtype=np.float32)
    low, high = (float(images.min()), float(images.max())) if images.size else (0.0, 1.0)
    images = (images - low) / (high - low if high > low else 1.0)
    side = max(1, int(np.ceil(np.sqrt(len(images)))))
    rows = max(1, -(-len(images) // side))
    pads = [(0, rows * side - len(images)), (0, padding), (0, padding)] + [(0, 0)] * (images.ndim - 3)
    images = np.pad(images, pads, constant_values=1.0)
    height, width = images.shape[1:3]
    images = images.reshape((rows, side) + images.shape[1:])
    images = images.swapaxes(1, 2)
    return images.reshape((rows * height, side * width) + images.shape[4:])


def _show(picture, ax):
    ax = _axes(ax)
    ax.imshow(picture, cmap="gray" if picture.ndim == 2 else None, interpolation="nearest")
    ax.set_axis_off()
    return ax


def filters(net, layer, ax=None):
    """Plots the filters of a convolution: in colour if they have three channels, else each channel separately."""
    weights = np.array(net.params[layer][0].data)
    if weights.ndim != 4:
        raise ValueError("layer %r has no filters" % layer)
    if weights.shape[1] == 3:
        return _show(tile(weights.transpose(0, 2, 3, 1)[..., ::-1]), ax)
    return _show(tile(weights.reshape((-1,) + weights.shape[2:])), ax)


def features(net, blob, item=0, ax=None):
    """Plots the feature maps in a blob for the sample number `item`."""
    values = np.array(net.blobs[blob].data[item])
    if values.ndim != 3:
        raise ValueError("blob %r has no maps" % blob)
    return _show(tile(values), ax)


def confusion(matrix, names=None, ax=None):
    """Plots a confusion matrix. Rows are the true classes, columns the predicted classes."""
    matrix = np.asarray(matrix)
    ax = _axes(ax)
    ax.imshow(matrix, cmap="Blues")
    ticks = np.arange(len(matrix))
    labels = names if names is not None else ticks
    ax.set_xticks(ticks, labels, rotation=90)
    ax.set_yticks(ticks, labels)
    for (row, column), value in np.ndenumerate(matrix):
        ax.text(column, row, "%g" % value, ha="center", va="center", fontsize=7,
                color="white" if value > matrix.max() / 2 else "black")
    ax.set_xlabel("taken for")
    ax.set_ylabel("is")
    return ax
