"""The programs of this version read the files of each release, and understand its messages
(tests/compatibility/VERSION, made by make.py)."""

import json
import os
import tarfile
import tempfile
import unittest

import script

script.need_modules("grpc", "numpy", "google.protobuf", package="python3-grpcio, python3-numpy")
script.need_programs("protoc", package="protobuf-compiler")
# pylint: disable=wrong-import-position
import subprocess

from google.protobuf import descriptor_pb2
import states

FOLDER = os.path.dirname(os.path.abspath(__file__))
VERSIONS = sorted(v for v in os.listdir(FOLDER) if os.path.exists(os.path.join(FOLDER, v, "expected.json")))


class Files(unittest.TestCase):
    def test_the_files_of_each_release_are_read(self):
        self.assertNotEqual(VERSIONS, [])
        for version in VERSIONS:
            with open(os.path.join(FOLDER, version, "expected.json")) as file:
                expected = json.load(file)
            self.assertNotEqual(expected, {})
            for name, content in expected.items():
                with self.subTest(version=version, state=name):
                    with tempfile.TemporaryDirectory(prefix="tandem-golden-") as folder:
                        with tarfile.open(os.path.join(FOLDER, version, name + ".tar.xz")) as archive:
                            archive.extractall(folder)
                        states.STATES[name]().check(folder, content, self)


def parts_of(files):
    """The messages and the enumerations of a FileDescriptorSet, by their full names, also those within
    messages."""
    messages, enums = {}, {}

    def add(prefix, message):
        name = f"{prefix}.{message.name}"
        messages[name] = message
        enums.update({f"{name}.{e.name}": e for e in message.enum_type})
        for inner in message.nested_type:
            add(name, inner)

    for file in files.file:
        enums.update({f"{file.package}.{e.name}": e for e in file.enum_type})
        for message in file.message_type:
            add(file.package, message)
    return messages, enums


def oneof_of(message, field):
    return message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""


def changes(old, new):
    """What a message of `old` has that `new` reads in another way: fields, values of enumerations, calls."""
    wrong = []
    (messages, enums), (now, enums_now) = parts_of(old), parts_of(new)
    for name, message in messages.items():
        if name not in now:
            wrong.append(f"message {name} is missing")
            continue
        fields = {f.number: f for f in now[name].field}
        reserved = [range(r.start, r.end) for r in now[name].reserved_range]
        for field in message.field:
            other = fields.get(field.number)
            if other is None:
                if not any(field.number in r for r in reserved):
                    wrong.append(f"{name}: field {field.number} ({field.name}) is missing and not reserved")
            elif (field.type, field.label, field.type_name) != (other.type, other.label, other.type_name):
                wrong.append(f"{name}: field {field.number} ({field.name}) has another type")
            elif (field.default_value, oneof_of(message, field)) != (other.default_value, oneof_of(now[name], other)):
                wrong.append(f"{name}: field {field.number} ({field.name}) has another default or group")
            elif field.name != other.name:
                wrong.append(f"{name}: field {field.number} ({field.name}) is {other.name} now")
    for file in old.file:
        services = {s.name: {m.name: (m.input_type, m.output_type) for m in s.method}
                    for f in new.file if f.package == file.package for s in f.service}
        for service in file.service:
            for method in service.method:
                if services.get(service.name, {}).get(method.name) != (method.input_type, method.output_type):
                    wrong.append(f"call {service.name}.{method.name} is missing or has other messages")
    for name, enum in enums.items():
        values = {v.number: v.name for v in enums_now[name].value} if name in enums_now else {}
        for value in enum.value:
            if values.get(value.number) != value.name:
                wrong.append(f"{name}: value {value.number} ({value.name}) is another one")
    return wrong


class Wire(unittest.TestCase):
    @staticmethod
    def read(path):
        files = descriptor_pb2.FileDescriptorSet()
        with open(path, "rb") as file:
            files.ParseFromString(file.read())
        return files

    def present(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "wire.desc")
            names = sorted(f for f in os.listdir(os.path.join(script.SOURCE, "proto")) if f.endswith(".proto"))
            subprocess.run(["protoc", "-I", script.SOURCE, "--include_imports", "--descriptor_set_out=" + path,
                            *["proto/" + n for n in names]], check=True, cwd=script.SOURCE)
            return self.read(path)

    def test_the_messages_of_each_release_keep_their_meaning(self):
        for version in VERSIONS:
            old = self.read(os.path.join(FOLDER, version, "wire.desc"))
            self.assertGreater(len(parts_of(old)[0]), 50)
            self.assertEqual(changes(old, self.present()), [], version)

    def test_each_kind_of_change_is_found(self):
        old = self.present()

        def changed(change, name="pserver"):
            new = descriptor_pb2.FileDescriptorSet()
            new.CopyFrom(old)
            change(next(f for f in new.file if f.name == f"proto/{name}.proto"))
            return changes(old, new)

        def message(file, name):
            return next(m for m in file.message_type if m.name == name)

        self.assertEqual(changed(lambda f: None), [])
        for change in (lambda f: message(f, "PushRequest").field.pop(),
                       lambda f: setattr(message(f, "PushRequest").field[3], "type", 5),
                       lambda f: setattr(message(f, "PushRequest").field[3], "number", 99),
                       lambda f: setattr(message(f, "PushRequest").field[3], "name", "other"),
                       lambda f: f.message_type.remove(message(f, "MoveEntry")),
                       lambda f: f.service[0].method.pop(),
                       lambda f: f.enum_type[0].value.pop()):
            self.assertNotEqual(changed(change), [])

        def drop_inner_value(file):
            next(m for m in file.message_type if m.enum_type).enum_type[0].value.pop()

        self.assertNotEqual(changed(drop_inner_value, "job"), [])


if __name__ == "__main__":
    script.main()
