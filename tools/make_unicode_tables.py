#!/usr/bin/env python3
"""Writes the two tables of characters of src/io, each from the version of Unicode that the tokenizers library has
for that purpose (found out by asking it about every code point; tokenizers 0.23.3):

    python3.6 tools/make_unicode_tables.py normal    src/io/unicode_tables.h: NFC, Unicode 9.0
    python3.11 tools/make_unicode_tables.py recent   src/io/unicode_recent.h: what Unicode 16.0 has beyond 14.0,
                                                     which PCRE2 10.42 knows (needs unicodedata2==16.0.0)"""
import sys
import unicodedata

SURROGATES = range(0xD800, 0xE000)


def head(name, text):
    return ["/* %s - %s" % (name, text), " * Made by tools/make_unicode_tables.py. */",
            "#ifndef ZT_%s" % name.upper().replace(".", "_"), "#define ZT_%s" % name.upper().replace(".", "_"),
            "/* clang-format off */"]


def table(out, name, rows, width):
    out.append("static const uint32_t %s[][3] = {" % name)
    cells = ["{%s}" % ",".join("0x%x" % x for x in r) for r in rows]
    for i in range(0, len(cells), width):
        out.append("    " + ", ".join(cells[i:i + width]) + ",")
    out.append("};")


def normal():
    assert unicodedata.unidata_version == "9.0.0", "run this with a Python of Unicode 9.0: 3.6"
    out = head("unicode_tables.h", "canonical decompositions, compositions and combining classes, Unicode 9.0.")
    decompositions, compositions, classes = [], [], []
    for c in range(0x110000):
        d = unicodedata.decomposition(chr(c))
        if d and not d.startswith("<"):
            parts = [int(x, 16) for x in d.split()]
            decompositions.append((c, parts[0], parts[1] if len(parts) > 1 else 0))
            if len(parts) == 2 and unicodedata.normalize("NFC", chr(parts[0]) + chr(parts[1])) == chr(c):
                compositions.append((parts[0], parts[1], c))
        k = unicodedata.combining(chr(c))
        if classes and classes[-1][2] == k and classes[-1][1] == c - 1:
            classes[-1][1] = c
        elif k:
            classes.append([c, c, k])
    table(out, "decompositions", decompositions, 4)
    table(out, "compositions", sorted(compositions), 4)
    table(out, "combining", classes, 5)
    return out


def recent():
    import unicodedata2
    assert unicodedata.unidata_version == "14.0.0" and unicodedata2.unidata_version == "16.0.0"
    out = head("unicode_recent.h", "first, last, and an old character of the same category and length.")
    size = lambda c: len(chr(c).encode())
    old, rows = {}, []
    for c in range(0x2C00, 0x110000):
        if c not in SURROGATES:
            old.setdefault((unicodedata.category(chr(c)), size(c)), c)
    for c in range(0x110000):
        if c in SURROGATES or unicodedata.category(chr(c)) != "Cn":
            continue
        category = unicodedata2.category(chr(c))
        if category == "Cn":
            continue
        stand_in = old[category, size(c)]
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == stand_in:
            rows[-1][1] = c
        else:
            rows.append([c, c, stand_in])
    table(out, "recent", rows, 5)
    return out


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else ""
    makers = {"normal": (normal, "unicode_tables.h"), "recent": (recent, "unicode_recent.h")}
    if kind not in makers:
        sys.exit(__doc__)
    make, name = makers[kind]
    with open("src/io/" + name, "w") as f:
        f.write("\n".join(make() + ["/* clang-format on */", "#endif", ""]))


main()
