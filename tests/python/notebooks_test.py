"""The notebooks of docs/notebooks run from their first cell to their last, and are stored without
output."""

import glob
import os
import tempfile
import unittest

import script
import tandem_case as case

script.need_modules("nbclient", "nbformat", "ipykernel", "torch", "onnx",
                    package="python3-nbclient, python3-ipykernel, python3-torch, python3-onnx")
import nbclient
import nbformat

NOTEBOOKS = sorted(glob.glob(os.path.join(script.SOURCE, "docs/notebooks/*.ipynb")))


class Notebooks(unittest.TestCase):
    def test_they_run(self):
        script.need_file(os.path.join(case.FASHION, "train-images-idx3-ubyte.gz"),
                         "dataset-fashion-mnist")
        self.assertGreaterEqual(len(NOTEBOOKS), 5)
        os.environ["PYTHONPATH"] = case.PACKAGES
        os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # no warning of frozen modules
        for path in NOTEBOOKS:
            with self.subTest(os.path.basename(path)), tempfile.TemporaryDirectory() as folder:
                book = nbformat.read(path, as_version=4)
                nbclient.NotebookClient(book, timeout=300, kernel_name="python3",
                                        resources={"metadata": {"path": folder}}).execute()

    def test_they_have_no_output(self):
        for path in NOTEBOOKS:
            for cell in nbformat.read(path, as_version=4).cells:
                if cell.cell_type == "code":
                    self.assertEqual((cell.outputs, cell.execution_count), ([], None), path)


if __name__ == "__main__":
    script.main()
