#!/usr/bin/env python3
"""inside_svg.py: draws the diagrams of docs/inside.

Each diagram is one function below. With --check nothing is written; exits 1 when a diagram is not as drawn here.
"""
import html
import math
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs/inside"

# Fill and line of each kind of thing; the same colours as in docs/dev/architecture.svg.
HOST, DEVICE = ("#e5eef7", "#4a6f94"), ("#f7e9e2", "#a2603c")
DATA, PLAIN, WHITE = ("#e8f1e4", "#5b7f4c"), ("#f4f2ee", "#77705f"), ("#fff", "#8a8a86")
INK, SOFT, PAPER = "#222", "#5c5c58", "#fcfcfa"


class Canvas:
    """An image of a fixed size, with its own background, so that it is legible in light and dark pages."""

    def __init__(self, width, height, title):
        self.lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      'font-family="Helvetica, Arial, sans-serif" font-size="13">',
                      f"<title>{html.escape(title)}</title>",
                      f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{PAPER}" '
                      'stroke="#d8d8d2"/>']

    def add(self, line):
        self.lines.append(line)

    def text(self, x, y, words, size=13, bold=False, colour=INK, at="middle", mono=False):
        """Lines of text, the first with its base line at y."""
        style = (' font-weight="bold"' if bold else "") + (' font-family="monospace"' if mono else "")
        for i, line in enumerate(words.split("\n")):
            self.add(f'<text x="{x}" y="{y + i * (size + 4)}" font-size="{size}" fill="{colour}" text-anchor="{at}"'
                     f"{style}>{html.escape(line)}</text>")

    def box(self, x, y, width, height, kind, dashed=False, radius=5):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.add(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}" fill="{kind[0]}" '
                 f'stroke="{kind[1]}" stroke-width="1.4"{dash}/>')

    def named(self, x, y, width, height, kind, name, words=""):
        """A box with a name in bold and lines below it, in its middle."""
        self.box(x, y, width, height, kind)
        count = 1 + (len(words.split("\n")) if words else 0)
        top = y + height / 2 - (count - 1) * 8.5 + 4.5
        self.text(x + width / 2, top, name, bold=True)
        if words:
            self.text(x + width / 2, top + 17, words, size=12, colour=SOFT)

    def arrow(self, points, colour=INK, width=1.6, dashed=False, both=False):
        """A line through points with a head at its end; four points with "C" between are a curve."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        path = " ".join(f"{x:g} {y:g}" for x, y in points)
        letter = "C" if len(points) == 4 else "L"
        first, rest = path.split(" ", 2)[:2], path.split(" ", 2)[2]
        self.add(f'<path d="M{" ".join(first)} {letter}{rest}" fill="none" stroke="{colour}" '
                 f'stroke-width="{width}"{dash}/>')
        self.head(points[-2], points[-1], colour)
        if both:
            self.head(points[1], points[0], colour)

    def head(self, before, tip, colour):
        angle = math.atan2(tip[1] - before[1], tip[0] - before[0])
        corner = [(tip[0] - 9 * math.cos(angle + turn), tip[1] - 9 * math.sin(angle + turn)) for turn in (-0.42, 0.42)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [tip, *corner])
        self.add(f'<polygon points="{points}" fill="{colour}"/>')

    def svg(self):
        return "\n".join([*self.lines, "</svg>"]) + "\n"


def side(c, x, y, kind, state):
    """One side of a block: newest bytes, stale bytes, or no memory."""
    c.box(x, y, 52, 24, kind if state == "new" else WHITE, dashed=state == "none", radius=3)
    word = {"new": "newest", "stale": "stale", "none": "none"}[state]
    c.text(x + 26, y + 16, word, size=11, colour=INK if state == "new" else SOFT)


def state(c, x, y, name, host, device):
    c.box(x, y, 166, 78, PLAIN)
    c.text(x + 83, y + 20, name, bold=True)
    c.text(x + 52, y + 37, "host", size=11, colour=SOFT)
    c.text(x + 114, y + 37, "device", size=11, colour=SOFT)
    side(c, x + 26, y + 43, HOST, host)
    side(c, x + 88, y + 43, DEVICE, device)


COPY, MARK = "#b3541e", "#77705f"


def memory():
    c = Canvas(900, 520, "The four states of a block of memory, and the accesses between them")
    state(c, 367, 24, "UNINITIALIZED", "none", "none")
    state(c, 40, 216, "HEAD_AT_CPU", "new", "stale")
    state(c, 694, 216, "HEAD_AT_GPU", "stale", "new")
    state(c, 367, 408, "SYNCED", "new", "new")
    c.arrow([(367, 72), (250, 90), (140, 120), (120, 216)], MARK)
    c.text(28, 50, "cpu_data, mutable_cpu_data:\nallocate on the host, fill with zeros", at="start", size=12)
    c.arrow([(533, 72), (650, 90), (760, 120), (780, 216)], MARK)
    c.text(872, 50, "gpu_data, mutable_gpu_data:\nallocate on the device, fill with zeros", at="end", size=12)
    c.arrow([(206, 238), (694, 238)], COPY, 2.2)
    c.text(450, 230, "mutable_gpu_data: copy to the device, then write there", size=12, colour=COPY)
    c.arrow([(694, 272), (206, 272)], COPY, 2.2)
    c.text(450, 291, "mutable_cpu_data: copy to the host, then write there", size=12, colour=COPY)
    c.text(450, 309, "(with keep = false: no copy)", size=12, colour=SOFT)
    c.arrow([(150, 294), (170, 350), (250, 412), (367, 424)], COPY, 2.2)
    c.text(236, 360, "gpu_data: copy to the device\nasync_push: queue that copy", at="start", size=12, colour=COPY)
    c.arrow([(367, 462), (200, 458), (110, 400), (100, 294)], MARK)
    c.text(96, 466, "mutable_cpu_data:\nno copy, the mark moves", size=12)
    c.arrow([(750, 294), (730, 350), (650, 412), (533, 424)], COPY, 2.2)
    c.text(664, 360, "cpu_data: copy to the host", at="end", size=12, colour=COPY)
    c.arrow([(533, 462), (700, 458), (790, 400), (800, 294)], MARK)
    c.text(804, 466, "mutable_gpu_data:\nno copy, the mark moves", size=12)
    c.text(450, 508, "Accesses that are not drawn move nothing and leave the state as it is. "
           "async_push from another state is an error.", size=12, colour=SOFT)
    return c.svg()


def lane(c, y, height, name, words, kind):
    c.box(16, y, 868, height, (kind[0], "none"))
    c.text(28, y + 22, name, bold=True, at="start")
    c.text(28, y + 40, words, size=12, colour=SOFT, at="start")


def work(c, x, y, width, kind, name):
    c.named(x, y, width, 30, kind, "")
    c.text(x + width / 2, y + 20, name, size=12)


def contexts():
    c = Canvas(900, 350, "Two contexts of a device, an event between them, and the thread that queues the work")
    lane(c, 16, 70, "host thread", "queues work", HOST)
    lane(c, 104, 70, "context \"copies\"", "one stream", DEVICE)
    lane(c, 192, 70, "context \"kernels\"", "one stream", DEVICE)
    c.arrow([(198, 66), (206, 122)], MARK)
    c.arrow([(260, 66), (300, 96), (480, 92), (514, 124)], MARK)
    c.arrow([(322, 66), (330, 210)], MARK)
    c.arrow([(384, 66), (420, 130), (520, 150), (560, 210)], MARK)
    for i, name in enumerate(["push", "record", "wait", "run"]):
        work(c, 170 + 62 * i, 36, 56, WHITE, name)
    c.box(424, 36, 268, 30, HOST, dashed=True)
    c.text(558, 56, "free to read, decode, queue more", size=12, colour=SOFT)
    work(c, 698, 36, 92, WHITE, "finish")
    c.text(796, 56, "host waits", size=12, colour=SOFT, at="start")
    work(c, 200, 124, 300, DEVICE, "copy of 10 MiB to the device")
    c.add(f'<polygon points="516,125 530,139 516,153 502,139" fill="#fff" stroke="{COPY}" stroke-width="2"/>')
    c.text(538, 143, "event: SCHEDULED, then SUCCESS", size=12, at="start", colour=COPY)
    c.box(322, 212, 194, 30, WHITE, dashed=True)
    c.text(419, 232, "waits for the event", size=12, colour=SOFT)
    work(c, 520, 212, 240, DEVICE, "kernel that reads the bytes")
    c.arrow([(516, 153), (519, 210)], COPY, 2.2)
    c.arrow([(760, 212), (782, 180), (788, 130), (788, 68)], MARK)
    c.arrow([(170, 282), (880, 282)], SOFT)
    c.text(880, 300, "time", size=12, colour=SOFT, at="end")
    c.text(170, 304, "Grey: order between host and streams. Orange: one stream waits for another; the host does not.",
           size=12, at="start", colour=SOFT)
    c.text(170, 326, "Without the event, the kernel would start at once and read bytes that have not arrived.", size=12,
           at="start", colour=SOFT)
    return c.svg()


def tokens(c, x, y, count, filled, kind):
    for i in range(count):
        c.box(x + 20 * i, y, 16, 20, kind if i < filled else WHITE, dashed=i >= filled, radius=2)


def queues(c, x, y, kind, name, full, count, back=124):
    """A pair of queues from the stage at x to the stage at x + 124, from which, or from x + back, elements return."""
    c.arrow([(x, y + 22), (x + 124, y + 22)], INK)
    tokens(c, x + 62 - 10 * count, y - 8, count, full, kind)
    c.text(x + 62, y - 18, f"full: {name}", size=12)
    c.arrow([(x + back, y + 74), (x, y + 74)], MARK, dashed=True)
    tokens(c, x + 62 - 10 * count, y + 84, count, 0, kind)
    c.text(x + 62, y + 122, "free", size=12, colour=SOFT)


def prefetching():
    c = Canvas(940, 350, "Prefetching in two levels: threads and the queues between them")
    c.named(16, 132, 88, 96, PLAIN, "database", "LMDB,\nLevelDB")
    c.arrow([(104, 180), (128, 180)], INK)
    c.named(130, 132, 100, 96, HOST, "reader", "one thread\nwalks over\nthe records")
    queues(c, 232, 132, DATA, "records", 3, 5)
    c.named(358, 104, 154, 152, HOST, "pipeline", "one thread collects\nbatches; the same or\n"
            "more threads decode,\ncrop and mirror, each\nitem in its slot")
    queues(c, 514, 132, DATA, "batches", 2, 4, back=104)
    c.named(640, 132, 100, 96, DEVICE, "copier", "own stream;\nonly for nets\non a device")
    c.arrow([(742, 154), (806, 154)], INK)
    c.text(774, 144, "copied", size=12)
    c.named(808, 104, 116, 152, DEVICE, "net", "uses the batch's\nmemory; returns\nit on taking\nthe next batch")
    c.arrow([(866, 256), (866, 306), (577, 306), (577, 262)], MARK, dashed=True)
    c.text(722, 316, "the net returns the batch to the pipeline's free queue", size=12, colour=SOFT)
    c.text(294, 84, "level 1", bold=True)
    c.text(576, 84, "level 2", bold=True)
    c.text(16, 30, "Memory circulates: a filled element moves to the right, and the empty element returns to the left."
           "\nNo stage allocates. An empty queue \"free\" stops the stage that fills, an empty queue \"full\" stops the "
           "stage that uses.", size=12, at="start", colour=SOFT)
    return c.svg()


def circle(c, x, y, name, kind=DEVICE, radius=22):
    c.add(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{kind[0]}" stroke="{kind[1]}" stroke-width="1.6"/>')
    c.text(x, y + 5, name, bold=True)


def exchange():
    c = Canvas(900, 362, "Two ways to sum gradients over four devices: a tree and a ring")
    c.text(225, 32, "tree", bold=True, size=15)
    place = {0: (225, 84), 1: (105, 184), 2: (345, 184), 3: (425, 272)}
    for parent, child, up, down in [(0, 1, "1", "1"), (0, 2, "2 + 3", "2"), (2, 3, "3", "3")]:
        (px, py), (x, y) = place[parent], place[child]
        length = math.hypot(px - x, py - y)
        ux, uy = (px - x) / length, (py - y) / length
        for shift, colour, ends in [(6, COPY, 0), (-6, HOST[1], 1)]:
            a = (x + 24 * ux - shift * uy, y + 24 * uy + shift * ux)
            b = (px - 24 * ux - shift * uy, py - 24 * uy + shift * ux)
            c.arrow([a, b] if ends == 0 else [b, a], colour, 2)
    for number, (x, y) in place.items():
        circle(c, x, y, str(number))
    c.text(260, 80, "root: updates", size=12, at="start")
    c.text(60, 272, "Up: sums of gradients.", size=12, at="start", colour=COPY)
    c.text(60, 290, "Down: new weights.", size=12, at="start", colour=HOST[1])
    c.text(225, 342, "2 x log2 N steps of all bytes; after the backward pass", size=12, colour=SOFT)
    c.add('<path d="M470 24V346" stroke="#d8d8d2"/>')
    c.text(685, 32, "ring", bold=True, size=15)
    ring = [(575, 104), (795, 104), (795, 236), (575, 236)]
    for i, (x, y) in enumerate(ring):
        tx, ty = ring[(i + 1) % 4]
        length = math.hypot(tx - x, ty - y)
        ux, uy = (tx - x) / length, (ty - y) / length
        c.arrow([(x + 25 * ux, y + 25 * uy), (tx - 25 * ux, ty - 25 * uy)], COPY, 2)
    for i, (x, y) in enumerate(ring):
        circle(c, x, y, str(i))
        top = y - 54 if i < 2 else y + 32
        for k, share in enumerate("ABCD"):
            c.box(x - 44 + 22 * k, top, 20, 20, DATA if k == i else WHITE, radius=2)
            c.text(x - 34 + 22 * k, top + 15, share, size=11, colour=INK if k == i else SOFT)
    c.text(685, 142, "Gradients have N shares.\nRound 1: share i starts at\ndevice i and gathers terms.\n"
           "Round 2: the sum of each\nshare replaces the terms.", size=12)
    c.text(685, 314, "Every device gets the sum and updates.", size=12)
    c.text(685, 342, "2 (N - 1) steps of 1/N of the bytes; during the backward pass", size=12, colour=SOFT)
    return c.svg()


def overlap():
    c = Canvas(900, 250, "Buckets of gradients are summed and used while the backward pass continues")
    c.text(24, 62, "net's context", bold=True, at="start")
    c.text(24, 132, "reducer's context", bold=True, at="start")
    x = 170
    for name, width in [("forward", 130), ("loss", 44), ("ip2", 56), ("ip1", 120), ("conv2", 130), ("conv1", 100)]:
        work(c, x, 42, width, HOST if name == "forward" else PLAIN if name == "loss" else DATA, name)
        x += width + 3
    c.text(500, 32, "backward: gradients are complete from the last layer to the first", size=12, colour=SOFT)
    for left, width, update, number in [(529, 158, 56, 0), (765, 56, 58, 1)]:
        work(c, left, 112, width, DEVICE, f"sum bucket {number}" if width > 100 else "sum 1")
        work(c, left + width + 3, 112, update, HOST, "update")
    c.arrow([(527, 72), (531, 110)], COPY, 2.2)
    c.arrow([(763, 72), (767, 110)], COPY, 2.2)
    c.text(520, 96, "bucket 0 complete: event", size=12, at="end", colour=COPY)
    c.text(757, 96, "bucket 1: event", size=12, at="end", colour=COPY)
    c.arrow([(170, 166), (880, 166)], SOFT)
    c.text(880, 184, "time", size=12, colour=SOFT, at="end")
    c.text(24, 208, "With the tree, the sum starts only after conv1, and the next forward pass waits for new weights.",
           size=12, at="start", colour=SOFT)
    c.text(24, 228, "With buckets, only the sum of the last bucket is visible in the time of a step, if links are fast "
           "enough.", size=12, at="start", colour=SOFT)
    return c.svg()


def form(c, x, y, name, valid, head=False):
    kind = DATA if valid else WHITE
    c.box(x, y, 216, 34, kind, dashed=not valid)
    c.text(x + 12, y + 22, name, at="start", size=12, mono=True, colour=INK if valid else SOFT)
    c.text(x + 204, y + 22, ("valid, head" if head else "valid") if valid else "stale", at="end", size=12,
           colour=INK if valid else SOFT)


def types():
    c = Canvas(900, 300, "One tensor in three formats: a read adds a format, a write makes the rest stale")
    for i, (title, forms) in enumerate([
            ("1. write as float", [("float", True, True)]),
            ("2. read as float16", [("float", True, True), ("float16", True, False)]),
            ("3. write as float16, in blocks", [("float", False, False), ("float16", False, False),
                                               ("float16/aBcd16b", True, True)])]):
        x = 24 + 298 * i
        c.text(x + 124, 34, title, bold=True)
        c.box(x, 48, 248, 160, PLAIN)
        c.text(x + 124, 68, "values of blob ip", size=12, colour=SOFT)
        for k, (name, valid, head) in enumerate(forms):
            form(c, x + 16, 78 + 42 * k, name, valid, head)
    c.arrow([(274, 128), (320, 128)], COPY, 2.2)
    c.text(297, 118, "convert", size=11, colour=COPY)
    c.arrow([(572, 128), (618, 128)], MARK, 2.2)
    c.text(595, 118, "mark", size=11, colour=MARK)
    c.text(24, 238, "Each row is a slot: an element type, a memory format, a valid mark and a block of memory with its "
           "own four states.", size=12, at="start", colour=SOFT)
    c.text(24, 258, "The head is the slot that was written last. A read of a valid slot converts nothing.", size=12,
           at="start", colour=SOFT)
    c.text(24, 278, "aBcd16b is oneDNN's name for blocks of 16 channels.", size=12, at="start", colour=SOFT)
    return c.svg()


DIAGRAMS = [memory, contexts, prefetching, exchange, overlap, types]


def main():
    for diagram in DIAGRAMS:
        path = FOLDER / f"{diagram.__name__}.svg"
        if sys.argv[1:] != ["--check"]:
            path.write_text(diagram())
        elif not path.exists() or path.read_text() != diagram():
            sys.exit(f"docs/inside/{path.name} is out of date: run scripts/inside_svg.py")


if __name__ == "__main__":
    main()
