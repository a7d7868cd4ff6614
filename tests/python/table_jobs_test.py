"""Tables as csv and npz, trained in local and pserver mode, against a multi-layer perceptron of
scikit-learn, or of numpy where scikit-learn is missing. The tables are iris, wine, digits and
diabetes of scikit-learn, or made ones of the same kind, and one with missing values and names."""

import json
import os
import subprocess
import tempfile
import unittest

import numpy as np

import script

try:
    import sklearn.datasets
    import sklearn.neural_network
except ImportError:
    sklearn = None

HIDDEN, BATCH, EPOCHS, RATE = 32, 16, 40, 0.005
MARGIN = 0.05  # of accuracy or R^2; in a small table at least two test rows

JOB = """
name: "table"
model {{ zoo: "mlp" arg {{ name: "hidden" value: "{hidden}" }} {args} }}
data {{
  format: "table" dir: "."
  table {{
    {files}
    standardise: true missing_indicator: true
    {columns}
  }}
}}
optimizer {{ type: "adam" learning_rate: {rate} }}
global_batch_size: {batch} epochs: {epochs} eval_every_epochs: 0 seed: 3 threads: 1
"""


def blobs(rng, rows, features, classes, noise, scales):
    """Classes of two clusters each."""
    centres = rng.normal(0, 1, (classes, 2, features))
    y = rng.integers(0, classes, rows)
    x = centres[y, rng.integers(0, 2, rows)] + rng.normal(0, noise, (rows, features))
    return x * scales, y


def tables():
    """Name -> (x, y); y is whole numbers for classes."""
    if sklearn:
        loads = sklearn.datasets
        found = {name: getattr(loads, "load_" + name)(return_X_y=True)
                 for name in ("iris", "wine", "digits", "diabetes")}
        x, y = found["diabetes"]
        found["diabetes"] = (x, y / 100)
        return found
    rng = np.random.default_rng(5)
    x = rng.normal(0, 0.05, (442, 10))
    y = x @ rng.normal(0, 10, 10) + 20 * x[:, 0] * x[:, 1] + 1.5 + rng.normal(0, 0.3, 442)
    return {"iris": blobs(rng, 150, 4, 3, 0.4, np.array([1, 0.5, 2, 0.3])),
            "wine": blobs(rng, 178, 13, 3, 0.7, 10.0 ** np.arange(-6, 7)),
            "digits": blobs(rng, 1200, 64, 10, 1.2, 4.0),
            "diabetes": (x, y)}


def halves(x, y):
    """The rows in another order: four fifths for training, one for tests."""
    order = np.random.default_rng(1).permutation(len(x))
    at = len(x) * 4 // 5
    return x[order[:at]], y[order[:at]], x[order[at:]], y[order[at:]]


def numpy_mlp(x, y, tests):
    """Predictions of a perceptron with one hidden layer, relu and Adam (Kingma and Ba 2015)."""
    classes = np.issubdtype(y.dtype, np.integer)
    rng = np.random.default_rng(2)
    wanted = np.eye(y.max() + 1)[y] if classes else y[:, None]
    sizes = [(x.shape[1], HIDDEN), (HIDDEN, wanted.shape[1])]
    w = [rng.uniform(-1, 1, size) * np.sqrt(6 / sum(size)) for size in sizes]
    w += [np.zeros(HIDDEN), np.zeros(wanted.shape[1])]
    m, v, step = [0 * p for p in w], [0 * p for p in w], 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for at in range(0, len(x), BATCH):
            rows = order[at:at + BATCH]
            hidden = np.maximum(x[rows] @ w[0] + w[2], 0)
            out = hidden @ w[1] + w[3]
            if classes:
                out = np.exp(out - out.max(1, keepdims=True))
                out /= out.sum(1, keepdims=True)
            g = (out - wanted[rows]) / len(rows) * (1 if classes else 2)
            back = (g @ w[1].T) * (hidden > 0)
            grads = [x[rows].T @ back, hidden.T @ g, back.sum(0), g.sum(0)]
            step += 1
            for p, a, b, grad in zip(w, m, v, grads):
                a += 0.1 * (grad - a)
                b += 0.001 * (grad ** 2 - b)
                p -= RATE * a / (1 - 0.9 ** step) / (np.sqrt(b / (1 - 0.999 ** step)) + 1e-8)
    out = np.maximum(tests @ w[0] + w[2], 0) @ w[1] + w[3]
    return out.argmax(1) if classes else out[:, 0]


def reference(x, y, tests):
    if not sklearn:
        return numpy_mlp(x, y, tests)
    kinds = sklearn.neural_network
    kind = kinds.MLPClassifier if np.issubdtype(y.dtype, np.integer) else kinds.MLPRegressor
    network = kind(hidden_layer_sizes=(HIDDEN,), learning_rate_init=RATE, batch_size=BATCH,
                   max_iter=EPOCHS, alpha=0, random_state=2, tol=0)
    return network.fit(x, y).predict(tests)


