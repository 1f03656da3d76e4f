#!/usr/bin/env python3
"""layer_catalogue.py FOLDER: writes the catalogue of layers as Markdown pages for Doxygen.

What it says comes from the sources: layers.inc names the types, the comment at the top of a layer's
file has its formula, its shapes, where it differs from Caffe and an example, and the schema has the
fields with their types, defaults, dialects and meanings. A part that is missing is an error.
"""
import dataclasses
import pathlib
import re
import sys

import schema

ROOT = schema.ROOT
LAYERS = ROOT / "src/layers"
LABELS = ["Formula", "Shapes", "Fields", "Caffe"]


class Missing(Exception):
    """A part that a layer's comment, or the schema, has not."""


@dataclasses.dataclass
class Layer:
    name: str
    type: str
    path: pathlib.Path
    summary: str
    parts: dict
    inputs: list
    example: str
    notes: list
    fields: list  # names of the messages in LayerParameter
    marks: str


# ---- reading ----

def types():
    """[(name, type)] of layers.inc."""
    lists = list(LAYERS.rglob("layers.inc"))
    if len(lists) != 1:
        raise Missing(f"{len(lists)} files layers.inc")
    return re.findall(r'^CR_LAYER\((\w+), "(\w+)"\)', lists[0].read_text(), re.M)


def top_comment(path):
    """The lines of the comment that a file begins with, without what frames them."""
    match = re.match(r"/\*(.*?)\*/", path.read_text(), re.S)
    if not match:
        raise Missing(f"{path}: does not begin with a comment")
    lines = match.group(1).strip().splitlines()
    return [re.sub(r"^ \* ?", "", line).rstrip() for line in lines]


def parse_inputs(text, where):
    """"x 2 3, label 2" -> [("x", [2, 3]), ("label", [2])]."""
    inputs = []
    for part in filter(None, text.strip(" ,").split(",")):
        name, *dims = part.split()
        if not all(d.isdigit() for d in dims):
            raise Missing(f"{where}: what is {part!r}?")
        inputs.append((name, [int(d) for d in dims]))
    return inputs


def parse_comment(lines, where):
    """The summary, {label: text}, inputs and text of the example, and what stands behind it."""
    summary, parts, notes, example, inputs, state = [], {}, [], [], [], "summary"
    for line in lines:
        label = re.match(r"(\w+): (.*)", line)
        start = re.fullmatch(r"Example(?:, ([^:]*))?:", line)
        if label and label.group(1) in LABELS and state != "notes":
            state = label.group(1)
            parts[state] = label.group(2)
        elif start:
            state, inputs = "Example", parse_inputs(start.group(1) or "", where)
        elif state == "Example" and line.startswith("  "):
            example.append(line[2:])
        elif state in ("Example", "notes"):
            state = "notes"
            notes.append(line)
        elif state == "summary":
            summary.append(line)
        elif line:
            parts[state] += " " + line
    paragraphs = [" ".join(p.split("\n")) for p in "\n".join(notes).strip().split("\n\n") if p]
    missing = [label for label in LABELS if label not in parts] + ([] if example else ["Example"])
    if missing:
        raise Missing(f"{where}: the comment at the top says nothing of: {', '.join(missing)}")
    return " ".join(summary).strip(), parts, inputs, "\n".join(example) + "\n", paragraphs


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def helpers(names):
    """function -> messages that it reads, of the functions that layers share."""
    found = {}
    for path in LAYERS.rglob("*.c"):
        if path.stem in names:
            continue
        for match in re.finditer(r"^[\w *]*?\b(cr_\w+)\([^;{}]*\)\s*\{(.*?)^\}", strip_comments(path.read_text()),
                                 re.M | re.S):
            found[match.group(1)] = set(re.findall(r"(?<!\bt)->(\w+_param)\b", match.group(2)))
    return found


def fields_read(code, shared):
    """The messages that a layer's file reads, by itself or through shared functions; `t` is its transform_param."""
    found = set(re.findall(r"(?<!\bt)->(\w+_param)\b", code))
    for function in set(re.findall(r"\bcr_\w+(?=\()", code)) & set(shared):
        found |= shared[function]
    return found


def read_layer(name, kind, messages, shared):
    paths = list(LAYERS.rglob(name + ".c"))
    if len(paths) != 1:
        raise Missing(f"{kind}: {len(paths)} files {name}.c")
    where = paths[0].relative_to(ROOT)
    summary, parts, inputs, example, notes = parse_comment(top_comment(paths[0]), where)
    begin = f"{kind}: "
    if not summary.startswith(begin):
        raise Missing(f"{where}: the comment does not begin with '{begin}'")
    known = {f.name: f for f in messages["LayerParameter"].fields}
    named = parts["Fields"].rstrip(".")
    fields = [] if named == "none" else named.split(", ")
    for field in fields:
        if field not in known:
            raise Missing(f"{where}: the schema has no {field}")
    # The transformation of images has fields of the same names.
    elsewhere = {f.name for f in messages["TransformationParameter"].fields}
    for field in fields_read(strip_comments(paths[0].read_text()), shared) & set(known) - elsewhere:
        if field not in fields and f"{field} is refused" not in parts["Caffe"]:
            raise Missing(f"{where}: {field} is read, but not among the Fields")
    own = [known[f] for f in fields if f not in ("transform_param", "loss_param")]
    marks = own[-1].marks if own else ""
    return Layer(name, kind, where, summary[len(begin):], parts, inputs, example, notes, fields, marks)


def read_all():
    messages, enums = schema.read()
    shared = helpers({name for name, _ in types()})
    return [read_layer(name, kind, messages, shared) for name, kind in types()], messages, enums


