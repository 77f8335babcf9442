"""Programs and evidence that the tests make themselves."""

import json
import random
import zlib

SOURCE = """
struct inner { int a; char b; };
struct stats {
    long hits;
    char flag;
    struct inner in;
    unsigned low : 3, high : 7;
    long misses;
};
struct stats global_stats;
struct stats2 { long x[20]; } other;
int main(void) { return (int)global_stats.hits; }
"""


def write_evidence(path, tables):
    """The JSON Lines form of docs/evidence.md, written from its page and not with tussle."""
    out = [json.dumps({"format": "tussle-evidence", "major": 2, "minor": 0})]
    for name, columns, rows in tables:
        body = "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows)
        crc = f"{zlib.crc32(body.encode()):08x}"
        head = {"table": name, "columns": columns, "rows": len(rows), "bytes": len(body.encode()), "crc32": crc}
        out.append(json.dumps(head) + "\n" + body.removesuffix("\n") if rows else json.dumps(head))
    end = {"table": "end", "columns": [], "rows": 0, "bytes": 0, "crc32": "00000000"}
    path.write_text("\n".join(out + [json.dumps(end)]) + "\n")


RUN = {
    "format_version": 2, "tool_version": "0.1.0", "source": "recorder", "unit": "accesses",
    "command": ["./server", "--threads"], "started_unix_s": 1700000000.5, "duration_s": 1.25, "arch": "x86_64",
    "cpu_model": "Example CPU", "cpus": 2, "line_bytes": 64, "window_vt": 1000,
    "sees": {k: k != "locks" for k in
             ["reads", "writes", "rmws", "phases", "chains", "locks", "time", "kernel_writes"]},
    "complete": True, "flags": None, "compiler": None, "seed": 7, "input_hash": None, "accesses": None, "sample_every": None,
}  # fmt: skip


def tables(seed=1, rows=200):
    """Two counters that fight, and random rows of every shape beside them."""
    r = random.Random(seed)
    maybe = lambda v: v if r.random() < 0.7 else None
    frame = lambda i: {"function": f"f{i}", "file": "a.c", "line": i + 1, "column": 0}
    accesses = [[0, 0, 8, 0, 0, 100000, 0, 50000, 0, None], [0, 8, 8, 1, 0, 100000, 0, 50000, 0, None]]
    for _ in range(rows):
        sections = r.randrange(1, 9)
        held = maybe([0, 0, sections, r.randrange(sections + 1)])
        at = r.randrange(100000)
        accesses.append([1, r.randrange(2**12), 1, r.randrange(2), at, at + r.randrange(1, 999)]
                        + [r.randrange(2**20) for _ in range(3)] + [held])  # fmt: skip
    base = {"process": 0, "kind": "heap", "size": 16, "name": None, "ty": None, "count": 1, "confidence": 0.5,
            "basis": "sizeof", "why": "é \" \\", "align": 16, "allocator": "malloc", "alloc_code": 0,
            "alloc_actor": None, "vt0": 0, "vt1": None, "live_max": 1, "region": None}  # fmt: skip
    objects = [
        {**base, "base": 4096, "name": "stats"},
        {**base, "kind": "mapped", "base": 2**64 - 2**13, "size": 2**12 + 1, "confidence": 0.0, "basis": None},
    ]
    actors = [[0, "thread", 100 + i, maybe("w"), None, 0, 0, 100000] for i in range(2)]
    code = [[0, None, 2**63 + i, [frame(j) for j in range(r.randrange(3))], [0] * r.randrange(3)] for i in range(5)]
    touches = [[0, 0, 8, 0, 0, "write", 3, None, None], [0, 8, 8, 1, 1, "write", 2, "misses", "rcu_head"]]
    operations = [
        [0, maybe(0), maybe(8), 1, 2, [[0, 0, 8, "rmw", r.randrange(99)]] * r.randrange(3), 4, maybe(True),
         None, 17, [[0, 1, 0, 8, None]], "section", [["dependent", 3]]]
        for _ in range(rows)
    ]  # fmt: skip
    return [
        ("run", list(RUN), [list(RUN.values())]),
        ("processes", ["pid", "parent", "exe", "build_id", "end"], [[100, None, "./server", "abcd", "exited"]]),
        ("modules", ["process", "path", "build_id", "start", "end", "bias"], []),
        ("actors", ["process", "kind", "number", "name", "creator", "start", "vt0", "vt1"], actors),
        ("objects", list(objects[0]), [[o[k] for k in objects[0]] for o in objects]),
        ("code", ["process", "module", "address", "frames", "chain"], code),
        ("accesses", ["object", "offset", "size", "actor", "vt0", "vt1", "reads", "writes", "rmws", "held"], accesses),
        ("touches", ["object", "offset", "size", "code", "actor", "kind", "samples", "field", "role"], touches),
        ("operations", ["actor", "lock_object", "lock_offset", "vt0", "vt1", "visits", "repeats", "shared",
                        "think_instructions", "instructions", "inner", "kind", "work"], operations),
        ("losses", ["process", "what", "count", "note"], [[None, "memory cap", 2**40, "none"]]),
    ]  # fmt: skip


