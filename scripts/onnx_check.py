#!/usr/bin/env python3
"""Compares ONNX files with ONNX Runtime, in both directions. Needs the Python packages onnx and onnxruntime; `make
test-onnx` installs them. Exits 1 if a check fails, and names all failures.

  onnx_check.py file NET WEIGHTS|- FILE.onnx    an exported file, with ONNX Runtime, equals its net
  onnx_check.py import FILE.onnx                an imported file equals ONNX Runtime
  onnx_check.py layers [FAMILY...]              the grid of scripts/onnx_cases, in both directions
  onnx_check.py models                          every net of models/ with random weights
  onnx_check.py golden                          every net of the golden cases
  onnx_check.py nodes                           the node tests of the package onnx
  onnx_check.py torchvision                     models of torchvision, exported by torch.onnx
  onnx_check.py operators [FAMILY...]           models of scripts/onnx_cases, imported
"""
import argparse
import faulthandler
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def parse():
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-build", default=ROOT / "build", help="folder of the build (default: build)")
    parser.add_argument("-v", dest="verbose", action="store_true", help="print each check")
    tasks = parser.add_subparsers(dest="task", required=True)
    task = tasks.add_parser("file")
    task.add_argument("net")
    task.add_argument("weights")
    task.add_argument("file")
    task = tasks.add_parser("import")
    task.add_argument("file")
    task = tasks.add_parser("layers")
    task.add_argument("family", nargs="*")
    task.add_argument("-opsets", default="11,13,17,21", help="operator sets (default: 11,13,17,21)")
    task.add_argument("-only", default="", help="cases whose names contain this text")
    task.add_argument("-cases", default=ROOT / "scripts/onnx_cases", help="folder of the families")
    task.add_argument("-no-import", dest="back", action="store_false", help="export only")
    for name in ("models", "golden", "nodes", "torchvision"):
        task = tasks.add_parser(name)
        task.add_argument("-only", default="", help="checks whose names contain this text")
        task.add_argument("-rejections", action="store_true", help="print the reasons of rejections")
    task = tasks.add_parser("operators")
    task.add_argument("family", nargs="*")
    task.add_argument("-only", default="", help="models whose names contain this text")
    task.add_argument("-cases", default=ROOT / "scripts/onnx_cases", help="folder of the families")
    return parser.parse_args()


def check_file(report, args, folder):
    """The subcommand `file`."""
    import caffe

    from onnx_checks import files, nets
    del folder

    def check():
        net = caffe.Net(args.net, caffe.TEST)
        if args.weights != "-":
            net.copy_from(args.weights)
        shapes = files.input_shapes(args.file)
        arrays = nets.input_arrays({name: shapes.get(name, tuple(net.blobs[name].shape)) for name in net.inputs},
                                   args.file)
        return files.check_file(args.file, arrays, nets.run(net, arrays), optimise=True)
    report.check("file", args.file, check, None)


def check_import(report, args, folder):
    """The subcommand `import`."""
    from onnx_checks import files, nets
    del folder

    def check():
        net = files.read(args.file)
        arrays = nets.input_arrays({name: tuple(net.blobs[name].shape) for name in net.inputs}, args.file)
        found = files.run_in_runtime(args.file, arrays, optimise=True)
        return nets.compare(nets.run(net, arrays), found, files.RUNTIME_TOLERANCE, "crema")
    report.check("import", args.file, check, None)


def check_layers(report, args, folder):
    """The subcommand `layers`."""
    from onnx_checks import grid
    opsets = [int(text) for text in args.opsets.split(",")]
    count = grid.run(report, folder, grid.load_cases(args.cases, args.family), opsets, args.back, args.only)
    print("%d cases, operator sets %s" % (count, args.opsets))


def check_models(report, args, folder):
    """The subcommand `models`."""
    from onnx_checks import stored_nets
    stored_nets.check_models(report, folder, ROOT / "models", args.only)


def check_golden(report, args, folder):
    """The subcommand `golden`."""
    from onnx_checks import stored_nets
    stored_nets.check_golden(report, folder, ROOT / "tests/golden/golden.tar.zst", args.only)


def check_nodes(report, args, folder):
    """The subcommand `nodes`."""
    from onnx_checks import nodes
    nodes.check_nodes(report, folder, args.only)


def check_torchvision(report, args, folder):
    """The subcommand `torchvision`."""
    from onnx_checks import torch_models
    torch_models.check_torch_models(report, folder, args.only)


def check_operators(report, args, folder):
    """The subcommand `operators`."""
    from onnx_checks import grid, operators
    count = operators.check_operators(report, folder, grid.load_modules(args.cases, args.family), args.only)
    print("%d models" % count)


TASKS = {"file": check_file, "import": check_import, "layers": check_layers, "models": check_models,
         "golden": check_golden, "nodes": check_nodes, "torchvision": check_torchvision,
         "operators": check_operators}


def main():
    """Runs a task."""
    args = parse()
    faulthandler.enable()
    sys.path[:0] = [os.path.join(args.build, "python"), str(ROOT / "scripts"), str(ROOT / "scripts/onnx_cases")]
    os.environ.setdefault("GLOG_minloglevel", "2")
    from onnx_checks.report import Report
    report = Report(args.verbose, getattr(args, "rejections", False))
    with tempfile.TemporaryDirectory(prefix="onnx_check.") as folder:
        TASKS[args.task](report, args, folder)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