# ---- the example as a net ----

def example_net(layer):
    """The example with an Input layer for each of its bottoms."""
    text = "".join(f'layer {{ name: "{name}" type: "Input" top: "{name}"\n'
                   f'  input_param {{ shape {{ {" ".join(f"dim: {d}" for d in dims)} }} }} }}\n'
                   for name, dims in layer.inputs)
    return text + layer.example


# ---- writing ----

def escape(text):
    """Text for Markdown as Doxygen reads it: nothing in it means anything but itself."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("-&gt;", "→")
    return re.sub(r"([\\*|#@%])", r"\\\1", re.sub(r"`([^`]*)`", r"\1", text))


def sentence(text):
    return text[:1].upper() + text[1:]


def anchor(kind):
    return "layer_" + kind.lower()


def message_anchor(name):
    return "message_" + name.lower().replace(".", "_")


def type_of(field, message, messages, enums):
    enum = message.enums.get(field.type) or enums.get(field.type)
    if "." in field.type:
        outer, inner = field.type.rsplit(".", 1)
        enum = messages[outer].enums.get(inner)
    if enum:
        text = ", ".join(enum.values)
    elif field.type in messages:
        text = f"[{field.type}](@ref {message_anchor(field.type)})"
    else:
        text = field.type
    return text + (", any number" if field.label == "repeated" else "")


def field_table(message, messages, enums):
    lines = ["| field | type | default | dialects | meaning |", "| --- | --- | --- | --- | --- |"]
    for field in message.fields:
        if not field.comment:
            raise Missing(f"schema: {message.name}: {field.name} has no comment")
        default = "required" if field.label == "required" else field.default or "none"
        lines.append(f"| {field.name} | {type_of(field, message, messages, enums)} | {escape(default)} "
                     f"| {schema.dialects(field.marks or message.marks)} | {escape(field.comment)} |")
    return "\n".join(lines) + "\n"


def layer_page(layer, messages, enums):
    parts = [f"# {layer.type} {{#{anchor(layer.type)}}}\n", escape(sentence(layer.summary)) + "\n"]
    for label in ("Formula", "Shapes"):
        parts.append(f"**{label}.** {escape(layer.parts[label])}\n")
    parts.append(f"**Dialects.** {sentence(schema.dialects(layer.marks))}.\n")
    parts.append(f"**Compared with Caffe.** {escape(sentence(layer.parts['Caffe']))}\n")
    parts += [escape(note) + "\n" for note in layer.notes]
    known = {f.name: f.type for f in messages["LayerParameter"].fields}
    for name in layer.fields:
        message = messages[known[name]]
        if name in ("transform_param", "loss_param"):
            parts.append(f"**{name}**: see [{message.name}](@ref {message_anchor(message.name)}).\n")
            continue
        parts.append(f"## {name}\n\n{escape(message.comment)}\n\n" + field_table(message, messages, enums))
    parts.append(f"## Example\n\n```\n{example_net(layer)}```\n")
    parts.append(f"Source: `{layer.path}`\n")
    return "\n".join(parts)


def common_fields(messages):
    """LayerParameter without the messages of the types."""
    whole = messages["LayerParameter"]
    return dataclasses.replace(whole, fields=[f for f in whole.fields if not f.name.endswith("_param")])


def shared_messages(layers, messages):
    """The messages that pages refer to, directly or through others, in the schema's order."""
    known = {f.name: f.type for f in messages["LayerParameter"].fields}
    own = {known[n] for l in layers for n in l.fields} - {known["transform_param"], known["loss_param"]}
    found = {known["transform_param"], known["loss_param"]}
    waiting = [f.type for name in own | found for f in messages[name].fields]
    waiting += [f.type for f in common_fields(messages).fields]
    while waiting:
        name = waiting.pop()
        if name in messages and name not in found | own:
            found.add(name)
            waiting += [f.type for f in messages[name].fields]
    return [name for name in messages if name in found]


def index_page(layers, names):
    lines = ["# Layers {#layers}\n",
             "Every type of layer, from the comments of the sources and the schema. A layer has a `name`, a",
             "`type`, its `bottom` and `top` blobs and, for most types, a message with fields of its own; what",
             "all layers share (`param`, `loss_weight`, `include`, `propagate_down` and so on) is in",
             "[LayerParameter](@ref message_layerparameter).\n",
             "| type | what it does | dialects |", "| --- | --- | --- |"]
    lines += [f"| @subpage {anchor(l.type)} | {escape(sentence(l.summary))} | {schema.dialects(l.marks)} |"
              for l in layers]
    lines += ["", "## Messages that layers share\n"]
    lines += [f"* @subpage {message_anchor(name)}" for name in names]
    return "\n".join(lines) + "\n"


def message_page(message, messages, enums):
    return (f"# {message.name} {{#{message_anchor(message.name)}}}\n\n{escape(message.comment)}\n\n"
            + field_table(message, messages, enums))


def pages():
    """{file name: text}"""
    layers, messages, enums = read_all()
    names = shared_messages(layers, messages)
    found = {"layers.md": index_page(layers, ["LayerParameter"] + names),
             "message_layerparameter.md": message_page(common_fields(messages), messages, enums)}
    for layer in layers:
        found[anchor(layer.type) + ".md"] = layer_page(layer, messages, enums)
    for name in names:
        found[message_anchor(name) + ".md"] = message_page(messages[name], messages, enums)
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    try:
        found = pages()
    except Missing as what:
        sys.exit(f"layer_catalogue: {what}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
