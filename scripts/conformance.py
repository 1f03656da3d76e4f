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

| row | program | test | result |
| --- | --- | --- | --- |
"""


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


def main():
    build, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    log = (build / "Testing/Temporary/LastTest.log").read_text(errors="replace")
    table = sorted({(row, program, test, result) for program, test, result in results(log)
                    for row in rows_of(test)})
    lines = [f"| {row} | {program} | `{test}` | {result} |" for row, program, test, result in table]
    rows = {entry[0] for entry in table}
    failed = {entry[0] for entry in table if entry[3] == "FAIL"}
    total = f"\n{len(rows)} rows with a test, {len(failed)} failing.\n"
    output.write_text(HEAD + "\n".join(lines) + "\n" + total)


if __name__ == "__main__":
    main()
