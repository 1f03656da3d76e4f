#!/usr/bin/env python3
"""The language of the project: banned phrases and long sentences in comments, messages, headers and documents.

language.py                checks every file against tests/house/language.tsv; exits 1 when a file has more faults than
                           the list allows, or fewer, so that the list shrinks with the text
language.py FILE...        prints the faults of these files
language.py --update       writes the list anew; refuses when the total would grow

The list names the files that were written before the rules; a new file has no faults.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "tests/house/language.tsv"
MOST_WORDS = 30

# Each phrase with what to write instead.
BANNED = [
    (r"of which", "repeat the noun, or make two sentences"),
    (r"(?:those|that) of", "repeat the noun"),
    (r"(?:the|an)other ones?|the others|the like", "repeat the noun"),
    (r"whoever|nobody|somebody", "name the caller, thread or file"),
    (r"beside", "alongside, next to, in addition to"),
    (r"of (?:its|their|his|your) own", "its own X"),
    (r"in place of", "instead of"),
    (r"by way of", "via, through"),
    (r"for want of", "for lack of"),
    (r"let(?:s|ting)? go(?: of)?", "release, free, drop"),
    (r"(?:pass(?:es|ed|ing)? over)", "skip"),
    (r"(?:leav(?:e|es|ing)|left) out", "omit, skip"),
    (r"go(?:es|ing)? on", "continue"),
    (r"warn(?:s|ed|ing)? of", "warns about"),
    (r"t(?:ells?|old|elling)", "report, print, say"),
    (r"heed(?:s|ed)?|foret(?:old|ell)|better(?:s|ed) ", "honour, predict, improve"),
    (r"alone", "only"),
    (r"(?:so|nor) (?:is|are|has|have|does|do)", "subject, verb, object"),
    (r"what (?:is|was|it|they|the|a|an|there|does|has|lies|stands|comes|goes)", "name the thing"),
    (r"processor time", "CPU time"),
    (r"integers of 8 bits", "int8"),
    (r"windows? of \d", "3x3 window"),
    (r"byte order mark", "UTF-8 BOM"),
    (r"numbers? that (?:is|are) (?:none|not finite)", "NaN or infinite"),
    (r"no longer|used to(?= \w+ed)|since then", "state the present; history is in git"),
    (r"pictures?", "image"),
]
FAULTS = [(re.compile(rf"\b(?:{pattern})\b", re.I), pattern, better) for pattern, better in BANNED]


def paragraphs_of_comments(text):
    """The comments of a C source, each one paragraph a blank comment line or a lone // block ends."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    block, last = [], None
    for match in token.finditer(text):
        word = match.group()
        if word.startswith(("\"", "'")):
            continue
        body = word[2:-2] if word.startswith("/*") else word[2:]
        lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in body.split("\n")]
        follows = word.startswith("//") and last is not None and not text[last:match.start()].strip()
        if not follows:
            yield from split_paragraphs(block)
            block = []
        block += lines
        last = match.end() if word.startswith("//") else None
    yield from split_paragraphs(block)


def split_paragraphs(lines):
    """Joins lines to paragraphs: blank lines, list items, indented formulas and rulers end one."""
    here = []
    for line in [*lines, ""]:
        item = re.match(r"\s*(?:[-*+] |\d+\. |@\w+|\w+:$)", line)
        if not line.strip() or item or re.match(r"\s{3,}|-{3,}|={3,}", line):
            if here:
                yield " ".join(here)
            here = []
        if line.strip() and not re.match(r"\s{3,}\S|[-=\s]{3,}$", line):
            here.append(line.strip())
    if here:
        yield " ".join(here)


