#!/usr/bin/env python3
"""docs/environment.md and `crema help environment` name every environment variable that the sources read, and no others.

Usage: environment.py CREMA
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# OpenMP reads the first one for crema.
READ_BY_LIBRARIES = {"OMP_NUM_THREADS"}
# Set by mpirun, srun and crema itself, or the system's: not for users to set.
NOT_IN_HELP = {"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PATH"}
INTERNAL = {"CREMA_BENCHMARK_ROW"}
OURS = re.compile(r"\b(?:CREMA|OMP|GOMP)_[A-Z0-9_]+\b")


def read_by(text):
    """The variables that a source reads: literal arguments, and the string constants of wrappers."""
    found = re.findall(r'(?:getenv|number_in_environment)\("(\w+)"\)', text)
    found += re.findall(r'environ\.get\("(\w+)"', text)
    found += re.findall(r'(?:cr_module_open\(\w+, |cr_library_open\(|\.variable = )"(\w+)"', text)
    for macro in re.findall(r"getenv\(([A-Z_]+)\)", text):
        found += re.findall(rf'#define {macro} "(\w+)"', text)
    return set(found)


def log_flags():
    """The log's flags, which the command also takes as GLOG_NAME: the table that has -minloglevel."""
    text = "".join(path.read_text() for path in sorted((ROOT / "tools").glob("*.c")))
    table = re.search(r'\{"minloglevel", CLI_.*?\};', text, re.S).group()
    return {f"GLOG_{name}" for name in re.findall(r'\{"(\w+)", CLI_', table)}


def faults(read, page, help_text):
    """Variables that the page or the help lacks, and names there that no source reads."""
    wrong = [f"docs/environment.md lacks {name}" for name in sorted(read - INTERNAL) if f"`{name}`" not in page]
    wrong += [f"docs/environment.md has {name}, which no source reads"
              for name in sorted(set(OURS.findall(page)) - read - READ_BY_LIBRARIES)]
    if help_text is None:
        return wrong
    wanted = {name for name in read - INTERNAL - NOT_IN_HELP if not name.startswith("GLOG_")}
    wrong += [f"crema help environment lacks {name}" for name in sorted(wanted | READ_BY_LIBRARIES)
              if not re.search(rf"\b{name}\b", help_text)]
    wrong += [f"crema help environment has {name}, which no source reads"
              for name in sorted(set(OURS.findall(help_text)) - read - READ_BY_LIBRARIES)]
    return wrong if "GLOG_" in help_text else [*wrong, "crema help environment lacks GLOG_minloglevel and the rest"]


def check_itself():
    assert read_by('x = secure_getenv("CREMA_A");\n#define ROW "CREMA_B"\ngetenv(ROW);') == {"CREMA_A", "CREMA_B"}
    assert faults({"CREMA_A"}, "`CREMA_A` `OMP_B`", None) == ["docs/environment.md has OMP_B, which no source reads"]
    assert faults({"CREMA_A"}, "", None) == ["docs/environment.md lacks CREMA_A"]
    assert faults({"CREMA_A"}, "`CREMA_A`", "GLOG_v OMP_NUM_THREADS") == ["crema help environment lacks CREMA_A"]


def main():
    check_itself()
    read = log_flags()
    for pattern in ("src/**/*.c", "src/**/*.cc", "tools/*.c", "python/**/*.py", "python/src/*.c"):
        for path in ROOT.glob(pattern):
            read |= read_by(path.read_text())
    done = subprocess.run([sys.argv[1], "help", "environment"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    wrong = faults(read, (ROOT / "docs/environment.md").read_text(), done.stdout if done.returncode == 0 else None)
    print("\n".join(wrong + [f"{len(read)} variables, {len(wrong)} faults"]))
    sys.exit(1 if wrong or len(read) < 20 else 0)


if __name__ == "__main__":
    main()
