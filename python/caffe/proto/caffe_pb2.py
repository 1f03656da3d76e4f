"""Caffe's messages as classes of Google's protobuf: NetParameter, SolverParameter, Datum and so on.

The schema is the one that crema was built with. It has its own descriptor pool, so a second `caffe_pb2` in the same
process does not conflict with it.
"""
import os as _os

from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf import message_factory as _message_factory
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper


def _rename(message):
    """Removes the underscores that the C code appends to field names that are reserved words in C."""
    for field in message.field:
        field.name = field.name.rstrip("_")
        field.ClearField("json_name")
    for inner in message.nested_type:
        _rename(inner)


def _read():
    path = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "caffe.desc")
    with open(path, "rb") as file:
        files = _descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = _descriptor_pool.DescriptorPool()
    for description in files.file:
        for message in description.message_type:
            _rename(message)
        pool.AddSerializedFile(description.SerializeToString())
    return pool, files.file[-1]


def _class_of(pool, name):
    descriptor = pool.FindMessageTypeByName(name)
    if hasattr(_message_factory, "GetMessageClass"):
        return _message_factory.GetMessageClass(descriptor)
    return _message_factory.MessageFactory(pool).GetPrototype(descriptor)


def _fill(names):
    pool, description = _read()
    prefix = description.package + "." if description.package else ""
    for message in description.message_type:
        cls = _class_of(pool, prefix + message.name)
        cls.__module__ = __name__
        names[message.name] = cls
    for enum in description.enum_type:
        descriptor = pool.FindEnumTypeByName(prefix + enum.name)
        names[enum.name] = _enum_type_wrapper.EnumTypeWrapper(descriptor)
        for value in enum.value:
            names[value.name] = value.number
    names["DESCRIPTOR"] = pool.FindFileByName(description.name)


_fill(globals())
