"""Each system call on files fails in its turn: what has to hold afterwards.

The command never dies of a signal and never hangs. An interrupted or short call makes no difference.
After any other error the command either says so, naming the file, with a non-zero exit code, or the
fault does not show in what it writes. No file under a final name is damaged, and the same command
without a fault succeeds afterwards and leaves nothing else behind. The same holds after a kill before
each call that changes something.
"""
import collections
import re
import shutil
import signal

import rig as r

Scenario = collections.namedtuple("Scenario", "name arguments prepare databases config")

READS = ["read", "pread64", "readv", "preadv"]
WRITES = ["write", "pwrite64", "writev", "pwritev"]
SYNCS = ["fsync", "fdatasync"]
NAMES = ["rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir",
         "mkdirat", "rmdir"]
LOOKS = ["stat", "lstat", "fstat", "newfstatat", "statx", "access", "lseek", "getdents64",
         "readlink"]
OPENS = ["open", "openat", "create"]

# Which calls may end with which error.
FAULTS = {
    "EINTR": OPENS + READS + WRITES + SYNCS + ["ftruncate", "flock", "fallocate"],
    "short": READS + WRITES,
    "EIO": OPENS + READS + WRITES + SYNCS + NAMES + LOOKS + ["close", "ftruncate", "mmap", "flock",
                                                            "fcntl", "fchmod", "msync"],
    "ENOSPC": ["create", "rename", "renameat", "renameat2", "link", "linkat", "mkdir", "mkdirat",
               "ftruncate", "fallocate"] + WRITES + SYNCS,
    "EMFILE": OPENS,
    "ENOMEM": ["mmap"],
    "EACCES": OPENS + NAMES,
    # Not a fault: kill -9 just before a call that changes something.
    "KILL": ["create", "ftruncate", "fallocate"] + WRITES + SYNCS + NAMES,
}
HARMLESS = ("EINTR", "short")


def train(config_name, more=()):
    config = next(c for c in r.CONFIGS if c.name == config_name)
    solver = re.sub(r"snapshot: \d", "snapshot: 2", config.solver)
    config = config._replace(solver=solver)

    def prepare(rig, folder):
        r.write_case(folder, config, 4)
        if more:
            rig.must(folder, [*r.TRAIN, "-iterations", 2])
    return Scenario(("resume " if more else "train ") + config_name, [*r.TRAIN, *more], prepare, [],
                    config)


def write_deploy(rig, folder):
    """A net that is used, with weights."""
    net = """
      layer { name: "in" type: "Input" top: "data"
        input_param { shape { dim: 1 dim: 1 dim: 12 dim: 12 } } }""" + r.MLP + """
      layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
        inner_product_param { num_output: 10 } }
      layer { name: "prob" type: "Softmax" bottom: "ip2" top: "prob" }"""
    (folder / "deploy.prototxt").write_text(net)
    r.write_case(folder, r.CONFIGS[0], 1)
    rig.must(folder, r.TRAIN)
    (folder / "s_iter_1.caffemodel").rename(folder / "w.caffemodel")
    (folder / "s_iter_1.solverstate").unlink()
    (folder / "names").write_text("".join(f"class {k}\n" for k in range(10)))


def write_old(rig, folder):
    write_deploy(rig, folder)
    (folder / "old.prototxt").write_text(
        'name: "old" input: "data" input_dim: 1 input_dim: 1 input_dim: 4 input_dim: 4\n'
        'layers { name: "ip" type: INNER_PRODUCT bottom: "data" top: "ip"\n'
        '  inner_product_param { num_output: 2 } }\n')
    (folder / "old_solver.prototxt").write_text('net: "old.prototxt" solver_type: ADAM base_lr: 1\n')


def nothing(rig, folder):
    pass


def tool(name, arguments, prepare=nothing, databases=()):
    return Scenario(name, arguments, prepare, list(databases), None)


