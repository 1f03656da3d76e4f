#!/usr/bin/env python3
"""What scripts/mutate.py proposes for lines of code: each kind of change, and nothing in strings."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import mutate  # noqa: E402

CASES = [
    ("  if (a < b) f(x, y);", {"  if (a <= b) f(x, y);", "  if (!(a < b)) f(x, y);",
                               "  if (false && (a < b)) f(x, y);", "  if (a < b) f(y, x);",
                               "  if (a < b) ;"}),
    ("  n = m + 1;", {"  n = m - 1;", "  n = m + 0;", "  ;"}),
    ("  for (int i = 0; i < n; i++) {", {"  for (int i = 1; i < n; i++) {",
                                          "  for (int i = 0; i <= n; i++) {"}),
    ("  CR_TRY(f(a));", {"  ;"}),
    ("  s->ready = true;", {"  s->ready = false;", "  ;"}),
    ('  call("a < b, c && d");', {"  ;"}),
    ("  return f(a, a);", set()),
    ("  return calloc(a, b);", set()),
    ("  if (strcmp(a, b) == 0) {", {"  if (strcmp(a, b) != 0) {", "  if (!(strcmp(a, b) == 0)) {",
                                    "  if (false && (strcmp(a, b) == 0)) {"}),
    ("  return memcmp(a, b, n) < 0;", {"  return memcmp(b, a, n) < 0;", "  return memcmp(a, b, n) <= 0;"}),
    ("  const char *p = q;", set()),
    # The larger of two, however it is written.
    ("  return fmaxf(a, b);", set()),
    ("  return a > b ? a : b;", set()),
    ("  if (a > b) a = b;", {"  if (!(a > b)) a = b;", "  if (false && (a > b)) a = b;", "  if (a > b) ;"}),
    ("  return a > b ? a : c;", {"  return a >= b ? a : c;"}),
    ("  if (a > b) a = c;", {"  if (a >= b) a = c;", "  if (!(a > b)) a = c;", "  if (false && (a > b)) a = c;",
                             "  if (a > b) ;"}),
    ("    break;", {"    ;"}),
]


def main():
    wrong = 0
    for line, expected in CASES:
        bare = mutate.blank(line)
        found = {line[:start] + new + line[end:] for _, start, end, new in mutate.edits(bare)}
        if found != expected:
            print(f"{line!r}: expected {sorted(expected)}, found {sorted(found)}")
            wrong += 1
    for change in mutate.changes_of(pathlib.Path("src/core/queue.c")):
        if change.before == change.after or "@" in change.after.replace(change.before, ""):
            print(f"no change, or a lost string: {change}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
