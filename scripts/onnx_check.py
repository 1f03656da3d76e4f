#!/usr/bin/env python3
"""Compares ONNX files with ONNX Runtime, in both directions. Needs the Python packages onnx and onnxruntime; `make
test-onnx` installs them. Exits 1 if a check fails, and names all failures.

  onnx_check.py file NET WEIGHTS|- FILE.onnx    an exported file, with ONNX Runtime, equals its net
  onnx_check.py import FILE.onnx                an imported file equals ONNX Runtime
  onnx_check.py layers [FAMILY...]              the grid of scripts/onnx_cases, in both directions
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


TASKS = {"file": check_file, "import": check_import, "layers": check_layers}


def main():
    """Runs a task."""
    args = parse()
    faulthandler.enable()
    sys.path[:0] = [os.path.join(args.build, "python"), str(ROOT / "scripts")]
    os.environ.setdefault("GLOG_minloglevel", "2")
    from onnx_checks.report import Report
    report = Report(args.verbose)
    with tempfile.TemporaryDirectory(prefix="onnx_check.") as folder:
        TASKS[args.task](report, args, folder)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
