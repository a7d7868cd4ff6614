"""The messages of proto/pserver.proto, from descriptors that the build stores beside this file."""

import os

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _load():
    path = os.path.join(os.path.dirname(__file__), "pserver.desc")
    files = descriptor_pb2.FileDescriptorSet()
    with open(path, "rb") as file:
        files.ParseFromString(file.read())
    pool = descriptor_pool.DescriptorPool()  # separate: names cannot collide with other packages
    for file in files.file:
        pool.Add(file)
    if hasattr(message_factory, "GetMessageClass"):
        make = message_factory.GetMessageClass
    else:  # before protobuf 4.22
        make = message_factory.MessageFactory(pool).GetPrototype
    service = pool.FindServiceByName("tandem.ParameterServer")
    methods = {m.name: (make(m.input_type), make(m.output_type)) for m in service.methods}
    numbers = {}
    for enum in ("tandem.DataType", "tandem.UpdateMode"):
        numbers.update({v.name: v.number for v in pool.FindEnumTypeByName(enum).values})
    return methods, numbers


# METHODS: name of a call -> (request, reply) classes. NUMBER: name of an enum value -> number.
METHODS, NUMBER = _load()
