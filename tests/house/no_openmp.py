"""no_openmp.py BUILD_DIR: sources with OpenMP pragmas also compile, without warnings, where there
is no OpenMP (CREMA_OPENMP=OFF, as in the `tsan` preset)."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

NOT_WANTED = {"-fopenmp", "-c", "-MD"}
WITH_VALUE = {"-o", "-MF", "-MT", "-MQ"}


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


def complaint_of(entry):
    run = subprocess.run(without_openmp(entry["command"]), cwd=entry["directory"],
                         capture_output=True, text=True)
    return run.stderr if run.returncode else ""


def main():
    with open(os.path.join(sys.argv[1], "compile_commands.json")) as file:
        entries = json.load(file)
    chosen = {}
    for entry in entries:
        path = entry["file"]
        if "/src/" not in path or not path.endswith(".c") or path in chosen:
            continue
        with open(path) as source:
            if "#pragma omp" in source.read():
                chosen[path] = entry
    if not chosen:
        sys.exit("no source with an OpenMP pragma was found")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(complaint_of, chosen.values()) if text]
    sys.stderr.writelines(complaints)
    sys.exit(1 if complaints else 0)


main()
