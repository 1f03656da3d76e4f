#!/usr/bin/env python3
"""The gates of the house: rules on how the code is laid out, checked over the tree.

Prints each breach and exits 1 when there is one. Generated files and the schema are left out.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The devices as all rooms above them see them: their tables, their memory, their operations.
DEVICE = {"device", "device/backend", "device/memory"}

# A net's ground (its struct, failures) and the rooms that stand on it.
NET = {"net/common", "net/weights", "net/checks"}

# Which rooms of src/ each room may include from; every room may include its own headers and
# crema/*.h. Calls go downwards only: a room stands below all that may include from it.
ROOMS = {
    "core": set(),
    "proto": {"core"},
    "device/backend": {"core"},
    "device/memory": {"core", "device/backend"},
    "device/cpu/threads": {"core", "device/backend"},
    "device/cpu": {"core", "device/backend", "device/memory", "device/cpu/threads"},
    "device/gpu": {"core", "device/backend", "device/memory"},
    "device/cuda": {"core", "device/backend", "device/memory", "device/gpu"},
    "device/opencl": {"core", "device/backend", "device/memory", "device/gpu"},
    "device/sim": {"core", "device/backend", "device/memory", "device/cpu", "device/cpu/threads"},
    "device": {"core", "device/backend", "device/memory", "device/gpu", "device/sim"},
    "memory": {"core", *DEVICE},
    "ops": {"core", *DEVICE, "memory"},
    "data/db": {"core"},
    "data/image": {"core"},
    "data/augment": {"core", "proto", "memory", "data/db", "data/image"},
    "data/pipeline": {"core", *DEVICE, "data/db", "data/image", "data/augment"},
    "layers/common": {"core", "proto", *DEVICE, "memory", "ops", "data/pipeline"},
    "layers": {"core", "layers/common"},
    "layers/data/adapters": {"core", "data/image", "data/augment", "data/pipeline", "layers/common"},
    "layers/data": {"core", "data/image", "data/augment", "data/pipeline", "layers/common", "layers/data/adapters"},
    "layers/dense_crf": {"core", "device/memory", "layers/common"},
    "layers/detection/geometry": {"core", "data/augment", "layers/common"},
    "layers/detection": {"core", "data/augment", "layers/common", "layers/detection/geometry"},
    "layers/loss": {"core", "layers/common"},
    "layers/shape": {"core", "layers/common"},
    "net/common": {"core", "proto", "memory", "layers/common"},
    "net/weights": {"core", "proto", *DEVICE, "memory", "layers/common", "net/common"},
    "net/checks": {"core", "proto", "memory", "layers/common", "net/common"},
    "onnx/format": {"core", "proto"},
    "onnx/import": {"core", "proto", "device/backend", "onnx/format"},
    "net": {"core", "proto", *DEVICE, "memory", "ops", "data/augment", "layers", "layers/common", "layers/data",
            "onnx/format", "onnx/import", *NET},
    "onnx/export": {"core", "proto", "memory", "layers/common", "layers/detection/geometry", "net/common", "net",
                    "onnx/format"},
    "onnx": {"core", "proto", "memory", "net/common", "net", "onnx/format", "onnx/import", "onnx/export"},
    "infer": {"core", "proto", *DEVICE, "memory", "ops", "layers", "layers/common", *NET, "net"},
    "parallel": {"core", *DEVICE, "memory", "ops"},
    "solver": {"core", "proto", *DEVICE, "memory", "ops", "layers/common", *NET, "net", "parallel"},
    "record": {"core", "proto", *DEVICE, "memory", "data/image", "data/pipeline", "layers/common", "net/common", "net", "parallel",
               "solver"},
}

# Headers that only one folder may include.
FENCED = {
    r"(dnnl|oneapi/dnnl/\w+)\w*\.h": "src/device/cpu/onednn",
    r"(cblas|openblas\w*)\.h": "src/device/cpu/onednn",
    r"(cuda|cublas|cudnn|nccl|curand)\w*\.h": "src/device/cuda",
    r"CL/.*\.h": "src/device/opencl",
    r"hdf5\.h": "src/core",
    r"protobuf-c/.*\.h": "src/proto",
    r"(lmdb|leveldb/\w+|turbojpeg|png|jpeglib|tiffio|webp/decode|gif_lib)\.h": "src/data",
    r"caffe\.pb-c\.h": "src/proto",
    r"onnx\.pb-c\.h": "src/onnx/format",
    r"events\.pb-c\.h": "src/record",
}

FORBIDDEN = re.compile(r"(?<![\w.>])(exit|_exit|abort|printf|puts|putchar|perror|fprintf)\s*\(")


# Files that may call one of these, and why.
ALLOWED = {
    ("src/core/child.c", "_exit"): "ends a child process, which must not clean up what is its parent's",
    ("src/core/assert.h", "abort"): "CR_ASSERT in the presets debug, asan and tsan; a release build has none",
}

GENERATED = {"src/proto/caffe.proto"}

# Files in C++: for what a library offers to C++ alone.
CPLUSPLUS = {"src/data/db/leveldb_reader.cc"}


def sources(*patterns):
    found = []
    for pattern in patterns:
        found += sorted(ROOT.glob(pattern))
    return [p for p in found if str(p.relative_to(ROOT)) not in GENERATED]


def room_of(path):
    parts = path.relative_to(ROOT / "src").parts[:-1]
    folders = ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    return next((folder for folder in folders if folder in ROOMS), parts[0])


def strip_comments_and_strings(text):
    """Replaces comments, strings and characters by blanks, keeping line breaks."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def include_gate(breaches):
    for path in sources("src/**/*.[ch]", "src/**/*.cc", "src/**/*.inc", "src/**/*.cu"):
        room = room_of(path)
        for line, text in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', text)
            if not match:
                continue
            name = match.group(2)
            where = f"{path.relative_to(ROOT)}:{line}"
            folder = str(path.parent.relative_to(ROOT))
            for pattern, home in FENCED.items():
                if re.fullmatch(pattern, name) and not folder.startswith(home):
                    breaches.append(f"{where}: {name} may only be included under {home}")
            target = ROOT / "src" / name
            if match.group(1) == '"' and target.is_file():
                other = room_of(target)
                if other != room and other not in ROOMS[room]:
                    breaches.append(f"{where}: {room} may not include from {other}")


