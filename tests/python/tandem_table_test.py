"""Tables from pandas and numpy: the same kinds, parts and bits as a csv or npz file of the values."""

import datetime
import decimal
import os
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import zlib

import numpy as np

import script
import tandem_case as case

tandem = case.tandem
Table = tandem.reader.Table
try:
    import pandas
except ImportError:
    pandas = None

ROWS = 200
COLUMNS = {"label": "kind", "weight": "w", "kinds": {"city": "ONE_HOT"}}
OPTIONS = {"split": "0.6/0.2/0.2", "split_seed": 7, "standardise": True, "missing_indicator": True}


def mixed():
    """Columns of each kind, with missing values."""
    rng = np.random.default_rng(3)
    age = rng.normal(40, 12, ROWS).astype("float32")
    age[::9] = np.nan
    when = np.datetime64("2026-01-01T12:00") + rng.integers(0, 10**6, ROWS) * np.timedelta64(1, "s")
    when[5] = np.datetime64("NaT")
    city = np.array(["Rome", "Oslo", None, "New York, NY", 'a "b"'], object)[rng.integers(0, 5, ROWS)]
    return {"age": age, "when": when, "city": city, "job": rng.choice(["cook", "smith"], ROWS),
            "count": rng.integers(-5, 100, ROWS), "big": 2**60 + rng.integers(0, 3, ROWS),
            "w": rng.random(ROWS), "kind": np.array(["b", "a", "c"])[rng.integers(0, 3, ROWS)]}


def parts(table):
    """The values of all parts of a table, in order."""
    return {name: next(part.batches(len(part), shuffle=False))
            for name, part in (("train", table), ("validation", table.validation), ("test", table.test))}


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return self.path(name)

    def assert_same(self, one, other):
        self.assertEqual(one.columns, other.columns)
        self.assertEqual(one.fields(), other.fields())
        one, other = parts(one), parts(other)
        for part in ("train", "validation", "test"):
            self.assertEqual(one[part].keys(), other[part].keys())
            for name, values in one[part].items():
                np.testing.assert_array_equal(values, other[part][name], f"{part} {name}")

    def assert_fails(self, kind, code, text, call):
        with self.assertRaises(kind) as caught:
            call()
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        self.assertIn(text, str(caught.exception))


