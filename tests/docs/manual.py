#!/usr/bin/env python3
"""The manual: prototypes of the public headers say what their parameters and errors are, and Doxygen
builds the whole without a warning where it is installed (77 otherwise, unless prototypes are at fault).

Usage: manual.py
"""
import pathlib
import re
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import doxygen_text  # noqa: E402
import manual  # noqa: E402

# What says who owns a thing that a call hands out.
OWNER = re.compile(r"\bown(s|ed)\b|storage|valid until|free with|the caller's|returns `", re.I)
PROTOTYPE = re.compile(r"^CREMA_API (?!__)[^;]*;", re.M)


def groups(text):
    """(comment, prototypes below it) of a header."""
    found = []
    for block in doxygen_text.blocks(text):
        for match in PROTOTYPE.finditer(block):
            end = block.rfind("*/", 0, match.start())
            comment = " ".join(block[block.rfind("/*", 0, max(end, 0)):end].replace("\n *", " ").split())
            if not found or found[-1][0] != comment:
                found.append((comment, []))
            found[-1][1].append(re.sub(r"\s+", " ", match.group()))
    return found


def parameters(prototype):
    """[(type, name)] of a prototype."""
    inside = re.search(r"\((.*)\)", prototype.replace("CREMA_MUST_USE", "")).group(1)
    if inside == "void":
        return []
    return [re.fullmatch(r"(.*?)(\w+)", part.strip()).groups() for part in inside.split(",")]


def is_plain(kind, name, function):
    """Whether a parameter explains itself: *out, a thing that is named for its type, or the handle that
    the function is one of."""
    return name == "out" or name in kind or function.startswith(kind.replace("const ", "").rstrip(" *") + "_")


def gaps(text):
    """What comments do not say, or say of nothing."""
    wrong = []
    known = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", " ", text, flags=re.S)))
    for comment, prototypes in groups(text):
        for prototype in prototypes:
            function = re.search(r"(crema_\w+)\(", prototype).group(1)
            wrong += [f"{function}: '{name}' is not mentioned" for kind, name in parameters(prototype)
                      if not is_plain(kind, name, function) and not re.search(rf"\b{name}\b", comment)]
            if "CREMA_API crema_status " in prototype and "rror" not in comment:
                wrong.append(f"{function}: no word about errors")
            gives = "*" in prototype[:prototype.index(function)] or "**" in prototype
            if gives and not OWNER.search(comment):
                wrong.append(f"{function}: no word about who owns what it gives")
        wrong += [f"{function}: there is no '{word}'" for word in re.findall(r"`(\w+)`", comment)
                  if word not in known]
    return wrong


def lost_paths():
    """Files and folders of the tree that documents name and that are not there."""
    wrong = []
    tops = "src|include|tests|scripts|examples|tools|fuzz|cmake"
    for page in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
        for path in set(re.findall(rf"`((?:{tops})/[\w./*-]*)`", text)):
            if not any(ROOT.glob(path.rstrip("/"))) and f"Create `{path}`:" not in text:
                wrong.append(f"{page.relative_to(ROOT)}: there is no {path}")
        for path in set(re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text)):
            if not (page.parent / path).exists():
                wrong.append(f"{page.relative_to(ROOT)}: there is no {path}")
    return wrong


def misplaced_words():
    """The glossary has each word once, in the order of the alphabet within its table."""
    page, wrong, seen = (ROOT / "docs/glossary.md").read_text(), [], set()
    for table in page.split("\n## ")[1:]:
        words = [re.sub("[`.]", "", word).lower() for word in re.findall(r"^\| (.*?) \|", table, re.M)[2:]]
        wrong += [f"docs/glossary.md: {b} stands behind {a}" for a, b in zip(words, words[1:]) if b < a]
        wrong += [f"docs/glossary.md: {word} is there twice" for word in words if word in seen]
        seen |= set(words)
    return wrong if seen else ["docs/glossary.md: no words"]


def check_that_gaps_are_seen():
    text = "/* Makes `a`. Errors: none. */\nCREMA_API crema_status crema_x(int a);\n"
    assert gaps(text) == []
    assert gaps(text.replace("Makes `a`", "Makes it")) == ["crema_x: 'a' is not mentioned"]
    assert gaps(text.replace(" Errors: none.", "")) == ["crema_x: no word about errors"]
    assert gaps("/* Gives it. */\nCREMA_API int *crema_x(void);\n") == [
        "crema_x: no word about who owns what it gives"]
    assert gaps(text.replace("`a`", "`a` of `b`")) == ["crema_x: there is no 'b'"]


def check_that_doxygen_is_heard(folder):
    """A reference that leads nowhere is a warning."""
    page = folder / "source/docs/layers/extra.md"
    original = manual.make_source
    manual.make_source = lambda source: (original(source), page.write_text("# Extra\n\n@ref nowhere\n"))
    said = manual.build(folder, "SEARCHENGINE = NO")
    manual.make_source = original
    return [] if "extra.md" in said and "nowhere" in said else [f"a warning is not heard: {said}"]


def main():
    check_that_gaps_are_seen()
    headers = sorted((ROOT / "include/crema").glob("*.h"))
    wrong = [f"{path.relative_to(ROOT)}: {gap}" for path in headers for gap in gaps(path.read_text())]
    wrong += lost_paths() + misplaced_words()
    if shutil.which("doxygen"):
        with tempfile.TemporaryDirectory() as name:
            said = manual.build(pathlib.Path(name), "SEARCHENGINE = NO")
            wrong += said.splitlines() + check_that_doxygen_is_heard(pathlib.Path(name))
    print("\n".join(wrong + [f"{len(headers)} headers, {len(wrong)} faults"]))
    if not wrong and not shutil.which("doxygen"):
        print("skipped: Doxygen is not installed (scripts/setup.sh --docs)")
        sys.exit(77)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
