"""Unusual circumstances: closed descriptors, odd names, limits, a folder that is
gone, a disk that is full, strange libraries beside the data.
"""
import os
import resource
import signal
import time

import rig as r

ODD = 'a b\nc "q" \'s\' üñ€ $x;*%s%n\\'


ROUNDS = 4


def case(rig, name, config=r.CONFIGS[0]):
    folder = rig.new_folder(name)
    r.write_case(folder, config, ROUNDS)
    return folder


def expect(rig, name, result, code, *texts):
    """The exit code, and an error line with these words."""
    rig.count("circumstances")
    if result.code != code:
        rig.fail(name, f"exit code {result.code}, not {code}", result.text)
    errors = [line for line in result.text.splitlines() if line.startswith("crema: error:")]
    for text in texts:
        if len(errors) != 1 or text not in errors[0]:
            rig.fail(name, f"not one error line with '{text}'", result.text)


def same(rig, name, folder, whole):
    """The snapshots are those of the usual run."""
    found, rest = r.snapshots(folder)
    for key, value in whole.items():
        if found.get(key) != value:
            rig.fail(name, f"{key} is not what it is in usual circumstances")
    drafts = [word for word in rest if ".tmp" in word]
    if drafts:
        rig.fail(name, f"left over: {drafts}")


def closed_descriptors(rig, whole):
    """A file that gets the number of a standard stream must not get what is said there."""
    for closed in ((0,), (1,), (2,), (0, 1, 2), (1, 2)):
        name = f"closed {closed}"
        folder = case(rig, name)

        def close():
            for number in closed:
                os.close(number)
        result = rig.run(folder, r.TRAIN, prepare=close)
        expect(rig, name, result, 0)
        same(rig, name, folder, whole)
        result = rig.run(folder, ["convert_mnist", "../data/images", "../data/labels", "db"],
                         prepare=close)
        expect(rig, name, result, 0)
        if (folder / "db/data.mdb").read_bytes() != (rig.data / "lmdb/data.mdb").read_bytes():
            rig.fail(name, "the database is another one")


def full_device(rig, whole):
    folder = case(rig, "full log")
    full = open("/dev/full", "wb", buffering=0)

    def redirect():
        os.dup2(full.fileno(), 1)
        os.dup2(full.fileno(), 2)
    expect(rig, "log to a full disk", rig.run(folder, r.TRAIN, prepare=redirect), 0)
    same(rig, "log to a full disk", folder, whole)

    def output_only():
        os.dup2(full.fileno(), 1)
    for words in (["version"], ["data_stats", "../data/lmdb"]):
        result = rig.run(folder, words, prepare=output_only)
        expect(rig, f"{words[0]} to a full disk", result, 1)
    full.close()


def odd_names(rig, whole):
    for number, word in enumerate((ODD, "n" * 200, "ü" * 100)):
        name = f"odd name {number}"
        folder = case(rig, word)
        expect(rig, name, rig.run(folder, r.TRAIN), 0)
        same(rig, name, folder, whole)
        other = rig.run(folder, ["convert_mnist", "../data/images", "../data/labels", word])
        expect(rig, name, other, 0)
        expect(rig, name, rig.run(folder, ["data_stats", word]), 0)
        expect(rig, name, rig.run(folder, ["compute_image_mean", word, word + ".mean"]), 0)
        (folder / "solver.prototxt").rename(folder / (word + "s"))
        state = f"s_iter_{ROUNDS - 1}.solverstate"
        result = rig.run(folder, ["train", "-solver", word + "s", "-snapshot", state])
        expect(rig, name, result, 0)
        same(rig, name, folder, whole)


def folder_gone(rig, whole):
    del whole
    folder = case(rig, "beside")
    gone = rig.new_folder("gone")
    for name, words, code in (("version", ["version"], 0), ("relative", r.TRAIN, 1),
                              ("absolute", ["train", "-solver", folder / "solver.prototxt"], 1),
                              ("stats", ["data_stats", rig.data / "lmdb"], 0)):
        result = rig.run(gone, words, prepare=lambda: gone.exists() and gone.rmdir())
        expect(rig, f"working directory gone, {name}", result, code, *["crema"] * code)
        gone.mkdir(exist_ok=True)


