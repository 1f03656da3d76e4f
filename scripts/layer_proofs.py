#!/usr/bin/env python3
"""layer_proofs.py FILE: writes the table of the proofs of each layer type, as Markdown.
layer_proofs.py --check: exits 1 if a type lacks a proof that it needs.

All of it is read from what the tests run: the golden archive's index, the rows whose gradients are compared
with differences (layer_rows.inc), the numbers of other implementations (*.inc that begin with "Computed
with") and the nets that are compared with them. tests/house/layers.tsv names the tests that compute a layer another
way; each has to be there and to make a layer of that type. Which kernels a layer runs is found from
its class (scripts/callgraph.py): tests/ops compares each with a reference in double.
"""
import pathlib
import re
import subprocess
import sys

import callgraph
import layer_catalogue

ROOT = callgraph.ROOT
TESTS = ROOT / "tests"
NAMED = TESTS / "house/layers.tsv"

# Ops that move values, or fill and add them: no layer is computed by these alone.
PLAIN = {"COPY", "SET", "QUANTIZE", "AXPBY"}

HEAD = """# What proves each layer

Written by `scripts/layer_proofs.py` from the tests; `ctest -R house/layers` fails when a type of layer
lacks what it needs.

*Golden cases*: reference results of BVLC Caffe 1.0, a few of Caffe SSD (`tests/golden`); *with gradients*: how many of
them have those, too. *Kernels*: what the layer computes is done by ops, each of which `tests/ops` compares
with a reference in double, and its gradient with differences. *Differences*: `layers/gradient` compares
the layer's gradient with differences of its forward pass, in float and in double. *Other implementations*: results of
these are stored in the tests. *By itself*: tests that compute the layer another way, by brute force in double
where there is something to compute.

A layer without golden cases has kernels or tests by itself, and results of another implementation, or
a reason stands in its row. A layer with a gradient has golden gradients or differences.

"""


class Tests:
    """What the tests have of each type: sets or lists by type."""

    def __init__(self, types):
        self.types = types
        self.golden = self.read_golden()
        self.checked = self.read_rows()
        self.others = self.read_numbers()
        self.named, self.notes = self.read_named()

    def read_golden(self):
        """type -> (cases, cases with gradients)"""
        text = subprocess.run(["tar", "--zstd", "-xOf", str(TESTS / "golden/golden.tar.zst"), "index.tsv"],
                              check=True, capture_output=True, text=True).stdout
        found = {}
        for line in text.splitlines()[1:]:
            _, kind, _, backward, *_ = line.split("\t")
            cases, gradients = found.get(kind, (0, 0))
            found[kind] = (cases + 1, gradients + int(backward))
        return found

    def read_rows(self):
        """The types whose gradients test_gradient.c compares with differences."""
        found = set()
        for kind, row in re.findall(r'^LAYER_ROW\("(\w+)",(.*?)\)$', (TESTS / "layers/layer_rows.inc").read_text(),
                                    re.M | re.S):
            flags = re.findall(r'"([^"]*)"', row)[-1]
            if not set(flags) & set("NS"):
                found.add(kind)
        return found

    def read_numbers(self):
        """type -> {program: names of implementations}"""
        found = {}
        for inc in sorted(TESTS.rglob("*.inc")):
            begin = re.match(r"/\* Computed with (.*?)\s(?:\* )?by\s", inc.read_text(), re.S)
            if not begin:
                continue
            names = [part.rsplit(" ", 1)[0] for part in re.split(r", | and ", begin.group(1))]
            for path in TESTS.rglob("test_*.c"):
                if f'#include "{inc.relative_to(TESTS)}"' in path.read_text():
                    self.read_program(path, inc, names, found)
        return found

    def read_program(self, path, inc, names, found):
        text = path.read_text() + inc.read_text()
        # A case may say which implementations it is from; all others are from the first.
        pairs = [(kind, name) for kind, said in re.findall(r'"(\w+)", "([\w, -]+)",\n', inc.read_text())
                 for name in said.split(", ")]
        pairs += [(kind, names[0]) for kind in re.findall(r'(?:\{"|\bcompare\(")(\w+)",(?! "[\w, -]+",\n)', text)]
        nets = [ROOT / f"models/{name}/deploy.prototxt" for name in re.findall(r'\{"([\w.]+)", NULL,', text)]
        for part in [text] + [net.read_text() for net in nets]:
            pairs += [(kind, names[0]) for kind in re.findall(r"\btype: ['\"](\w+)['\"]", part)]
        for kind, name in pairs:
            if kind in self.types and name in names:
                found.setdefault(kind, {}).setdefault(program_of(path), set()).add(name)

    def read_named(self):
        named, notes = {}, {}
        for line in NAMED.read_text().splitlines()[1:]:
            kind, tests, note = line.split("\t")
            named[kind] = tests.split()
            notes[kind] = note
        return named, notes


def program_of(path):
    return f"{path.parent.name}/{path.stem.removeprefix('test_')}"


def functions_of(text):
    """name -> text of each test, function and table of a program."""
    text = re.sub(r"/\*.*?\*/|^[ \t]*#.*?[^\\]$", " ", text, flags=re.M | re.S)
    # Brackets in texts may be parts of a message that goes on in another text.
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'[(){};]\'', lambda found: re.sub(r"[(){};]", " ", found.group()), text)
    found = {}
    for head, body in callgraph.chunks(text):
        test = re.search(r"\b(?:FIXTURE_)?TEST\((\w+)\)\s*$", head)
        found[test.group(1) if test else callgraph.name_of(head)] = body
    return found


