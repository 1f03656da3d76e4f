#!/usr/bin/env python3
"""conformance.py BUILD... OUTPUT: the table of mechanism rows, what proves them and who uses them.
conformance.py --check: whether tests/house/rows.tsv fits the tests and the sources.

Reads what the last test run of each build printed (Testing/Temporary/LastTest.log in the build
folder); a run that is older than the sources is left out. A test proves the rows that its name
begins with: s0_14_s0_15_copies_once stands for S0-14 and S0-15. A skipped test proves nothing. The
tests of a program that did not come to its end fail.

Where a test ran is known by its program (on_fake, in_sim) or by the line that a test prints when it
starts a simulation (tests/simulation.h). Who uses a row is found from the functions that
tests/house/rows.tsv names for it: see scripts/callgraph.py.
"""
import pathlib
import re
import sys

import callgraph

ROOT = callgraph.ROOT
ROWS_FILE = ROOT / "tests/house/rows.tsv"

# How many rows each system has.
ROWS = {"S0": 30, "S1": 53, "S2": 31, "S3": 35, "S4": 60}

# A row, as comments name it.
CODE = re.compile(r"\bS[0-4]-\d\d\b")

# Where tests run: what results() yields, and the heading of its column.
PLACES = {"cpu": "CPU", "simulated": "simulated", "OpenCL (PoCL)": "OpenCL (PoCL)", "fake CUDA": "fake CUDA",
          "GPU": "GPU"}

HEAD = """# Conformance

What proves each row of the mechanisms that crema is built on: S0 the memory automaton, S1 device
contexts, S2 prefetching input, S3 parameter exchange, S4 blobs of many types. Written by
`scripts/conformance.py` from the last run of `make check` and, where there is one, of the tests in `build-cuda`.

The columns *CPU* to *GPU* show where a test of the row passed: on the CPU, on simulated devices, on PoCL, which runs
OpenCL on the CPU, over CUDA libraries that run on the host (*fake CUDA*), on a GPU. A skipped test does not count.
*Used by*: a command and a public call from which the mechanism can be reached, as the sources say; *only tests*: there
is neither.

A code in a comment of the sources, such as S1-08, stands for one of the rows below, which say in a line what it is.

"""


# ---- what ran ----

def programs(log):
    """(name, command, output, whether ctest was content) of each program in a log of ctest."""
    parts = re.split(r"^\d+/\d+ Testing: (\S+)\n", log, flags=re.M)[1:]
    for name, text in zip(parts[::2], parts[1::2]):
        command = re.search(r'^Command: "([^"]*)"', text, re.M)
        passed = re.search(r"^Test Passed\.$", text, re.M) is not None
        yield name, command.group(1) if command else "", text, passed


def place_of_program(name):
    if re.search(r"_(on_fake|without_nccl)$", name):
        return "fake CUDA"
    if re.search(r"(_in)?_sim$", name):
        return "simulated"
    if name.startswith("opencl/"):
        return "OpenCL (PoCL)"
    if re.fullmatch(r"cuda/(kernels|windows|shapes|conformance|train|golden)|.*_cuda", name):
        return "GPU"
    return None


def tests_in(name, command):
    """The tests of rows that a program has: what it can print stands in it, or in its source."""
    for path in (pathlib.Path(command), ROOT / "tests" / re.sub(r"/", "/test_", name, count=1)):
        path = path if path.is_file() else path.with_suffix(".c")
        if path.is_file():
            found = re.findall(rb"\bs\d_\d\d_\w+", path.read_bytes())
            return sorted({f.decode() for f in found})
    return []


