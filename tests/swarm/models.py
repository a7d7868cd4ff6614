"""Small models with data, one for each model of the zoo that is small enough, and one with batch
normalisation from a program file. A step takes a few milliseconds at most."""

import dataclasses
import os
import random


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    model: str  # contents of the job file's `model`, without arguments that a combination adds
    data: str  # contents of `data`
    arguments: dict = dataclasses.field(default_factory=dict)  # name of an argument -> values
    tables: bool = False  # has tables of rows, so hybrid mode is possible
    random: bool = False  # draws numbers in a step (dropout)
    batch_norm: bool = False
    weight: int = 4  # how often it is drawn


def _arg(**arguments):
    return " ".join(f'arg {{ name: "{name}" value: "{value}" }}' for name, value in arguments.items())


def _images(image, classes=3):
    dims = " ".join(f"image: {n}" for n in image)
    return (f'format: "synthetic" synthetic {{ {dims} classes: {classes} samples: 70 '
            "test_samples: 20 }")


def _zoo(name, **arguments):
    return f'zoo: "{name}" {_arg(**arguments)}'


CSV = ('format: "csv" dir: "DATA" csv { train_file: "train.csv" test_file: "test.csv" '
       'label_column: "click" positive_label: "1" negative_label: "0" '
       'column { name: "user" ids: 22 } column { name: "item" kind: HASH ids: 13 } '
       'column { name: "age" kind: NUMERIC ids: 10 } }')
LIBSVM = ('format: "libsvm" dir: "DATA" libsvm { train_file: "train.svm" test_file: "test.svm" '
          "ids: 30 features_max: 5 }")
TABLE = ('format: "table" dir: "DATA" table { file: "numbers.csv" split: "0.8/0.2" '
         'column { name: "kind" kind: LABEL } }')
WORDS = ('format: "skipgram" dir: "DATA" skipgram { file: "words.txt" vocabulary: 20 window: 2 '
         "negatives: 2 test_share: 0.1 }")
_RULES = ["", "", "admit_count=2", "ttl=5 shrink_every=2", "accessor=ctr", "admit_count=0"]
_TABLE_ARGUMENTS = {"sparse": ["0", "1", "1"], "distributed": ["0", "1"], "table_rules": _RULES,
                    "device": ["", "", "cpu", "gpu"]}


def _text(predicted):
    return ('format: "text" dir: "DATA" text { file: "words.txt" sequence: 8 stride: 8 '
            f"predicted: {predicted} test_share: 0.1 }}")


MODELS = [
    Model("softmax", _zoo("softmax", image="1,4,4", classes=3), _images((1, 4, 4)), weight=6),
    Model("mlp", _zoo("mlp", image="1,4,4", classes=3), _images((1, 4, 4)),
          {"hidden": ["8", "9,7", "160,140"]}, weight=8),
    Model("mlp_table", 'zoo: "mlp"', TABLE, {"hidden": ["", "6"]}, weight=2),
    Model("lenet", _zoo("lenet", image="1,16,16", classes=3, channels="2,4", hidden="12,8"),
          _images((1, 16, 16))),
    Model("residual_cnn", _zoo("residual_cnn", image="2,8,8", classes=3, channels="4,8"),
          _images((2, 8, 8)), {"blocks": ["1", "2"]}),
    Model("mobilenet_v1", _zoo("mobilenet_v1", image="3,16,16", classes=3, width=6, stem=1),
          _images((3, 16, 16)), batch_norm=True, weight=2),
    Model("batch_norm", 'program: "DATA/batch_norm.pbtxt"', _images((2, 6, 6)), batch_norm=True,
          weight=4),
    Model("wide_deep", _zoo("wide_deep", fields=3, rows=45, dim=4, hidden=8), CSV,
          _TABLE_ARGUMENTS, tables=True, weight=6),
    Model("deepfm", _zoo("deepfm", fields=3, rows=45, dim=4, hidden=8), CSV, _TABLE_ARGUMENTS,
          tables=True, weight=8),
    Model("deepfm_values", _zoo("deepfm", fields=5, rows=30, dim=4, hidden=8, values=1), LIBSVM,
          _TABLE_ARGUMENTS, tables=True, weight=2),
    Model("word2vec", _zoo("word2vec", rows=20, dim=4, negatives=2), WORDS,
          {"sparse": ["0", "1"], "distributed": ["0", "1"], "table_rules": _RULES}, tables=True),
    Model("transformer_lm", _zoo("transformer_lm", layers=1, width=8, heads=2, sequence=8), _text(0),
          {"dropout": ["0", "0", "0.1"], "layers": ["1", "2"]}, random=True, weight=3),
    Model("bert_base", _zoo("bert_base", layers=1, width=8, heads=2, sequence=8, predicted=2),
          _text(2), {"dropout": ["0", "0.1"]}, random=True, weight=2),
]
BY_NAME = {model.name: model for model in MODELS}
# Models of the zoo whose smallest form is too large for thousands of jobs.
LARGE = {"vgg16", "resnet18", "resnet50"}

