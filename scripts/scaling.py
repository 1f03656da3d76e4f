#!/usr/bin/env python3
"""scaling.py PREDICTED MEASURED: draws docs/dev/scaling.svg, the time of a step with many devices.

PREDICTED is the output of build/bench/scaling, MEASURED that of build/bench/parallel steps. Lines are predictions; dots
are steps of reduce on simulated devices, which belong to the lines of one host.
"""
import html
import math
import pathlib
import re
import sys

PICTURE = pathlib.Path(__file__).resolve().parents[1] / "docs/dev/scaling.svg"

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 430, 60, 210, 34, 52
COLOURS = {"300": "#4a6f94", "50": "#5b7f4c", "12": "#a2603c"}
MOST = 4  # times as long as computing alone: the top of the picture


def predictions(text):
    """{name of the links: [(devices, times)]} in the order of the program."""
    curves = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\d.*?/s.*?)\s+(\d+)\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", line)
        if match:
            curves.setdefault(match[1], []).append((int(match[2]), float(match[3])))
    return curves


def measurements(text):
    """[(speed of the links, devices, step over the time that computing is made to take)] of reduce."""
    computing = re.search(r"A step of (\d+) ms", text)
    if not computing:
        return []
    rows = [line.split() for line in text.splitlines() if line.startswith("reduce ")]
    return [(row[2], int(row[1]), float(row[5]) / float(computing[1])) for row in rows]


def x_of(devices):
    return LEFT + math.log2(devices) / 10 * (WIDTH - LEFT - RIGHT)


def y_of(times):
    return HEIGHT - BOTTOM - (min(times, MOST) - 1) / (MOST - 1) * (HEIGHT - TOP - BOTTOM)


def text(x, y, words, anchor="start", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{html.escape(words)}</text>'


def axes():
    parts = []
    for power in range(11):
        x = x_of(2**power)
        parts.append(f'<line x1="{x:.1f}" y1="{y_of(1):.1f}" x2="{x:.1f}" y2="{y_of(MOST):.1f}" stroke="#eee"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 16, str(2**power), "middle"))
    for half in range(2, 2 * MOST + 1):
        y = y_of(half / 2)
        parts.append(f'<line x1="{x_of(1):.1f}" y1="{y:.1f}" x2="{x_of(1024):.1f}" y2="{y:.1f}" stroke="#eee"/>')
        parts.append(text(LEFT - 8, y + 4, f"{half / 2:g}", "end"))
    parts.append(text(x_of(32), HEIGHT - 14, "devices; above 8, several hosts of 8", "middle"))
    parts.append(text(LEFT - 40, 18, "a step, times as long as computing alone"))
    return parts


def curve(name, points):
    colour = COLOURS[name.split()[0]]
    one_host = "one host" in name
    path = " ".join(f"{x_of(n):.1f},{y_of(times):.1f}" for n, times in points)
    dash = ' stroke-dasharray="4 3"' if one_host else ""
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>']
    if not one_host:
        n, times = points[-1]
        parts.append(text(x_of(n) + 8, y_of(times) + 4, name, extra=f' fill="{colour}"'))
    return parts


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: scaling.py PREDICTED MEASURED")
    curves = predictions(pathlib.Path(sys.argv[1]).read_text())
    dots = measurements(pathlib.Path(sys.argv[2]).read_text())
    if not curves or not dots:
        sys.exit("scaling.py: no predictions or no measurements in these files")
    parts = axes()
    for name, points in curves.items():
        parts += curve(name, points)
    for speed, devices, times in dots:
        parts.append(f'<circle cx="{x_of(devices):.1f}" cy="{y_of(times):.1f}" r="3.2" fill="none" '
                     f'stroke="{COLOURS[speed]}" stroke-width="1.4"/>')
    legend = WIDTH - RIGHT + 20
    parts.append(text(legend, TOP + 6, "lines: predicted"))
    parts.append(text(legend, TOP + 22, "dashed: all in one host"))
    parts.append(text(legend, TOP + 38, "circles: measured, simulated"))
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="11" fill="#333">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n")


if __name__ == "__main__":
    main()