def results(log):
    """Yields (program, test, result, place) for each test of rows in a log of ctest."""
    for name, command, text, content in programs(log):
        place, devices, seen, failed = place_of_program(name), set(), {}, False
        for line in text.splitlines():
            if re.match(r"\[ RUN +\]", line):
                devices = set()
            device = re.match(r"\[ *DEVICE *\] (\w+)", line)
            if device:
                devices.add(device.group(1))
            ended = re.match(r"\[ *(OK|FAILED|SKIPPED) *\] (\w+)", line, re.I)
            if not ended or ended.group(2) in seen:
                continue
            failed = failed or ended.group(1).upper() == "FAILED"
            word = {"OK": "pass", "FAILED": "FAIL", "SKIPPED": "skipped"}[ended.group(1).upper()]
            where = place or ("simulated" if "simulated" in devices else "cpu")
            seen[ended.group(2)] = (word, where)
        begun = "[==========] Running" in text
        ended = re.search(r"^\[=+\] \d+ test\(s\) run\.", text, re.M)
        if not content and (not ended or not failed):
            # It crashed: what it had to show is not shown.
            for test in set(seen) | set(tests_in(name, command)):
                seen[test] = ("FAIL", place or "cpu")
        elif begun and not ended:
            for test in tests_in(name, command):
                seen.setdefault(test, ("FAIL", place or "cpu"))
        for test, (word, where) in seen.items():
            if re.match(r"s\d_\d\d", test):
                yield name, test, word, where


def rows_of(test):
    found = []
    while True:
        match = re.match(r"_?s(\d)_(\d\d)", test)
        if not match:
            return found
        found.append(f"S{match.group(1)}-{match.group(2)}")
        test = test[match.end():]


def newest_source():
    return max(p.stat().st_mtime for folder in ("src", "tests", "tools", "include")
               for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts)


def read_builds(builds):
    """All results of the builds' last runs; the same test may have run in several of them."""
    found, sources = [], newest_source()
    for number, build in enumerate(builds):
        log = build / "Testing/Temporary/LastTest.log"
        if number > 0 and (not log.is_file() or log.stat().st_mtime < sources):
            print(f"conformance.py: {build}: no test run since the sources changed; left out",
                  file=sys.stderr)
            continue
        found += results(log.read_text(errors="replace"))
    return sorted(set(found))


# ---- who uses it ----

def read_rows():
    """row -> (mechanism, functions, note)"""
    table = {}
    for line in ROWS_FILE.read_text().splitlines()[1:]:
        row, mechanism, functions, note = line.split("\t")
        table[row] = (mechanism, functions.split(), note)
    return table


def used_by(functions, uses):
    reached, alone = [], []
    for name in functions:
        command, call = uses.of(name)
        if not command and not call:
            alone.append(name)
        elif not reached:
            reached = [f"`crema {command}`"] * bool(command) + [f"`{call}()`"] * bool(call)
    if not reached:
        return "only tests" if functions else ""
    return ", ".join(reached) + "".join(f"; `{name}`: only tests" for name in alone)


# ---- the table ----

def ranges(numbers):
    """[1, 2, 3, 5] as "01-03, 05"."""
    parts = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(f"{a:02}" if a == b else f"{a:02}-{b:02}" for a, b in parts)