def floor_gate(breaches):
    """Rooms are listed from the ground up, so that no two can include from each other."""
    above = set(ROOMS)
    for room, allowed in ROOMS.items():
        above.remove(room)
        for other in allowed & above:
            breaches.append(f"tests/house/gates.py: {room} includes from {other}, which stands above it")


def forbidden_gate(breaches):
    for path in sources("src/**/*.c", "src/**/*.h", "src/**/*.cc"):
        clean = strip_comments_and_strings(path.read_text())
        for line, text in enumerate(clean.splitlines(), 1):
            match = FORBIDDEN.search(text)
            if match and (str(path.relative_to(ROOT)), match.group(1)) not in ALLOWED:
                breaches.append(f"{path.relative_to(ROOT)}:{line}: the library calls {match.group(1)}")


def language_gate(breaches):
    for path in sources("src/**/*.cc", "src/**/*.cpp", "src/**/*.cxx", "tools/*.cc", "tools/*.cpp"):
        if str(path.relative_to(ROOT)) not in CPLUSPLUS:
            breaches.append(f"{path.relative_to(ROOT)}: C++; the library is written in C")


def conditional_gate(breaches):
    lines = conditionals = 0
    for path in sources("src/**/*.[ch]"):
        if path.relative_to(ROOT / "src").parts[0] == "device":
            continue
        text = path.read_text().splitlines()
        lines += len(text)
        guard = path.suffix == ".h"
        found = [t for t in text if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b", t)]
        conditionals += len(found) - (1 if guard and found else 0)
    if conditionals > 2 * lines / 1000:
        breaches.append(f"src outside device: {conditionals} conditionals in {lines} lines (2 per 1000)")


def docstring_gate(breaches):
    for path in sources("include/crema/*.h"):
        text = path.read_text().splitlines()
        for line, t in enumerate(text):
            if not t.startswith("CREMA_API"):
                continue
            above = line - 1
            # Prototypes in one block share the comment above the block.
            while above >= 0 and text[above].strip() and not text[above].rstrip().endswith("*/"):
                above -= 1
            if above < 0 or not text[above].rstrip().endswith("*/"):
                breaches.append(f"{path.relative_to(ROOT)}:{line + 1}: prototype without a docstring")


def function_lengths(path):
    """Lengths of function bodies: a line that is '{'-opened at column 0 up to '}' at column 0."""
    text = strip_comments_and_strings(path.read_text()).splitlines()
    start = None
    for line, t in enumerate(text, 1):
        if start is None and t.rstrip().endswith("{") and ")" in t and not t.startswith(("#", "}")):
            if not t[:1].isspace() or re.match(r"    +\S", t):
                start = line
        elif start is not None and t.startswith("}"):
            yield start, line - start + 1
            start = None


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


def length_gate(breaches):
    files, functions = [], []
    for path in sources("src/**/*.[ch]", "tools/*.[ch]", "include/crema/*.h", "tests/**/*.[ch]",
                        "bench/**/*.[ch]", "fuzz/*.c", "src/**/*.cu", "examples/**/*.c", "python/**/*.[ch]"):
        count = len(path.read_text().splitlines())
        files.append(count)
        if count > 1000:
            breaches.append(f"{path.relative_to(ROOT)}: {count} lines (1000 at most)")
        if path.suffix in (".c", ".cu"):
            for start, length in function_lengths(path):
                functions.append(length)
                if length > 150:
                    breaches.append(f"{path.relative_to(ROOT)}:{start}: function of {length} lines (150 at most)")
    if percentile(files, 0.95) > 500:
        breaches.append(f"95th percentile of file length is {percentile(files, 0.95)} (500 at most)")
    if percentile(functions, 0.95) > 60:
        breaches.append(f"95th percentile of function length is {percentile(functions, 0.95)} (60 at most)")


def file_scope(text):
    """The declarations and definitions at file scope, with their lines; what stands in braces is left
    out, and so are lines of the preprocessor."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.M)
    depth, item, start, line = 0, "", None, 1
    for character in text:
        line += character == "\n"
        if character == "{":
            depth += 1
            item += "{}" if depth == 1 else ""
        elif character == "}":
            depth -= 1
            # A function ends here; the declaration of an object goes on to its semicolon.
            if depth == 0 and "(" in item and "=" not in item:
                item, start = "", None
        elif depth == 0 and character == ";":
            yield start, " ".join(item.split())
            item, start = "", None
        elif depth == 0:
            start = line if start is None and not character.isspace() else start
            item += character


def writable_globals(text):
    """Objects that live as long as the program and are neither const nor thread-local: lines and names."""
    text = strip_comments_and_strings(text)
    for line, item in file_scope(text):
        head = item.split("=")[0].strip()
        # Thread-local, a type, or declared for another file.
        if re.match(r"(typedef|extern|_Static_assert)\b", head) or "_Thread_local" in head:
            continue
        # What a pointer points to may be const while the pointer is not.
        if re.search(r"\bconst\b", head.split("*")[-1]):
            continue
        head = re.sub(r"\b(_Atomic|_Alignas|__attribute__)\s*\(+[^()]*\)+", r"\1", head)
        pointer = re.search(r"\(\s*\*[\s\w]*?(\w+)\s*(?:\[[^\]]*\]\s*)*\)\s*\(", head)
        if pointer:
            yield line, pointer.group(1)
        elif "(" not in head:
            match = re.search(r"[\w}*]\s*\b(\w+)(?:\s*\[[^\]]*\])*$", head)
            kind = re.fullmatch(r"(?:static\s+)?(?:struct|union|enum)\s+\w+(?:\s*\{\})?", head)
            if match and not kind:
                yield line, match.group(1)
    for match in re.finditer(r"^[ \t]+static\b([^;={]*?)\b(\w+)(?:\[[^\]]*\])*\s*[=;]", text, re.M):
        kind = match.group(1)
        if "_Thread_local" not in kind and not re.search(r"\bconst\b", kind.split("*")[-1]):
            yield text.count("\n", 0, match.start()) + 1, match.group(2)


# A source with objects that the gate must find: tests the gate itself.
GLOBALS = """
static struct {
  int a;
} many = {.a = 1};
static union named { int b; } one;
struct type { int c; };
int plain; /* static int comment; */
static int array[3][2] = {{1}};
static void (*call)(int x);
static _Atomic(int) counted;
static const char *moved = "static int text;";
static const int constant = 1;
static const char *const fixed = "";
static const struct {
  int a;
} table[] = {{1}};
static _Thread_local int own;
typedef struct {
  int a;
} type;
enum { X, Y };
static int f(int x) {
  static int inside = 1;
  static const int not_inside = 1;
  int local;
  return x;
}
static int prototype(int x);
#define MACRO(x) static int x##_y; \\
  int z
extern int elsewhere;
"""
FOUND = ["many", "one", "plain", "array", "call", "counted", "moved", "inside"]


def global_gate(breaches, allowed):
    found = [name for _, name in writable_globals(GLOBALS)]
    if found != FOUND:
        breaches.append(f"tests/house/gates.py: writable globals are {found}, not {FOUND}")
    for path in sources("src/**/*.c"):
        for line, name in writable_globals(path.read_text()):
            if f"{path.relative_to(ROOT / 'src')}:{name}" not in allowed:
                breaches.append(f"{path.relative_to(ROOT)}:{line}: writable global '{name}'")


def leak_gate(breaches):
    """The project speaks of itself alone: no absolute paths of a build machine."""
    for path in sources("**/*.md", "src/**/*.[ch]", "tools/*.c", "scripts/*", "tests/**/*.[chp]*"):
        if "build" in path.relative_to(ROOT).parts[0] or not path.is_file():
            continue
        for line, t in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if re.search(r"(?<![\w.])/(home|root|work)/\w", t):
                breaches.append(f"{path.relative_to(ROOT)}:{line}: absolute path of one machine")


def loop_gate(breaches):
    """One dialect: where the value is not used, the operator stands in front (++i)."""
    loop = re.compile(r"\bfor\b.*[;,] *[A-Za-z_][\w.>\[\]-]*(\+\+|--)\)")
    statement = re.compile(r"(^|\) |else |[;{}:] )\s*[A-Za-z_][\w.>\[\]-]*(\+\+|--);")
    for path in sources("src/**/*.[ch]", "src/**/*.cu", "tools/*.[ch]", "tests/**/*.[ch]", "bench/**/*.[ch]",
                        "fuzz/*.[ch]", "examples/**/*.c", "include/crema/*.h", "python/**/*.[ch]"):
        for line, t in enumerate(strip_comments_and_strings(path.read_text()).splitlines(), 1):
            if loop.search(t) or statement.search(t):
                breaches.append(f"{path.relative_to(ROOT)}:{line}: ++ or -- behind a variable whose value is not used")


def trait_gate(breaches):
    """A layer's class says what the layer is (layers/common/layer.h): nobody asks for its type.
    Devices know no layers: they use the names of ops and kernels. ONNX is another format, whose operators
    have such names, too."""
    listed = (ROOT / "src/layers/layers.inc").read_text()
    types = set(re.findall(r'^CR_LAYER\(\w+, "(\w+)"\)', listed, re.M))
    for path in sources("src/**/*.[ch]", "src/**/*.cu"):
        if path.relative_to(ROOT / "src").parts[0] in ("layers", "proto", "device", "onnx"):
            continue
        for line, t in enumerate(path.read_text().splitlines(), 1):
            for name in re.findall(r'"(\w+)"', t):
                if name in types:
                    breaches.append(f"{path.relative_to(ROOT)}:{line}: the layer type \"{name}\" outside src/layers")
    # A pass may look for one class whose state and fields it reads, or make a layer of it; whatever
    # several classes have in common is a trait.
    classes = set(re.findall(r'^CR_LAYER\((\w+),', listed, re.M))
    asked = re.compile(r"\bcr_graph_(is|rewrite|insert|new_message)\([^;{}]*?&cr_layer_\w+")
    for path in sources("src/**/*.[ch]"):
        if path.relative_to(ROOT / "src").parts[0] == "layers":
            continue
        clean = strip_comments_and_strings(path.read_text())
        rest = asked.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), clean)
        for match in re.finditer(r"&\s*cr_layer_(\w+)", rest):
            if match.group(1) in classes:
                line = rest.count("\n", 0, match.start()) + 1
                breaches.append(f"{path.relative_to(ROOT)}:{line}: the class of {match.group(1)} layers is compared with")


def tag_gate(breaches, allowed):
    """A tag of a struct, union or enum names one type in the whole tree, so that a search finds it."""
    homes = {}
    for path in sources("src/**/*.[ch]", "src/**/*.cu", "tools/**/*.[ch]"):
        text = strip_comments_and_strings(path.read_text())
        for match in re.finditer(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", text):
            homes.setdefault(match.group(1), []).append(str(path.relative_to(ROOT)))
    for tag, files in homes.items():
        if len(files) > 1 and tag not in allowed:
            breaches.append(f"the tag {tag} is defined more than once: {' '.join(files)}")
    for tag in sorted(allowed):
        if len(homes.get(tag, [])) < 2:
            breaches.append(f"tests/house/tags.txt: {tag} is defined once; remove the line")


# What is not text, and what it is for.
BINARIES = {
    "data/mnist/train-images-idx3-ubyte.gz": "MNIST, for make run",
    "data/mnist/train-labels-idx1-ubyte.gz": "MNIST",
    "data/mnist/t10k-images-idx3-ubyte.gz": "MNIST",
    "data/mnist/t10k-labels-idx1-ubyte.gz": "MNIST",
    "examples/images/cat.jpg": "the picture of the examples",
    "fuzz/corpus.tar.zst": "where the fuzz targets start",
    "models/squeezenet_v1.0/squeezenet_v1.0.caffemodel": "the model of the examples",
    "models/squeezenet_v1.0/reference.h5": "its inputs and outputs, for the tests",
    "tests/onnx/cases.tar.zst": "small ONNX files with their outputs, for the tests",
    "tests/golden/golden.tar.zst": "inputs and outputs of every layer and solver, for the tests",
}


def binary_gate(breaches):
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
    for name in listed.stdout.decode().split("\0")[:-1]:
        path = ROOT / name
        if name not in BINARIES and path.is_file() and b"\0" in path.read_bytes():
            breaches.append(f"{name}: a binary that is not on the list of binaries")
        if path.name.startswith("-"):
            breaches.append(f"{name}: a name that programs take for an option")


def allowed_names(name):
    text = (pathlib.Path(__file__).parent / name).read_text()
    return {t.split("#")[0].strip() for t in text.splitlines() if t.split("#")[0].strip()}


def main():
    breaches = []
    include_gate(breaches)
    floor_gate(breaches)
    forbidden_gate(breaches)
    language_gate(breaches)
    conditional_gate(breaches)
    docstring_gate(breaches)
    length_gate(breaches)
    global_gate(breaches, allowed_names("globals.txt"))
    leak_gate(breaches)
    loop_gate(breaches)
    trait_gate(breaches)
    tag_gate(breaches, allowed_names("tags.txt"))
    binary_gate(breaches)
    for breach in breaches:
        print(breach)
    print(f"gates: {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
