"""The grid: single layers and small chains with many parameters, from the modules of scripts/onnx_cases.

A module has a function cases() that yields tuples (name, layers, inputs) or (name, layers, inputs, options):

- layers: the layers after the Input layers, in prototxt
- inputs: by blob name a shape, for random numbers, or an array
- options, all of them optional:
  - rejected: words of the rejection that the case must get from the export
  - first_opset: the export rejects older operator sets
  - reference: layers whose outputs the file must have, with the parameters of the layers of the same names
  - tolerance: against ONNX Runtime, instead of 1e-5
  - import_tolerance: against crema, instead of 1e-6
  - import_rejected: words of the rejection that the exported file gets from the import
  - parameters: a function that changes the parameters of the net
"""
import importlib.util
import os

import caffe

from . import files, nets
from .nets import Failure, Rejected

OPTIONS = {"rejected", "first_opset", "reference", "tolerance", "import_tolerance", "import_rejected", "parameters"}
DYNAMIC_OPSET = 13


class Case:
    """A net of the grid with its parameters and inputs."""

    def __init__(self, family, name, layers, inputs, options=None):
        self.name = "%s/%s" % (family, name)
        self.options = options or {}
        unknown = set(self.options) - OPTIONS
        if unknown:
            raise ValueError("case %s: unknown options %s" % (self.name, ", ".join(unknown)))
        self._layers, self._inputs = layers, inputs

    def build(self):
        """Makes the net, the arrays and the outputs that the file must have."""
        head = nets.input_layers(self._inputs)
        self.arrays = nets.input_arrays(self._inputs, self.name)
        self.net = caffe.Net.from_text(head + self._layers, source=self.name)
        nets.fill_parameters(self.net, self.name)
        if "parameters" in self.options:
            self.options["parameters"](self.net)
        reference = self.options.get("reference") or nets.inference_form(head + self._layers)
        if reference is not None and "reference" in self.options:
            reference = head + reference
        self.compared = self.net
        if reference is not None:
            self.compared = caffe.Net.from_text(reference, source=self.name)
            nets.copy_parameters(self.net, self.compared)
        self.outputs = nets.run(self.compared, self.arrays)

    def check(self, opset, folder, back):
        """Exports, runs and imports."""
        tolerances = (self.options.get("tolerance", files.RUNTIME_TOLERANCE),
                      self.options.get("import_tolerance", files.IMPORT_TOLERANCE))
        refused = self.options.get("import_rejected")
        worst = files.check_round(self.net, self.arrays, folder, opset, self.outputs, tolerances=tolerances,
                                  back=back and refused is None)
        if "rejected" in self.options or opset < self.options.get("first_opset", 0):
            raise Failure("the export does not reject the case")
        if refused is not None and back:
            self._check_import_rejected(os.path.join(folder, "first.onnx"), refused)
        return worst

    @staticmethod
    def _check_import_rejected(path, words):
        try:
            files.read(path)
        except Rejected as error:
            if words in str(error):
                return
            raise Failure("%s; expected the words '%s'" % (error, words)) from None
        raise Failure("the import does not reject the file")

    def allowed(self, opset):
        """Words of the rejection that the case gets with this operator set; None: it must pass."""
        if opset < self.options.get("first_opset", 0):
            return ""
        return self.options.get("rejected")

    def check_batch(self, folder):
        """Runs the net with a symbolic batch. A net with a reference has other outputs and is not run."""
        if self.compared is self.net:
            files.check_symbolic_batch(self.net, self.arrays, folder, max(
                DYNAMIC_OPSET, self.options.get("first_opset", 0)), self.options.get(
                    "tolerance", files.RUNTIME_TOLERANCE))
        return 0.0


def load_modules(folder, families):
    """Yields (family, module) for the modules of a folder, or only for modules of the given names."""
    names = sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".py") and name[0] != "_")
    unknown = set(families) - set(names)
    if unknown:
        raise SystemExit("no family %s; there are %s" % (", ".join(sorted(unknown)), ", ".join(names)))
    for name in names:
        if families and name not in families:
            continue
        spec = importlib.util.spec_from_file_location("onnx_cases_" + name, os.path.join(folder, name + ".py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield name, module


def load_cases(folder, families):
    """Yields (family, case) for the modules that have cases."""
    for name, module in load_modules(folder, families):
        for case in getattr(module, "cases", lambda: ())():
            yield name, Case(name, *case)


def run(report, folder, cases, opsets, back, only):
    """Checks all cases whose names contain `only`. Returns their number."""
    count, names = 0, set()
    for family, case in cases:
        if only not in case.name:
            continue
        if case.name in names:
            report.fail(family, case.name, "two cases have this name")
        names.add(case.name)
        count += 1
        failures = len(report.failures)
        if not report.check(family, case.name + ": build", case.build, None):
            continue
        report.counts[family]["passed"] -= 1  # building is no check
        for opset in opsets:
            name = "%s: opset %d" % (case.name, opset)
            report.check(family, name, lambda opset=opset: case.check(opset, folder, back), case.allowed(opset))
        if "rejected" not in case.options and failures == len(report.failures):
            report.check(family, case.name + ": symbolic batch", lambda: case.check_batch(folder), None)
    return count
