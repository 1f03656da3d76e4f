#!/usr/bin/env python3
"""Datum records as another program writes and reads them: by hand from the wire format, into text
that LMDB's own mdb_load takes and mdb_dump gives, and into LevelDB through plyvel.

interchange.py pictures FOLDER      PNG files and list.txt
interchange.py dump                 the records for mdb_load, on standard output
interchange.py check DUMP           what mdb_dump says of a database made from the pictures
interchange.py check-floats DUMP    what it says of features, which are the pixels as floats
interchange.py leveldb PATH         writes the records; leveldb-check PATH reads those of the pictures
"""
import pathlib
import struct
import sys
import zlib

COUNT, HEIGHT, WIDTH = 23, 6, 9


def pixel(index, y, x, channel):
    """Channel 0 is blue, as in a Datum."""
    return (index * 37 + y * 11 + x * 5 + channel * 71 + x * y) % 256


def label(index):
    return index * 3 % 1000


def planes(index):
    return bytes(pixel(index, y, x, c)
                 for c in range(3) for y in range(HEIGHT) for x in range(WIDTH))


def png(index):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(
            ">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + bytes(pixel(index, y, x, c) for x in range(WIDTH) for c in (2, 1, 0))
                    for y in range(HEIGHT))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def datum(index):
    """Fields in another order than crema writes them, which is as good."""
    data = planes(index)
    return (varint(5 << 3) + varint(label(index)) + varint(4 << 3 | 2) + varint(len(data)) + data +
            varint(3 << 3) + varint(WIDTH) + varint(2 << 3) + varint(HEIGHT) +
            varint(1 << 3) + varint(3))


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def parse(data):
    """Fields of a message by their number; repeated floats are joined."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            fields[number], at = read_varint(data, at)
        elif kind == 2:
            size, at = read_varint(data, at)
            fields[number] = fields.get(number, b"") + data[at:at + size]
            at += size
        elif kind == 5:
            fields[number] = fields.get(number, b"") + data[at:at + 4]
            at += 4
        else:
            raise SystemExit(f"a field of wire type {kind}")
    return fields


def read_dump(path):
    """Keys and values of mdb_dump's text, whose lines are hexadecimal."""
    lines = pathlib.Path(path).read_text().split("HEADER=END\n", 1)[1].splitlines()
    records = [bytes.fromhex(line.strip()) for line in lines if line.startswith(" ")]
    return list(zip(records[0::2], records[1::2]))


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: found {found!r:.200}, not {wanted!r:.200}")


def check(records):
    expect("number of records", len(records), COUNT)
    for index, (key, value) in enumerate(records):
        expect("key", key, b"%08d_%d.png" % (index, index))
        fields = parse(value)
        expect(f"shape of {index}", [fields[n] for n in (1, 2, 3)], [3, HEIGHT, WIDTH])
        expect(f"pixels of {index}", fields[4], planes(index))
        expect(f"label of {index}", fields[5], label(index))


def check_floats(records):
    expect("number of records", len(records), COUNT)
    for index, (_, value) in enumerate(records):
        wanted = struct.pack(f"<{3 * HEIGHT * WIDTH}f", *planes(index))
        expect(f"features of {index}", parse(value)[6], wanted)


def pictures(folder):
    folder = pathlib.Path(folder)
    folder.mkdir()
    for index in range(COUNT):
        (folder / f"{index}.png").write_bytes(png(index))
    (folder / "list.txt").write_text("".join(f"{i}.png {label(i)}\n" for i in range(COUNT)))


def dump():
    print("VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=10485760\nHEADER=END")
    for index in range(COUNT):
        print(f" {(b'%08d' % index).hex()}\n {datum(index).hex()}")
    print("DATA=END")


def main():
    what, *rest = sys.argv[1:]
    if what == "pictures":
        pictures(rest[0])
    elif what == "dump":
        dump()
    elif what == "check":
        check(read_dump(rest[0]))
    elif what == "check-floats":
        check_floats(read_dump(rest[0]))
    else:
        import plyvel
        database = plyvel.DB(rest[0], create_if_missing=what == "leveldb")
        if what == "leveldb-check":
            check(list(database))
        else:
            for index in range(COUNT):
                database.put(b"%08d" % index, datum(index))
        database.close()


main()
