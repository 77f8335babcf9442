"""A dataset as a fleet would leave it, from a seed, with answers that are known because they were put in.

Written apart from the queries and from tussle: it knows the layout of docs/fleet.md only.

    python generate.py FOLDER --runs 10000 --accesses 10000 --seed 1

writes FOLDER and FOLDER/.planted.json.
"""

import argparse
import json
import pathlib
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CPUS = ["Example Gold 96C", "Example EPYC 64C", "Example Arm 80C"]
BUILDS = [f"b{i:02}" for i in range(6)]
TOOL = "0.1.0"
FIRST_S = 1_760_000_000
# Rate of the planted fields: transfers of a million accesses. Everybody else has at most 2,000 on average.
TOP = [("struct conn", "struct conn.refs \u27f7 struct conn.stats", 90_000),
       ("struct pool", "struct pool.head \u27f7 struct pool.tail", 60_000),
       ("struct cache", "struct cache.hits \u27f7 struct cache.lock", 40_000)]  # fmt: skip
REGRESSION = ("struct queue", "struct queue.len \u27f7 struct queue.cap", 1_500, 1.6)
NEW = ("struct shard", "struct shard.seq \u27f7 struct shard.map", 3_000)
# As loud as the top fields, but on one host: it must not be the first of all hosts.
LONELY = ("struct debug", "struct debug.a \u27f7 struct debug.b", 200_000)
ACCESSES = 50_000_000
# What `check` said of each build: this rule breaks from the fourth build on.
RULE = ("struct queue", "queue-apart", BUILDS[3:])


def day_of(seconds):
    return str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))


def write(folder, kind, run, table):
    path = pathlib.Path(folder, f"kind={kind}", f"day={run['day']}", f"host={run['host']}", f"build={run['build']}")
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path / f"{run['run']}.parquet", compression="zstd")


def fields_of(run, noise, background):
    """(type, fields, transfers of a million accesses) of one run."""
    host = run["host_number"]
    loud = [(t, f, rate) for t, f, rate in TOP]
    t, f, rate, factor = REGRESSION
    loud.append((t, f, rate * (factor if run["build"] == BUILDS[-1] else 1)))
    if run["build"] == BUILDS[-1]:
        loud.append(NEW)
    if host == 0:
        loud.append(LONELY)
    # Hosts differ by a lot, and so do runs; builds do not, but for what is planted.
    rows = [(t, f, r * run["host_factor"] * float(np.exp(noise.normal(0, 0.1)))) for t, f, r in loud]
    pick = noise.choice(len(background), size=100 - len(rows), replace=False)
    for i in pick:
        t, f, r, spread = background[i]
        rows.append((t, f, r * run["host_factor"] * float(np.exp(noise.normal(0, spread)))))
    return sorted(rows, key=lambda r: -r[2])


def lines(run, rows):
    n = len(rows)
    text = lambda v: pa.array(v, pa.large_string())
    rate = np.array([r[2] for r in rows])
    return pa.table({
        "run": text([run["run"]] * n), "tool_version": text([TOOL] * n), "exe": text(["/usr/bin/server"] * n),
        "rank": np.arange(1, n + 1), "type_name": text([r[0] for r in rows]), "fields": text([r[1] for r in rows]),
        "field_a": text([r[1].split(" \u27f7 ")[0] for r in rows]),
        "field_b": text([r[1].split(" \u27f7 ")[-1] for r in rows]),
        "class": text(["a layout helps"] * n), "unit": text(["accesses"] * n),
        "phase_bytes": pa.array([run["phase"]] * n, pa.uint64()), "e": rate * ACCESSES / 1e6,
        "transfers": rate * ACCESSES / 1e6, "removable_share": np.full(n, 0.9), "threads": text(["4 x worker()"] * n),
        "code_a": text(["a.c:1"] * n), "code_b": text(["b.c:2"] * n),
    })  # fmt: skip


def run_row(run):
    one = lambda v, t=None: pa.array([v], t)
    s = pa.large_string()
    return pa.table({
        "run": one(run["run"], s), "schema": one(1, pa.int64()), "tool_version": one(TOOL, s),
        "source": one("recorder", s), "unit": one("accesses", s), "command": one("./server", s),
        "started_unix_s": one(run["started"]), "duration_s": one(60.0), "cpu_model": one(run["cpu"], s),
        "cpus": one(64, pa.int64()), "kernel": one("6.1.0", s), "arch": one("x86_64", s), "complete": one(True),
        "accesses": one(ACCESSES, pa.int64()),
    })  # fmt: skip


