"""Time and memory of every question against the number of access rows. Prints the tables of docs/validation/fleet.md.

    python scale.py FOLDER/100 FOLDER/1000 FOLDER/10000      (made by generate.py with --accesses 10000)
    python scale.py --spark FOLDER/10000                     rows of Spark against those of DuckDB
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
QUESTIONS = ["top", "new", "regressions", "cpus", "phases", "builds", "rules", "sweep", "predictions", "accesses"]


def request(folder, name, engine="duckdb", limit=1000):
    truth = json.loads((folder / ".planted.json").read_text())
    return {
        "engine": engine, "dataset": str(folder), "schema": 1, "threads": 2, "memory_bytes": 3 << 30,
        "views": (HERE / "sql/views.sql").read_text(), "sql": (HERE / f"sql/{name}.sql").read_text(),
        "parameters": {"limit": limit, "since": truth["since"], "build": "", "old": truth["old"],
                       "new": truth["build"]},
    }  # fmt: skip


def ask(folder, name):
    """Rows of DuckDB in a process of its own, wall seconds, CPU seconds, memory in MB."""
    start = time.monotonic()
    child = subprocess.Popen([sys.executable, HERE / "engine/query.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(json.dumps(request(folder, name)).encode())
    child.stdin.close()
    out = json.loads(child.stdout.read())
    _, _, usage = os.wait4(child.pid, 0)
    assert "error" not in out, out["error"]
    check(folder, name, out)
    return out["rows"], time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def check(folder, name, out):
    """What was planted is what is found."""
    truth = json.loads((folder / ".planted.json").read_text())
    rows = [dict(zip(out["columns"], r)) for r in out["rows"]]
    named = [[r.get("type_name"), r.get("fields")] for r in rows]
    if name == "top":
        assert named[:3] == truth["top"], named[:3]
    elif name == "new":
        assert named == [truth["new"]], named
    elif name == "regressions" and truth["hosts"] >= 20:
        # tussle-fleet makes intervals of these; four standard errors are enough here.
        low = [r["mean_log"] - 4 * r["sd_log"] / r["hosts"] ** 0.5 for r in rows]
        assert [n for n, x in zip(named, low) if x > 0] == [truth["regression"]]
    elif name == "rules":
        assert {r["rule"] for r in rows} == {truth["rule"][1]} and [r["build"] for r in rows] == truth["rule"][2], rows
    elif name == "accesses":
        assert sum(r["runs"] for r in rows) == truth["runs"], rows


def against_rows(folders):
    print(f"load {os.getloadavg()[0]:.1f} at the start\n")
    print("| question | runs | access rows | wall s | CPU s | memory MB |")
    print("|---|---|---|---|---|---|")
    taken = {}
    for folder in folders:
        runs = json.loads((folder / ".planted.json").read_text())["runs"]
        for name in QUESTIONS:
            _, wall, cpu, memory = ask(folder, name)
            taken.setdefault(name, []).append((runs, cpu))
            print(f"| {name} | {runs:,} | {runs * 10_000:,} | {wall:.1f} | {cpu:.1f} | {memory:.0f} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    for name, points in taken.items():
        steps = [math.log(t / s) / math.log(b / a) for (a, s), (b, t) in zip(points, points[1:])]
        print(f"{name}: CPU grows with the rows to the power {', '.join(f'{x:.2f}' for x in steps)}")


def on_spark(folder):
    """One session for all questions: starting it takes longer than most of them."""
    sys.path.insert(0, str(HERE / "engine"))
    import query

    print("| question | rows | wall s of Spark |")
    print("|---|---|---|")
    for name in QUESTIONS:
        start = time.monotonic()
        out = query.answer(request(folder, name, "spark"))
        wall = time.monotonic() - start
        same = json.loads(json.dumps(out["rows"])) == ask(folder, name)[0]
        print(f"| {name} | {len(out['rows'])}, {'the same' if same else 'OTHERS'} | {wall:.1f} |", flush=True)
        assert same, name


if __name__ == "__main__":
    if sys.argv[1] == "--spark":
        on_spark(pathlib.Path(sys.argv[2]))
    else:
        against_rows(list(map(pathlib.Path, sys.argv[1:])))
