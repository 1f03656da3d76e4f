"""Reads text of nets, as far as the nets under models/ go."""
import re

TOKEN = re.compile(r'\s+|#[^\n]*|([{}:])|"([^"]*)"|([^\s{}:"#]+)')


def tokens(text):
    for match in TOKEN.finditer(text):
        mark, quoted, word = match.groups()
        if quoted is not None:
            yield ("value", quoted)
        elif mark or word:
            yield ("mark" if mark else "value", mark or word)


def value_of(word):
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(word, word)


class Message(dict):
    """Field name -> list of its values."""

    def one(self, name, default=None):
        return self[name][-1] if name in self else default

    def part(self, name):
        return self.one(name, Message())


def message(stream, nested):
    out = Message()
    for kind, name in stream:
        if kind == "mark" and name == "}" and nested:
            return out
        kind, word = next(stream)
        if (kind, word) == ("mark", ":"):
            kind, word = next(stream)
        value = message(stream, True) if (kind, word) == ("mark", "{") else value_of(word)
        out.setdefault(name, []).append(value)
    return out


def read_net(path):
    with open(path, encoding="utf-8") as file:
        return message(tokens(file.read()), False)
