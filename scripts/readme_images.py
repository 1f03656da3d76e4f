#!/usr/bin/env python3
"""readme_images.py: draws the banner and the badges of the README into docs/images.
readme_images.py --check: exits 1 if one of them differs from the version, the licence or the tests of the project.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"

BANNER = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 150" width="760" height="150" role="img" \
aria-label="crema: Caffe reborn in C">
<rect width="760" height="150" rx="10" fill="#2b211b"/>
<g transform="translate(46 22)">
<path d="M8 34 h84 v30 a42 38 0 0 1 -84 0 z" fill="#fffaf2"/>
<path d="M92 42 h8 a15 15 0 0 1 0 30 h-11" fill="none" stroke="#fffaf2" stroke-width="7"/>
<ellipse cx="50" cy="35" rx="42" ry="11" fill="#fffaf2"/>
<ellipse cx="50" cy="35" rx="37" ry="8.5" fill="#c48a55"/>
<path d="M25 35 q12 -6 25 -1 t25 -1" fill="none" stroke="#eecfa4" stroke-width="3" stroke-linecap="round"/>
<path d="M34 20 q-6 -8 0 -16 M50 18 q-6 -9 0 -18 M66 20 q-6 -8 0 -16" fill="none" stroke="#b59f8c" \
stroke-width="3.5" stroke-linecap="round"/>
</g>
<g font-family="Georgia, 'DejaVu Serif', serif" fill="#fffaf2">
<text x="186" y="84" font-size="60" font-weight="bold" letter-spacing="-1">crema</text>
<text x="188" y="117" font-size="19" fill="#e8cfb0">Caffe reborn in C: train, test and deploy</text>
</g>
</svg>
"""


def badge(label, value, colour):
    left, right = 7 * len(label) + 14, 6.6 * len(value) + 16
    width = left + right
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} 20" width="{width:.0f}" height="20" '
            f'font-family="Verdana, \'DejaVu Sans\', sans-serif" font-size="11" fill="#fff" role="img" '
            f'aria-label="{label}: {value}">\n'
            f'<rect width="{width:.0f}" height="20" rx="4" fill="#555"/>\n'
            f'<path d="M{left} 0 h{right - 4:.0f} a4 4 0 0 1 4 4 v12 a4 4 0 0 1 -4 4 h-{right - 4:.0f} z" fill="{colour}"/>\n'
            f'<text x="{left / 2}" y="14" text-anchor="middle">{label}</text>\n'
            f'<text x="{left + right / 2:.1f}" y="14" text-anchor="middle">{value}</text>\n</svg>\n')


def version():
    return re.search(r"project\(crema VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def licence():
    if not (ROOT / "LICENSE").read_text().startswith("BSD 2-Clause"):
        sys.exit("readme_images.py: LICENSE is not BSD 2-Clause")
    return "BSD-2-Clause"


def tests():
    """The number of test functions in C and Python, in hundreds."""
    c = sum(len(re.findall(r"^TEST(?:_BETWEEN)?\(", path.read_text(), re.M)) for path in ROOT.glob("tests/**/*.c"))
    python = sum(len(re.findall(r"^    def test", path.read_text(), re.M)) for path in ROOT.glob("tests/python/*.py"))
    return f"{(c + python) // 100 * 100:,}+"


def main():
    files = {"banner.svg": BANNER, "version.svg": badge("version", version(), "#6f4323"),
             "licence.svg": badge("licence", licence(), "#5b7f4c"), "tests.svg": badge("tests", tests(), "#4a6f94")}
    if sys.argv[1:] == ["--check"]:
        wrong = [name for name, svg in files.items()
                 if not (IMAGES / name).is_file() or (IMAGES / name).read_text() != svg]
        for name in wrong:
            print(f"docs/images/{name} is out of date: run scripts/readme_images.py")
        sys.exit(1 if wrong else 0)
    for name, svg in files.items():
        (IMAGES / name).write_text(svg)


if __name__ == "__main__":
    main()