IDX = ["../data/images", "../data/labels"]
FEATURES = ["extract_features", "w.caffemodel", "net.prototxt"]
SCENARIOS = [
    train("sgd"),
    train("rmsprop"),
    train("adadelta"),
    train("hdf5_data"),
    train("windows"),
    train("adagrad", ["-snapshot", "s_iter_2.solverstate"]),
    train("adam", ["-snapshot", "s_iter_2.solverstate.h5"]),
    tool("convert_mnist lmdb", ["convert_mnist", *IDX, "out"], databases=["out"]),
    tool("convert_mnist leveldb", ["convert_mnist", "-backend", "leveldb", *IDX, "out"],
         databases=["out"]),
    tool("convert_imageset", ["convert_imageset", "-gray", "-encoded", "../data/", "../data/list.txt",
                              "out"], databases=["out"]),
    tool("convert_imageset leveldb", ["convert_imageset", "-gray", "-backend", "leveldb", "../data/",
                                      "../data/list.txt", "out"], databases=["out"]),
    tool("compute_image_mean", ["compute_image_mean", "../data/lmdb", "mean.binaryproto"]),
    tool("data_stats", ["data_stats", "../data/leveldb"]),
    tool("test", ["test", "-model", "net.prototxt", "-weights", "w.caffemodel", "-iterations", 2],
         write_deploy),
    tool("classify", ["classify", "-model", "deploy.prototxt", "-weights", "w.caffemodel", "-labels",
                      "names", "../data/1.png"], write_deploy),
    tool("extract_features lmdb", [*FEATURES, "ip1", "out", 2, "lmdb"], write_deploy, ["out"]),
    tool("extract_features hdf5", [*FEATURES, "ip1", "out.h5", 2, "hdf5"], write_deploy),
    tool("upgrade_net_proto_text", ["upgrade_net_proto_text", "old.prototxt", "new.prototxt"],
         write_old),
    tool("upgrade_net_proto_binary", ["upgrade_net_proto_binary", "w.caffemodel", "new.caffemodel"],
         write_old),
    tool("convert_model", ["convert_model", "-to", "FLOAT16", "w.caffemodel", "new.caffemodel"],
         write_old),
    tool("upgrade_solver_proto_text", ["upgrade_solver_proto_text", "old_solver.prototxt",
                                       "new.prototxt"], write_old),
]


def said(text):
    """What a run said about its results: losses, scores, statistics."""
    found = []
    for line in text.splitlines():
        line = re.sub(r"^[IWE]\d{4} [^]]*\] ", "", line)
        if re.match(r"(Iteration \d+|    T|\d\.\d+ - |Batch|label|records|class|mean|shape)", line):
            found.append(re.sub(r" \([0-9.e+-]* iter.*iters\)", "", line))
    return found


def files_of(folder, scenario, inputs=()):
    """The files a run has left, but for databases, and the names of what is left half done."""
    found, drafts = {}, []
    for path in sorted(folder.iterdir()):
        if path.name in inputs or path.name in scenario.databases:
            continue
        if ".tmp" in path.name:
            drafts.append(path.name)
        elif path.is_file():
            found[path.name] = path.read_bytes()
        else:
            drafts.append(path.name + "/")
    return found, drafts


def records(rig, folder, name):
    """What a database says of itself; None where there is none."""
    if not (folder / name).exists():
        return None
    result = rig.run(folder, ["data_stats", name])
    return (result.code, [t for t in result.text.splitlines() if not re.match(r"[IW]\d{4} ", t)])


def names_file(rig, text, paths, folder):
    """Whether the error line names a file that met the fault, or the folder that it is in."""
    errors = [t for t in text.splitlines() if t.startswith("crema: error:")]
    if len(errors) != 1:
        return False
    for path in paths:
        inside = path.replace(" (deleted)", "").replace(str(rig.folder), "").split("/")
        parts = {re.sub(r"\.tmp\..*", "", part) for part in inside}
        known = parts - {"data", folder.name, "", ".", ".."}
        if any(part.startswith("s_iter_") for part in known):
            known.add('snapshot_prefix "s"')
        # Nothing is left where the call was about the folder of all.
        if not known or any(part in errors[0] for part in known):
            return True
    return False


def in_library(path):
    """Whether LMDB, LevelDB or HDF5 make the calls on this file."""
    return re.search(r"/(lmdb|leveldb|out[^/]*)(/|$)|\.h5$", path) is not None


Expected = collections.namedtuple("Expected", "files every stats said calls")


def count(rig, scenario):
    folder = rig.new_folder("count_" + scenario.name.replace(" ", "_"))
    scenario.prepare(rig, folder)
    inputs = {path.name for path in folder.iterdir()}
    result = rig.inject(folder, scenario.arguments, under=rig.folder)
    files, drafts = files_of(folder, scenario, inputs)
    stats = {name: records(rig, folder, name) for name in scenario.databases}
    if result.code != 0 or drafts:
        rig.fail(scenario.name, f"without a fault: exit code {result.code}, left {drafts}", result.text)
    every = every_snapshot(rig, scenario)
    return Expected(files, every, stats, said(result.text), result.calls)


