"""other_compilers.py BUILD_DIR no_openmp|clang: sources also compile, without warnings, elsewhere:
those with OpenMP pragmas where there is no OpenMP (CREMA_OPENMP=OFF, as in the `tsan` preset), and
all of them with Clang (as in the `fuzz` preset). Exits with 77 where there is no Clang."""
import concurrent.futures
import json
import os
import shlex
import shutil
import subprocess
import sys

NOT_WANTED = {"-fopenmp", "-c", "-MD"}
WITH_VALUE = {"-o", "-MF", "-MT", "-MQ"}
OF_GCC_ALONE = ("-fno-loop-interchange", "-fno-tree-")


def without_openmp(command):
    out, is_value = [], False
    for word in shlex.split(command):
        if is_value:
            is_value = False
        elif word in WITH_VALUE:
            is_value = True
        elif word not in NOT_WANTED:
            out.append(word)
    return out + ["-Wno-unknown-pragmas", "-fsyntax-only"]


def with_clang(command):
    words = without_openmp(command)
    while not words[0].startswith("-"):  # the compiler, and what starts it
        words.pop(0)
    known = [word for word in words if not word.startswith(OF_GCC_ALONE)]
    return ["clang", "-Wno-unknown-warning-option"] + known


def has_pragma(path):
    with open(path) as source:
        return "#pragma omp" in source.read()


def complaint_of(entry, changed):
    run = subprocess.run(changed(entry["command"]), cwd=entry["directory"], capture_output=True,
                         text=True)
    return run.stderr if run.returncode else ""


def main():
    changed = {"no_openmp": without_openmp, "clang": with_clang}[sys.argv[2]]
    if changed is with_clang and shutil.which("clang") is None:
        print("there is no Clang here")
        sys.exit(77)
    with open(os.path.join(sys.argv[1], "compile_commands.json")) as file:
        entries = json.load(file)
    chosen = {}
    for entry in entries:
        path = entry["file"]
        if "/src/" not in path or not path.endswith(".c"):
            continue
        if path not in chosen and (changed is with_clang or has_pragma(path)):
            chosen[path] = entry
    if not chosen:
        sys.exit("no such source was found")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda entry: complaint_of(entry, changed),
                                                chosen.values()) if text]
    sys.stderr.writelines(complaints)
    sys.exit(1 if complaints else 0)


main()
