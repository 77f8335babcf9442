#!/usr/bin/env python3
"""Holds the objects and types of a kernel recording against drgn, an independent reader of the same guest memory.

    tussle record-kernel --vmlinux V --workload mmap1 -o e.data --keep-memory mem.raw
    scripts/check-attribution.py e.data mem.raw V

Every distinct address in the evidence is one check: object start and cache for slab objects, start and type for
variables and per-CPU variables, index for struct page. Objects whose pages changed hands before the end cannot be
checked by memory at the end; they are counted. Needs drgn (PyPI). Exits 1 below 99% or below 10,000 addresses.
"""
import collections
import json
import mmap
import os
import struct
import sys
import tempfile

import drgn
from drgn.helpers.linux.mm import decode_page_flags  # noqa: F401  (fails early when the program is no kernel)
from drgn.helpers.linux.percpu import per_cpu_ptr
from drgn.helpers.linux.slab import slab_object_info

SAMPLE = 40_000
DIRECT = 0xFFFF888000000000


def tables(path):
    out = collections.defaultdict(list)
    columns = None
    for line in open(path):
        row = json.loads(line)
        if isinstance(row, dict):
            table, columns = row.get("table"), row.get("columns")
        else:
            out[table].append(dict(zip(columns, row)))
    return out


def program(memory, vmlinux):
    raw = mmap.mmap(os.open(memory, os.O_RDONLY), 0, prot=mmap.PROT_READ)
    # The text that the kernel keeps for crash dumps begins with its release; the kernel's own strings hold the word, too.
    at = raw.find(b"OSRELEASE=")
    while at >= 0 and b"SYMBOL(swapper_pg_dir)" not in raw[at : raw.find(b"\0", at)]:
        at = raw.find(b"OSRELEASE=", at + 1)
    info = raw[at : raw.find(b"\0", at)]
    # A crash dump as /proc/vmcore would be: one note, and all memory once by its address in the direct map.
    name = b"VMCOREINFO\0\0"
    note = struct.pack("<III", 11, len(info), 0) + name + info + b"\0" * (-len(info) % 4)
    head, page = 64 + 2 * 56, 4096
    start = (head + len(note) + page - 1) // page * page
    elf = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf += struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    elf += struct.pack("<IIQQQQQQ", 4, 0, head, 0, 0, len(note), len(note), 4)
    elf += struct.pack("<IIQQQQQQ", 1, 7, start, DIRECT, 0, len(raw), len(raw), page)
    with tempfile.NamedTemporaryFile() as core:
        core.write((elf + note).ljust(start, b"\0"))
        core.write(raw)
        core.flush()
        prog = drgn.Program()
        prog.set_core_dump(core.name)
    prog.load_debug_info([vmlinux])
    return prog


def type_name(types, id):
    body = types[id]["body"]
    if isinstance(body, dict):
        kind, value = next(iter(body.items()))
        if kind == "Aggregate" and value.get("name"):
            return value["name"]
        if kind == "Typedef":
            return value["name"]
    return None


def sized(prog, name):
    try:
        return prog.type(f"struct {name}").size
    except LookupError:
        return prog.type(f"union {name}").size


def check(prog, object, address, types):
    """True, False, or None when drgn cannot tell."""
    kind, base, name = object["kind"], object["base"], object["name"]
    if kind == "slab":
        if "given back" in object["why"]:
            return None
        info = slab_object_info(prog, address)
        if info is None:
            return False
        cache = info.slab_cache.name.string_().decode()
        same = info.address == base and object["why"].split(",")[0] == f"object of the cache {cache}"
        if same and object["ty"] is not None:
            named = type_name(types, object["ty"])
            size = sized(prog, named)
            same = size <= info.slab_cache.size or named == cache
        return same
    if kind == "global" and name and not name.startswith("*"):
        symbol = prog.symbol(address)
        if symbol.address != base:
            return False
        if object["ty"] is not None:
            try:
                theirs = prog.object(name.split("::")[-1]).type_
            except LookupError:
                return True
            ours = type_name(types, object["ty"])
            return ours is None or ours in theirs.type_name()
        return True
    if kind == "per_cpu" and name and not name.startswith("per-CPU memory"):
        variable = prog[name]
        return any(per_cpu_ptr(variable.address_of_(), cpu).value_() == base for cpu in range(CPUS))
    if object["why"] == "the array of all struct page":
        size = prog.type("struct page").size
        return (base - prog["vmemmap_base"].value_()) % size == 0 and base <= address < base + size
    return None


evidence, memory, vmlinux = sys.argv[1:4]
data = tables(evidence)
CPUS = data["run"][0]["cpus"]
prog = program(memory, vmlinux)
result, wrong = collections.defaultdict(collections.Counter), []
places = {}
for row in data["accesses"]:
    object = data["objects"][row["object"]]
    places.setdefault(object["base"] + row["offset"], object)
rare = [(a, o) for a, o in sorted(places.items(), key=lambda p: p[0]) if o["kind"] != "slab"]
slab = [(a, o) for a, o in sorted(places.items(), key=lambda p: p[0]) if o["kind"] == "slab"]
step = max(1, len(slab) // SAMPLE)
print(f"{len(places):,} distinct addresses; checked are all outside of slabs and every {step}. of the {len(slab):,} in slabs")
for address, object in rare + slab[::step]:
    try:
        same = check(prog, object, address, data["types"])
    except (LookupError, drgn.FaultError) as error:
        same = None
        wrong.append((hex(address), object["name"], str(error)))
    result[object["kind"]][same] += 1
    if same is False:
        wrong.append((hex(address), object["name"], object["why"]))
checked = sum(c[True] + c[False] for c in result.values())
right = sum(c[True] for c in result.values())
for kind, c in sorted(result.items()):
    print(f"{kind:9} same {c[True]:7,}  different {c[False]:5,}  cannot be checked {c[None]:6,}")
print(f"{checked:,} addresses checked, {100 * right / max(checked, 1):.2f}% the same object and type")
for row in wrong[:12]:
    print("  ", *row)
sys.exit(0 if checked >= 10_000 and right >= 0.99 * checked else 1)