def score(predicted, y):
    if np.issubdtype(y.dtype, np.integer):
        return float((predicted == y).mean())
    return 1 - float(((predicted - y) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def csv_text(x, y):
    names = ",".join(f"x{k}" for k in range(x.shape[1]))
    lines = [",".join([*map(repr, map(float, row)), repr(wanted.item())]) for row, wanted in zip(x, y)]
    return "\n".join([names + ",y", *lines]) + "\n"


class TableJobs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def train(self, mode, files, columns, args=""):
        """The result of one run of the job."""
        self.write("job.pbtxt", JOB.format(hidden=HIDDEN, batch=BATCH, epochs=EPOCHS, rate=RATE,
                                           files=files, columns=columns, args=args))
        result = self.path("result.json")
        layout = {"local": ["--mode=local"],
                  "pserver": ["--mode=pserver", "--servers=1", "--workers=2"],
                  "collective": ["--mode=collective", "--nproc=2"]}[mode]
        done = subprocess.run([os.path.join(script.BIN, "tandemrun"), *layout, "job.pbtxt", "--",
                               "--result_json=" + result], cwd=self.folder.name, text=True,
                              capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(result, encoding="utf-8") as file:
            return json.load(file)

    def test_in_both_formats_and_modes_as_the_reference(self):
        for name, (x, y) in tables().items():
            classes = np.issubdtype(y.dtype, np.integer)
            train_x, train_y, test_x, test_y = halves(x, y)
            mean, deviation = train_x.mean(0), train_x.std(0)
            deviation[deviation == 0] = 1
            wanted = score(reference((train_x - mean) / deviation, train_y,
                                     (test_x - mean) / deviation), test_y)
            self.write("train.csv", csv_text(train_x, train_y))
            self.write("test.csv", csv_text(test_x, test_y))
            np.savez(self.path("train.npz"), x=train_x, y=train_y)
            np.savez_compressed(self.path("test.npz"), x=test_x, y=test_y)
            columns = f'column {{ name: "y" kind: {"LABEL" if classes else "TARGET"} }}'
            hashes = set()
            for kind, mode in (("csv", "local"), ("npz", "local"), ("npz", "pserver"),
                               ("csv", "collective")):
                with self.subTest(table=name, kind=kind, mode=mode):
                    result = self.train(mode, f'file: "train.{kind}" test_file: "test.{kind}"',
                                        columns)
                    got = result["accuracy" if classes else "r2"]
                    print(f"{name} {kind} {mode}: {got:.4f}, reference {wanted:.4f}", flush=True)
                    self.assertGreater(got, wanted - max(MARGIN, 2.5 / len(test_y)))
                    for measure in ("precision", "recall", "f1") if classes else ("rmse", "mae"):
                        self.assertGreater(result[measure], 0)
                    if mode == "local":
                        hashes.add(result["params_sha256"])
            self.assertEqual(len(hashes), 1, f"{name}: csv and npz train different parameters")

    def test_missing_values_names_weights_and_a_split(self):
        rng = np.random.default_rng(9)
        x, y = blobs(rng, 600, 3, 2, 0.3, 1.0)
        lines = ["a,b,c,colour,w,species"]
        for row, label in zip(x, y):
            cells = ["" if rng.uniform() < 0.1 else repr(float(value)) for value in row]
            colour = ("red", "green", "a \"dark\", blue")[int(label + 2 * (rng.uniform() < 0.2)) % 3]
            lines.append(",".join([*cells, '"' + colour.replace('"', '""') + '"', "1.5",
                                   ("setosa", "virginica")[label]]))
        self.write("t.csv", "\n".join(lines) + "\n")
        losses = []
        for mode in ("local", "pserver", "collective"):
            result = self.train(
                mode, 'file: "t.csv" split: "0.7/0.1/0.2"',
                'column { name: "species" kind: LABEL } column { name: "w" kind: WEIGHT } '
                'column { name: "colour" kind: ONE_HOT }')
            self.assertGreater(result["accuracy"], 0.9)
            losses.append(result["loss"])
        # Every layout trains and evaluates the same rows.
        self.assertLess(max(losses) - min(losses), 1e-3 * losses[0], losses)

    def test_huber_l1_and_several_labels(self):
        rng = np.random.default_rng(4)
        x = rng.normal(0, 1, (400, 5))
        y = np.stack([x[:, 0] + x[:, 1], x[:, 2] - x[:, 3]], 1)
        np.savez(self.path("t.npz"), x=x, y=y, labels=(y > 0).astype(np.int64))
        for loss in ("huber", "l1"):
            result = self.train("local", 'file: "t.npz" split: "0.8/0.2"',
                                'column { name: "y" kind: TARGET } '
                                'column { name: "labels" kind: IGNORE }',
                                f'arg {{ name: "loss" value: "{loss}" }}')
            self.assertGreater(result["r2"], 0.95)
        result = self.train("local", 'file: "t.npz" split: "0.8/0.2"',
                            'column { name: "labels" kind: LABEL } column { name: "y" kind: IGNORE }')
        self.assertGreater(result["f1"], 0.9)


if __name__ == "__main__":
    script.main()
