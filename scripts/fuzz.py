#!/usr/bin/env python3
"""Runs the fuzz targets of fuzz/ under libFuzzer with the address and undefined-behaviour sanitizers.

    scripts/fuzz.py run [--seconds N] [--jobs N] [--record] [TARGET...]   until the time is over or something is found
    scripts/fuzz.py hours                   the processor time of all recorded runs, for each reader
    scripts/fuzz.py pack                    makes fuzz/corpus.tar.zst of the inputs that reach most
    scripts/fuzz.py coverage [TARGET...]    how much of each reader the corpus reaches

Needs clang and llvm (scripts/setup.sh --dev). Inputs start from fuzz/corpus.tar.zst and from files of the
project, and grow in build-fuzz/corpus/; what is found lies in build-fuzz/findings/. Words for text formats are
taken from the schema, others from fuzz/dict/. Time is processor time of the target, so that a busy machine
does not count as fuzzing. With --record, each run of a target adds a line to fuzz/hours.tsv: which commit ran,
for how long, and what was found.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build-fuzz"
CORPUS = BUILD / "corpus"
ARCHIVE = ROOT / "fuzz/corpus.tar.zst"
HOURS = ROOT / "fuzz/hours.tsv"

# For each target: where inputs come from besides the archive, and the files that hold its reader.
TARGETS = {
    "annotated": ([], ["src/data/augment/annotated.c"]),
    "bmp": (["*.bmp"], ["src/data/image/image_bmp.c"]),
    "datum": ([], ["src/data/db/datum.c", "src/data/augment/sample.c"]),
    "gif": (["*.gif"], ["src/data/image/image_gif.c"]),
    "hdf5": (["*.h5"], ["src/data/pipeline/hdf5_set.c", "src/net/weights/hdf5_model.c", "src/core/hdf5_reader.c"]),
    "idx": ([], ["tools/convert_mnist.c"]),
    "image_list": (["*list*.txt"], ["src/data/pipeline/image_list.c"]),
    "jpeg": (["*.jpg"], ["src/data/image/image_jpeg.c", "src/data/image/image_jpeg_part.c", "src/data/image/image_scaled.c"]),
    "leveldb": ([], ["src/data/db/leveldb_view.c", "src/data/db/db_leveldb.c"]),
    "lmdb": (["data.mdb"], ["src/data/db/lmdb_walk.c"]),
    "model": (["*.prototxt"], ["src/infer/graph.c", "src/infer/model.c", "src/infer/passes.c", "src/infer/pass_bf16.c",
                               "src/infer/pass_constants.c", "src/infer/pass_dead.c", "src/infer/pass_fold.c",
                               "src/infer/pass_fuse.c", "src/infer/pass_train.c", "src/infer/program.c",
                               "src/infer/session.c"]),
    "net": (["*.prototxt"], ["src/net/graph.c", "src/net/net.c", "src/net/filter.c", "src/net/split.c"]),
    "onnx": (["*.onnx"], ["src/onnx/format/model_file.c",
                            *(f"src/onnx/import/{path.name}" for path in (ROOT / "src/onnx/import").glob("*.c"))]),
    "pnm": (["*.pbm", "*.pgm", "*.ppm"], ["src/data/image/image_pnm.c"]),
    "png": (["*.png"], ["src/data/image/image_png.c"]),
    "solver": (["*solver*.prototxt"], ["src/solver/solver.c", "src/solver/nets.c", "src/solver/rate.c"]),
    "state": (["*.solverstate*"], ["src/solver/restore.c", "src/solver/state.c", "src/solver/hdf5_state.c"]),
    "tiff": (["*.tif"], ["src/data/image/image_tiff.c"]),
    "text_reader": (["*.prototxt"], ["src/proto/text_reader.c", "src/proto/text_token.c",
                                     "src/proto/text_line.c", "src/proto/upgrade_v0.c",
                                     "src/proto/upgrade_v1.c", "src/proto/upgrade.c"]),
    "weights": (["*.caffemodel"], ["src/net/weights/matching.c", "src/net/weights/blob_proto.c"]),
    "webp": (["*.webp"], ["src/data/image/image_webp.c"]),
    "window_list": (["*window*.txt"], ["src/data/pipeline/window_list.c"]),
    "wire_reader": (["*.bin", "*.caffemodel"], ["src/proto/wire_reader.c", "src/proto/wire_dialects.c",
                                                "src/proto/wire_writer.c"]),
}
# Targets that start from another one's inputs.
INPUTS_OF = {"model": "net"}
MAX_BYTES = 1 << 16
# Shapes too large for any machine meet an allocator that refuses.
SANITIZER = {"ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=256",
             "LSAN_OPTIONS": f"suppressions={ROOT / 'fuzz/leaks.supp'}:print_suppressions=0",
             "UBSAN_OPTIONS": "print_stacktrace=1"}


def call(command, **options):
    print("+", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, check=True, **options)


def build(preset):
    call(["cmake", "--preset", preset], stdout=subprocess.DEVNULL)
    call(["cmake", "--build", "--preset", preset])


def text_words(path):
    """A dictionary of the schema's names and of the layers' types."""
    schema = (ROOT / "src/proto/caffe.proto").read_text()
    names = set(re.findall(r"\b([A-Za-z_]\w+)\s*=\s*-?\d+", schema))
    types = set(re.findall(r'"(\w+)"', (ROOT / "src/layers/layers.inc").read_text()))
    lines = [f'"{n}"' for n in sorted(names)] + [f'"\\"{t}\\""' for t in sorted(types)]
    path.write_text("\n".join(lines) + "\n")


def dictionary(name):
    if name in ("text_reader", "model", "net", "solver"):
        path = BUILD / f"{name}.dict"  # its own, as other targets may be reading theirs
        text_words(path)
        return [f"-dict={path}"]
    path = ROOT / f"fuzz/dict/{name}.dict"
    return [f"-dict={path}"] if path.exists() else []


def unpack():
    """Fills build-fuzz/corpus from the archive and from files of the project."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    if ARCHIVE.exists():
        call(["tar", "--zstd", "--skip-old-files", "-xf", str(ARCHIVE), "-C", str(CORPUS)])
    golden = BUILD / "golden"
    if not golden.exists():
        golden.mkdir()
        call(["tar", "--zstd", "-xf", str(ROOT / "tests/golden/golden.tar.zst"), "-C", str(golden)])
    for name, (patterns, _) in TARGETS.items():
        folder = CORPUS / name
        folder.mkdir(exist_ok=True)
        for base in [golden, ROOT / "models", ROOT / "examples"]:
            for pattern in patterns:
                for path in base.rglob(pattern):
                    seed = folder / "-".join(path.relative_to(base).parts)
                    if path.is_file() and path.stat().st_size <= MAX_BYTES and not seed.exists():
                        shutil.copy(path, seed)
    for name, other in INPUTS_OF.items():
        call(["cp", "-r", "--no-clobber", "-T", str(CORPUS / other), str(CORPUS / name)])


