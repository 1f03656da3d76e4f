#!/usr/bin/env python3
"""Makes small changes to the code, one at a time, and prints those that no test notices.

    scripts/mutate.py ROOM [--count N] [--seed S] [--jobs N] [--only TEXT]
    scripts/mutate.py ROOM --again FILE

A room is a folder of src/ (ROOMS below). N changes are drawn from all that could be made there: a
condition turned round or never true, a bound off by one, an operator exchanged, a call, an assignment or
a loop's end dropped, two arguments swapped. Each is made in a copy of the tree under build-mutate/,
so the checkout stays as it is. --again tries the changes that a file lists, in the form that survivors are
printed in: have new tests caught them?

The tests of the room and of all public functions (EVERYWHERE) judge: those that run the changed line (gcov has shown that once), the
quickest before the others, and the first failure ends it. What passes is tried again with programs that
end with a failure when they have lost memory, and with --asan in the build with the address sanitizer. The
tests of all other rooms follow, unless --room-only leaves them out.

A change counts as caught when a test fails, crashes or hangs. It is left out when the compiler refuses it, when
it compiles to the same object code, and when tests/equivalent_mutants.tsv names it with the reason why it
changes nothing. The closing line gives the share that was caught; survivors are listed before it, ready to
be pasted into that file or, better, to be given a test.

Changed code may do anything to the machine that it runs on. As root, tests run in a name space of their own
in which only the copy is writable; other users need `unshare` to allow that, or --unprotected.
"""
import argparse
import hashlib
import json
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

# Folders whose .c files belong to a room, those below them that do not, and the tests that are asked first.
ROOMS = {
    "core": (["src/core"], ["src/core/hdf5"], "^core/"),
    "memory": (["src/memory"], [], "^memory/"),
    # The plug-in needs nvcc, and its kernels are judged by tests/cuda.
    "device": (["src/device"], ["src/device/cpu", "src/device/gpu", "src/device/cuda", "src/device/opencl"], "^device/"),
    "data": (["src/data"], [], "^data/"),
    "net": (["src/net"], [], "^net/"),
    "solver": (["src/solver"], [], "^solver/"),
    "parallel": (["src/parallel"], [], "^parallel/"),
    "ops": (["src/ops", "src/device/cpu"], [], "^ops/|^device/waiting$"),
    "layers": (["src/layers"], [], "^layers/(a[^d]|[b-z])"),
    "proto": (["src/proto"], [], "^proto/"),
}
# Call every public function, of whatever room: with NULL, and without memory.
EVERYWHERE = "^house/(arguments|no_memory)$"
# Tests (as CMake writes regular expressions) that look at the text of the tree or at installing, or that need long: they cannot notice.
BLIND = (r"^(house/(gates|headers|fails|mutate|rows|conformance)|models/|torture/)"
         r"|/(add_a_layer|install|setup|pack)$")

# The builds: what judges first, quick to make, and shows which lines a test runs; what tells whether the optimizer
# makes the same of both; with --asan, what judges those that survived and sees what is done with memory.
BUILDS = {
    "quick": ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1 -DNDEBUG --coverage"],
    "asan": ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCREMA_SANITIZE=address,undefined"],
    "release": ["-DCMAKE_BUILD_TYPE=Release"],
}
# Thin archives: most of the time of a small change would go into copying objects.
BUILD_OPTIONS = ["-DCREMA_BENCH=OFF", "-DCREMA_PYTHON=OFF",
                 "-DCMAKE_C_ARCHIVE_CREATE=<CMAKE_AR> qcT <TARGET> <LINK_FLAGS> <OBJECTS>"]

# As the presets have it.
TEST_VARIABLES = {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "2", "CREMA_TEST_SEED": "1",
                  "GCOV_PREFIX": "/tmp/lines"}

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


def is_clamp(code, start, end):
    """Whether the comparison at this operator only chooses between its two sides, as in `if (a < b) a = b;` and
    `a < b ? b : a`: when they are equal, it does not matter which (but for the sign of a zero)."""
    left = re.search(r"(?:\(|= |return |, |[?:] )(-?[\w.>\[\]-]+(?: [-+] \d+)?) $", code[:start])
    if left is None:
        return False
    a = re.escape(left[1])
    right = r" (?P<b>-?[\w.>\[\]-]+(?: [-+] [\w.>\[\]-]+)?)"
    after = code[end:]
    return bool(re.match(rf"{right}\) {a} = (?P=b);", after) or
                re.match(rf"{right} \? (?:{a} : (?P=b)|(?P=b) : {a})(?: [?:]|[,;)])", after))


