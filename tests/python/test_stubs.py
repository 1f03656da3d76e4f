"""The stubs name what the package has, and the package what the stubs name."""
import ast
import os
import unittest

import caffe

PATH = os.path.join(os.path.dirname(caffe.__file__), "__init__.pyi")


class Stubs(unittest.TestCase):
    """The file for editors and type checkers."""

    def setUp(self):
        with open(PATH) as file:
            self.tree = ast.parse(file.read())

    def test_names_are_those_of_the_package(self):
        named = set()
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                named.add(node.name)
            elif isinstance(node, ast.AnnAssign):
                named.add(node.target.id)
        modules = {"classifier", "detector", "io", "model", "net_spec", "proto", "pycaffe"}
        self.assertEqual(named, set(caffe.__all__) - modules)

    def test_classes_have_what_they_say(self):
        missing, unsaid = [], []
        for node in self.tree.body:
            if not isinstance(node, ast.ClassDef):
                continue
            cls, said = getattr(caffe, node.name), set()
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    said.add(part.name)
                    if not hasattr(cls, part.name):
                        missing.append("%s.%s" % (node.name, part.name))
            for name, value in vars(cls).items():
                if not name.startswith("_") and callable(value) and name not in said and \
                        node.name not in ("Detector",):
                    unsaid.append("%s.%s" % (node.name, name))
        self.assertEqual((missing, unsaid), ([], []))


if __name__ == "__main__":
    unittest.main()
