#!/usr/bin/env python3
"""macos_check.py [BUILD]: compiles the library and the command for macOS on 64-bit Arm, without linking.

It shows that the source uses nothing that macOS lacks; nothing is run. The compiler and macOS's own headers come
from Zig (`pip install ziglang`, best into a virtual environment whose python runs this script). The headers of
other libraries are this system's. BUILD [build] is a configured build folder in which the library was built."""
import concurrent.futures
import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The headers of the libraries, as a pattern under the system's include folders.
HEADERS = ["lmdb.h", "leveldb", "oneapi", "dnnl*.h", "protobuf-c", "turbojpeg.h", "jpeglib.h", "jmorecfg.h",
           "jerror.h", "jconfig.h", "tiff*.h", "webp", "gif_lib.h", "zlib.h", "zconf.h", "expat*.h", "png*.h",
           "libpng16", "H5*.h", "hdf5.h", "CL"]
KEPT = ("-D", "-std=", "-W", "-ffp-contract", "-fno-exceptions", "-fno-rtti")


def link_headers(folder):
    places = ["/usr/include", *glob.glob("/usr/include/*-linux-gnu"), "/usr/include/hdf5/serial"]
    for place in places:
        for pattern in HEADERS:
            for path in glob.glob(os.path.join(place, pattern)):
                link = os.path.join(folder, os.path.basename(path))
                if not os.path.lexists(link):
                    os.symlink(path, link)
    # Debian's HDF5 asks for a header of the GNU C library.
    open(os.path.join(folder, "features.h"), "w").close()


def command_for(entry, headers, output):
    words = shlex.split(entry["command"])
    own = [word for word in words if word.startswith("-I") and word[2:].startswith(ROOT)]
    kept = [word for word in words if word.startswith(KEPT)]
    compiler = "c++" if entry["file"].endswith(".cc") else "cc"
    # POSIX alone hides what macOS adds to it. Newer releases of Clang warn about more.
    return [sys.executable, "-m", "ziglang", compiler, "-target", "aarch64-macos", "-O1", *kept, "-D_DARWIN_C_SOURCE",
            "-Wno-unknown-pragmas", "-Wno-unknown-warning-option", "-Wno-error", *own, "-isystem", headers,
            "-c", entry["file"], "-o", output]


def main():
    build = os.path.join(ROOT, sys.argv[1] if len(sys.argv) > 1 else "build")
    with open(os.path.join(build, "compile_commands.json")) as file:
        entries = json.load(file)
    chosen = [entry for entry in entries if entry["file"].startswith((ROOT + "/src/", ROOT + "/tools/"))]
    if not chosen:
        sys.exit("no sources were found in " + build)
    with tempfile.TemporaryDirectory() as folder:
        headers = os.path.join(folder, "include")
        os.mkdir(headers)
        link_headers(headers)

        def complaint(numbered):
            number, entry = numbered
            command = command_for(entry, headers, os.path.join(folder, "%d.o" % number))
            run = subprocess.run(command, cwd=build, capture_output=True, text=True)
            return entry["file"] + "\n" + run.stderr if run.returncode else ""

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            complaints = [text for text in pool.map(complaint, enumerate(chosen)) if text]
    sys.stderr.writelines(complaints)
    print("%d of %d sources compile for macOS" % (len(chosen) - len(complaints), len(chosen)))
    sys.exit(1 if complaints else 0)


main()
