#!/usr/bin/env python3
"""callgraph.py FUNCTION...: the commands and public calls from which functions of the library can be
reached.
callgraph.py --unused: the functions of the library that neither reaches, beside what stands in
tests/house/test_controls.txt and unused.txt. Exits 1 when there are any.

Reads the sources as text, so that nothing needs to be built. A function leads to each function and
each table whose name stands in it, a table to the functions that stand in it; names that a macro
puts together (a##b) are put together here, too, and once for each definition of a word that headers
define in several ways. That is more than what is ever called, never less: a function that is not reached
is called by nobody but tests.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LISTS = [ROOT / "tests/house/test_controls.txt", ROOT / "tests/house/unused.txt"]
IDENTIFIER = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")

# Which command stands for all that reach a function: the first of these, else any.
PREFERRED = ["train", "test", "classify", "time", "extract_features", "device_query"]

# Likewise a public call, where none is near.
PREFERRED_CALLS = ["crema_solver_solve", "crema_net_forward", "crema_net_load"]
NEAR = 2


def strip_comments(text):
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def keep(match):
        word = match.group()
        # A name in quotes may be one that is looked up in a shared library.
        return word[1:-1] if re.fullmatch(r'"[A-Za-z_]\w*"', word) else " "

    return pattern.sub(keep, text)


def arguments(text, start):
    """The arguments of a macro whose '(' is at `start`, and the position behind its ')'."""
    depth, at, found, last = 0, start, [], start + 1
    while at < len(text):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if depth == 0:
                return found + [text[last:at].strip()], at + 1
        elif text[at] == "," and depth == 1:
            found.append(text[last:at].strip())
            last = at + 1
        at += 1
    return None, start


def expand(text, macros):
    """Replaces the macros that put names together, also those that lists are handed to."""
    for _ in range(4 if macros else 0):
        before, text = text, expand_once(text, macros)
        if text == before:
            break
    return text


def expand_once(text, macros):
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, macros)) + r")\s*\(")
    out, at = [], 0
    for match in iter(lambda: pattern.search(text, at), None):
        given, end = arguments(text, match.end() - 1)
        out.append(text[at:match.start()])
        if given is None:
            at = match.end()
            continue
        names, body = macros[match.group(1)]
        if names[-1] == "...":
            body = body.replace("__VA_ARGS__", ", ".join(given[len(names) - 1:]))
        for name, value in zip(names, given):
            body = re.sub(rf"\b{re.escape(name)}\b", lambda _, v=value: v, body)
        out.append(re.sub(r"\s*##\s*", "", body))
        at = end
    return "".join(out) + text[at:]


def definition(line):
    """(name, (parameters, body)) of a macro that names functions or puts names together, or hands something
    on to another that may."""
    match = re.match(r"\s*#\s*define\s+(\w+)\(([^)]*)\)\s*(.*)", line, re.S)
    if not match:
        return None
    names, body = [p.strip() for p in match.group(2).split(",")], match.group(3)
    hands_on = any(re.search(rf"\b{re.escape(n)}\s*\(", body) for n in names if n.isidentifier())
    leads_on = re.search(r"\bcr_\w+|\b[A-Z][A-Z0-9_]+\(", body)
    return (match.group(1), (names, body)) if "##" in body or hands_on or leads_on else None


def with_all_meanings(text, words):
    """The text once for each definition of the words in it that have several: what is compiled once per element
    type has names that end in a type."""
    for word, meanings in words.items():
        if word in text:
            text = "\n".join(text.replace(word, meaning) for meaning in sorted(meanings))
    return text


def preprocessed(path, shared):
    """The text of a file with lists (*.inc) included and names put together."""
    macros, out, block = dict(shared), [], []

    def flush():
        out.append(expand("\n".join(block), macros))
        block.clear()

    def read():
        text = strip_comments(raw).replace("\\\n", " ")
        for line in text.splitlines():
            if not line.lstrip().startswith("#"):
                block.append(line)
                continue
            flush()
            made = definition(line)
            if made:
                macros[made[0]] = made[1]
        flush()

    raw = re.sub(r"^namespace \{$", "", path.read_text(errors="replace"), flags=re.M)
    lists = re.findall(r'^\s*#\s*include\s+"([^"]+\.inc)"', raw, re.M)
    if not lists:
        read()
        return "\n".join(out)
    # Each list stands where it is included, under the macros that are defined there.
    for part in re.split(r'(^\s*#\s*include\s+"[^"]+\.inc"[^\n]*$)', raw, flags=re.M):
        included = re.match(r'\s*#\s*include\s+"([^"]+\.inc)"', part)
        if included:
            name = included.group(1)
            for folder in (path.parent, ROOT / "src", ROOT / "include"):
                if (folder / name).is_file():
                    body = strip_comments((folder / name).read_text()).replace("\\\n", " ")
                    body = re.sub(r"^\s*#.*$", "", body, flags=re.M)
                    out.append(expand(body, macros))
                    break
            continue
        for line in strip_comments(part).replace("\\\n", " ").splitlines():
            if line.lstrip().startswith("#"):
                flush()
                made = definition(line)
                if made:
                    macros[made[0]] = made[1]
            else:
                block.append(line)
        flush()
    return "\n".join(out)


def chunks(text):
    """(head, body) of each definition on the top level of a file."""
    depth = start = body = 0
    parens = 0
    for match in re.finditer(r"[{}();]", text):
        sign, at = match.group(), match.start()
        if sign == "(" and depth == 0:
            parens += 1
        elif sign == ")" and depth == 0:
            parens -= 1
        elif sign == "{":
            if depth == 0 and parens == 0:
                body = at
            depth += 1
        elif sign == "}":
            depth = max(0, depth - 1)
            if depth == 0 and parens == 0 and "=" not in text[start:body]:
                if re.search(r"\)\s*$", text[start:body]):
                    yield text[start:body], text[body:at]
                    start = at + 1
        elif sign == ";" and depth == 0 and parens == 0:
            if "=" in text[start:at]:
                head, value = text[start:at].split("=", 1)
                yield head, value
            start = at + 1


def name_of(head):
    """The name that a definition gives: what stands before the parameters, or else last."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head)
    call = re.search(r"(\w+)\s*\(", head)
    if call:
        return call.group(1)
    words = re.findall(r"\w+", re.sub(r"\[[^\]]*\]", " ", head))
    return words[-1] if words else None


