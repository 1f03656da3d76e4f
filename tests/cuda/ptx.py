#!/usr/bin/env python3
"""Which instructions nvcc generates for the kernels that only move and scale memory.

Compiles the device functions with packs or with forms for 16-bit types (device_functions.inc) to PTX, in the forms
for F32, F16 and BF16, and counts the instructions of each kernel. A kernel for packs reads and writes memory with
128 bits and keeps its values in registers. No inner loop divides 64-bit integers. Needs nvcc; skips (77) without it.
The argument is the project's folder."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
FORMS = {
    "f32": ["-DCR_ONE_TYPE=CREMA_F32"],
    "f16": ["-DCR_ONE_TYPE=CREMA_F16", "-DCR_HALVES_ONLY"],
    "bf16": ["-DCR_ONE_TYPE=CREMA_BF16", "-DCR_HALVES_ONLY"],
}
# The 128-bit loads and stores of a pack: of each array, and of each branch.
PACKS = {
    "relu_fwd": (1, 1),
    "relu_bwd": (2, 1),
    "sum": (1, 1),
    "sum_of_two": (2, 1),
    "axpby": (2, 1),
    "set": (0, 1),
    "affine": (1, 1),
    "posts": (2, 1),
    "bn_normalise": (1, 1),
    "bn_bwd": (2, 1),
    "dropout_fwd": (1, 1),
    "dropout_bwd": (1, 1),
    "move_parts": (2, 2),
    "update": (4, 4),
    "convert": (3, 3),
}
# In these forms a function works on the arrays of other types one by one.
SINGLE = {("convert", "f32"), ("update", "f16"), ("update", "bf16")}
# Kernels without packs, in which no wide access may be counted.
PLAIN = ("CR_VALUE(prelu_fwd, cr_prelu_args)",)

LOAD = re.compile(r"\bld\.global(?:\.\w+)*\.v4\.[ubf]32\b")
STORE = re.compile(r"\bst\.global(?:\.\w+)*\.v4\.[ubf]32\b")
DIVISION = re.compile(r"\b(?:div|rem)\.[us]64\b")
LOCAL = re.compile(r"\b(?:ld|st)\.local\b")
ENTRY = re.compile(r"\.entry (\w+)\(.*?^}", re.S | re.M)


def function_of(kernel):
    """The device function in a mangled name, in which a number before each name is its length."""
    for match in re.finditer(r"(\d+)cr_", kernel):
        name = kernel[match.end(1):match.end(1) + int(match.group(1))]
        if name.endswith("_device"):
            return name[len("cr_"):-len("_device")]
    return kernel


def inner_loops(body):
    """The text of each loop that contains no other loop, from its first label to the last jump back to it."""
    lines = body.split("\n")
    labels = {line[:-1]: at for at, line in enumerate(lines) if re.fullmatch(r"\$\w+:", line)}
    ends = {}
    for at, line in enumerate(lines):
        jump = re.search(r"\bbra(?:\.uni)?\s+(\$\w+);", line)
        if jump and labels[jump.group(1)] <= at:
            ends[labels[jump.group(1)]] = at
    loops = [(begin, end) for begin, end in ends.items()
             if not any(begin < other < end for other in ends)]
    return ["\n".join(lines[begin:end + 1]) for begin, end in loops]


def find_nvcc():
    folders = [os.path.join(os.environ[name], "bin") for name in ("CUDA_HOME",) if name in os.environ]
    for folder in folders + ["/usr/local/cuda/bin"]:
        path = os.path.join(folder, "nvcc")
        if os.access(path, os.X_OK):
            return path
    return shutil.which("nvcc")


def listed(root):
    """The lines of the functions that have packs or forms for 16-bit types."""
    with open(os.path.join(root, "src/device/gpu/kernels/device_functions.inc"), encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if re.match(r"CR_(VALUE|EACH|THREAD_BLOCK)_(PACKS|HALVES)\(", line)]


def compile_form(nvcc, root, form, functions, folder):
    out = os.path.join(folder, form + ".ptx")
    command = [nvcc, "-std=c++17", "-O3", "-arch=compute_80", "-ptx", "-DCR_FORM_NAME=" + form, *FORMS[form],
               '-DCR_DEVICE_FUNCTIONS="%s"' % functions, "-I", os.path.join(root, "include"),
               "-I", os.path.join(root, "src"), os.path.join(root, "src/device/cuda/launch.cu"), "-o", out]
    subprocess.run(command, check=True)
    with open(out, encoding="utf-8") as file:
        return file.read()


def check_kernel(form, kernel, body, report):
    """Reports the faults of one kernel; its function and whether it is for packs."""
    name = function_of(kernel)
    packed = "packs_kernel" in kernel
    loads, stores = len(LOAD.findall(body)), len(STORE.findall(body))
    where = "%s of %s%s" % (name, form, " by packs" if packed else "")
    loops = inner_loops(body)
    if not loops:
        report("%s has no loop" % where)
    if any(DIVISION.search(loop) for loop in loops):
        report("%s divides 64-bit integers in an inner loop" % where)
    if packed and (name, form) not in SINGLE:
        wanted = PACKS[name]
        print("%-26s %d loads and %d stores of 128 bits" % (where, loads, stores))
        if loads < wanted[0] or stores < wanted[1]:
            report("%s: expected %d loads and %d stores of 128 bits" % (where, *wanted))
        if LOCAL.search(body):
            report("%s keeps values in local memory" % where)
    if not packed and (loads > 0 or stores > 0):
        report("%s has 128-bit accesses" % where)
    return name, packed


def main(root):
    nvcc = find_nvcc()
    if nvcc is None:
        print("skipped: nvcc was not found")
        return SKIPPED
    faults = []
    lines = listed(root)
    packs = {re.search(r"\((\w+)", line).group(1) for line in lines if "_PACKS(" in line}
    if packs != set(PACKS):
        faults.append("the table of this test and device_functions.inc differ: %s" % sorted(packs ^ set(PACKS)))
    with tempfile.TemporaryDirectory() as folder:
        functions = os.path.join(folder, "functions.inc")
        with open(functions, "w", encoding="utf-8") as file:
            file.write("\n".join(lines + list(PLAIN)) + "\n")
        for form in FORMS:
            text = compile_form(nvcc, root, form, functions, folder)
            found = {check_kernel(form, entry.group(1), entry.group(0), faults.append)
                     for entry in ENTRY.finditer(text)}
            missing = [name for name in sorted(packs) if (name, True) not in found]
            if missing:
                faults.append("no kernels of %s for packs: %s" % (form, missing))
            plain = [name for name, packed in found if not packed]
            print("%s: %d kernels for packs, %d others" % (form, len(found) - len(plain), len(plain)))
    for fault in faults:
        print("FAIL     " + fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
