"""The stubs name what the package has, and the package what the stubs name; everything has a docstring."""
import ast
import importlib
import inspect
import os
import pkgutil
import unittest

import caffe

FOLDER = os.path.dirname(caffe.__file__)


def modules():
    """The public modules of the package, by their names."""
    found = {"caffe": caffe}
    for info in pkgutil.walk_packages([FOLDER], "caffe."):
        if not info.name.rsplit(".", 1)[-1].startswith("_"):
            found[info.name] = importlib.import_module(info.name)
    return found


def stub(name):
    """The tree of a module's stub."""
    path = os.path.join(FOLDER, *name.split(".")[1:])
    path = os.path.join(path, "__init__.pyi") if os.path.isdir(path) else path + ".pyi"
    with open(path) as file:
        return ast.parse(file.read())


def parameters(arguments):
    """The names of parameters, as a call sees them; those that begin with an underscore as they are."""
    names = [a.arg for a in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]
    names += [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return sorted(names)


class Stubs(unittest.TestCase):
    """The files for editors and type checkers."""

    def test_names(self):
        """Each stub has what its module defines, and nothing else."""
        for name, module in modules().items():
            if name == "caffe.proto.caffe_pb2":
                continue  # its classes come from the schema
            named = set()
            for node in stub(name).body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    named.add(node.name)
                elif isinstance(node, ast.AnnAssign):
                    named.add(node.target.id)
                elif isinstance(node, ast.ImportFrom):
                    named |= {alias.asname for alias in node.names if alias.asname}
            for one in named:
                self.assertTrue(hasattr(module, one), "%s has no %s" % (name, one))
            own = set(caffe.__all__) if module is caffe else {
                one for one, value in vars(module).items() if not one.startswith("_") and
                getattr(value, "__module__", None) == name}
            own -= {"classifier", "detector", "model", "net_spec", "pycaffe"}
            self.assertEqual(own - named, set(), name)

    def test_functions_have_their_parameters(self):
        for name, module in modules().items():
            for node in stub(name).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    real = inspect.signature(getattr(module, node.name)).parameters
                    self.assertEqual(parameters(node.args), sorted(real), "%s.%s" % (name, node.name))

    def test_classes_have_what_they_say(self):
        missing, unsaid, other = [], [], []
        for name, module in modules().items():
            for node in stub(name).body:
                if not isinstance(node, ast.ClassDef):
                    continue
                cls, said = getattr(module, node.name), set()
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        said.add(part.name)
                        value = inspect.getattr_static(cls, part.name, None)
                        if value is None:
                            missing.append("%s.%s" % (node.name, part.name))
                        elif inspect.isfunction(value) and parameters(part.args) != sorted(
                                inspect.signature(value).parameters):
                            other.append("%s.%s" % (node.name, part.name))
                    elif isinstance(part, ast.AnnAssign):
                        said.add(part.target.id)
                for one, value in vars(cls).items():
                    if not one.startswith("_") and (callable(value) or isinstance(value, property)) and \
                            one not in said:
                        unsaid.append("%s.%s" % (node.name, one))
        self.assertEqual((missing, unsaid, other), ([], [], []))


class Docstrings(unittest.TestCase):
    """Modules, classes, functions, methods and attributes that are computed."""

    def described(self, thing, name, missing):
        """Notes what has no docstring."""
        if not inspect.getdoc(thing):
            missing.append(name)
        if not inspect.isclass(thing):
            return
        for part, value in vars(thing).items():
            value = getattr(value, "__func__", value)
            if not part.startswith("_") and (
                    inspect.isroutine(value) or isinstance(value, property) or
                    inspect.isgetsetdescriptor(value)) and not getattr(value, "__doc__", None):
                missing.append("%s.%s" % (name, part))

    def test_everything_has_one(self):
        missing = []
        for name, module in {**modules(), "caffe._core": caffe._core}.items():
            self.described(module, name, missing)
            if name == "caffe.proto.caffe_pb2":
                continue
            for one, value in vars(module).items():
                ours = (getattr(value, "__module__", None) or "").startswith("caffe")
                if not one.startswith("_") and ours and (inspect.isclass(value) or inspect.isroutine(value)):
                    self.described(value, "%s.%s" % (name, one), missing)
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