def edits(code):
    """Yields (what, start, end, new text) for each change that could be made to one line of code."""
    for match in re.finditer(r" (<=|>=|==|!=|&&|\|\||[-+]=|<<|>>|[-<>+*/%|&]) (?!\*)", code):
        if match[1] in ("<", "<=", ">", ">=") and is_clamp(code, match.start(1), match.end(1)):
            continue
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
    # What comes to the same in either order: a product, the larger of two, and whether two are equal.
    for match in re.finditer(r"\b(?!if|while|for|switch|return|sizeof|calloc|cr_format_equal|crema_shape_equal|"
                             r"f(?:min|max)f?\()"
                             r"(\w+)\(([^(),@]+), ([^(),@]+)(?=[,)])", code):
        equality = re.match(r"(?:, [^(),]+)?\) [!=]= 0", code[match.end():])
        if match[2] != match[3] and not (match[1] in ("strcmp", "memcmp", "strncmp") and equality):
            yield "arguments swapped", match.start(2), match.end(3), f"{match[3]}, {match[2]}"
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
        # Definitions start in the first column. What a log line says, and how many bytes were lacking, is for
        # a person to judge. From which size on threads share a loop changes only how long it takes.
        if not bare.startswith(" ") or re.search(
                r"\bassert\(|\bcr_log_|_Static_assert|\bschedule\(static\)", bare):
            continue
        size_named = re.search(r"\bcr_fail_memory\(", bare)
        for what, start, end, new in edits(bare):
            if size_named and start >= size_named.end():
                continue
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
    """A copy of the tree with build folders of its own, in which changes are tried."""

    def __init__(self, folder, args):
        self.tree, self.args = folder / "tree", args
        self.temporary = folder / "tmp"
        self.changed = folder / "changed"  # there while a file is: what a killed run has left
        self.tree.mkdir(parents=True, exist_ok=True)
        self.clear_temporary()
        self.fresh = False  # whether the tree differs from what the last run left
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                               cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
        for name in filter(None, files):
            source, target = ROOT / name, self.tree / name
            if source.is_file() and not (target.exists() and target.read_bytes() == source.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
                self.fresh = True
        self.drop_old(set(files))
        if self.fresh:
            for kept in folder.glob("coverage-*.json"):
                kept.unlink()
        # The neighbours that some tests look at.
        shared = ROOT.parent / "shared"
        if shared.exists() and not (folder / "shared").exists():
            (folder / "shared").symlink_to(shared.resolve())

    def drop_old(self, files):
        """Files that the checkout no longer has."""
        for part in ["src", "tests", "tools", "include", "fuzz", "examples"]:
            for path in (self.tree / part).rglob("*"):
                if path.is_file() and str(path.relative_to(self.tree)) not in files:
                    path.unlink()
                    self.fresh = True

    def clear_temporary(self):
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(exist_ok=True)
        self.temporary.chmod(0o1777)  # tests that give up root write there, too

    def run(self, command, seconds, protect=False, **variables):
        if protect and not self.args.unprotected:
            tree, temporary = shlex.quote(str(self.tree)), shlex.quote(str(self.temporary))
            # The second mount of the tree is for one that lies below /tmp, which hides it. mpirun wants a network.
            script = (f"ip link set lo up; mount --make-rprivate / && mount --bind {tree} {tree} && cd {tree} && "
                      f"mount --bind {temporary} /tmp && mkdir -p {tree} && "
                      f"mount --no-canonicalize --bind . {tree} && mount -t tmpfs none /dev/shm && "
                      f"mount -o remount,bind,ro / && cd {tree} && exec {shlex.join(command)}")
            command = ["unshare", "--mount", "--pid", "--mount-proc", "--net", "--fork", "--kill-child",
                       "sh", "-c", script]
        try:
            return subprocess.run(command, cwd=self.tree, timeout=seconds, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", preexec_fn=limit, start_new_session=True,
                                  env=os.environ | TEST_VARIABLES | variables)
        except subprocess.TimeoutExpired as expired:
            output = expired.stdout or b""
            return subprocess.CompletedProcess(command, 124, output.decode(errors="replace"))

    def build(self, kind):
        return self.tree / f"build-{kind}"

    def configure(self):
        if self.changed.exists():
            path = self.tree / self.changed.read_text()
            for kind in BUILDS:
                self.forget(kind, path.relative_to(self.tree))
            self.changed.unlink()
        for kind, options in BUILDS.items():
            if kind == "asan" and not self.args.asan:
                continue
            done = self.run(["cmake", "-G", "Ninja", "-S", ".", "-B", str(self.build(kind)), *BUILD_OPTIONS,
                             *options], 300)
            if done.returncode == 0 and kind == "quick":
                self.find_tests(kind)
                done = self.compile(kind, self.targets if self.args.room_only else [])
            if done.returncode != 0:
                sys.exit(f"The tree does not build:\n{done.stdout}")

    def compile(self, kind, targets):
        return self.run(["ninja", "-j", "2", "-C", str(self.build(kind)), *targets], 3600)

    def test(self, kind, *choice, limit=300, **variables):
        """Runs tests; one that fails gets a second chance, so that chance catches nothing. One that does not
        end gets none."""
        command = ["ctest", "--test-dir", str(self.build(kind)), "--timeout", str(limit), "--stop-on-failure",
                   "--output-on-failure", "--no-tests=error", *choice]
        done = self.run(command, 3600, protect=True, **variables)
        if done.returncode != 0 and "***Timeout" not in done.stdout:
            done = self.run(command, 3600, protect=True, **variables)
        return done

    def find_tests(self, kind):
        """The tests of the room, each with the program that it runs. (ctest's own listing lacks the
        programs that are not built yet.)"""
        listed = (self.build(kind) / "tests/CTestTestfile.cmake").read_text()
        known = self.run(["ninja", "-C", str(self.build(kind)), "-t", "targets", "all"], 60).stdout
        self.targets_of = {}
        self.programs = {}
        for name, command in re.findall(r"^add_test\(\[=\[(.*?)\]=\] (.*)\)$", listed, re.M):
            if re.search(self.args.tests, name):
                programs = re.findall(rf"/build-{kind}/(?:tests|bin)/(\w+)", command)
                targets = {"crema_cli" if p == "crema" else p for p in programs}
                self.programs[name] = sorted(t for t in targets if re.search(rf"^{t}: phony", known, re.M))
        self.targets = sorted({t for targets in self.programs.values() for t in targets})

    def objects(self, kind, path):
        """The objects compiled from the file: a plain kernel has one for each element type, f32 first."""
        if kind not in self.targets_of:
            self.targets_of[kind] = self.run(["ninja", "-C", str(self.build(kind)), "-t", "targets", "all"], 60).stdout
        places = [f"src/CMakeFiles/crema_{name}.dir/{str(path)[len('src/'):]}.o"
                  for name in ("ref_f32", "ref_f64", "ref_f16", "ref_bf16", "objects")]
        return [self.build(kind) / place for place in places if f"{place}: " in self.targets_of[kind]]

    def object(self, kind, path):
        return self.objects(kind, path)[0]

    def forget(self, kind, path):
        for built in self.objects(kind, path):
            built.unlink(missing_ok=True)

    def survey(self, paths):
        """Which lines each test of the room runs, and how long it takes: kept until the tree changes."""
        kept = self.tree.parent / f"coverage-{self.args.room}.json"
        if kept.exists():
            self.lines, self.seconds = json.loads(kept.read_text())
            return
        self.lines, self.seconds = {}, {}
        for name in self.programs:
            begin = time.monotonic()
            done = self.test("quick", "-R", exactly(name))
            if done.returncode != 0:
                sys.exit(f"The tests do not pass on the unchanged tree:\n{done.stdout[-4000:]}")
            self.seconds[name] = time.monotonic() - begin
            self.lines[name] = {str(p): self.lines_run(p) for p in paths}
            self.clear_temporary()
        kept.write_text(json.dumps([self.lines, self.seconds]))

    def lines_run(self, path):
        """The lines of one file that the last test has run; those that have no code count with the one before."""
        notes = self.object("quick", path).with_suffix(".gcno")
        counts = pathlib.Path(f"{self.temporary}/lines{notes}").with_suffix(".gcda")
        if not counts.exists():
            return []
        shutil.copy(notes, counts.parent)
        found = self.run(["gcov", "--json-format", "--stdout", str(counts)], 60).stdout
        lines = {}
        for file in json.loads(found)["files"]:
            if file["file"].endswith(str(path)):
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[number] = lines.get(number, False) or line["count"] > 0
        last, run = False, []
        for number in range(1, max(lines, default=0) + 1):
            last = lines.get(number, last)
            if last:
                run.append(number)
        return run

    def runs(self, name, change):
        return change.line in self.lines[name].get(str(change.path), [])

    def attempt(self, change):
        """Returns "refused", "same code", "caught by ..." or "survived"."""
        self.path = self.tree / change.path
        self.original, self.made = self.path.read_text(), self.path.stat()
        self.changed.write_text(str(change.path))
        try:
            end = self.compare("quick", change) or self.judge("quick", change)
            end = end or self.compare("release", change) or self.judge_leaks(change)
            if self.args.asan:
                end = end or self.compare("asan", change) or self.judge("asan", change)
            if end is not None:
                return end
            return "survived" if self.args.room_only else self.judge_all()
        finally:
            self.restore(change)
            self.changed.unlink()
            self.clear_temporary()

    def change(self, change):
        lines = self.original.split("\n")
        lines[change.line - 1] = change.after
        self.path.write_text("\n".join(lines))

    def restore(self, change):
        """With its old time the file is as it was to builds that never saw the change."""
        if self.path.read_text() == self.original:
            return
        self.path.write_text(self.original)
        os.utime(self.path, ns=(self.made.st_atime_ns, self.made.st_mtime_ns))
        for kind in BUILDS:
            self.forget(kind, change.path)

    def compare(self, kind, change):
        """Compiles the file without and with the change: "refused", "same code", or None for neither."""
        built = self.object(kind, change.path)
        target = [str(built.relative_to(self.build(kind)))]
        self.restore(change)
        if self.compile(kind, target).returncode != 0:
            sys.exit(f"{change.path} does not compile unchanged")
        before = digest(built)
        self.change(change)
        if self.compile(kind, target).returncode != 0:
            return "refused"
        return "same code" if digest(built) == before else None

    def near(self, change):
        names = [n for n in self.programs if self.runs(n, change)]
        return sorted(names, key=lambda name: self.seconds[name])

    def judge(self, kind, change):
        """Asks the tests of the room that run the changed line, the quickest first, and at last those of which
        that is not known, because a process of theirs that is killed tells nothing. A line that none is seen
        to run may be run by any."""
        near = self.near(change)
        far = [n for n in self.programs if n not in near and (not near or is_silent(n))]
        for name in near + (far if kind == "quick" else []):
            if self.compile(kind, self.programs[name]).returncode != 0:
                return "refused"
            # A test that takes five times as long as usual hangs; twenty seconds more for a machine that is busy.
            limit = int(20 + 5 * self.seconds[name])
            if self.test(kind, "-R", exactly(name), limit=limit).returncode != 0:
                return f"caught by {name}" if kind == "quick" else self.confirm(kind, change, name)
        return None

    def judge_leaks(self, change):
        """The same objects, linked with the leak sanitizer. What is lost where the line is run is lost in
        whatever test, so the quickest few are enough; some do not bear its allocator."""
        for name in self.near(change)[:5]:
            if self.leaks(name):
                self.restore(change)
                if not self.leaks(name):
                    return f"caught by {name} (leak)"
                self.change(change)
        return None

    def leaks(self, name):
        programs = [p for p in self.programs[name] if p.startswith("test_")]
        if not programs or self.compile("quick", programs).returncode != 0:
            return False
        target = programs[0]
        link = self.run(["ninja", "-C", str(self.build("quick")), "-t", "commands", target], 60).stdout
        link = link.strip().splitlines()[-1].replace(" -o ", " -fsanitize=leak -o ", 1)
        self.run(["sh", "-c", f"cd {shlex.quote(str(self.build('quick')))} && {link}"], 300)
        done = self.test("quick", "-R", exactly(name))
        (self.build("quick") / "tests" / target).unlink(missing_ok=True)
        return done.returncode != 0

    def confirm(self, kind, change, name):
        """Only the quick build was known to pass."""
        self.restore(change)
        if self.compile(kind, self.programs[name]).returncode != 0 or \
                self.test(kind, "-R", exactly(name)).returncode != 0:
            sys.exit(f"{name} does not pass on the unchanged tree ({kind})")
        return f"caught by {name} ({kind})"

    def judge_all(self):
        if self.compile("quick", []).returncode != 0:
            return "caught by the build"
        done = self.test("quick", "-E", f"{BLIND}|{self.args.tests}")
        return "survived" if done.returncode == 0 else "caught by " + failed(done.stdout)


def source_of(name):
    """The text of a test; "" for a script."""
    path = (ROOT / "tests" / name.replace("/", "/test_", 1)).with_suffix(".c")
    return path.read_text() if path.exists() else ""


def is_silent(name):
    """Whether a test has processes that do not tell which lines they ran."""
    return source_of(name) == "" or re.search(r"SIGKILL|_exit\(|exec[lv]", source_of(name)) is not None


def exactly(name):
    """The test of this name, as ctest wants it."""
    return f"^{re.escape(name)}$"


def digest(path):
    return hashlib.sha256(path.read_bytes()).digest()


def limit():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def failed(output):
    match = re.search(r"Test\s+#\d+: (\S+) \.*\s*\*\*\*", output)
    return match[1] if match else "a test that hangs"


def room_files(args):
    folders, others, tests = ROOMS[args.room]
    args.tests = f"{tests}|{EVERYWHERE}"
    files = [p.relative_to(ROOT) for f in folders for p in sorted((ROOT / f).rglob("*.c"))]
    return [p for p in files if not any(str(p).startswith(o + "/") for o in others)]


def draw(args, files):
    """The changes to try, in a random order."""
    files = [p for p in files if not args.only or args.only in str(p)]
    known = known_equivalents()
    possible = [c for p in files for c in changes_of(p) if c.key() not in known]
    if args.again:
        return listed(args.again, possible)
    random.Random(args.seed).shuffle(possible)
    return possible


def listed(path, possible):
    """Those of the changes that a file lists: by the file, the line before and the line after."""
    wanted = set()
    for line in path.read_text().splitlines():
        fields = line.split("\t")[-4:]
        if len(fields) == 4:
            wanted.add((fields[0].split(":")[0], fields[2], fields[3]))
    return [c for c in possible if c.key() in wanted]


def check_green(copy, args):
    """The unchanged tree has to pass, or else everything would count as caught. (The survey has asked the
    tests of the room.)"""
    done = None if args.room_only else copy.test("quick", "-E", f"{BLIND}|{args.tests}")
    if done is not None and done.returncode != 0:
        sys.exit(f"The tests do not pass on the unchanged tree:\n{done.stdout[-4000:]}")


def work(copy, waiting, tried, args, lock):
    while True:
        with lock:
            counted = sum(1 for _, end in tried if end not in ("refused", "same code"))
            if counted >= args.count or time.monotonic() > args.end:
                return
        try:
            change = waiting.get_nowait()
        except queue.Empty:
            return
        begin = time.monotonic()
        end = copy.attempt(change)
        with lock:
            tried.append((change, end))
            if args.verbose:
                print(f"{time.monotonic() - begin:.0f} s", end="\t")
            if args.verbose or end == "survived":
                print(f"{end}\t{change}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Prints small changes that no test notices.")
    parser.add_argument("room", choices=sorted(ROOMS))
    parser.add_argument("--count", type=int, default=40, help="changes to try (those that compile)")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no change after so many minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that work at once")
    parser.add_argument("--again", type=pathlib.Path, help="try the changes that a file lists")
    parser.add_argument("--only", help="only files whose path has this in it")
    parser.add_argument("--room-only", action="store_true", help="ask the tests of the room alone")
    parser.add_argument("--asan", action="store_true", help="judge with the address sanitizer, too")
    parser.add_argument("--list", action="store_true", help="list the drawn changes, try none")
    parser.add_argument("--verbose", action="store_true", help="print what is caught, too")
    parser.add_argument("--unprotected", action="store_true", help="run changed code without a name space")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build-mutate")
    args = parser.parse_args()
    files = room_files(args)
    possible = draw(args, files)
    if args.list:
        print(*possible[:args.count], sep="\n")
        return
    copies = [Copy((args.folder / str(i)).resolve(), args) for i in range(args.jobs)]
    for copy in copies:
        copy.configure()
        copy.survey(files)
    if copies[0].fresh:
        check_green(copies[0], args)
    args.end = time.monotonic() + 60 * args.minutes
    waiting, tried, lock = queue.Queue(), [], threading.Lock()
    for change in possible:
        waiting.put(change)
    threads = [threading.Thread(target=work, args=(c, waiting, tried, args, lock)) for c in copies]
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
