#!/usr/bin/env python3
"""Follows a document: makes its files, runs its commands and looks for what it says they print.

Usage: run_document.py DOCUMENT CREMA [PREPARE...]

In an empty folder, in the document's order:
  * "Create `NAME`:" and a block: the block becomes that file.
  * A block ```sh: commands, run by one shell for the whole document, that stops at the first failure.
  * A block ```python: a whole program, run in the same folder. `import caffe` works where the package is built;
    elsewhere, as in the builds with thread sanitizer, the block and its output are skipped.
  * A block ```text after either: what it prints. Each line must be found, in this order; "..." stands
    for anything, and there may be other lines in between.
  * A block ```console: commands that need something a test has not (root, a network, several hosts). They are not
    run, but each `crema COMMAND` in it must be a command, and each of its flags must be in the command's help.
  * A block ```message: what the sources print in cases that the document does not bring about. Each line must
    be a string in src/ or tools/.
  * A table whose first column is "message": each code span in that column must be part of a string in src/ or tools/.
The folder has links to the project's models/, examples/ and data/. crema is installed elsewhere first, and is in the
PATH with its pkg-config file. PREPARE is a command that is run beforehand, with the folder as its first argument.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"  # The interpreter that the package is built for.
STEP = re.compile(r"(?:^Create `(?P<name>[^`]+)`:\n\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


def steps(text):
    """[(what, name, text, line)]: "file", "sh" or "text"; other blocks are left alone."""
    found = []
    for match in STEP.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        kind = "file" if match["name"] else match["kind"]
        if kind in ("file", "sh", "python", "text", "console", "message"):
            found.append((kind, match["name"], match["text"], line))
    return found


def missing_line(wanted, output):
    """The first line of `wanted` that the output does not have where it should; None when all are there."""
    lines, at = output.splitlines(), 0
    for line in wanted.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.rstrip().split("..."))
        while at < len(lines) and not re.fullmatch(pattern, lines[at].rstrip()):
            at += 1
        if at == len(lines):
            return line
        at += 1
    return None


def strings():
    """The strings of the sources as patterns: what printf fills in is anything."""
    found = set()
    for path in [*ROOT.glob("src/**/*.c"), *ROOT.glob("tools/*.c")]:
        for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*', path.read_text()):
            text = re.sub(r'"\s*(?:PRI\w+\s*)?"', "", match.group())[1:-1].replace("\\n", "").replace('\\"', '"')
            found.add(re.sub(r"%%|%[-+ .0-9*]*(?:ll|z|j|h)?[a-zA-Z]",
                             lambda m: "%" if m.group() == "%%" else "...", text))
    return found


def unknown_message(text):
    """The first line that no string of the sources is; None when all are."""
    known = strings()
    return next((line for line in text.splitlines() if line.rstrip() not in known), None)


def lost_messages(text):
    """What tables of messages list and no source prints."""
    listed = [span for table in re.findall(r"^\| message \|.*\n\|[-| :]*\n((?:\|.*\n)*)", text, re.M)
              for row in table.splitlines() for span in re.findall(r"`([^`]+)`", row.split("|")[1])]
    known = strings() if listed else set()
    return [span for span in listed if not any(span in one for one in known)]


def unknown_flag(text, env):
    """The first command or flag of crema in `text` that its help lacks, as text; None when all are there."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        match = re.search(r"\b(?:crema|caffe) ([a-z]\w+)\b(.*)", line.partition("#")[0])
        if not match or match[1] == "help":
            continue
        done = subprocess.run(["crema", "help", match[1]], env=env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            return f"crema {match[1]}"
        for flag in re.findall(r"(?<=\s)--?([a-z]\w*)", match[2]):
            if not re.search(rf"(?<!\w)-{flag}\b", done.stdout):
                return f"crema {match[1]} -{flag}"
    return None


def install(build, prefix):
    """Installs crema; the list of what was installed last is for `make uninstall`, and may be the user's."""
    manifest = build / "install_manifest.txt"
    kept = manifest.read_bytes() if manifest.exists() else None
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)], check=True,
                   stdout=subprocess.DEVNULL)
    if kept is not None:
        manifest.write_bytes(kept)


def sanitizers(library):
    """Flags for programs that use an instrumented library."""
    symbols = subprocess.run(["nm", "-D", str(library)], stdout=subprocess.PIPE, text=True).stdout
    if "__asan_init" in symbols:
        return "-fsanitize=address,undefined"
    return "-fsanitize=thread" if "__tsan_init" in symbols else ""