@unittest.skipIf(pandas is None, "no pandas (Debian's package python3-pandas)")
class FromPandas(Tables):
    def same_as_csv(self, frame, **options):
        """Compares the frame with the csv file that pandas writes of it."""
        frame.to_csv(self.path("t.csv"), index=False)
        self.assert_same(Table(frame, **options), Table(self.path("t.csv"), **options))

    def test_a_frame_is_its_csv_file(self):
        frame = pandas.DataFrame(mixed())
        frame["age"] = frame["age"].astype("float64")
        self.same_as_csv(frame, **COLUMNS, **OPTIONS)

    def test_types_of_columns(self):
        rows = [1, 2, 3, 4] * 10
        for name, column in {
            "category": pandas.Series(["x", "y", None, "x"] * 10, dtype="category"),
            "string": pandas.Series(["x", "y", pandas.NA, "x"] * 10, dtype="string"),
            "Int64": pandas.Series([1, 2, pandas.NA, 4] * 10, dtype="Int64"),
            "Float64": pandas.Series([1.5, 2, pandas.NA, 4] * 10, dtype="Float64"),
            "time zone": pandas.Series(pandas.date_range("2026-01-01", periods=40, freq="7h",
                                                         tz="Europe/Berlin")),
            "dates": pandas.Series(pandas.date_range("2026-01-01", periods=40)),
            "uint8": pandas.Series(rows, dtype="uint8"),
            "objects": pandas.Series([1, 2.5, None, float("nan")] * 10, dtype=object),
            "texts and numbers": pandas.Series([1, "x", None, 2.5] * 10, dtype=object),
            "blanks": pandas.Series([" x", "y ", "\t", "x"] * 10),
            "words for missing": pandas.Series(["NA", "nan", "x", "None"] * 10),
        }.items():
            with self.subTest(name):
                frame = pandas.DataFrame({"c": column, "n": range(40), "y": rows})
                self.same_as_csv(frame, target="y", split="0.6/0.2/0.2")

    def test_bools_are_numbers(self):
        bits = [True, False, False] * 4
        for values in (pandas.Series(bits), pandas.Series(bits, dtype="boolean"),
                       pandas.Series([*bits, None], dtype=object)):
            frame = pandas.DataFrame({"b": values, "y": range(len(values))})
            table = Table(frame, target="y")
            self.assertIn("column b: FLOAT (inferred)", table.columns[0])
            batch = next(table.batches(len(frame), shuffle=False))
            np.testing.assert_array_equal(batch["x"][:12, 0], np.array(bits, "float32"))
        table = Table(pandas.DataFrame({"b": bits, "x": range(12)}), label="b")
        self.assertIn("2 classes: 0, 1", table.columns[0])

    def test_names_and_index(self):
        frame = pandas.DataFrame({0: [1.0, 2.0], ("a", 1): [3.0, 4.0], "y": [0, 1]}, index=[7, 3])
        table = Table(frame, label="y")
        self.assertEqual([line.split(":")[0] for line in table.columns],
                         ["column 0", "column a.1", "column y", "rows"])
        twice = pandas.DataFrame([[1, 2]], columns=["a", "a"])
        self.assert_fails(ValueError, "TD2007", 'the frame: two columns have the name "a"',
                          lambda: Table(twice, label="a"))

    def test_columns_that_a_table_lacks(self):
        good = {"x": [1.0, 2.0], "y": [0, 1]}
        span = pandas.DataFrame({**good, "z": pandas.to_timedelta([1, 2], unit="D")})
        self.assert_fails(NotImplementedError, "TD2009", 'column "z" has elements of type timedelta64',
                          lambda: Table(span, label="y"))
        lists = pandas.DataFrame({**good, "z": [[1], [2]]})
        self.assert_fails(NotImplementedError, "TD2009", 'column "z" has a list as a value',
                          lambda: Table(lists, label="y"))
        self.assert_fails(ValueError, "TD2007", 'the frame: there is no column "yy"',
                          lambda: Table(pandas.DataFrame(good), label="yy"))
        self.assert_fails(OSError, "TD2003", 'the frame: row 1: column "x": "b" is not a number',
                          lambda: Table(pandas.DataFrame({"x": [1, "b"], "y": [0, 1]}), label="y",
                                        kinds={"x": "FLOAT"}))

    def test_fit(self):
        frame = pandas.DataFrame(mixed()).drop(columns=["city", "job", "when", "big"])
        frame.to_csv(self.path("t.csv"), index=False)
        job = """
            model { zoo: "mlp" arg { name: "hidden" value: "8" } }
            data { %s table {
              split: "0.6/0.2/0.2" standardise: true column { name: "kind" kind: LABEL }
              column { name: "w" kind: WEIGHT } } }
            optimizer { type: "adam" learning_rate: 0.01 } global_batch_size: 16 epochs: 2
            """
        frame["age"] = frame["age"].astype("float64")
        frame.to_csv(self.path("t.csv"), index=False)
        want = tandem.fit(job % f'format: "table" dir: "{self.folder.name}"',
                          settings={"data.table.file": "t.csv"}, threads=1)
        for data in (frame, self.path("t.csv"), dict(frame.items())):
            got = tandem.fit(job % "", data=data, threads=1)
            self.assertEqual(got.params_sha256, want.params_sha256)
            self.assertEqual(got.metrics, want.metrics)