def accesses(run, n, noise):
    u = lambda v: pa.array(v.astype(np.uint64))
    counts = noise.integers(0, 1000, n)
    return pa.table({
        "run": pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [run["run"]]).cast(pa.large_string()),
        "object": u(noise.integers(0, 200, n)), "offset": u(noise.integers(0, 4096, n)), "size": u(np.full(n, 8)),
        "actor": u(noise.integers(0, 64, n)), "vt0": u(np.arange(n) * 1000), "vt1": u(np.arange(n) * 1000 + 1000),
        "reads": u(counts), "writes": u(counts // 3), "rmws": u(np.zeros(n)),
    })  # fmt: skip


def checked(folder, build):
    """A sweep's answers about one build: twenty rules, of which one may be broken."""
    s = pa.large_string()
    ids = [f"rule-{i:02}" for i in range(19)] + [RULE[1]]
    broken = [r == RULE[1] and build in RULE[2] for r in ids]
    text = lambda v: pa.array(v, s)
    n, tasks = len(ids), [f"{build}-{r}" for r in ids]
    first = n * BUILDS.index(build)
    day = day_of(FIRST_S + 86_400 * BUILDS.index(build))
    run = {"day": day, "host": "ci", "build": "plan-1", "run": f"batch-{build}"}
    write(folder, "checks", run, pa.table({
        "task": text(tasks), "batch": text([run["run"]] * n), "subject": text([build] * n),
        "rules": text(["rules.toml"] * n), "tool_version": text([TOOL] * n), "type_name": text([RULE[0]] * n),
        "rule": text(ids), "status": text(["violated" if b else "holds" for b in broken]),
        "message": text(["share a line" if b else None for b in broken]),
    }))  # fmt: skip
    write(folder, "answers", run, pa.table({
        "task": text(tasks), "batch": text([run["run"]] * n), "plan": text(["plan-1"] * n),
        "job": pa.array(range(first, first + n), pa.int64()), "verb": text(["check"] * n),
        "parameters": text(["{}"] * n),
        "tool_version": text([TOOL] * n), "status": pa.array([int(b) for b in broken], pa.int64()),
        "error": text([None] * n), "document": text(["{}"] * n),
    }))  # fmt: skip


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("folder")
    ask.add_argument("--runs", type=int, default=200)
    ask.add_argument("--accesses", type=int, default=0)
    ask.add_argument("--seed", type=int, default=1)
    a = ask.parse_args()
    words, noise = random.Random(a.seed), np.random.default_rng(a.seed)
    hosts = max(6, a.runs // (2 * len(BUILDS)))
    factors = np.exp(noise.normal(0, 0.5, hosts))
    # What is not known is null: the type of one field, the CPU of one host.
    background = [(f"struct t{i}" if i else None, f"struct t{i}.x \u27f7 struct t{i}.y",
                   float(noise.uniform(10, 2_000)), float(noise.uniform(0.05, 0.6)))
                  for i in range(160)]  # fmt: skip
    pathlib.Path(a.folder).mkdir(parents=True, exist_ok=True)
    pathlib.Path(a.folder, "tussle-dataset.json").write_text('{"format":"tussle-dataset","schema":1}\n')
    days = set()
    for i in range(a.runs):
        host, build = i % hosts, BUILDS[(i // hosts) % len(BUILDS)]
        started = FIRST_S + 5 * 86_400 * BUILDS.index(build) + (i % 4) * 86_400 + i % 1000
        run = {"run": f"{words.getrandbits(128):032x}", "host": f"h{host:05}", "host_number": host, "build": build,
               "host_factor": float(factors[host]), "started": float(started), "day": day_of(started),
               "cpu": CPUS[host % len(CPUS)] if host != 1 else None, "phase": 8 * (i % 8)}  # fmt: skip
        write(a.folder, "lines", run, lines(run, fields_of(run, noise, background)))
        if a.accesses:
            write(a.folder, "accesses", run, accesses(run, a.accesses, noise))
        write(a.folder, "runs", run, run_row(run))
        if build == BUILDS[-1]:
            days.add(run["day"])
    for build in BUILDS:
        checked(a.folder, build)
    planted = {"top": [t[:2] for t in TOP], "regression": list(REGRESSION[:2]), "factor": REGRESSION[3],
               "new": list(NEW[:2]), "since": min(days), "old": BUILDS[-2], "build": BUILDS[-1],
               "lonely": list(LONELY[:2]), "rule": [*RULE], "runs": a.runs, "hosts": hosts}  # fmt: skip
    pathlib.Path(a.folder, ".planted.json").write_text(json.dumps(planted))


if __name__ == "__main__":
    main()