def environment(prefix, package):
    config = next(prefix.rglob("crema.pc")).parent
    tools = prefix / "tools"
    tools.mkdir()
    flags = sanitizers(config.parent / "libcrema.so")
    (tools / "cc").write_text(f'#!/bin/sh\nexec {shutil.which("cc")} {flags} "$@"\n')
    (tools / "cc").chmod(0o755)
    return dict(os.environ, PATH=f"{tools}:{prefix}/bin:{os.environ['PATH']}", PKG_CONFIG_PATH=str(config),
                LD_LIBRARY_PATH=str(config.parent), PYTHONPATH=str(package), OMP_WAIT_POLICY="passive",
                OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "2"))


class Shell:
    """One bash for all blocks, so that variables live on. It ends after LIMIT seconds, with all it started."""
    LIMIT = 240

    def __init__(self, folder, env):
        self.bash = subprocess.Popen(["bash", "-eu"], cwd=folder, env=env, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     start_new_session=True)
        self.alarm = threading.Timer(self.LIMIT, self.kill)
        self.alarm.start()

    def kill(self):
        try:
            os.killpg(self.bash.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def run(self, commands):
        """What the commands print, and whether they succeeded."""
        mark = "-- the block ends here --"
        try:
            self.bash.stdin.write(f"{commands}\necho '{mark}'\n")
            self.bash.stdin.flush()
        except BrokenPipeError:
            return "", False
        said = []
        for line in self.bash.stdout:
            if line.rstrip() == mark:
                return "".join(said), True
            said.append(line)
        return "".join(said), False

    def end(self):
        self.alarm.cancel()
        self.kill()
        self.bash.communicate()


def has_package(env):
    """Whether a program of the system's Python can `import caffe`."""
    return subprocess.run([PYTHON, "-c", "import caffe"], env=env, stderr=subprocess.DEVNULL).returncode == 0


def follow(document, folder, env):
    """The first fault as text, or None, and how many blocks of commands there were."""
    lost = lost_messages(document.read_text())
    if lost:
        return f"{document.name}: no source prints {lost}", 0
    shell, output, blocks, python = Shell(folder, env), "", 0, None
    try:
        for kind, name, text, line in steps(document.read_text()):
            where = f"{document.name}:{line}"
            if kind == "file":
                (folder / name).write_text(text)
            elif kind == "sh":
                blocks += 1
                output, ok = shell.run(text)
                if not ok:
                    return f"{where}: a command fails:\n{text}{output}", blocks
            elif kind == "python":
                python = has_package(env) if python is None else python
                blocks += 1
                output, ok = shell.run(f"{PYTHON} - <<'PYTHON_ENDS'\n{text}PYTHON_ENDS") if python else (None, True)
                if not ok:
                    return f"{where}: the program fails:\n{text}{output}", blocks
            elif kind == "console":
                unknown = unknown_flag(text, env)
                if unknown is not None:
                    return f"{where}: there is no '{unknown}'", blocks
                blocks += 1
            elif kind == "message":
                unknown = unknown_message(text)
                if unknown is not None:
                    return f"{where}: no source prints '{unknown}'", blocks
            elif output is not None:
                lacks = missing_line(text, output)
                if lacks is not None:
                    return f"{where}: '{lacks}' is not in:\n{output}", blocks
        return None, blocks
    finally:
        shell.end()


def check_itself():
    """A line that is not printed is found, as well as a command that fails."""
    assert unknown_message("out of memory") is None
    assert unknown_message("out of memories") == "out of memories"
    assert lost_messages("| message | x |\n| --- | --- |\n| `of memory` | `y` |\n| `of lead` | |\n") == ["of lead"]
    assert missing_line("a ... c\nd", "x\na b c\ny\nd\n") is None
    assert missing_line("d\na ... c", "a b c\nd\n") == "a ... c"
    assert missing_line("a", "ab\n") == "a"
    with tempfile.TemporaryDirectory() as name:
        page = pathlib.Path(name) / "page.md"
        page.write_text("Create `f`:\n\n```\n1\n```\n\n```sh\nx=$(cat f)\n```\n\n```sh\necho $x\n```\n\n"
                        "```text\n2\n```\n")
        assert "page.md:16: '2'" in follow(page, pathlib.Path(name), dict(os.environ))[0]
        page.write_text("```sh\nfalse\n```\n")
        assert "fails" in follow(page, pathlib.Path(name), dict(os.environ))[0]


def main():
    check_itself()
    document, crema, prepare = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as name:
        prefix, folder = pathlib.Path(name) / "installed", pathlib.Path(name) / "work"
        folder.mkdir()
        install(crema.resolve().parent.parent, prefix)
        for link in ("models", "examples", "data"):
            (folder / link).symlink_to(ROOT / link)
        if prepare:
            subprocess.run([prepare[0], str(folder), *prepare[1:]], check=True)
        package = crema.resolve().parent.parent / "python"
        fault, blocks = follow(document, folder, environment(prefix, package))
    print(fault or f"{document.name}: {blocks} blocks of commands run as it says")
    sys.exit(1 if fault or blocks == 0 else 0)


if __name__ == "__main__":
    main()