class Graph:
    def __init__(self):
        self.body = {}  # node -> its text; a node is (file or None, name)
        self.functions = {}  # node -> a file where it stands
        self.files = {}  # name -> where it is defined for all
        self.shared = {}  # macros of headers
        self.words = {}  # names that headers define in more than one way
        files = sorted(p for folder in ("src", "tools") for p in (ROOT / folder).rglob("*")
                       if p.suffix in (".c", ".h", ".cu"))
        for path in files:
            if path.suffix == ".h":
                text = strip_comments(path.read_text(errors="replace")).replace("\\\n", " ")
                for line in text.splitlines():
                    made = definition(line) if line.lstrip().startswith("#") else None
                    if made:
                        self.shared[made[0]] = made[1]
                    word = re.fullmatch(r"\s*#\s*define\s+(\w+)\s+(\w+)\s*", line)
                    if word:
                        self.words.setdefault(word.group(1), set()).add(word.group(2))
        self.words = {word: meanings for word, meanings in self.words.items() if len(meanings) > 1}
        for path in files:
            self.read(path)
        self.edges = {node: self.targets(node) for node in self.body}

    def read(self, path):
        for head, body in chunks(with_all_meanings(preprocessed(path, self.shared), self.words)):
            name = name_of(head)
            if not name:
                continue
            own = re.search(r"\bstatic\b", head) and path.suffix != ".h"
            node = (path, name) if own else (None, name)
            if "(" in head and "=" not in head and name != "_Static_assert":
                self.functions.setdefault(node, path)
            self.body[node] = self.body.get(node, "") + " " + body
            if not own:
                self.files.setdefault(name, set()).add(path)

    def targets(self, node):
        found, places = set(), {node[0]} if node[0] else self.files[node[1]]
        for name in set(IDENTIFIER.findall(self.body[node])):
            own = [(path, name) for path in places if (path, name) in self.body]
            found.update(own or ([(None, name)] if (None, name) in self.body else []))
        return found - {node}

    def reached_from(self, roots):
        """The nodes that can be reached, with their distance."""
        distance = {node: 0 for node in roots}
        queue = list(roots)
        for node in queue:
            for target in self.edges.get(node, ()):
                if target not in distance:
                    distance[target] = distance[node] + 1
                    queue.append(target)
        return distance