class FromNumpy(Tables):
    def test_arrays_are_their_npz_file(self):
        rng = np.random.default_rng(1)
        arrays = {"x": rng.normal(0, 1, (ROWS, 3)).astype("float32"), "n": rng.integers(0, 9, ROWS),
                  "b": rng.random(ROWS) < 0.5, "u": rng.integers(0, 255, ROWS, np.uint8),
                  "y": rng.integers(0, 3, (ROWS, 1))}
        arrays["x"][3, 1] = np.nan
        np.savez(self.path("t.npz"), **arrays)
        options = {"label": "y", "kinds": {"x": "FLOAT", "u": "CATEGORY"}, **OPTIONS}
        self.assert_same(Table(arrays, **options), Table(self.path("t.npz"), **options))

    def test_one_array_and_records(self):
        table = Table(np.arange(12.0).reshape(4, 3), target="x.2")
        batch = next(table.batches(4, shuffle=False))
        np.testing.assert_array_equal(batch["x"], np.arange(12).reshape(4, 3)[:, :2])
        records = np.array([(1.5, b"a"), (2.5, b"b")], [("x", "f4"), ("y", "S1")])
        batch = next(Table(records, label="y").batches(2, shuffle=False))
        self.assertEqual((batch["x"].tolist(), batch["label"].tolist()), ([[1.5], [2.5]], [[0], [1]]))

    def test_lists_and_objects(self):
        table = Table({"x": [1, None, 3], "t": [datetime.date(2026, 1, 1), None,
                                                datetime.datetime(2026, 1, 2, 6)],
                       "d": [decimal.Decimal("1.5"), decimal.Decimal(2), None],
                       "big": [2**60, 2**60 + 1, None], "wide": [2**60, 2**60 + 1, 2**60],
                       "y": np.array(["a ", "b", " a"])}, label="y",
                      kinds={"big": "CATEGORY", "wide": "CATEGORY"})
        kinds = [line.split(",")[0] for line in table.columns[:6]]
        self.assertEqual(kinds, ["column x: FLOAT (inferred)", "column t: TIME (inferred)",
                                 "column d: FLOAT (inferred)", "column big: CATEGORY",
                                 "column wide: CATEGORY", "column y: LABEL"])
        batch = next(table.batches(3, shuffle=False))
        self.assertEqual(batch["x"].tolist(), [[1, 0, 1.5], [2, 54000, 2], [3, 108000, 1.75]])
        self.assertEqual(batch["ids"].tolist(), [[1, 4], [2, 5], [0, 4]])
        self.assertEqual(batch["label"].tolist(), [[0], [1], [0]])

    def test_parts_and_training(self):
        rng = np.random.default_rng(2)
        x = rng.normal(0, 1, (600, 4)).astype("float32")
        table = Table({"x": x, "y": (x[:, 0] > 0) * 1}, label="y", split="0.7/0.1/0.2")
        self.assertEqual(len(table) + len(table.validation) + len(table.test), 600)
        with tandem.program_guard(tandem.Program("rows")) as (program, startup):
            features, label = table.variables()
            logits = tandem.layers.fc(features, 2)
            loss = tandem.layers.softmax_loss(logits, label)
            accuracy = tandem.layers.accuracy(logits, label)
            test = program.clone(for_test=True)
            tandem.optimizer.Adam(0.05).minimize(loss)
        scope, exe = tandem.Scope(), tandem.Executor()
        exe.run(startup, scope=scope)
        for feed in table.batches(32, epochs=5):
            exe.run(program, feed, scope=scope)
        feed = next(table.test.batches(len(table.test)))
        self.assertGreater(exe.run(test, feed, [accuracy.name], scope)[0][0], 0.95)
        self.assertIsNone(Table({"x": x, "y": x[:, 1] > 0}, label="y").test)
        validated = Table({"x": x, "y": x[:, 1] > 0}, label="y", split="0.7/0.1/0.2",
                          evaluate="VALIDATION")
        self.assertEqual(len(validated.test), len(table.validation))
        self.assertIsNone(validated.validation)

    def test_fit_with_arrays(self):
        rng = np.random.default_rng(5)
        x = rng.normal(0, 1, (300, 4))
        job = """model { zoo: "mlp" arg { name: "hidden" value: "8" } }
            data { table { split: "0.8/0.2" separator: ";" column { name: "y" kind: LABEL }
                           column { name: "x" kind: FLOAT } } }
            optimizer { type: "adam" learning_rate: 0.02 } global_batch_size: 16 epochs: 8"""
        result = tandem.fit(job, data={"x": x, "y": x[:, 0] > 0}, threads=1)
        self.assertGreater(result.metrics["accuracy"], 0.85)
        names = tandem.fit(job.replace('"x"', '"x.*"'), threads=1,
                           data={"x": x, "y": np.where(x[:, 0] > 0, "up", "down")})
        self.assertGreater(names.metrics["accuracy"], 0.85)

    def test_mistakes(self):
        x = np.zeros((4, 2))
        for kind, code, text, data in (
            (ValueError, "TD2007", 'column "y" has 3 rows, but column "x.0" has 4',
             {"x": x, "y": [0, 1, 0]}),
            (ValueError, "TD1207", "the array has 1 dimensions, expected [rows, columns]", x[0]),
            (ValueError, "TD1207", 'column "y" is one value', {"x": x, "y": 3}),
            (ValueError, "TD1207", 'column "x" is no array', {"x": [[1], [1, 2]], "y": [0, 1]}),
            (ValueError, "TD1206", "the table is a int, expected a DataFrame, a dictionary", 3),
            (ValueError, "TD2007", "the table has no column", {}),
            (OSError, "TD2006", "the table has no row", {"x": [], "y": []}),
            (NotImplementedError, "TD2009", 'column "x" has elements of type complex128',
             {"x": np.zeros(4, complex), "y": [0, 1, 0, 1]}),
            (ValueError, "TD2009", 'column "x" has the bytes b\'\\xff\', expected texts in UTF-8',
             {"x": [b"\xff", b"a"], "y": [0, 1]}),
            (FileNotFoundError, "TD2001", "none.csv", self.path("none.csv")),
        ):
            with self.subTest(text):
                self.assert_fails(kind, code, text, lambda data=data: Table(data, label="y"))
        good = {"x": x, "y": [0, 1, 0, 1]}
        with self.assertRaisesRegex(ValueError, '(?s)"splitt".*did you mean "split"'):
            Table(good, label="y", splitt="0.5/0.5")
        self.assert_fails(ValueError, "TD1104", 'data.table.split is "2/1"',
                          lambda: Table(good, label="y", split="2/1"))
        self.assert_fails(ValueError, "TD1108", "has the kinds LABEL and FLOAT",
                          lambda: Table(good, label="y", kinds={"y": "FLOAT"}))
        self.assert_fails(ValueError, "TD1108", "the columns are in memory",
                          lambda: Table(good, label="y", file="t.csv"))

    def test_files(self):
        lines = "".join(f"{i},{i % 2}\n" for i in range(20))
        one, two = self.write("1.csv", "x,y\n" + lines), self.write("2.csv", "x,y\n" + lines)
        self.assertEqual(len(Table([one, two], label="y")), 40)
        there = os.getcwd()
        os.chdir(self.folder.name)
        try:
            self.assertEqual(len(Table("1.csv", label="y", classes={"y": [0, 1]})), 20)
        finally:
            os.chdir(there)
        skipped = self.write("bad.csv", "x,y\n1,0\n2\n3,1\n")
        self.assert_fails(OSError, "TD2003", "bad.csv:3", lambda: Table(skipped, label="y"))
        self.assertEqual(len(Table(skipped, label="y", max_bad_records=1)), 2)

    def test_parquet(self):
        path = self.write("t.parquet", "PAR1")
        try:
            import pyarrow  # pylint: disable=import-outside-toplevel,unused-import
            self.skipTest("pyarrow is installed")
        except ImportError:
            pass
        self.assert_fails(NotImplementedError, "TD2009", "t.parquet is a Parquet file",
                          lambda: Table(path, label="y"))

        # What pyarrow.parquet.read_table returns, as far as it is used.
        class Read:
            column_names = ["x", "y"]

            def column(self, name):
                values = {"x": [1.5, None, 2.5], "y": ["a", "b", "a"]}[name]
                return types.SimpleNamespace(to_pylist=lambda: values)

        fake = types.ModuleType("pyarrow.parquet")
        fake.read_table = lambda name: Read() if name == path else None
        sys.modules["pyarrow"] = types.ModuleType("pyarrow")
        sys.modules["pyarrow"].parquet = sys.modules["pyarrow.parquet"] = fake
        try:
            batch = next(Table(path, label="y").batches(3, shuffle=False))
        finally:
            del sys.modules["pyarrow"], sys.modules["pyarrow.parquet"]
        self.assertEqual(batch["x"].tolist(), [[1.5], [2.0], [2.5]])


