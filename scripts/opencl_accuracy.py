#!/usr/bin/env python3
"""opencl_accuracy.py [BUILD [OP...]]: errors of OpenCL's kernels on a device with and without double precision.

Runs the tests of the kernels and the golden cases of all layers on OpenCL's first device, as it is and with
CREMA_OPENCL_DOUBLE=0. OP: only the kernels of these ops. The default is every op except convolutions and inner
products: their kernels take minutes, and their sums are float32 on every device.

An error is the largest difference from the double-precision reference (golden cases: from Caffe's values) as a
fraction of the largest value. The second table has the ops and layers whose error without double precision is
largest, and at least 1.5 times the error with it. CREMA_TEST_SEED chooses the values.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TYPES = {"FLOAT": "float", "FLOAT16": "float16", "BFLOAT16": "bfloat16"}
SHOWN = 6
PRODUCTS = ("conv_", "ip_")


def environment(build, doubles):
    return dict(os.environ, CREMA_OPENCL=os.environ.get("CREMA_OPENCL", "all"), CREMA_OPENCL_BLAS="own",
                CREMA_OPENCL_DOUBLE="1" if doubles else "0", CREMA_TEST_ERRORS="1",
                CREMA_OPENCL_PLUGIN=str(build / "lib/libcrema-opencl.so"), OMP_WAIT_POLICY="passive",
                CREMA_TEST_SEED=os.environ.get("CREMA_TEST_SEED", "1"))


def run(command, variables):
    done = subprocess.run([str(c) for c in command], env=variables, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout[-2000:]}")
    return re.findall(r"^error (\S+)(?: (\w+))? (\S+)$", done.stdout, re.M)


def ops_of(kernels, variables):
    listed = subprocess.run([kernels, "--list"], env=variables, text=True, check=True,
                            stdout=subprocess.PIPE).stdout
    return [op for op in re.findall(r"^(\w+)$", listed, re.M) if not op.startswith(PRODUCTS)]


def measure(build, wanted, doubles):
    """(kind, name, type) -> error"""
    errors, variables = {}, environment(build, doubles)

    def keep(key, error):
        errors[key] = max(errors.get(key, 0), float(error))

    kernels = build / "tests/cuda_kernels"
    for op in wanted or ops_of(kernels, variables):
        for row, kind, error in run([kernels, op], variables):
            keep(("op", re.sub(r"_(f32_)?(gpu|opencl)$", "", row), kind), error)
    for name, kind in TYPES.items():
        found = run([build / "tests/golden", "-q", "-errors", "-gpu", 0, "-type", name,
                     build / "golden/layers"], variables)
        for case, _, error in found:
            keep(("layer", case.split("/")[0], kind), error)
    return errors


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    wanted = sys.argv[2:]
    double, single = measure(build, wanted, True), measure(build, wanted, False)
    print("| values | largest error with doubles | without |\n| --- | --- | --- |")
    for what, plural in (("op", "ops"), ("layer", "layers")):
        for kind in TYPES.values():
            pair = []
            for errors in (double, single):
                error, name = max((e, key[1]) for key, e in errors.items()
                                  if key[0] == what and key[2] == kind)
                pair.append(f"{error:.1e} ({name})")
            print(f"| {kind}, {plural} | {pair[0]} | {pair[1]} |")
    print("\n| type | op or layer | with doubles | without |\n| --- | --- | --- | --- |")
    for kind in TYPES.values():
        more = sorted(((e, key) for key, e in single.items()
                       if key[2] == kind and e > 1.5 * double.get(key, 0)), reverse=True)
        for error, key in more[:SHOWN]:
            print(f"| {kind} | {key[1]} | {double.get(key, 0):.1e} | {error:.1e} |")


if __name__ == "__main__":
    main()
