"""Single layers without a net."""
from ._containers import COPY_VALUES
from ._layer import BlobVec, LayerParameter


class SingleLayer:
    """A layer without a net, for blobs of the program; see create_layer.

    Call ``SetUp`` first. `bottom` and `top` are lists of Blob. ``blobs`` has the layer's parameters. For a
    layer written in Python, the attributes of its object are available too.
    """

    def __init__(self, param):
        self.layer_param = LayerParameter(param)
        self.type = self.layer_param.type
        self.blobs = BlobVec()
        self._net = None

    def SetUp(self, bottom, top):
        """Creates the layer for the shapes of the bottoms and sets the shapes of the tops."""
        from .pycaffe import Net
        bottom, top = _blobs(bottom), _blobs(top)
        message = type(self.layer_param.to_python())()
        message.CopyFrom(self.layer_param.to_python())
        message.name = message.name or "layer"
        del message.bottom[:], message.top[:], message.include[:], message.exclude[:]
        message.bottom.extend("bottom%d" % i for i in range(len(bottom)))
        message.top.extend(_top_name(index, blob, bottom) for index, blob in enumerate(top))
        inputs = "".join("layer { name: '%s' type: 'Input' top: '%s' input_param { shape { %s } } }\n" % (
            name, name, " ".join("dim: %d" % d for d in blob.shape))
            for name, blob in zip(message.bottom, bottom))
        self._net = Net.from_text("force_backward: true\n%slayer { %s }" % (inputs, message), message.phase)
        self._names = list(message.bottom), list(message.top)
        index = self._net._layer_index(message.name)
        self.blobs = BlobVec.fixed(self._net._params_of(index), COPY_VALUES)
        self._python_layer = self._net._python_layer(index)
        self._first, self._last = len(bottom), len(self._net._layer_names) - 1
        self._shape_tops(top)
        for blob, name in zip(top, self._names[1]):
            weight = self._net.blob_loss_weights[name]
            if weight:
                blob.diff[...] = weight

    def Reshape(self, bottom, top):
        """Sets the shapes of the tops from the shapes of the bottoms."""
        self._take(bottom)
        self._net.reshape()
        self._shape_tops(_blobs(top))

    def Forward(self, bottom, top):
        """Computes the tops from the bottoms and returns the loss, or 0 for a layer that is no loss layer."""
        self._take(bottom)
        loss = self._net._forward(0, self._last)
        self._shape_tops(_blobs(top))
        for blob, name in zip(_blobs(top), self._names[1]):
            blob.data[...] = self._blob(name).data
        return loss

    def Backward(self, top, propagate_down, bottom):
        """Computes the gradients of the bottoms for which `propagate_down` is true, from the gradients of the
        tops. Adds to the gradients of the parameters."""
        self._take(bottom)
        for blob, name in zip(_blobs(top), self._names[1]):
            self._blob(name).diff[...] = blob.diff
        self._net._backward(self._last, self._first)
        for blob, name, wanted in zip(_blobs(bottom), self._names[0], propagate_down):
            if wanted:
                blob.diff[...] = self._blob(name).diff

    setup, reshape, forward, backward = SetUp, Reshape, Forward, Backward

    def _blob(self, name):
        return self._net.blobs[name]

    def _take(self, bottom):
        """Copies the shapes and values of the bottoms to the layer's net."""
        if self._net is None:
            raise RuntimeError("SetUp comes first")
        for blob, name in zip(_blobs(bottom), self._names[0]):
            own = self._blob(name)
            if own.shape != blob.shape:
                own.reshape(*blob.shape)
            own.data[...] = blob.data

    def _shape_tops(self, top):
        for blob, name in zip(top, self._names[1]):
            if blob.shape != self._blob(name).shape:
                blob.reshape(*self._blob(name).shape)

    def __getattr__(self, name):
        layer = self.__dict__.get("_python_layer")
        if layer is not None:
            return getattr(layer, name)
        raise AttributeError("%s layers have no attribute %r" % (self.__dict__.get("type"), name))

    def __repr__(self):
        return "<caffe.SingleLayer of type %s>" % self.type


def _blobs(blobs):
    """Converts a list, or a dictionary with the keys 0, 1 and so on, to a list."""
    return [blobs[i] for i in range(len(blobs))]


def _top_name(index, blob, bottom):
    """The name of a top; a top that is one of the bottoms has its name and is computed in place."""
    for number, other in enumerate(bottom):
        if blob.is_blob(other):
            return "bottom%d" % number
    return "top%d" % index


def create_layer(param):
    """Creates a layer without a net, from a LayerParameter, a caffe_pb2.LayerParameter or prototxt text:

        layer = caffe.create_layer("type: 'Sigmoid'")
        layer.SetUp(bottom, top)
        layer.Forward(bottom, top)
    """
    return SingleLayer(param.to_python() if isinstance(param, LayerParameter) else param)