class OtherData(Tables):
    def test_parts_of_a_file(self):
        lines = "".join(f"{i},{i % 2}\n" for i in range(100))
        self.write("t.csv", "x,y\n" + lines)
        text = 'format: "table" dir: "%s" table { file: "t.csv" column { name: "y" kind: LABEL } %s }'
        whole = tandem.reader.Dataset(text % (self.folder.name, ""))
        self.assertEqual((len(whole), whole.test, whole.classes), (100, None, []))
        split = tandem.reader.Dataset(text % (self.folder.name, 'split: "0.5/0.5"'))
        self.assertEqual(len(split) + len(split.test), 100)

    def test_parts_of_other_formats(self):
        data = tandem.reader.Dataset('format: "synthetic" synthetic { samples: 20 test_samples: 5 '
                                     "image: 1 image: 4 image: 4 classes: 3 }")
        self.assertEqual((len(data), len(data.test), data.validation), (20, 5, None))

    def test_separators(self):
        for name, rest in (("table", 'file: "t.csv"'), ("csv", 'train_file: "t.csv"'),
                           ("criteo", 'train_file: "t.csv"')):
            for separator, words in (("ab", 'is "ab", expected one character'),
                                     ('\\"', "is a quote or the end of a line"),
                                     ("\\n", "is a quote or the end of a line")):
                with self.assertRaisesRegex(ValueError, rf"data\.{name}\.separator {words}"):
                    tandem.reader.Dataset(f'format: "{name}" dir: "{self.folder.name}" '
                                          f'{name} {{ {rest} separator: "{separator}" }}')

    def test_the_files_are_read_once(self):
        for name, lines in (("train", ["1 1:0.5", "0 2:1.5"]), ("test", ["1 2:0.25"])):
            self.write(name, "\n".join(lines) + "\n")
        data = tandem.reader.Dataset(f'format: "libsvm" dir: "{self.folder.name}" libsvm {{ '
                                     'train_file: "train" test_file: "test" ids: 4 '
                                     "features_max: 2 }")
        first = next(data.test.batches(1))
        os.remove(self.path("train"))
        os.remove(self.path("test"))
        again = next(data.test.batches(1))
        np.testing.assert_array_equal(again["values"], first["values"])
        self.assertEqual((len(data), data.validation), (2, None))

    def test_a_missing_test_file_may_come_later(self):
        self.write("train", "1 1:0.5\n0 2:1.5\n")
        data = tandem.reader.Dataset(f'format: "libsvm" dir: "{self.folder.name}" libsvm {{ '
                                     'train_file: "train" test_file: "test" ids: 4 '
                                     "features_max: 2 }")
        with self.assertRaisesRegex(FileNotFoundError, "test"):
            print(data.test)
        self.write("test", "1 2:0.25\n")
        self.assertEqual(len(data.test), 1)


