#!/usr/bin/env python3
"""conformance.py BUILD_DIR OUTPUT: the table of mechanism rows, tests and results.

Reads what the last test run printed (Testing/Temporary/LastTest.log in the build folder). A test
proves the rows that its name begins with: s0_14_s0_15_copies_once stands for S0-14 and S0-15.
"""
import pathlib
import re
import sys

HEAD = """# Conformance

What proves each row of the mechanisms that crema is built on: S0 the memory automaton, S1 device
contexts, S2 prefetching input, S3 parameter exchange, S4 blobs of many types. Written by
`scripts/conformance.py` from the last run of `make test`.

"""

TABLE = """| row | program | test | result |
| --- | --- | --- | --- |
"""

# How many rows each system has.
ROWS = {"S0": 30, "S1": 53, "S2": 31, "S3": 35, "S4": 60}


def results(log):
    """Yields (program, test, result) for every cmocka test in a log of ctest."""
    program = None
    for line in log.splitlines():
        started = re.match(r'"([\w/]+)" start time', line) or re.match(r"\d+/\d+ Testing: (\S+)", line)
        if started:
            program = started.group(1)
        ended = re.match(r"\[\s*(OK|FAILED|SKIPPED)\s*\] (s\d_\d\d\w*)", line, re.I)
        if ended and program:
            word = {"OK": "pass", "FAILED": "FAIL", "SKIPPED": "skipped"}[ended.group(1).upper()]
            yield program, ended.group(2), word


def rows_of(test):
    found = []
    while True:
        match = re.match(r"_?s(\d)_(\d\d)", test)
        if not match:
            return found
        found.append(f"S{match.group(1)}-{match.group(2)}")
        test = test[match.end():]


def ranges(numbers):
    """[1, 2, 3, 5] as "01-03, 05"."""
    parts = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(f"{a:02}" if a == b else f"{a:02}-{b:02}" for a, b in parts)


def summary(table):
    """One line a system: how many of its rows have a test, which have none, how many fail."""
    lines = ["| system | rows | with a test | without | failing |", "| --- | --- | --- | --- | --- |"]
    for system, count in ROWS.items():
        tested = {int(row[3:]) for row, _, _, _ in table if row.startswith(system)}
        failed = {row for row, _, _, result in table if row.startswith(system) and result == "FAIL"}
        without = [n for n in range(1, count + 1) if n not in tested]
        lines.append(f"| {system} | {count} | {len(tested)} | {ranges(without) or 'none'} "
                     f"| {len(failed)} |")
    return "\n".join(lines) + "\n\n"


def main():
    build, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    log = (build / "Testing/Temporary/LastTest.log").read_text(errors="replace")
    table = sorted({(row, program, test, result) for program, test, result in results(log)
                    for row in rows_of(test)})
    lines = [f"| {row} | {program} | `{test}` | {result} |" for row, program, test, result in table]
    rows = {entry[0] for entry in table}
    failed = {entry[0] for entry in table if entry[3] == "FAIL"}
    total = f"\n{len(rows)} rows with a test, {len(failed)} failing.\n"
    output.write_text(HEAD + summary(table) + TABLE + "\n".join(lines) + "\n" + total)


if __name__ == "__main__":
    main()
