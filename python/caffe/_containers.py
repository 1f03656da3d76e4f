"""Lists and dictionaries of a net's objects. Assignments to them would be lost, so they raise TypeError."""
from collections import OrderedDict

COPY_VALUES = "copy values into a blob, as in blobs[0].data[...] = array"


def _guard(cls, base, *names):
    """Makes methods of `base` raise TypeError in a container of class `cls` that belongs to a net."""
    for name in names:
        def call(self, *args, _method=getattr(base, name), **kwargs):
            if self._advice is not None:
                raise TypeError("this container belongs to the net and cannot be changed; " + self._advice)
            return _method(self, *args, **kwargs)
        call.__name__, call.__doc__ = name, getattr(base, name).__doc__
        setattr(cls, name, call)


class Vec(list):
    """A list, which may belong to a net."""

    _advice = None

    @classmethod
    def fixed(cls, items, advice):
        """A list that belongs to a net. `advice` ends the message of an attempt to change it."""
        found = cls(items)
        found._advice = advice
        return found

    def __reduce__(self):
        return type(self), (list(self),)


_guard(Vec, list, "__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "clear", "extend", "insert",
       "pop", "remove", "reverse", "sort")


class RawBlobVec(Vec):
    """A list of Blob: the bottoms or tops of a layer."""


class LayerVec(Vec):
    """A list of Layer."""


class NetVec(Vec):
    """A list of Net."""


class StringVec(Vec):
    """A list of str."""


class IntVec(Vec):
    """A list of int."""


class DtypeVec(Vec):
    """A list of float."""


class BoolVec(Vec):
    """A list of bool."""


class _Open(OrderedDict):
    """A dictionary that is filled."""

    _advice = None

    def __reduce__(self):
        return OrderedDict, (list(self.items()),)

    def copy(self):
        """A copy, which may be changed."""
        return OrderedDict(self)


class _Fixed(_Open):
    """A dictionary that belongs to a net."""


_guard(_Fixed, OrderedDict, "__setitem__", "__delitem__", "__ior__", "clear", "move_to_end", "pop", "popitem",
       "setdefault", "update")


def fixed_dict(pairs, advice):
    """A dictionary that belongs to a net. `advice` ends the message of an attempt to change it."""
    found = _Open(pairs)
    found._advice = advice
    found.__class__ = _Fixed  # the guards would slow the filling down
    return found