def summary(state, places, used):
    """One line a system: how many of its rows are proved, which are not, how many fail, how many PoCL proves,
    which serve tests alone. Then the rows that simulated devices prove and no other devices."""
    lines = ["| system | rows | proved | not proved | failing | proved on OpenCL (PoCL) | used by tests only |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    simulated = []
    for system, count in ROWS.items():
        names = [f"{system}-{n:02}" for n in range(1, count + 1)]
        proved = [r for r in names if state.get(r) == "pass"]
        failing = [r for r in names if state.get(r) == "FAIL"]
        without = [int(r[3:]) for r in names if state.get(r) not in ("pass", "FAIL")]
        alone = [int(r[3:]) for r in names if used.get(r) == "only tests"]
        opencl = [r for r in names if "OpenCL (PoCL)" in places.get(r, ())]
        lines.append(f"| {system} | {count} | {len(proved)} | {ranges(without) or 'none'} "
                     f"| {len(failing)} | {len(opencl)} | {ranges(alone) or 'none'} |")
        only = [int(r[3:]) for r in names if places.get(r, set()) - {"cpu"} == {"simulated"}]
        simulated.append(f"* {system}: {ranges(only) or 'none'}")
    return ("\n".join(lines) + "\n\nDevices with their own memory prove these rows only by simulation:\n\n"
            + "\n".join(simulated) + "\n\n")


def write_table(found, output):
    known, uses = read_rows(), callgraph.Uses()
    of_row = {}
    for program, test, result, place in found:
        for row in rows_of(test):
            of_row.setdefault(row, []).append((program, test, result, place))
    state, places_of, lines, notes, details = {}, {}, [], [], []
    used = {row: used_by(known[row][1], uses) for row in known if row in of_row}
    for row in sorted(of_row):
        entries = of_row[row]
        words = {result for _, _, result, _ in entries}
        state[row] = "FAIL" if "FAIL" in words else "pass" if "pass" in words else "skipped"
        places = {place for _, _, result, place in entries if result == "pass"}
        places_of[row] = places
        mechanism, _, note = known.get(row, ("", [], ""))
        proved = " | ".join("yes" if p in places else "" for p in PLACES)
        lines.append(f"| {row} | {mechanism} | {state[row]} | {proved} | {used.get(row, '')} |")
        if note:
            notes.append(f"* {row}: {note}")
        for program in sorted({e[0] for e in entries}):
            tests = sorted({(t, r) for p, t, r, _ in entries if p == program})
            texts = [f"`{t}`" + ("" if r == "pass" else f" ({r})") for t, r in tests]
            details.append(f"| {row} | {program} | {', '.join(texts)} |")
    failing = sum(word == "FAIL" for word in state.values())
    proved = sum(word == "pass" for word in state.values())
    output.write_text(
        HEAD + summary(state, places_of, used)
        + "## Rows\n\n| row | mechanism | result | " + " | ".join(PLACES.values()) + " | used by |\n"
        + "| --- " * (len(PLACES) + 4) + "|\n" + "\n".join(lines) + "\n\n"
        + "Where the design is another one, or where others do what a row asks for:\n\n"
        + "\n".join(notes) + "\n\n"
        + "## Tests\n\n| row | program | tests |\n| --- | --- | --- |\n" + "\n".join(details)
        + f"\n\n{proved} rows proved, {failing} failing.\n")


# ---- the check ----

def check():
    """Prints what does not fit and returns how much."""
    known, uses, wrong = read_rows(), callgraph.Uses(), []
    for row, (mechanism, functions, _) in known.items():
        if row[:2] not in ROWS or not 1 <= int(row[3:]) <= ROWS[row[:2]] or not mechanism:
            wrong.append(f"{row}: no such row")
        wrong += [f"{row}: there is no function {f}" for f in functions if not uses.exists(f)]
    for path in sorted(p for p in (ROOT / "tests").rglob("*") if p.suffix in (".c", ".sh")):
        for test in set(re.findall(r"\bs\d_\d\d_\w+", path.read_text())):
            wrong += [f"{path.relative_to(ROOT)}: {test}: {row} is not in rows.tsv"
                      for row in rows_of(test) if row not in known]
    for folder in ("src", "include", "tools", "tests"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            wrong += [f"{path.relative_to(ROOT)}: {code} is not in rows.tsv"
                      for code in set(CODE.findall(path.read_text())) if code not in known]
    for line in wrong:
        print(line)
    return len(wrong)


def main():
    if sys.argv[1:] == ["--check"]:
        sys.exit(1 if check() else 0)
    if len(sys.argv) < 3 or sys.argv[-1].startswith("-"):
        sys.exit(__doc__)
    *builds, output = map(pathlib.Path, sys.argv[1:])
    output.parent.mkdir(parents=True, exist_ok=True)
    write_table(read_builds(builds), output)


if __name__ == "__main__":
    main()
