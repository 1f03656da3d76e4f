#!/usr/bin/env python3
"""architecture_svg.py: draws docs/dev/architecture.svg, the rooms of src/ and who may include from whom.

The rooms and their arrows are those of the include gate (tests/house/gates.py), what lives in a room is its
line in docs/dev/architecture.md. With --check nothing is written; exits 1 when the picture is another one.

The rooms stand on a diagonal, from the top of the house to the bottom. A line leaves a room to the right, and
turns down at a dot into each room that it may include from. The few arrows upwards leave to the left.
"""
import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/house"))
import gates  # noqa: E402

PICTURE = ROOT / "docs/dev/architecture.svg"

# From the top of the house down; the gate lists the rooms from the ground up.
ORDER = list(reversed(gates.ROOMS))

# Fill and line of a room, by its first folder; others are in the last colours.
COLOURS = {"layers": ("#e8f1e4", "#5b7f4c"), "data": ("#e5eef7", "#4a6f94"), "device": ("#f7e9e2", "#a2603c"),
           "": ("#f4efe6", "#7a5c3a")}
LINE = "#777"

STEP_X, STEP_Y, TOP = 33, 32, 58  # from room to room; the first one's middle
BOX_W, BOX_H, PORT = 122, 22, 14  # a room; arrows enter that far from its right edge
TEXT_X, DIAGONAL = 16, 330
LETTER_W = 6.3  # of the text, on average


class Fault(Exception):
    """The gate and the page do not fit together."""


def words(room, letters):
    """What lives in a room, from the page, in so many letters at most."""
    page = (ROOT / "docs/dev/architecture.md").read_text()
    found = re.search(rf"^\| `src/{room}/` \| (.*) \|$", page, re.M)
    if not found:
        raise Fault(f"docs/dev/architecture.md has no line for src/{room}/")
    text = found.group(1).replace("`", "")
    while len(text) > letters:
        shorter = re.match(r"(.*)[;:,.] ", text) or re.match(r"(.*) ", text)
        text = shorter.group(1)
    return text


def middle(index):
    """Where arrows enter the box of a room, and the middle of its height."""
    return DIAGONAL + BOX_W - PORT + index * STEP_X, TOP + index * STEP_Y


def box(room, index):
    x, y = middle(index)
    fill, line = COLOURS.get(room.split("/")[0], COLOURS[""])
    left = x + PORT - BOX_W
    text = words(room, int((left - TEXT_X - 8) / LETTER_W))
    return [f'<text x="{TEXT_X}" y="{y + 4}" fill="#555">{html.escape(text)}</text>',
            f'<rect x="{left}" y="{y - BOX_H // 2}" width="{BOX_W}" height="{BOX_H}" rx="4" fill="{fill}" '
            f'stroke="{line}"/>',
            f'<text x="{left + BOX_W // 2}" y="{y + 4}" text-anchor="middle" fill="#222">{room}</text>']


def arrows(room, targets):
    """All arrows out of a room: one line to the right with a dot for each, and single ones upwards."""
    index = ORDER.index(room)
    x, y = middle(index)
    below = sorted(ORDER.index(t) for t in targets if ORDER.index(t) > index)
    above = sorted(ORDER.index(t) for t in targets if ORDER.index(t) < index)
    out = []
    if below:
        out.append(f'<path d="M{x + PORT} {y}H{middle(below[-1])[0]}"/>')
    for other in below:
        out.append(f'<circle cx="{middle(other)[0]}" cy="{y}" r="3" fill="{LINE}" stroke="none" '
                   f'data-from="{room}" data-to="{ORDER[other]}"/>')
    for other in above:
        to_x, to_y = middle(other)
        to_x += PORT - BOX_W + 12
        out.append(f'<path d="M{x + PORT - BOX_W} {y}H{to_x}V{to_y + BOX_H // 2}" marker-end="url(#a)" '
                   f'stroke-dasharray="4 3" data-from="{room}" data-to="{ORDER[other]}"/>')
    return out


def arrow_down(room):
    """The line with all dots that lead into a room from above."""
    index = ORDER.index(room)
    x, y = middle(index)
    sources = [i for i in range(index) if room in gates.ROOMS[ORDER[i]]]
    return [f'<path d="M{x} {middle(sources[0])[1]}V{y - BOX_H // 2}" marker-end="url(#a)"/>'] if sources else []


def draw():
    right, bottom = middle(len(ORDER) - 1)
    width, height = right + PORT + 16, bottom + BOX_H // 2 + 16
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           'font-size="12">',
           "<title>The rooms of crema, and which may include from which</title>",
           '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
           f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           f'<text x="{TEXT_X}" y="24" fill="#222">The rooms of src/. From each a line goes to the right and, at a '
           "dot, down into a room that it may include from. tools/ stands above all.</text>"]
    for index in range(1, len(ORDER), 2):
        y = middle(index)[1] - STEP_Y // 2
        out.append(f'<rect x="0" y="{y}" width="{width}" height="{STEP_Y}" fill="#f8f8f6"/>')
    out.append(f'<g stroke="{LINE}" fill="none">')
    for room in ORDER:
        out += arrow_down(room) + arrows(room, gates.ROOMS[room])
    out.append("</g>")
    for index, room in enumerate(ORDER):
        out += box(room, index)
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    try:
        picture = draw()
    except Fault as what:
        sys.exit(f"architecture_svg: {what}")
    if sys.argv[1:] == ["--check"]:
        if PICTURE.read_text() != picture:
            sys.exit("docs/dev/architecture.svg is not what the include gate allows: run scripts/architecture_svg.py")
    else:
        PICTURE.write_text(picture)


if __name__ == "__main__":
    main()
