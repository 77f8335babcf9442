"""What gdb knows of the types named in a file, one line each; for crates/debuginfo/tests/cxx_programs.rs.

    TYPE_NAMES=names.txt gdb -nx -batch PROGRAM -x scripts/gdb-layouts.py

    T name size                          a type, then its members in order:
    M offset_bits bits name              a field (also the vtable pointer)
    B offset_bits bytes name             a base
    V offset_bytes|? bytes name          a virtual base, through the vtable where the program has one
    X text                               gdb's own `ptype /o` says otherwise than its fields
Columns are separated by tabs. A name that gdb does not find has no line.
"""
import os
import re

import gdb

LINE = re.compile(r"^/\*\s+(\d+)(?::\s*(\d+))?\s+\|\s+(\d+) \*/ {4}\S")
TOTAL = re.compile(r"total size \(bytes\):\s+(\d+)|total size:\s+(\d+) bytes")


def struct(name):
    for keyword in ("struct ", "", "union "):
        try:
            found = gdb.lookup_type(keyword + name).strip_typedefs()
        except gdb.error:
            continue
        if found.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) and found.sizeof > 0:
            return found
    return None


def virtual_base(of, base):
    """A VTT begins with the address of the vtable, as an object does: it is read as one."""
    try:
        at = int(gdb.parse_and_eval("(long) &'VTT for %s'" % of.name))
        return int(gdb.Value(at).cast(of.pointer()).cast(base.pointer())) - at
    except gdb.error:
        return None


def members(of):
    for f in of.fields():
        size = f.type.sizeof if f.type is not None else 0
        if f.is_base_class:
            base = f.type.strip_typedefs().name
            at = getattr(f, "bitpos", None)
            if at is None:
                at = virtual_base(of, f.type)
                yield ("V", "?" if at is None else at, size, base)
            else:
                yield ("B", at, size, base)
        elif hasattr(f, "bitpos"):
            yield ("M", f.bitpos, f.bitsize or size * 8, f.name or "")


def printed(of):
    """Offsets and sizes of the direct members in `ptype /o`, and the total."""
    text = gdb.execute("ptype /o struct %s" % of.name, to_string=True)
    direct = set()
    for line in text.splitlines():
        m = LINE.match(line)
        if m:
            direct.add((int(m[1]) * 8 + int(m[2] or 0), int(m[3])))
    total = TOTAL.findall(text)
    return direct, int("".join(total[-1])) if total else None


def check(of, fields):
    try:
        direct, total = printed(of)
    except gdb.error:
        return None
    known = {at for kind, at, _, _ in fields if kind == "M"}
    strange = sorted(at for at, _ in direct if at not in known)
    if strange or (total is not None and total != of.sizeof):
        return "%s: ptype /o has %s, total %s" % (of.name, strange, total)
    return None


def main():
    gdb.execute("set print type methods off")
    gdb.execute("set print type typedefs off")
    gdb.execute("set max-value-size unlimited")
    for name in open(os.environ["TYPE_NAMES"]).read().splitlines():
        of = struct(name)
        if of is None:
            continue
        fields = list(members(of))
        print("T\t%s\t%d" % (name, of.sizeof))
        for f in fields:
            print("\t".join(str(x) for x in f))
        if of.code == gdb.TYPE_CODE_STRUCT:
            wrong = check(of, fields)
            if wrong:
                print("X\t%s" % wrong)


main()