def png(value):
    """A grey image of 8x8 pixels of one value as a PNG file."""
    def chunk(name, data):
        check = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

    rows = (b"\0" + bytes([value]) * 8) * 8
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Images(Tables):
    def setUp(self):
        super().setUp()
        for name, values in (("dark", range(0, 60)), ("light", range(200, 240))):
            os.makedirs(self.path(f"pets/{name}"))
            for value in values:
                with open(self.path(f"pets/{name}/{value:03}.png"), "wb") as file:
                    file.write(png(value))
        self.write("pets/light/notes.txt", "no image")
        self.text = (f'format: "images" dir: "{self.folder.name}" images {{ folder: "pets" size: 8 '
                     'split: "0.6/0.2/0.2" mean: 0 mean: 0 mean: 0 stddev: 1 stddev: 1 stddev: 1 }')

    def test_parts_and_classes(self):
        data = tandem.reader.Dataset(self.text)
        self.assertEqual(data.classes, ["dark", "light"])
        values = []
        for part in (data, data.validation, data.test):
            batch = next(part.batches(len(part), shuffle=False))
            values += np.rint(batch["img"][:, 0, 0, 0] * 255).astype(int).tolist()
            np.testing.assert_array_equal(batch["label"][:, 0], batch["img"][:, 0, 0, 0] > 0.5)
        self.assertEqual(sorted(values), [*range(0, 60), *range(200, 240)])

    def test_inspect(self):
        def inspect(*args):
            command = [os.path.join(script.BIN, "tandem"), "data", "inspect", *args]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        local = self.text.replace(self.folder.name, "pets").replace('folder: "pets"', 'folder: "."')
        near = self.write("near.pbtxt", f'model {{ zoo: "mlp" }} global_batch_size: 8 data {{ {local} }}')
        job = self.write("job.pbtxt", f'model {{ zoo: "mlp" }} global_batch_size: 8 data {{ {self.text} }}')
        shown = inspect(self.path("pets"))
        for line in ("class 0 dark: 60 images", "class 1 light: 40 images",
                     "sizes: width 8 to 8, height 8 to 8", "ignored 1 files that are not .jpg"):
            self.assertIn(line, shown)
        shown = inspect(job)
        self.assertRegex(shown, "class 0 dark: [0-9]+ for training, [0-9]+ for validation")
        self.assertIn("field label: i64[1], below 2", shown)
        self.assertIn("sizes: width 8 to 8, height 8 to 8", shown)
        self.assertEqual(inspect(near).split("\n")[3:-1],
                         [line.replace("pets/", "") for line in shown.split("\n")[3:-1]])


if __name__ == "__main__":
    script.main()