def numbers(seed, rows):
    """The tables of other sources: samples, models, rates, marks."""
    r = random.Random(seed + 1000)
    maybe = lambda v: v if r.random() < 0.7 else None
    place = lambda: [r.randrange(2), 8 * r.randrange(2), 8]
    some = lambda: r.randrange(2**20)
    samples = ["object", "offset", "size", "code", "actor", "records", "hitm_local", "hitm_remote", "peer", "loads",
               "store_l1_hit", "store_l1_miss", "store_no_level", "latency_cycles", "cpus", "period", "locked",
               "blocked_data", "blocked_address", "tlb_miss", "phys_addr", "page_bytes", "rebuilt"]  # fmt: skip
    region = [0, 4096, 8192, maybe("file"), maybe(2**40), maybe(7), maybe(0), None]
    kind = lambda: r.choice(["read", "write", "rmw"])
    transfer = lambda n: [*place(), maybe(1), maybe(0), kind(), n, r.randrange(n + 1), maybe(0)]
    rate = lambda: [*place(), maybe(1), maybe(2), "conflicts", 0.5, 1.5, some(), r.random(), maybe(0.25), maybe(2.5),
                    maybe(0.75)]  # fmt: skip
    return [
        ("regions", ["process", "start", "end", "backing", "device", "inode", "offset", "parent"], [region]),
        ("schedules", ["turn_instructions", "feedback_instructions", "seed"], [[1000, maybe(0), maybe(2**63)]]),
        ("order", ["actor", "visits", "schedule"],
         [[r.randrange(2), [[*place(), "rmw"]] * r.randrange(3), maybe(0)] for _ in range(rows)]),
        ("transfers", ["object", "offset", "size", "code", "actor", "kind", "transfers", "dirty", "schedule"],
         [transfer(some()) for _ in range(rows)]),
        ("samples", samples, [[*place(), maybe(1), maybe(0)] + [some()] + [maybe(some()) for _ in samples[6:]]
                              for _ in range(rows)]),
        ("rates", ["object", "offset", "size", "actor", "code", "of", "from_s", "to_s", "events", "per_s", "low_per_s",
                   "high_per_s", "first_s"], [rate() for _ in range(rows)]),
        ("heat", ["object", "offset", "size", "reads", "writes", "within"],
         [[*place(), some(), some(), maybe(1.5)] for _ in range(rows)]),
        ("marks", ["process", "kind", "name", "count"], [[maybe(0), "operation", "put \u27f7", some()]] * 3),
        ("stretches", ["process", "vt0", "vt1"], [[maybe(0), i, maybe(i + 1)] for i in range(rows)]),
    ]  # fmt: skip