def problem_of(kind, test):
    """What is wrong with the name of a test that is to prove a type, or None."""
    program, _, name = test.partition(":")
    room, _, noun = program.partition("/")
    path = TESTS / room / f"test_{noun}.c"
    if not path.is_file():
        return f"there is no program {program}"
    functions = functions_of(path.read_text())
    if name not in functions:
        return f"{program} has no test {name}"
    reached, queue = {name}, [name]
    for at in queue:
        for word in set(re.findall(r"\w+", functions.get(at, ""))) & functions.keys() - reached:
            reached.add(word)
            queue.append(word)
    if not any(re.search(rf"[\"']{kind}[\"']", functions[at]) for at in reached):
        return f"{test} makes no layer of this type"
    return None


class Classes:
    """What the sources say of each type: which ops it plans and whether it has a gradient."""

    def __init__(self):
        self.graph = callgraph.Graph()
        self.layers = ROOT / "src/layers"
        headers = "".join(path.read_text() for path in self.layers.rglob("*.h"))
        self.macros = dict(re.findall(r"^#define (CR_LAYER_\w+)\(((?:[^\n]*\\\n)*[^\n]*)", headers, re.M))

    def ops_of(self, name):
        reached, found = [(None, f"cr_layer_{name}")], set()
        for node in reached:
            found |= set(re.findall(r"\bCR_OP_(\w+)", self.graph.body.get(node, "")))
            for target in self.graph.edges.get(node, ()):
                files = [target[0]] if target[0] else self.graph.files[target[1]]
                if target not in reached and any(self.layers in path.parents for path in files):
                    reached.append(target)
        return found - PLAIN

    def has_gradient(self, name):
        """Also where nothing is to be done, as the top is the bottom under another shape."""
        body = self.graph.body[(None, f"cr_layer_{name}")]
        body += "".join(self.macros.get(macro, "") for macro in re.findall(r"CR_LAYER_\w+", body))
        backward = re.search(r"\.backward\s*=\s*(\w+)", body)
        noop = backward is not None and backward.group(1) == "cr_layer_noop_backward"
        return backward is not None and (not noop or ".shares" in body)


def tested_ops():
    """The ops that tests/ops compares with its reference, and those whose gradients are compared with differences."""
    cases = "".join((TESTS / "ops" / name).read_text() for name in ("op_cases.c", "op_cases_conv.c", "op_gradients.c"))
    integers = set(re.findall(r"\bCR_OP_(\w+)", (TESTS / "ops/test_int8.c").read_text()))
    reference = "".join(path.read_text() for path in (TESTS / "ops").glob("op_reference*.c"))
    return integers | set(re.findall(r"\bCR_OP_(\w+)", cases)) & (
        set(re.findall(r"\bCR_OP_(\w+)", reference)) | set(re.findall(r"\{CR_OP_\w+, CR_OP_(\w+),", cases)))


def problems(types, tests, classes):
    """What a type lacks."""
    wrong, tested = [], tested_ops()
    for kind in sorted(set(tests.named) - set(types.values())):
        wrong.append(f"{NAMED.relative_to(ROOT)}: {kind}: there is no such type")
    for name, kind in types.items():
        named = tests.named.get(kind, [])
        wrong += [f"{kind}: {problem}" for problem in (problem_of(kind, test) for test in named) if problem]
        ops = classes.ops_of(name)
        wrong += [f"{kind}: tests/ops has no case of {op}" for op in sorted(ops - tested)]
        cases, gradients = tests.golden.get(kind, (0, 0))
        if classes.has_gradient(name) and gradients == 0 and kind not in tests.checked:
            wrong.append(f"{kind}: no golden gradient, and no row of layer_rows.inc that checks it")
        if cases == 0 and not ops and not named and not tests.notes.get(kind):
            wrong.append(f"{kind}: no golden case, no kernels and no test in {NAMED.relative_to(ROOT)}")
        if cases == 0 and kind not in tests.others and not tests.notes.get(kind):
            wrong.append(f"{kind}: no golden case and no results of another implementation")
    return wrong


def table(types, tests, classes):
    lines = ["| layer | golden cases | with gradients | kernels | differences | other implementations | by itself |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, kind in sorted(types.items(), key=lambda item: item[1].lower()):
        cases, gradients = tests.golden.get(kind, (0, 0))
        has_gradient = classes.has_gradient(name)
        others = sorted(set().union(*tests.others.get(kind, {}).values()), key=str.lower)
        named = [f"{test.partition(':')[0]}: `{test.partition(':')[2]}`" for test in tests.named.get(kind, [])]
        note = [tests.notes[kind]] if tests.notes.get(kind) else []
        cells = [kind, str(cases or "-"), str(gradients or "-") if has_gradient else "no gradient",
                 "yes" if classes.ops_of(name) else "-",
                 ("yes" if kind in tests.checked else "-") if has_gradient else "no gradient",
                 ", ".join(others) or "-", "; ".join(named + note) or "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


def main():
    types = dict(layer_catalogue.types())
    tests, classes = Tests(set(types.values())), Classes()
    if sys.argv[1:] == ["--check"]:
        wrong = problems(types, tests, classes)
        print("\n".join(wrong))
        sys.exit(1 if wrong else 0)
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    output = pathlib.Path(sys.argv[1])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(table(types, tests, classes))


if __name__ == "__main__":
    main()
