#!/usr/bin/env python3
"""The shape of the code inside its rooms: call cycles between files, and helpers with one caller.

structure.py            checks both gates; prints each breach and exits 1 when there is one
structure.py --helpers [FOLDER]   lists the single-use helpers under src/FOLDER
structure.py --cycles [FOLDER]    lists the call cycles under src/FOLDER

A call cycle is a set of files of one folder, each of which calls into the others and is called back. A
single-use helper is a static function with a body of five lines or fewer that is named in one place only.
Reads the sources as text: names put together by macros are not seen.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/house"))
from gates import strip_comments_and_strings  # noqa: E402

MOST_FILES_IN_A_CYCLE = 4
ROOMS_WITHOUT_LARGE_CYCLES = ["net", "net/common", "net/weights", "net/checks", "memory", "solver", "proto"]
MOST_SINGLE_USE_HELPERS = 449
HELPER_LINES = 5

HEAD = re.compile(r"^(?!typedef|struct|union|enum|#|\})([A-Za-z_][^;{}=#]*?)\b(\w+)\s*\(([^;{}]*)\)\s*\{", re.M)
NOT_A_FUNCTION = {"if", "for", "while", "switch", "return", "sizeof"}


def functions(text):
    """(name, is static, first line, lines between the braces) of each function in a source without comments."""
    for match in HEAD.finditer(text):
        name = match.group(2)
        end = text.find("\n}", match.end())
        if name in NOT_A_FUNCTION or end < 0:
            continue
        # A body on the line of its head ends there.
        line_end = text.find("\n", match.end())
        one_line = "}" in text[match.end():line_end]
        body = 1 if one_line else text.count("\n", match.end(), end)
        yield name, bool(re.search(r"\bstatic\b", match.group(1))), text.count("\n", 0, match.start()) + 1, body


def single_use_helpers(path):
    text = strip_comments_and_strings(path.read_text())
    for name, static, line, body in functions(text):
        if static and body <= HELPER_LINES and len(re.findall(rf"\b{name}\b", text)) == 2:
            yield line, name


def call_graph(folder):
    """Which files of a folder, without its sub-folders, call which."""
    texts = {p.name: strip_comments_and_strings(p.read_text()) for p in sorted(folder.glob("*.c"))}
    home = {name: file for file, text in texts.items() for name, static, _, _ in functions(text) if not static}
    return {file: {home[n] for n in re.findall(r"\b\w+(?=\s*\()", text) if n in home} - {file}
            for file, text in texts.items()}


def cycles(graph):
    """The strongly connected components of more than one node, the largest first."""
    reach = {}
    for start in graph:
        seen, left = set(), [start]
        while left:
            for to in graph[left.pop()] - seen:
                seen.add(to)
                left.append(to)
        reach[start] = seen
    found = {frozenset(b for b in reach[a] if a in reach[b]) for a in graph if a in reach[a]}
    return sorted(map(sorted, found), key=len, reverse=True)


def all_helpers(under=""):
    return [f"{p.relative_to(ROOT)}:{line}: {name}" for p in sorted((ROOT / "src" / under).rglob("*.c"))
            for line, name in single_use_helpers(p)]


def check():
    breaches = []
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"f"}, "f": {"e"}}
    if cycles(graph) != [["a", "b", "c"], ["e", "f"]]:
        breaches.append(f"tests/house/structure.py: the cycles of a known graph are {cycles(graph)}")
    for room in ROOMS_WITHOUT_LARGE_CYCLES:
        if not (ROOT / "src" / room).is_dir():
            breaches.append(f"tests/house/structure.py: there is no room src/{room}")
        for cycle in cycles(call_graph(ROOT / "src" / room)):
            if len(cycle) > MOST_FILES_IN_A_CYCLE:
                breaches.append(f"src/{room}: {len(cycle)} files call each other in a cycle "
                                f"({MOST_FILES_IN_A_CYCLE} at most): {' '.join(cycle)}")
    helpers = len(all_helpers())
    if helpers > MOST_SINGLE_USE_HELPERS:
        breaches.append(f"src: {helpers} single-use helpers of {HELPER_LINES} lines or fewer "
                        f"({MOST_SINGLE_USE_HELPERS} at most)")
    return breaches


def main(arguments):
    under = arguments[1] if len(arguments) > 1 else ""
    if arguments[:1] == ["--helpers"]:
        print("\n".join(all_helpers(under)))
    elif arguments[:1] == ["--cycles"]:
        for folder in [ROOT / "src" / under, *sorted(p for p in (ROOT / "src" / under).rglob("*") if p.is_dir())]:
            for cycle in cycles(call_graph(folder)):
                print(f"{folder.relative_to(ROOT)}: {len(cycle)}: {' '.join(cycle)}")
    else:
        breaches = check()
        print("\n".join([*breaches, f"structure: {len(breaches)} breaches"]))
        sys.exit(1 if breaches else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