def figures(log):
    found = {"executions": 0, "coverage": 0, "corpus": 0}
    for match in re.finditer(r"#(\d+)\s+\w+\s+cov: (\d+) ft: \d+ corp: (\d+)/", log):
        found = dict(zip(found, map(int, match.groups())))
    return found


def is_of_hdf5(report):
    """Whether a sanitizer's report is about the HDF5 library, not about what calls it."""
    frames = [f for f in re.findall(r"^ +#\d+ 0x\w+ (.*)", report, re.M) if "in __interceptor_" not in f]
    return bool(frames) and "libhdf5" in frames[0]


def own_reports(folder):
    """What the sanitizers said about crema, also in children, which read HDF5 files and whose end is no more
    than an error to their parents. HDF5's own faults are left out: they are why there are children."""
    reports = [path.read_text(errors="replace") for path in sorted(folder.iterdir())]
    return [r for r in reports if ("SUMMARY: " in r or "runtime error: " in r) and not is_of_hdf5(r)]


def fuzz(name, seconds):
    """Runs one target for so many seconds of processor time. Returns (name, seconds, figures, finding)."""
    findings, reports = BUILD / "findings", BUILD / "reports" / name
    findings.mkdir(exist_ok=True)
    spent, executions = 0.0, 0
    log_path = BUILD / f"{name}.log"
    while spent < seconds:
        shutil.rmtree(reports, ignore_errors=True)
        reports.mkdir(parents=True)
        before = set(findings.iterdir())
        to_files = {option: f"{SANITIZER[option]}:log_path={reports}/report"
                    for option in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
        with log_path.open("w") as out:
            process = subprocess.Popen(
                [str(BUILD / "fuzz" / name), str(CORPUS / name), *dictionary(name),
                 f"-max_total_time={max(1, int(seconds - spent))}", f"-max_len={MAX_BYTES}", "-timeout=30",
                 "-rss_limit_mb=3000", f"-artifact_prefix={findings}/{name}-"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=BUILD,
                env=os.environ | SANITIZER | to_files)
            _, status, usage = os.wait4(process.pid, 0)
        spent += usage.ru_utime + usage.ru_stime
        log, own = log_path.read_text(errors="replace"), own_reports(reports)
        got = figures(log)
        executions = got["executions"] = executions + got["executions"]
        if status != 0 or own:
            return name, spent, got, "\n".join([*log.splitlines()[-60:], *own[:3]])
        for path in set(findings.iterdir()) - before:  # inputs at which HDF5 ended a child
            if path.name.startswith(f"{name}-"):
                path.unlink()
    return name, spent, got, None


def record(name, seconds, got, findings):
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"], check=True,
                            capture_output=True, text=True).stdout.strip()
    with HOURS.open("a") as out:
        out.write(f"{name}\t{commit}\t{seconds:.0f}\t{got['executions']}\t{findings}\n")


def hours(_):
    total = {name: [0, 0, 0] for name in TARGETS}
    for line in HOURS.read_text().splitlines()[1:]:
        name, _, *numbers = line.split("\t")
        total[name] = [a + int(b) for a, b in zip(total[name], numbers)]
    print("| reader | processor time | executions | findings |\n| --- | --- | --- | --- |")
    for name, (seconds, executions, findings) in total.items():
        print(f"| {name} | {seconds / 60:.0f} min | {executions} | {findings} |")
    return 0


def run(args):
    build("fuzz")
    unpack()
    found = 0
    print("| reader | processor time | executions | edges | inputs | findings |")
    print("| --- | --- | --- | --- | --- | --- |")
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        for future in concurrent.futures.as_completed(
                [pool.submit(fuzz, name, args.seconds) for name in args.target or TARGETS]):
            name, spent, got, finding = future.result()
            found += finding is not None
            if args.record:
                record(name, spent, got, int(finding is not None))
            print(f"| {name} | {spent:.0f} s | {got['executions']} | {got['coverage']} | {got['corpus']} | "
                  f"{0 if finding is None else 1} |", flush=True)
            if finding is not None:
                print(finding, flush=True)
    return 1 if found else 0


def pack(args):
    """The smallest set of inputs that reaches what all of them reach, packed."""
    packed = BUILD / "packed"
    shutil.rmtree(packed, ignore_errors=True)
    for name in args.target or [name for name in TARGETS if name not in INPUTS_OF]:
        (packed / name).mkdir(parents=True)
        subprocess.run([str(BUILD / "fuzz" / name), "-merge=1", f"-max_len={MAX_BYTES}", "-timeout=30",
                        "-rss_limit_mb=3000", str(packed / name), str(CORPUS / name)], cwd=BUILD, check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=os.environ | SANITIZER)
    call(["tar", "--sort=name", "--mtime=2020-01-01", "--owner=0", "--group=0", "--numeric-owner", "-C",
          str(packed), "-I", "zstd -19", "-cf", str(ARCHIVE), "."])
    print(f"{ARCHIVE.relative_to(ROOT)}: {ARCHIVE.stat().st_size / 1024:.0f} KB, "
          f"{sum(1 for p in packed.rglob('*') if p.is_file())} inputs")
    return 0


def coverage(args):
    """Lines of each reader that its corpus reaches."""
    build("fuzz-coverage")
    unpack()
    folder = ROOT / "build-fuzz-coverage"
    print("| reader | lines reached | of | share |\n| --- | --- | --- | --- |")
    for name in args.target or TARGETS:
        raw, data = folder / f"{name}.profraw", folder / f"{name}.profdata"
        program = folder / "fuzz" / name
        subprocess.run([str(program), "-runs=0", str(CORPUS / name)], cwd=folder, check=True,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=os.environ | {"LLVM_PROFILE_FILE": str(raw)})
        subprocess.run(["llvm-profdata", "merge", "-o", str(data), str(raw)], check=True)
        exported = subprocess.run(["llvm-cov", "export", "-summary-only", f"-instr-profile={data}",
                                   str(program)], check=True, capture_output=True, text=True).stdout
        # The compiler may have been given relative paths.
        lines = [f["summary"]["lines"] for f in json.loads(exported)["data"][0]["files"]
                 if f["filename"].endswith(tuple("/" + reader for reader in TARGETS[name][1]))]
        covered, count = sum(n["covered"] for n in lines), sum(n["count"] for n in lines)
        print(f"| {name} | {covered} | {count} | {100 * covered / max(count, 1):.0f} % |", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description="Runs the fuzz targets under libFuzzer.")
    parser.add_argument("what", choices=["run", "hours", "pack", "coverage"])
    parser.add_argument("target", nargs="*", help="all unless named: " + ", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=600, help="processor time for each target")
    parser.add_argument("--jobs", type=int, default=2, help="targets that run at once")
    parser.add_argument("--record", action="store_true", help="add the runs to fuzz/hours.tsv")
    args = parser.parse_intermixed_args()
    return {"run": run, "hours": hours, "pack": pack, "coverage": coverage}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
