"""The examples in Python run, programs and notebooks."""
import ast
import base64
import glob
import io
import json
import os
import re
import subprocess
import sys
import unittest
import unittest.mock

import case

FOLDER = os.path.join(case.ROOT, "examples", "python")


def names(ending):
    """The examples with this ending, without it."""
    return sorted(os.path.basename(path)[:-len(ending)] for path in glob.glob(os.path.join(FOLDER, "*" + ending)))


class Programs(unittest.TestCase):
    """Programs in examples/python."""

    def test_all(self):
        self.assertEqual(len(names(".py")), 6)
        for name in names(".py"):
            with self.subTest(program=name):
                done = subprocess.run([sys.executable, os.path.join(FOLDER, name + ".py")],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
                self.assertEqual(done.returncode, 0, done.stdout.decode())
                self.assertTrue(done.stdout)


class Documents(unittest.TestCase):
    """docs/python.md."""

    def test_first_program(self):
        """Run in the source tree, it prints what its comment says."""
        with open(os.path.join(case.ROOT, "docs", "python.md")) as file:
            program = re.search(r"^```python\n(.*?)^```$", file.read(), re.M | re.S).group(1)
        said = re.search(r"# (\d+), \"[^\"]+\"$", program.strip()).group(1)
        done = subprocess.run([sys.executable, "-c", program], cwd=case.ROOT, stdout=subprocess.PIPE, timeout=200)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, said + "\n"))


class Notebooks(unittest.TestCase):
    """The notebooks beside them. They are run where Jupyter's nbconvert and matplotlib are installed."""

    def read(self, name):
        """A notebook, as JSON has it."""
        with open(os.path.join(FOLDER, name + ".ipynb")) as file:
            return json.load(file)

    def test_kept_without_results(self):
        self.assertEqual(names(".ipynb"), names(".py"))
        for name in names(".ipynb"):
            for cell in self.read(name)["cells"]:
                if cell["cell_type"] == "code":
                    ast.parse("".join(cell["source"]), name)
                    self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None), name)

    def test_run(self):
        try:
            import ipykernel  # noqa: F401
            import matplotlib.image
            import nbformat
            from nbconvert.preprocessors import ExecutePreprocessor
        except ImportError as error:
            self.skipTest("%s is not installed" % error.name)
        pictures = dict(classification=3, detection=1, fine_tuning=1, learning_lenet=4, loss_layer=1,
                        net_surgery=1)
        for name in names(".ipynb"):
            with self.subTest(notebook=name):
                notebook = nbformat.read(os.path.join(FOLDER, name + ".ipynb"), 4)
                nbformat.validate(notebook)
                with unittest.mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):
                    ExecutePreprocessor(timeout=900, kernel_name="python3").preprocess(
                        notebook, {"metadata": {"path": FOLDER}})
                found = [output["data"]["image/png"] for cell in notebook.cells if cell.cell_type == "code"
                         for output in cell.outputs if "image/png" in output.get("data", {})]
                self.assertEqual(len(found), pictures[name])
                for picture in found:
                    values = matplotlib.image.imread(io.BytesIO(base64.b64decode(picture)))
                    self.assertGreater(values[..., :3].std(), 0.02)


if __name__ == "__main__":
    unittest.main()
