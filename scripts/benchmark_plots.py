#!/usr/bin/env python3
"""benchmark_plots.py: draws the plots of docs/benchmarks.md and writes its tables from the files in bench/results.
benchmark_plots.py --check: exits 1 if a plot or a table differs from these files.

A table of the document is between `<!-- NAME -->` and `<!-- end -->`. The files name their machine, versions and
command; bench/peers writes all but caffe.tsv.
"""
import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench/peers"))
import results  # noqa: E402

RESULTS = ROOT / "bench/results"
IMAGES = ROOT / "docs/images"
PAGE = ROOT / "docs/benchmarks.md"

NETS = {"alexnet": "AlexNet", "googlenet": "GoogLeNet", "squeezenet_v1.1": "SqueezeNet v1.1", "resnet50": "ResNet-50",
        "mobilenet_v1": "MobileNet v1", "mobilenet_v2": "MobileNet v2", "c3d": "C3D"}
# Results that a later run added to a file's.
MORE = {"training": ("training_c3d",)}
# A runtime's name and colour. The colours differ in lightness, too.
RUNTIMES = {"crema": ("crema", "#6f4323"), "openvino": ("OpenVINO", "#7fa6c9"), "onnxruntime": ("ONNX Runtime", "#5b7f4c"),
            "torch": ("PyTorch", "#d98a4b"), "caffe": ("BVLC Caffe", "#b9b3aa")}
CAFFE_NETS = {"squeezenet": "squeezenet_v1.1", "mobilenet": "mobilenet_v1"}

WIDTH, LEFT, RIGHT, BAR, GAP, GROUP = 760, 140, 96, 13, 2, 12


def stored(name):
    """(comments, rows) of a file of results."""
    return results.read(RESULTS / f"{name}.tsv")


def caffe_ratios(work, batch):
    """{net: BVLC Caffe's time over crema's}, from one run of both."""
    rows = stored("caffe")[1]
    return {CAFFE_NETS.get(r["net"], r["net"]): float(r["caffe_ms"]) / float(r["crema_ms"]) for r in rows
            if r["work"] == work and (batch is None or r["batch"] == batch)}


def times(name, batch, column="ms"):
    """{net: {runtime: number}} at a batch size."""
    found = {}
    for row in [row for part in (name, *MORE.get(name, ())) for row in stored(part)[1]]:
        if row["batch"] == batch and row["net"] in NETS:
            found.setdefault(row["net"], {})[row["runtime"]] = float(row[column])
    return found


def ratios(found, caffe):
    """[(net, note, [(runtime, times crema's)])] for a plot: crema is 1."""
    groups = []
    for net, by_runtime in found.items():
        ours = by_runtime["crema"]
        bars = [(runtime, by_runtime[runtime] / ours) for runtime in RUNTIMES if runtime in by_runtime]
        if net in caffe:
            bars.append(("caffe", caffe[net]))
        groups.append((NETS[net], f"{number(ours)} ms", bars))
    return groups


def text(x, y, words, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{html.escape(words)}</text>'


def plot(title, subtitle, groups):
    """Horizontal bars in groups, as SVG. The axis ends at the longest bar."""
    longest = max(value for _, _, bars in groups for _, value in bars)
    scale = (WIDTH - LEFT - RIGHT) / longest
    used = [r for r in RUNTIMES if any(r == name for _, _, bars in groups for name, _ in bars)]
    parts, y = [text(16, 26, title, ' font-size="16" font-weight="bold"'), text(16, 45, subtitle, ' fill="#666"')], 76
    x = 16
    for runtime in used:
        name, colour = RUNTIMES[runtime]
        parts.append(f'<rect x="{x:.1f}" y="56" width="11" height="11" fill="{colour}"/>')
        parts.append(text(x + 16, 66, name))
        x += 34 + 6.6 * len(name)
    y += GROUP
    top = y
    for net, note, bars in groups:
        middle = y + (len(bars) * (BAR + GAP) - GAP) / 2
        parts.append(text(LEFT - 10, middle, net, ' text-anchor="end" font-weight="bold"'))
        parts.append(text(LEFT - 10, middle + 14, note, ' text-anchor="end" fill="#666" font-size="10.5"'))
        for runtime, value in bars:
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="{BAR}" '
                         f'fill="{RUNTIMES[runtime][1]}"/>')
            words = "1" if runtime == "crema" else f"{value:.2f}x"
            parts.append(text(LEFT + value * scale + 5, y + BAR - 3, words, ' font-size="10.5"'))
            y += BAR + GAP
        y += GROUP
    one = LEFT + scale
    parts.insert(0, f'<line x1="{one:.1f}" y1="{top - 6}" x2="{one:.1f}" y2="{y - GROUP + 4}" stroke="#6f4323" '
                    'stroke-dasharray="3 3"/>')
    height = y + 6
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'font-family="system-ui, sans-serif" font-size="12" fill="#222" role="img" '
            f'aria-label="{html.escape(title)}">\n'
            f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fffdf9"/>\n' + "\n".join(parts) + "\n</svg>\n")


