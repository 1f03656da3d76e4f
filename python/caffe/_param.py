"""The description of an existing solver."""


class SolverParameter:
    """The fields of a solver file as attributes. ``message`` is the caffe_pb2.SolverParameter itself. Setting
    ``base_lr`` or ``max_iter`` changes the solver; all other fields are read-only."""

    def __init__(self, solver, text):
        from google.protobuf import text_format

        from .proto import caffe_pb2
        self.__dict__["message"] = text_format.Parse(text, caffe_pb2.SolverParameter())
        self.__dict__["_solver"] = solver

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.message, name)

    def __setattr__(self, name, value):
        if name not in ("base_lr", "max_iter"):
            raise AttributeError("%s cannot be changed in a solver that is built" % name)
        setattr(self._solver, name, value)
        setattr(self.message, name, value)

    def __str__(self):
        return str(self.message)

    def __repr__(self):
        return "<caffe.SolverParameter of %r>" % self._solver