def limits(rig, whole):
    """Few descriptors, small files: a clean end or none at all."""
    def limited(kind, value):
        return lambda: resource.setrlimit(kind, (value, value))
    for count in range(4, 13):
        name = f"{count} descriptors"
        folder = case(rig, name)
        result = rig.run(folder, r.TRAIN, prepare=limited(resource.RLIMIT_NOFILE, count))
        expect(rig, name, result, 0 if count >= 9 else result.code if result.code in (0, 1) else 1)
        if result.code == 0:
            same(rig, name, folder, whole)
    # ThreadSanitizer writes a file before the command begins, and ends it where none may be written.
    none = [] if "TSAN_OPTIONS" in os.environ else [0]
    for size in (*none, 100, 3000, 8000, 20000, 1 << 20):
        name = f"files of {size} bytes at most"
        folder = case(rig, name)
        result = rig.run(folder, r.TRAIN, prepare=limited(resource.RLIMIT_FSIZE, size))
        fits = size > max(map(len, whole.values()))
        expect(rig, name, result, 0 if fits else 1, *([] if fits else ["File too large"]))
        found, rest = r.snapshots(folder)
        if rest or any(value != whole.get(key) for key, value in found.items()):
            rig.fail(name, f"damaged or left over: {sorted(found)} {rest}")


def strange_libraries(rig, whole):
    """Nothing is loaded from the working directory."""
    del whole
    folder = case(rig, "libraries", next(c for c in r.CONFIGS if c.name == "hdf5_data"))
    for name in ("libhdf5_serial.so.103", "libhdf5.so", "libsz.so.2", "libcrema-hdf5.so",
                 "libcrema-cuda.so", "libc.so.6", "libdnnl.so.2"):
        (folder / name).write_text("no library")
    expect(rig, "libraries in the working directory", rig.run(folder, r.TRAIN), 0)


def stopped_and_continued(rig, whole):
    folder = case(rig, "stops")
    process = rig.start(folder, r.TRAIN)
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.001)
    expect(rig, "SIGSTOP and SIGCONT all the time", rig.end(process), 0)
    same(rig, "SIGSTOP and SIGCONT all the time", folder, whole)


def bare_environment(rig, whole):
    for name, words in (("no environment", {}), ("locale", {"LC_ALL": "de_DE.UTF-8"}),
                        ("time zone", {"TZ": "Nowhere/None"})):
        folder = case(rig, name)
        result = rig.run(folder, r.TRAIN, command=["env", "-i", "OMP_NUM_THREADS=1",
                                                   *[f"{k}={v}" for k, v in words.items()],
                                                   rig.crema])
        expect(rig, name, result, 0)
        same(rig, name, folder, whole)


def features(rig, name):
    """What extract_features writes to HDF5."""
    folder = case(rig, name)
    rig.must(folder, [*r.TRAIN, "-iterations", 2])
    rig.must(folder, ["extract_features", "s_iter_2.caffemodel", "net.prototxt", "ip1", "out.h5", 2,
                      "hdf5"])
    return (folder / "out.h5").read_bytes()


def run(rig, cases):
    del cases
    began, first = time.monotonic(), features(rig, "features")
    folder = case(rig, "usual")
    rig.must(folder, r.TRAIN)
    whole = r.snapshots(folder)[0]
    for check in (closed_descriptors, full_device, odd_names, folder_gone, limits, strange_libraries,
                  stopped_and_continued, bare_environment):
        check(rig, whole)
    time.sleep(max(0.0, began + 1.1 - time.monotonic()))
    if features(rig, "features later") != first:
        rig.fail("features at another time of day", "other bytes in out.h5")
