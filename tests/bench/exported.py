"""What tandem-figures --export_dir wrote (tests/bench/training_run.h)."""

import os

import numpy

TYPES = {"f32": "<f4", "i64": "<i8"}


class Export:
    """(name, array) of the first parameters, arrays of the data and numbers of the options by name."""

    def __init__(self, folder):
        self.params, self.data, self.options = [], {}, {}
        with open(os.path.join(folder, "manifest.txt"), encoding="utf-8") as lines:
            for words in map(str.split, lines):
                if words[0] == "option":
                    self.options[words[1]] = float(words[2])
                    continue
                role, name, dtype, dims, file = words
                array = numpy.fromfile(os.path.join(folder, file), TYPES[dtype])
                array = array.reshape([int(dim) for dim in dims.split(",")])
                if role == "param":
                    self.params.append((name, array))
                else:
                    self.data[name] = array
