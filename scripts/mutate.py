#!/usr/bin/env python3
"""Makes small changes to the code, one at a time, and prints those that no test notices.

    scripts/mutate.py ROOM [--count N] [--seed S] [--jobs N] [--only TEXT]

A room is a folder of src/ (ROOMS below). N changes are drawn from all that could be made there: a
condition turned round or never true, a bound off by one, an operator exchanged, a call, an assignment or
a loop's end dropped, two arguments swapped. Each is made in a copy of the tree under build-mutate/,
so the checkout stays as it is. The tests of the room run first and, where these pass, all the others
that look at behaviour.

A change counts as caught when a test fails, crashes or hangs. It is left out when the compiler refuses it, when
it compiles to the same object code, and when tests/equivalent_mutants.tsv names it with the reason why it
changes nothing. The closing line gives the share that was caught; survivors are listed before it, ready to
be pasted into that file or, better, to be given a test.

Changed code may do anything to the machine that it runs on. As root, tests run in a name space of their own
in which only the copy is writable; other users need `unshare` to allow that, or --unprotected.
"""
import argparse
import hashlib
import os
import pathlib
import queue
import random
import re
import resource
import shlex
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
KNOWN = ROOT / "tests/equivalent_mutants.tsv"

# Folders whose .c files belong to a room, and the tests that are asked first.
ROOMS = {
    "core": (["src/core"], "^core/"),
    "memory": (["src/memory"], "^memory/"),
    "device": (["src/device", "src/device/memory", "src/device/sim"], "^device/"),
    "data": (["src/data/db", "src/data/image", "src/data/augment", "src/data/pipeline"], "^data/"),
    "net": (["src/net"], "^net/"),
    "solver": (["src/solver"], "^solver/"),
    "ops": (["src/ops", "src/device/cpu"], "^ops/"),
    "layers": (["src/layers", "src/layers/common", "src/layers/data", "src/layers/loss", "src/layers/shape"], "^layers/(a[^d]|[b-z])"),
    "proto": (["src/proto"], "^proto/"),
}
# Tests (as CMake writes regular expressions) that look at the text of the tree or at installing, or that need long: they cannot notice.
BLIND = (r"^(house/(gates|headers|fails|mutate|rows|conformance)|models/|torture/)"
         r"|/(add_a_layer|install|setup|pack)$")
TEST_SECONDS = 30

# As the presets have it.
TEST_VARIABLES = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2", "CREMA_TEST_SEED": "1"}

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
         "+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+=", "<<": ">>", ">>": "<<",
         "|": "&", "&": "|"}


class Change:
    """One small change of one line: `before` and `after` are the line's text, stripped."""

    def __init__(self, path, line, what, before, after):
        self.path, self.line, self.what = path, line, what
        self.before, self.after = before, after

    def key(self):
        return str(self.path), self.before.strip(), self.after.strip()

    def __str__(self):
        return "\t".join([f"{self.path}:{self.line}", self.what, self.before.strip(),
                          self.after.strip()])


