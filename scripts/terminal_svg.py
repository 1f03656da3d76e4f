#!/usr/bin/env python3
"""terminal_svg.py: runs crema in a terminal and draws docs/images/terminal.svg, the animation of the README.

The output is that of real runs in a pseudo-terminal. Waiting is shortened: a run longer than SHOWN seconds is replayed
in that time. Needs build/bin/crema, and MNIST as `make run` makes it.
"""
import html
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
import fcntl

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGE = ROOT / "docs/images/terminal.svg"
COLUMNS, ROWS, SHOWN, STEP = 100, 24, 6.0, 0.25
LETTER, LINE, PAD, BAR = 7.5, 17, 14, 30
COLOURS = {"31": "#ff8f7e", "32": "#a8d28a", "33": "#f0c674", "34": "#8ab6e8", "35": "#d6a4d9", "36": "#87c7c0",
           "2": "#9a938a", "90": "#9a938a", "1": "#ffffff"}
TYPO = """net: "net.prototxt"
base_lr: 0.01
lr_polcy: "fixed"
max_iter: 100
"""


def record(command, folder):
    """[(seconds, bytes)] that a command writes to a terminal, and its exit status."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = dict(os.environ, PATH=f"{ROOT}/build/bin:{os.environ['PATH']}", TERM="xterm-256color")
    environment.pop("NO_COLOR", None)
    start, chunks = time.monotonic(), []
    with subprocess.Popen(command, shell=True, cwd=folder, env=environment, stdin=child, stdout=child,
                          stderr=child) as process:
        os.close(child)
        while True:
            ready, _, _ = select.select([parent], [], [], 0.05)
            if not ready:
                if process.poll() is not None:
                    break
                continue
            try:
                data = os.read(parent, 65536)
            except OSError:  # the terminal was closed with the process
                break
            if not data:
                break
            chunks.append((time.monotonic() - start, data))
    os.close(parent)
    return chunks


class Screen:
    """The part of a terminal that crema's output needs: carriage return, erase, colours and scrolling."""

    def __init__(self):
        self.rows, self.x, self.y, self.style = [[]], 0, 0, ""

    def put(self, letter):
        row = self.rows[self.y]
        row += [(" ", "")] * (self.x + 1 - len(row))
        row[self.x] = (letter, self.style)
        self.x += 1

    def new_line(self):
        self.y, self.x = self.y + 1, 0
        self.rows.append([])

    def control(self, parameters, kind):
        if kind == "m":
            for code in parameters.split(";"):
                self.style = COLOURS.get(code, self.style) if code not in ("", "0", "39", "22") else ""
        elif kind == "K":
            row = self.rows[self.y]
            del row[0 if parameters == "2" else self.x:]
        elif kind == "A":
            self.y = max(0, self.y - int(parameters or 1))

    def write(self, text):
        for match in re.finditer(r"\x1b\[([?\d;]*)([A-Za-z])|(.)", text, re.S):
            parameters, kind, letter = match.groups()
            if kind:
                self.control(parameters, kind)
            elif letter == "\n":
                self.new_line()
            elif letter == "\r":
                self.x = 0
            elif letter >= " ":
                if self.x == COLUMNS:
                    self.new_line()
                self.put(letter)

    def shown(self):
        """The rows of the window, each a tuple of (text, colour) runs."""
        lines = []
        for row in self.rows[-ROWS:]:
            runs = []
            for letter, style in row:
                if runs and runs[-1][1] == style:
                    runs[-1][0] += letter
                else:
                    runs.append([letter, style])
            lines.append(tuple(map(tuple, runs)))
        return tuple(lines + [()] * (ROWS - len(lines)))


class Film:
    """Screens with the second at which each appears."""

    def __init__(self):
        self.screen, self.now, self.frames = Screen(), 0.0, []

    def show(self, text, seconds):
        self.screen.write(text)
        self.frames.append((self.now, self.screen.shown()))
        self.now += seconds

    def play(self, shown, chunks, pause=1.6):
        """Types a command and replays its output."""
        self.show("\x1b[32m$\x1b[0m ", 0.4)
        for at in range(0, len(shown), 4):
            self.show(shown[at:at + 4], 0.06)
        self.show("\r\n", 0.3)
        length = chunks[-1][0] if chunks else 0
        scale, start, waiting = min(1.0, SHOWN / length) if length else 1.0, self.now, ""
        for i, (at, data) in enumerate(chunks):
            waiting += data.decode(errors="replace")
            following = start + (chunks[i + 1][0] if i + 1 < len(chunks) else length) * scale
            if following - self.now >= STEP or i + 1 == len(chunks):
                self.now = max(self.now, start + at * scale)
                self.show(waiting, 0)
                self.now, waiting = max(self.now, following), ""
        self.now += pause


def spans(runs):
    parts = []
    for text, colour in runs:
        fill = f' fill="{colour}"' if colour else ""
        parts.append(f"<tspan{fill}>{html.escape(text)}</tspan>" if fill else html.escape(text))
    return "".join(parts)


def draw(film):
    """Each row's text is one element that is visible from its first to its last frame; the animation repeats."""
    total, parts = film.now, []
    for row in range(ROWS):
        changes = [(at, screen[row]) for at, screen in film.frames]
        at = 0
        while at < len(changes):
            end = at
            while end < len(changes) and changes[end][1] == changes[at][1]:
                end += 1
            runs = changes[at][1]
            if "".join(text for text, _ in runs).strip():
                first, last = changes[at][0] / total, changes[end][0] / total if end < len(changes) else 1
                key, values = f"0;{first:.4f};{last:.4f}", "hidden;visible;hidden"
                if last >= 1:
                    key, values = f"0;{first:.4f}", "hidden;visible"
                parts.append(f'<text x="{PAD}" y="{BAR + PAD + row * LINE + 12}" xml:space="preserve">{spans(runs)}'
                             f'<animate attributeName="visibility" dur="{total:.1f}s" repeatCount="indefinite" '
                             f'calcMode="discrete" keyTimes="{key}" values="{values}"/></text>')
            at = end
    width, height = int(COLUMNS * LETTER + 2 * PAD), BAR + 2 * PAD + ROWS * LINE
    dots = "".join(f'<circle cx="{18 + 18 * i}" cy="15" r="5.5" fill="{colour}"/>'
                   for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12.4" fill="#e9e4dc" '
            'role="img" aria-label="crema in a terminal: classify an image, train LeNet, and read an error message">\n'
            f'<rect width="{width}" height="{height}" rx="8" fill="#211d19"/>\n{dots}\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    if not (ROOT / "build/mnist/train_lmdb/data.mdb").exists():
        sys.exit("terminal_svg.py: run `make run` first: it makes build/mnist")
    film = Film()
    classify = "crema classify examples/images/cat.jpg"
    train = "crema train models/lenet/solver.prototxt"
    film.play(classify, record(classify, ROOT))
    film.play(train, record(train, ROOT), 3)
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "solver.prototxt").write_text(TYPO)
        film.play("crema train solver.prototxt", record("crema train solver.prototxt", folder), 4)
    IMAGE.parent.mkdir(exist_ok=True)
    IMAGE.write_text(draw(film))


if __name__ == "__main__":
    main()