class Uses:
    """Which command and which public call reaches a function."""

    def __init__(self):
        self.graph = Graph()
        text = "\n".join(p.read_text() for p in (ROOT / "include/crema").glob("*.h"))
        public = set(re.findall(r"^CREMA_API\b[^;]*?\b(crema_\w+)\s*\(", text, re.M | re.S))
        self.public = {n: self.graph.reached_from([(None, n)]) for n in sorted(public)
                       if (None, n) in self.graph.body}
        self.commands = {n[1].removeprefix("crema_cmd_"): self.graph.reached_from([n])
                         for n in self.graph.body if n[1].startswith("crema_cmd_")}

    @staticmethod
    def listed():
        """The functions that may be there for tests alone, and those that still have to be used."""
        lines = [line.split("#")[0].strip() for path in LISTS
                 for line in path.read_text().splitlines()]
        return [line for line in lines if line]

    def unused(self):
        """(file, name) of the functions of the library that are for nobody, and what is listed
        without need."""
        start = self.graph.reached_from([n for n in self.graph.body if n[1] == "main"])
        used = set().union(*self.public.values(), *self.commands.values(), start)
        listed = self.listed()
        allowed = self.graph.reached_from([(None, n) for n in listed])
        alone = [(path, node[1]) for node, path in self.graph.functions.items()
                 if node not in used and node not in allowed and ROOT / "src" in path.parents]
        return sorted(alone), [n for n in listed if (None, n) in used or not self.exists(n)]

    def exists(self, name):
        return any(node[1] == name for node in self.graph.body)

    def of(self, name):
        """(command or None, public call or None)."""
        nodes = [node for node in self.graph.body if node[1] == name]
        order = [c for c in PREFERRED if c in self.commands] + sorted(self.commands)
        command = next((c for c in order if any(n in self.commands[c] for n in nodes)), None)
        calls = sorted((reached[n], call) for call, reached in self.public.items() for n in nodes
                       if n in reached)
        reaching = [call for _, call in calls]
        if calls and calls[0][0] > NEAR:
            reaching = [c for c in PREFERRED_CALLS if c in reaching] + reaching
        return command, reaching[0] if reaching else None


def print_unused(uses):
    unused, idle = uses.unused()
    for path, name in unused:
        print(f"{path.relative_to(ROOT)}: {name}: reached by no command and no public call")
    for name in idle:
        print(f"tests/house: {name} is listed as unused, but is reached, or is not there at all")
    return 1 if unused or idle else 0


def main():
    uses = Uses()
    if sys.argv[1:] == ["--unused"]:
        sys.exit(print_unused(uses))
    for name in sys.argv[1:]:
        command, call = uses.of(name)
        known = "" if uses.exists(name) else "there is no such function; "
        print(f"{name}: {known}{'crema ' + command if command else 'no command'}, "
              f"{call + '()' if call else 'no public call'}")


if __name__ == "__main__":
    main()