def blank(text):
    """The text with comments, strings and characters replaced by `@`, of the same length."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", "@", m.group()), text)


def closing(code, start):
    """The index of the parenthesis that closes the one at `start`; -1 when not in this line."""
    depth = 0
    for i in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i
    return -1


def edits(code):
    """Yields (what, start, end, new text) for each change that could be made to one line of code."""
    for match in re.finditer(r" (<=|>=|==|!=|&&|\|\||[-+]=|<<|>>|[-<>+*/%|&]) (?!\*)", code):
        yield f"operator {match[1]}", match.start(1), match.end(1), SWAPS[match[1]]
    for match in re.finditer(r" [-+] 1\b(?![.x])", code):
        yield "off by one", match.start(), match.end(), match[0][:-1] + "0"
    for match in re.finditer(r"\bfor \((?:\w+ )?\w+ = (0);", code):
        yield "first left out", match.start(1), match.end(1), "1"
    for match in re.finditer(r"\b(true|false)\b", code):
        yield "constant", match.start(), match.end(), "false" if match[0] == "true" else "true"
    for match in re.finditer(r"\b(?:if|while) (\()", code):
        end = closing(code, match.start(1))
        if end > 0:
            inner = code[match.start(1) + 1:end]
            yield "condition turned round", match.start(1) + 1, end, f"!({inner})"
            yield "condition never true", match.start(1) + 1, end, f"false && ({inner})"
    for match in re.finditer(r"\b(?!if|while|for|switch|return|sizeof)\w+\(([^(),@]+), ([^(),@]+)(?=[,)])",
                             code):
        if match[1] != match[2]:
            yield "arguments swapped", match.start(1), match.end(2), f"{match[2]}, {match[1]}"
    whole = re.fullmatch(r"(\s*(?:if \(.*\) |else )?)((?:\(void\))?[a-zA-Z_]\w*\(.*\);)", code)
    if whole and not whole[2].startswith(("if", "while", "for", "switch", "return", "sizeof")):
        yield "call dropped", whole.start(2), whole.end(2), ";"
    whole = re.fullmatch(r"(\s*(?:if \(.*\) |else )?)([*\w.>\[\]-]+ [-+*|&]?= .*;)", code)
    if whole:
        yield "assignment dropped", whole.start(2), whole.end(2), ";"
    whole = re.fullmatch(r"\s*(?:if \(.*\) )?((?:break|continue);)", code)
    if whole:
        yield "jump dropped", whole.start(1), whole.end(1), ";"


def changes_of(path):
    """All changes that could be made to one file."""
    text = (ROOT / path).read_text()
    code = blank(text)
    found = []
    for number, (line, bare) in enumerate(zip(text.split("\n"), code.split("\n")), 1):
        # Definitions start in the first column. What a log line says is for a person to judge.
        if not bare.startswith(" ") or re.search(r"\bassert\(|\bcr_log_|_Static_assert", bare):
            continue
        for what, start, end, new in edits(bare):
            old = bare[start:end]
            if "@" in old:  # the new text is made of the old one: of the one with its strings
                new = new.replace(old, line[start:end])
            if "@" in new:
                continue
            found.append(Change(path, number, what, line, line[:start] + new + line[end:]))
    return found


def known_equivalents():
    known = set()
    if KNOWN.exists():
        for line in KNOWN.read_text().splitlines()[1:]:
            path, before, after, _reason = line.split("\t")
            known.add((path, before, after))
    return known


class Copy:
    """A copy of the tree with a build folder of its own, in which changes are tried."""

    def __init__(self, folder, args):
        self.tree, self.args = folder / "tree", args
        self.build = self.tree / "build"
        self.temporary = folder / "tmp"
        self.changed = folder / "changed"  # there while a file is: what a killed run has left
        self.tree.mkdir(parents=True, exist_ok=True)
        self.clear_temporary()
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                               cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
        for name in filter(None, files):
            source, target = ROOT / name, self.tree / name
            if source.is_file() and not (target.exists() and target.read_bytes() == source.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        # The neighbours that some tests look at.
        shared = ROOT.parent / "shared"
        if shared.exists() and not (folder / "shared").exists():
            (folder / "shared").symlink_to(shared.resolve())

    def clear_temporary(self):
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(exist_ok=True)
        self.temporary.chmod(0o1777)  # tests that give up root write there, too

    def run(self, command, seconds, protect=False):
        if protect and not self.args.unprotected:
            tree, temporary = shlex.quote(str(self.tree)), shlex.quote(str(self.temporary))
            script = (f"mount --make-rprivate / && mount --bind {tree} {tree} && "
                      f"mount --bind {temporary} /tmp && mount -t tmpfs none /dev/shm && "
                      f"mount -o remount,bind,ro / && cd {tree} && exec {shlex.join(command)}")
            command = ["unshare", "--mount", "--pid", "--mount-proc", "--net", "--fork", "--kill-child",
                       "sh", "-c", script]
        try:
            return subprocess.run(command, cwd=self.tree, timeout=seconds, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", preexec_fn=limit, start_new_session=True,
                                  env=os.environ | TEST_VARIABLES)
        except subprocess.TimeoutExpired as expired:
            output = expired.stdout or b""
            return subprocess.CompletedProcess(command, 124, output.decode(errors="replace"))

    def configure(self):
        if self.changed.exists():
            (self.tree / self.changed.read_text()).touch()
            self.changed.unlink()
        done = self.run(["cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release",
                         "-DCREMA_BENCH=OFF"], 300)
        if done.returncode == 0:
            done = self.compile([])
        if done.returncode != 0:
            sys.exit(f"The tree does not build:\n{done.stdout}")

    def compile(self, targets):
        return self.run(["ninja", "-C", "build", *targets], 1200)

    def test(self, *choice):
        """Runs tests; one that fails gets a second chance, so that chance catches nothing."""
        return self.run(["ctest", "--test-dir", "build", "--timeout", str(TEST_SECONDS), "--repeat",
                         "until-pass:2", "--stop-on-failure", "--output-on-failure", "--no-tests=error",
                         *choice], 3600, protect=True)

    def object(self, path):
        return self.build / "src/CMakeFiles/crema_objects.dir" / (str(path)[len("src/"):] + ".o")

    def object_hash(self, path):
        return hashlib.sha256(self.object(path).read_bytes()).digest()

    def room_targets(self):
        """The programs that the room's own tests run."""
        listing = self.run(["ctest", "--test-dir", "build", "-N", "-V", "-R", self.args.tests], 60).stdout
        programs = set(re.findall(re.escape(str(self.build)) + r"/(?:tests|bin)/(\w+)", listing))
        known = self.run(["ninja", "-C", "build", "-t", "targets", "all"], 60).stdout
        names = {"crema": "crema_cli"}
        targets = {names.get(p, p) for p in programs}
        return sorted(t for t in targets if re.search(rf"^{t}: phony", known, re.M))

    def attempt(self, change):
        """Returns "refused", "same code", "caught by ..." or "survived"."""
        path = self.tree / change.path
        self.changed.write_text(str(change.path))
        original = path.read_text()
        before = self.object_hash(change.path)
        lines = original.split("\n")
        lines[change.line - 1] = change.after
        path.write_text("\n".join(lines))
        try:
            target = str(self.object(change.path).relative_to(self.build))
            if self.compile([target]).returncode != 0:
                return "refused"
            if self.object_hash(change.path) == before:
                return "same code"
            return self.judge()
        finally:
            path.write_text(original)
            self.changed.unlink()
            self.clear_temporary()

    def judge(self):
        if self.compile(self.args.targets).returncode != 0:
            return "refused"
        done = self.test("-R", self.args.tests)
        if done.returncode != 0:
            return "caught by " + failed(done.stdout)
        if self.args.room_only:
            return "survived"
        if self.compile([]).returncode != 0:
            return "caught by the build"
        done = self.test("-E", f"{BLIND}|{self.args.tests}")
        return "survived" if done.returncode == 0 else "caught by " + failed(done.stdout)


