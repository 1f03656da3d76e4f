"""The schema, src/proto/caffe.proto, read as data: messages and enums with their comments.

A comment above a field, a message or an enum belongs to it. A comment at the end of a line names the
dialects that have what stands there, where not all three do: "nv|ssd".
"""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "src/proto/caffe.proto"

DIALECTS = {"bvlc": "BVLC", "nv": "NVIDIA", "ssd": "SSD", "crema": "crema alone",
            "forks": "other forks"}
LINE = re.compile(r"(optional|required|repeated) ([\w.]+) (\w+) = (\d+)(?: \[(.*)\])?;(?:\s*// (\S+))?$")


@dataclasses.dataclass
class Field:
    label: str
    type: str
    name: str
    default: str
    marks: str
    comment: str


@dataclasses.dataclass
class Enum:
    name: str
    comment: str
    values: list


@dataclasses.dataclass
class Message:
    name: str
    comment: str
    marks: str
    fields: list = dataclasses.field(default_factory=list)
    enums: dict = dataclasses.field(default_factory=dict)


def dialects(marks):
    """"nv|ssd" in words; no mark: all three."""
    return ", ".join(DIALECTS[m] for m in marks.split("|")) if marks else "all"


def field_of(line, comment):
    label, kind, name, _, options, marks = LINE.match(line).groups()
    default = re.search(r"default = (\"[^\"]*\"|[^,\]\s]+)", options or "")
    # The text format leaves out the underscore that keeps a name apart from a member of C structs.
    return Field(label, kind, name.rstrip("_"), default.group(1) if default else "", marks or "", comment)


def read(path=SCHEMA):
    """name -> Message, and name -> Enum for those outside of messages. Nested messages are named
    Outer.Inner."""
    messages, enums, open_, comment = {}, {}, [], []
    for raw in path.read_text().splitlines():
        line = raw.strip()
        start = re.match(r"(message|enum) (\w+) \{(?:\s*// (\S+))?$", line)
        if line.startswith("//"):
            comment.append(line[2:].strip())
            continue
        text, comment = " ".join(comment), []
        if start:
            kind, name, marks = start.groups()
            if kind == "message":
                name = ".".join([o.name for o in open_] + [name])
                messages[name] = Message(name, text, marks or "")
                open_.append(messages[name])
            else:
                (open_[-1].enums if open_ else enums)[name] = Enum(name, text, [])
                open_.append((open_[-1].enums if open_ else enums)[name])
        elif line == "}":
            open_.pop()
        elif open_ and isinstance(open_[-1], Enum) and line:
            open_[-1].values.append(line.split(" =")[0])
        elif LINE.match(line):
            open_[-1].fields.append(field_of(line, text))
    return messages, enums