def messages(text):
    """String literals of several words, joined where the compiler joins them."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/|^\s*#\s*include[^\n]*", lambda m: " " if '"' not in m.group() else "", text,
                  flags=re.S | re.M)
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"(?:\s*(?:PRI\w+\s*)?"(?:\\.|[^"\\\n])*")*', bare):
        parts = re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group())
        for sentence in "".join(parts).replace('\\"', '"').split("\\n"):
            if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 4:
                yield sentence


def paragraphs_of_document(text):
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->|`[^`\n]*`", lambda m: "code" if m.group()[0] == "`" else "", text, flags=re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"</?[a-z][^<>]*>", "", text)
    lines = []
    for line in text.splitlines():
        if line.lstrip().startswith("|"):
            yield from split_paragraphs(lines)
            lines = []
            yield from (cell.strip() for cell in line.split("|") if cell.strip())
        elif line.lstrip().startswith("#"):
            yield from split_paragraphs(lines)
            lines = []
        else:
            lines.append(re.sub(r"^ {1,3}(?=\S)", "", line))
    yield from split_paragraphs(lines)


def docstrings(text):
    for match in re.finditer(r'"""(.*?)"""', text, re.S):
        yield from split_paragraphs(match.group(1).split("\n"))
    for match in re.finditer(r"(?:^[ \t]*#(?!!)[^\n]*\n)+", text, re.M):
        yield from split_paragraphs([line.strip().lstrip("#") .strip() for line in match.group().splitlines()])


def paragraphs(path):
    text = path.read_text(errors="replace")
    if path.suffix == ".md":
        return list(paragraphs_of_document(text))
    if path.suffix in (".py", ".pyi"):
        return list(docstrings(text))
    found = list(paragraphs_of_comments(text))
    return found if path.suffix == ".h" and path.parts[-3] == "include" else found + list(messages(text))


def sentences(paragraph):
    return [s for s in re.split(r"(?<=[.!?])[\"')]*\s+(?=[A-Z`\"'(\[])", paragraph) if s.strip()]


def faults(path):
    for paragraph in paragraphs(path):
        for sentence in sentences(paragraph):
            words = re.findall(r"[A-Za-z][\w'-]*", sentence)
            if len(words) > MOST_WORDS:
                yield f"{len(words)} words ({MOST_WORDS} at most): {sentence}"
            for pattern, _, better in FAULTS:
                for match in pattern.finditer(sentence):
                    yield f"'{match.group()}' ({better}): {sentence}"


def files():
    listed = subprocess.run(["git", "ls-files", "src", "include", "tools", "python/caffe", "docs", "README.md",
                             "CONTRIBUTING.md", "models", "examples"], cwd=ROOT, capture_output=True, text=True,
                            check=False).stdout.split()
    paths = [ROOT / name for name in listed] or sorted(
        p for folder in ("src", "include", "tools", "python/caffe", "docs") for p in (ROOT / folder).rglob("*"))
    kinds = {".c", ".h", ".cu", ".cc", ".inc", ".md", ".py", ".pyi"}
    return [p for p in paths if p.suffix in kinds and p.is_file()]


def read_list():
    rows = [line.split("\t") for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {name: int(count) for count, name in rows}


def counts():
    found = {str(p.relative_to(ROOT)): len(list(faults(p))) for p in files()}
    return {name: count for name, count in found.items() if count}


def update(found):
    old = sum(read_list().values()) if LIST.is_file() else None
    new = sum(found.values())
    if old is not None and new > old:
        print(f"language: {new} faults, {old} in the list, which only shrinks")
        return 1
    head = "# Faults that language.py finds in files older than its rules. Each number only shrinks.\n"
    LIST.write_text(head + "".join(f"{found[name]}\t{name}\n" for name in sorted(found)))
    print(f"language: {new} faults listed")
    return 0


def self_test():
    """The checks find what they are for, in each kind of text."""
    text = ('/* The memory of which nobody\n * knows. */\nint a; // plain\n'
            'fail("%s: is passed over here");\n/* ' + "word " * 31 + ". */\n")
    found = [*paragraphs_of_comments(text), *messages(text)]
    wanted = ["The memory of which nobody knows.", "plain", ("word " * 31 + ".").strip(), "%s: is passed over here"]
    if [" ".join(f.split()) for f in found] != wanted:
        return [f"tests/house/language.py: reads {found}"]
    hits = [sum(1 for p, _, _ in FAULTS if p.search(s)) for s in wanted]
    return [] if hits == [2, 0, 0, 1] else [f"tests/house/language.py: finds {hits}"]


def main(arguments):
    if arguments == ["--update"]:
        return update(counts())
    if arguments:
        for name in arguments:
            for fault in faults(pathlib.Path(name).resolve()):
                print(f"{name}: {fault}")
        return 0
    breaches, found, allowed = self_test(), counts(), read_list()
    for name in sorted({*found, *allowed}):
        has, may = found.get(name, 0), allowed.get(name, 0)
        if has > may:
            breaches += [f"{name}: {has} faults ({may} allowed):", *(f"  {f}" for f in faults(ROOT / name))]
        elif has < may:
            breaches.append(f"{name}: {has} faults, {may} in the list: run tests/house/language.py --update")
    print("\n".join([*breaches, f"language: {sum(found.values())} faults in {len(found)} files"]))
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