def every_snapshot(rig, scenario):
    """What training that ends with an error may leave: the snapshot of the iteration that it was at."""
    if scenario.config is None:
        return {}
    folder = rig.new_folder("every_" + scenario.name.replace(" ", "_"))
    scenario.prepare(rig, folder)
    solver = folder / "solver.prototxt"
    solver.write_text(re.sub(r"snapshot: \d", "snapshot: 1", solver.read_text()))
    rig.must(folder, scenario.arguments)
    return r.snapshots(folder)[0]


def is_excused(key, scenario, text):
    """A snapshot before the last may be missing where a warning says so."""
    last = scenario.config is not None and "_iter_4." in key
    return scenario.config is not None and not last and re.search(r"^W.*s_iter_", text, re.M)


def check_files(rig, name, folder, scenario, inputs, expected, all_of_them, text):
    files, drafts = files_of(folder, scenario, inputs)
    for key, value in files.items():
        if value != expected.files.get(key, expected.every.get(key)):
            rig.fail(name, f"{key} looks finished and is damaged ({len(value)} bytes)")
    for key in scenario.databases:
        now = records(rig, folder, key)
        if now is not None and now != expected.stats[key]:
            rig.fail(name, f"database {key} looks finished and is not: {now[1][-1:]}")
        if now is None and all_of_them:
            rig.fail(name, f"no database {key}")
    lost = [key for key in expected.files if key not in files and not is_excused(key, scenario, text)]
    if all_of_them and lost:
        rig.fail(name, f"no {lost}", text)
    return drafts


def run_case(rig, case):
    number, scenario, expected, fault, at, on = case
    name = f"{scenario.name}: {fault} {'from' if on else 'at'} call {at}"
    folder = rig.new_folder(f"calls_{number}")
    scenario.prepare(rig, folder)
    inputs = {path.name for path in folder.iterdir()}
    result = rig.inject(folder, scenario.arguments, fault, at, under=rig.folder,
                        calls=FAULTS[fault], on=on)
    where = next((f"{call} {path}" for index, call, path in result.calls if index == at), "")
    where = where.replace(str(rig.folder), "").replace(folder.name, "case")
    name += f" ({where})"
    rig.count(f"{fault}{', lasting' if on else ''}")
    killed = fault == "KILL" and result.signal == signal.SIGKILL
    if not killed and (result.signal or result.code is None or result.code > 1):
        rig.fail(name, "hangs" if result.code is None else f"ends with {result.code}", result.text)
    same = result.code == 0 and said(result.text) == expected.said
    if fault in HARMLESS and not same and not all(in_library(path) for path in result.met):
        rig.fail(name, f"makes a difference, exit code {result.code}", result.text)
    if fault not in HARMLESS and result.code == 0 and result.met and not same:
        rig.fail(name, "exit code 0 with other results", result.text)
    if result.code == 1 and not names_file(rig, result.text, result.met, folder):
        rig.fail(name, "the error does not name the file", result.text)
    check_files(rig, name, folder, scenario, inputs, expected, result.code == 0, result.text)
    again(rig, name, folder, scenario, inputs, expected)


def again(rig, name, folder, scenario, inputs, expected):
    """The same command without a fault."""
    for key in scenario.databases:
        if records(rig, folder, key) == expected.stats[key]:
            shutil.rmtree(folder / key)
    if "out.h5" in expected.files:
        (folder / "out.h5").unlink(missing_ok=True)
    result = rig.run(folder, scenario.arguments)
    if result.code != 0:
        rig.fail(name, f"afterwards, without a fault: exit code {result.code}", result.text)
    drafts = check_files(rig, name + " afterwards", folder, scenario, inputs, expected, True,
                         result.text)
    if drafts:
        rig.fail(name, f"left over afterwards: {drafts}")
    shutil.rmtree(folder)


def run(rig, cases, only=""):
    """All calls in turn, or `cases` of them drawn at random."""
    work, number = [], 0
    scenarios = [s for s in SCENARIOS if re.search(only, s.name)]
    if rig.short:
        scenarios = rig.random.sample(scenarios, 3)
    for scenario in scenarios:
        expected = count(rig, scenario)
        for fault, kinds in FAULTS.items():
            met = [(call, path) for _, call, path in expected.calls if call in kinds]
            for at, (call, path) in enumerate(met, 1):
                work.append((number, scenario, expected, fault, at, False))
                number += 1
                if fault == "ENOSPC":
                    work.append((number, scenario, expected, fault, at, True))
                    number += 1
    if not rig.short:
        rig.count("cases that there are", len(work))
    if cases and cases < len(work):
        work = rig.random.sample(work, cases)
    rig.each(lambda case: run_case(rig, case), work)