_BATCH_NORM = """
name: "batch_norm"
var { name: "img" kind: DATA dtype: F32 dims: -1 dims: 2 dims: 6 dims: 6 }
var { name: "label" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "k" kind: PARAM dims: 4 dims: 2 dims: 3 dims: 3 init { kind: XAVIER_UNIFORM } }
var { name: "scale" kind: PARAM dims: 4 init { kind: CONSTANT value: 1 } }
var { name: "shift" kind: PARAM dims: 4 }
var { name: "mean" kind: STATE dims: 4 }
var { name: "variance" kind: STATE dims: 4 init { kind: CONSTANT value: 1 } }
var { name: "w" kind: PARAM dims: 144 dims: 3 init { kind: XAVIER_UNIFORM } }
var { name: "b" kind: PARAM dims: 3 }
op { type: "conv2d" input { slot: "Input" var: "img" } input { slot: "Filter" var: "k" }
     output { slot: "Output" var: "conv" } attr { name: "paddings" ints { v: 1 v: 1 } } }
op { type: "batch_norm" input { slot: "X" var: "conv" } input { slot: "Scale" var: "scale" }
     input { slot: "Bias" var: "shift" } input { slot: "Mean" var: "mean" }
     input { slot: "Variance" var: "variance" } output { slot: "Y" var: "normal" }
     output { slot: "MeanOut" var: "mean" } output { slot: "VarianceOut" var: "variance" }
     output { slot: "SavedMean" var: "saved_mean" }
     output { slot: "SavedInvStd" var: "saved_inv_std" } }
op { type: "relu" input { slot: "X" var: "normal" } output { slot: "Out" var: "active" } }
op { type: "reshape" input { slot: "X" var: "active" } output { slot: "Out" var: "flat" }
     attr { name: "shape" ints { v: 0 v: 144 } } }
op { type: "fc" input { slot: "Input" var: "flat" } input { slot: "W" var: "w" }
     input { slot: "Bias" var: "b" } output { slot: "Out" var: "logits" } }
op { type: "softmax_with_cross_entropy" input { slot: "Logits" var: "logits" }
     input { slot: "Label" var: "label" } output { slot: "Softmax" var: "softmax" }
     output { slot: "Loss" var: "losses" } }
op { type: "mean" input { slot: "X" var: "losses" } output { slot: "Out" var: "loss" } }
op { type: "accuracy" input { slot: "Out" var: "softmax" } input { slot: "Label" var: "label" }
     output { slot: "Accuracy" var: "acc" } }
loss: "loss"
metric: "acc"
"""


def write_data(folder):
    """Writes the files of all models into `folder`."""
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(7)

    def write(name, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def clicks(begin, end):
        rows = []
        for i in range(begin, end):
            user, item, age = i * 7919 % 20, i * 104729 % 6, i * 31 % 60
            rows.append(f"u{user},i{item},{10 + age},{int((user % 3 == item % 3) != (age < 20))}\n")
        return "user,item,age,click\n" + "".join(rows)

    def sparse(count):
        rows = []
        for _ in range(count):
            ids = sorted(rng.sample(range(1, 30), rng.randint(1, 5)))
            values = " ".join(f"{i}:{rng.random():.2f}" for i in ids)
            rows.append(f"{int(sum(ids) % 2)} {values}\n")
        return "".join(rows)

    write("train.csv", clicks(0, 70))
    write("test.csv", clicks(70, 100))
    write("train.svm", sparse(70))
    write("test.svm", sparse(20))
    write("words.txt", " ".join("abcdefghijklmnopqrstuvwxy"[int(rng.paretovariate(1)) % 25] * 2
                                for _ in range(400)))
    write("batch_norm.pbtxt", _BATCH_NORM)
    rows = []
    for i in range(90):
        a, b = rng.gauss(0, 1), rng.gauss(0, 1)
        rows.append(f"{a:.3f},{b:.3f},{i % 5},{'abc'[int(a > 0) + int(b > 0)]}\n")
    write("numbers.csv", "a,b,c,kind\n" + "".join(rows))