def limit():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def failed(output):
    match = re.search(r"Test\s+#\d+: (\S+) \.*\s*\*\*\*", output)
    return match[1] if match else "a test that hangs"


def draw(args):
    """The changes to try, in a random order, and what could be made in all."""
    folders, args.tests = ROOMS[args.room]
    files = [p.relative_to(ROOT) for f in folders for p in sorted((ROOT / f).glob("*.c"))]
    files = [p for p in files if not args.only or args.only in str(p)]
    known = known_equivalents()
    possible = [c for p in files for c in changes_of(p) if c.key() not in known]
    random.Random(args.seed).shuffle(possible)
    return possible


def check_green(copy, args):
    """The unchanged tree has to pass, or else everything would count as caught."""
    done = copy.test("-R", args.tests) if args.room_only else copy.test("-E", BLIND)
    if done.returncode != 0:
        sys.exit(f"The tests do not pass on the unchanged tree:\n{done.stdout[-4000:]}")


def work(copy, todo, tried, args, lock):
    while True:
        with lock:
            counted = sum(1 for _, end in tried if end not in ("refused", "same code"))
            if counted >= args.count or time.monotonic() > args.end:
                return
        try:
            change = todo.get_nowait()
        except queue.Empty:
            return
        end = copy.attempt(change)
        with lock:
            tried.append((change, end))
            if args.verbose or end == "survived":
                print(f"{end}\t{change}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Prints small changes that no test notices.")
    parser.add_argument("room", choices=sorted(ROOMS))
    parser.add_argument("--count", type=int, default=40, help="changes to try (those that compile)")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no change after so many minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that work at once")
    parser.add_argument("--only", help="only files whose path has this in it")
    parser.add_argument("--room-only", action="store_true", help="ask the tests of the room alone")
    parser.add_argument("--list", action="store_true", help="list the drawn changes, try none")
    parser.add_argument("--verbose", action="store_true", help="print what is caught, too")
    parser.add_argument("--unprotected", action="store_true", help="run changed code without a name space")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build-mutate")
    args = parser.parse_args()
    possible = draw(args)
    if args.list:
        print(*possible[:args.count], sep="\n")
        return
    copies = [Copy((args.folder / str(i)).resolve(), args) for i in range(args.jobs)]
    for copy in copies:
        copy.configure()
    args.targets = copies[0].room_targets()
    check_green(copies[0], args)
    args.end = time.monotonic() + 60 * args.minutes
    todo, tried, lock = queue.Queue(), [], threading.Lock()
    for change in possible:
        todo.put(change)
    threads = [threading.Thread(target=work, args=(c, todo, tried, args, lock)) for c in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ends = [end for _, end in tried]
    caught = sum(end.startswith("caught") for end in ends)
    survived = ends.count("survived")
    total = caught + survived
    print(f"{args.room}: {len(possible)} changes possible, {total} tried (seed {args.seed}): {caught} caught, "
          f"{survived} not, {100 * caught / max(total, 1):.0f} %; refused by the compiler "
          f"{ends.count('refused')}, same code {ends.count('same code')}")


if __name__ == "__main__":
    main()
