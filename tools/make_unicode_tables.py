#!/usr/bin/env python3
"""Writes src/io/unicode_tables.h: what canonical composition (NFC) needs, from Python's unicodedata."""
import sys
import unicodedata

out = ["/* unicode_tables.h - canonical decompositions, compositions and combining classes, Unicode %s."
       % unicodedata.unidata_version,
       " * Made by tools/make_unicode_tables.py. */", "#ifndef ZT_UNICODE_TABLES_H",
       "#define ZT_UNICODE_TABLES_H", "/* clang-format off */"]


def table(name, kind, rows, width):
    out.append("static const %s %s[][3] = {" % (kind, name))
    cells = ["{%s}" % ",".join("0x%x" % x for x in r) for r in rows]
    for i in range(0, len(cells), width):
        out.append("    " + ", ".join(cells[i:i + width]) + ",")
    out.append("};")


decompositions, compositions = [], []
for c in range(0x110000):
    d = unicodedata.decomposition(chr(c))
    if not d or d.startswith("<"):
        continue
    parts = [int(x, 16) for x in d.split()]
    decompositions.append((c, parts[0], parts[1] if len(parts) > 1 else 0))
    if len(parts) == 2 and unicodedata.normalize("NFC", chr(parts[0]) + chr(parts[1])) == chr(c):
        compositions.append((parts[0], parts[1], c))
compositions.sort()
classes, start = [], None
for c in range(0x110000):
    k = unicodedata.combining(chr(c))
    if classes and classes[-1][2] == k and classes[-1][1] == c - 1:
        classes[-1][1] = c
    elif k:
        classes.append([c, c, k])
table("decompositions", "uint32_t", decompositions, 4)
table("compositions", "uint32_t", compositions, 4)
table("combining", "uint32_t", classes, 5)
out += ["/* clang-format on */", "#endif", ""]
open(sys.argv[1] if len(sys.argv) > 1 else "src/io/unicode_tables.h", "w").write("\n".join(out))
