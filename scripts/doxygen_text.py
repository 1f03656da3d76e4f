"""What Doxygen reads, made of what people read.

The public headers have plain comments, of which one may serve several prototypes below it, and lists of
which macros make an enum. Here comments become documentation, each prototype of a group gets the
group's, and lists are written out. Documents get names for the headings that they link to.
"""
import re

COMMENT = re.compile(r"/\*(.*?)\*/", re.S)


def body(comment):
    """The lines of a comment without what frames them."""
    lines = [re.sub(r"^\s*\* ?", "", line) if i else line.strip() for i, line in
             enumerate(comment.split("\n"))]
    return [line.rstrip() for line in lines]


def escape(line):
    """Nothing in a comment means anything but itself, save names in backticks."""
    parts = re.split(r"(`[^`]*`)", line)
    plain = [re.sub(r"([\\*#@%])", r"\\\1", part).replace("<", "&lt;").replace(">", "&gt;")
             for part in parts[0::2]]
    parts[0::2] = plain
    return "".join(parts)


def documentation(comment, before="", mark="**"):
    """A comment for Doxygen; indented lines are shown verbatim, except the further lines of a list item."""
    out, drawn, item = [], False, False
    for line in body(comment):
        item = line.startswith("- ") or (item and line != "")
        inset = line.startswith("  ") and not item
        if inset != drawn:
            out.append("@verbatim" if inset else "@endverbatim")
        drawn = inset
        out.append(line if inset else escape(line))
    return f"/{mark} {before}" + "\n".join(out + ["@endverbatim"] * drawn).strip() + " */"


def write_out_lists(text):
    """A list X(name, value, ..., "text") and the enum that is made of it become that enum."""
    for name, rows in re.findall(r"#define (\w+)\(X\)((?:[^\n]*\\\n)+[^\n]*\n)", text):
        found = [re.split(r",\s*", row) for row in re.findall(r"X\((.*?)\)", rows)]
        values = "".join(f"  CREMA_{row[0]} = {row[1]}, /* {row[-1].strip(chr(34))} */\n" for row in found)
        text = text.replace(f"#define {name}(X){rows}", "")
        text = re.sub(rf"#define \w+\([^\n]*\n\s*{name}\(\w+\)\n#undef \w+\n", lambda _: values, text)
    # Their comment now stands above the enum.
    return re.sub(r"\*/\n\n(typedef enum)", r"*/\n\1", text)


def single(text):
    """Members that are declared in one line get a line each, with the comment beside or above it."""
    several = re.compile(r"((?:^[ ]+/\*[^\n]*\*/\n)?)^([ ]+(?:const )?\w+ )(\w+(?:, \w+)+);([ ]*/\*[^\n]*\*/)?$", re.M)
    return several.sub(lambda m: "\n".join(f"{m.group(1)}{m.group(2)}{name};{m.group(4) or ''}"
                                           for name in m.group(3).split(", ")), text)


def blocks(text):
    """The text cut at empty lines."""
    return re.split(r"\n[ \t]*\n", text)


def share(block):
    """Prototypes of a block that have no comment of their own get that of the one above."""
    lines, comment, out, inside = block.split("\n"), "", [], False
    for i, line in enumerate(lines):
        starts = line.startswith("CREMA_API")
        if line.startswith("/*"):
            end = next(k for k in range(i, len(lines)) if "*/" in lines[k])
            comment = "\n".join(lines[i:end + 1])
        above = lines[i - 1].rstrip() if i else ""
        if starts and comment and above and not above.endswith("*/"):
            out.append(comment)
        out.append(line)
    return "\n".join(out)


def header(text):
    # What the compiler alone is told.
    text = re.sub(r"^#define (CREMA_API|CREMA_MUST_USE|CREMA_PRINTF).*$", "", text, flags=re.M)
    text = single(write_out_lists(text))
    text = "\n\n".join(share(block) for block in blocks(text))
    out, last = [], 0
    for match in COMMENT.finditer(text):
        line = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
        out.append(text[last:match.start()])
        if match.start() == 0:
            out.append(documentation(match.group(1), before="@file\n"))
        elif line.strip():
            out.append(documentation(match.group(1), mark="**<"))
        else:
            out.append(documentation(match.group(1)))
        last = match.end()
    return "".join(out) + text[last:]


def document(text):
    """Markdown whose headings have the names that its own links use, as code hosting sites give them."""
    wanted = set(re.findall(r"\]\(#([\w-]+)\)", text))

    def name(match):
        slug = re.sub(r"[^\w -]", "", match.group(2).lower()).replace(" ", "-")
        return match.group() + (f" {{#{slug}}}" if slug in wanted else "")

    return re.sub(r"^(#+) (.*)$", name, text, flags=re.M)