def plots():
    """{file name: SVG}"""
    latency = ratios(times("inference", "1"), caffe_ratios("inference", "1"))
    throughput = ratios(times("inference", "16"), caffe_ratios("inference", "16"))
    training = ratios(times("training", "16"), caffe_ratios("training step", None))
    return {
        "latency.svg": plot("Latency of one image", "Time of a forward pass, 2 threads, crema = 1; shorter is faster",
                            latency),
        "throughput.svg": plot("Throughput at batch 16", "Time of a forward pass, 2 threads, crema = 1; shorter is faster",
                               throughput),
        "training.svg": plot("Training step at batch 16",
                             "Forward, backward and update, 2 threads, crema = 1; shorter is faster", training)}


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(head, rows):
    return "\n".join([row(head), row(["---"] + ["---:"] * (len(head) - 1)), *map(row, rows)])


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def time_table(name, runtimes, batches, column="ms"):
    rows = []
    for net in NETS:
        for batch in batches:
            cells = times(name, batch, column).get(net)
            if cells:
                rows.append([NETS[net], batch] + [number(cells[r]) if r in cells else "-" for r in runtimes])
    return table(["net", "batch"] + [NAMES[r] for r in runtimes], rows)


NAMES = {kind: name for kind, (name, _) in RUNTIMES.items()} | {"crema-plain": "crema, plain net"}


def caffe_table():
    rows = [[r["work"], NETS.get(CAFFE_NETS.get(r["net"], r["net"]), r["net"]), r["batch"], r["caffe_ms"], r["crema_ms"],
             f'{float(r["caffe_ms"]) / float(r["crema_ms"]):.1f}x', r["caffe_mb"], r["crema_mb"]]
            for r in stored("caffe")[1]]
    return table(["work", "net", "batch", "Caffe, ms", "crema, ms", "speed-up", "Caffe, MB", "crema, MB"], rows)


def startup_table():
    rows = []
    for r in stored("startup")[1]:
        name = "Python and NumPy only" if r["runtime"] == "python" else NAMES[r["runtime"]]
        rows.append([NETS[r["net"]], name, number(float(r["ms"])), number(float(r["MiB"]))])
    return table(["net", "runtime", "ms", "MiB"], rows)


def sources():
    """The machine, versions and command of each file, as a list."""
    lines = []
    for name in ("inference", "memory", "startup", "training", *MORE["training"], "caffe"):
        head = stored(name)[0]
        lines.append(f"- `bench/results/{name}.tsv`, {head['date']}: {head['machine']}; {head['versions']}."
                     + (f" Command: `{head['command']}`." if "command" in head else ""))
    return "\n".join(lines)


def tables():
    kinds = ("crema", "crema-plain", "openvino", "onnxruntime", "torch")
    return {"latency": time_table("inference", kinds, ("1",)), "throughput": time_table("inference", kinds, ("16",)),
            "memory": time_table("memory", ("crema", "openvino", "onnxruntime", "torch"), ("1", "16"), "MiB"),
            "training": time_table("training", ("crema", "torch"), ("16",)),
            "training memory": time_table("training", ("crema", "torch"), ("16",), "MiB"),
            "startup": startup_table(), "caffe": caffe_table(), "sources": sources()}


def fill(page):
    """The document with its tables written anew."""
    made = tables()
    return re.sub(r"<!-- ([a-z ]+) -->\n.*?\n?<!-- end -->",
                  lambda m: f"<!-- {m[1]} -->\n{made[m[1]]}\n<!-- end -->", page, flags=re.S)


def main():
    files = {IMAGES / name: svg for name, svg in plots().items()}
    files[PAGE] = fill(PAGE.read_text())
    if sys.argv[1:] == ["--check"]:
        wrong = [path for path, wanted in files.items() if not path.is_file() or path.read_text() != wanted]
        for path in wrong:
            print(f"{path.relative_to(ROOT)} differs from bench/results: run scripts/benchmark_plots.py")
        sys.exit(1 if wrong else 0)
    IMAGES.mkdir(exist_ok=True)
    for path, wanted in files.items():
        path.write_text(wanted)


if __name__ == "__main__":
    main()
