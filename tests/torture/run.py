#!/usr/bin/env python3
"""Torture: kills, signals, failing system calls, resumes and equality of runs.

run.py [--short] CREMA INJECTOR [PART...]; a part is kill, resume, signals, calls, equality or places, each
described at the head of its file. PART=NUMBER sets the number of cases; calls:PATTERN takes only the
runs whose names match. Closes with a table of what was
done and found; exits 1 where something failed, 77 where a part cannot run on this machine.
"""
import argparse
import importlib
import pathlib
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing is written beside the sources

import rig as r

# How many cases, in the long and in the short form. 0: all that there are.
PARTS = {
    "kill": (1000, 6),
    "resume": (100, 3),
    "signals": (1000, 8),
    "calls": (0, 12),
    "equality": (0, 0),
    "places": (0, 0),
}


def can_inject(injector):
    """Whether processes may be traced here, and the injector knows the processor."""
    report = pathlib.Path("/dev/null")
    made = subprocess.run([injector, "-report", str(report), "--", "true"], capture_output=True)
    if made.returncode != 0:
        print(f"no faults are injected: {made.stderr.decode().strip() or made.returncode}")
    return made.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="some seconds in all")
    parser.add_argument("crema")
    parser.add_argument("injector")
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    given = parser.parse_args()
    injector = pathlib.Path(given.injector).resolve()
    injector = injector if can_inject(injector) else None
    table, failed, skipped = [], 0, 0
    for word in given.parts:
        name, _, number = word.partition("=")
        name, _, only = name.partition(":")
        if name == "calls" and injector is None:
            skipped += 1
            continue
        cases = int(number) if number else PARTS[name][given.short]
        rig, began = r.Rig(given.crema, injector, given.short), time.monotonic()
        try:
            rig.make_data()
            importlib.import_module(name).run(rig, cases, *([only] if only else []))
        finally:
            rig.close()
        table.append((name, time.monotonic() - began, rig.counts, rig.failures))
        failed += len(rig.failures)
    print()
    for name, seconds, counts, failures in table:
        print(f"{name} ({seconds:.0f} s)")
        for what in sorted(counts):
            print(f"  {counts[what]:7d}  {what}")
        print(f"  {len(failures):7d}  failures")
    return 1 if failed else 77 if skipped == len(given.parts) else 0


if __name__ == "__main__":
    sys.exit(main())
