"""Time and memory of the questions against the number of access rows. Prints the table of docs/validation/fleet.md.

    python scale.py FOLDER/100 FOLDER/1000 FOLDER/10000      (made by generate.py with --accesses 10000)
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent.parent
QUESTIONS = ["top", "new", "regressions", "accesses"]


def ask(folder, name, engine="duckdb"):
    truth = json.loads((folder / ".planted.json").read_text())
    request = {
        "engine": engine, "dataset": str(folder), "schema": 1, "threads": 2, "memory_bytes": 3 << 30,
        "views": (HERE / "sql/views.sql").read_text(), "sql": (HERE / f"sql/{name}.sql").read_text(),
        "parameters": {"limit": 3, "since": truth["since"], "build": "", "old": truth["old"], "new": truth["build"]},
    }  # fmt: skip
    start = time.monotonic()
    child = subprocess.Popen([sys.executable, HERE / "engine/query.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(json.dumps(request).encode())
    child.stdin.close()
    out = json.loads(child.stdout.read())
    _, _, usage = os.wait4(child.pid, 0)
    assert "error" not in out, out["error"]
    if name in ("top", "new"):
        got = [[r[2], r[3]] for r in out["rows"]]
        assert got == (truth["top"] if name == "top" else [truth["new"]]), got
    rows = sum(r[2] for r in out["rows"]) if name == "accesses" else None
    cpu = usage.ru_utime + usage.ru_stime
    return time.monotonic() - start, cpu, usage.ru_maxrss / 1024, rows


def main():
    print("| question | runs | access rows | wall s | CPU s | memory MB |")
    print("|---|---|---|---|---|---|")
    taken = {}
    for folder in map(pathlib.Path, sys.argv[1:]):
        runs = json.loads((folder / ".planted.json").read_text())["runs"]
        for name in QUESTIONS:
            wall, cpu, memory, _ = ask(folder, name)
            taken.setdefault(name, []).append((runs, cpu))
            print(f"| {name} | {runs:,} | {runs * 10_000:,} | {wall:.1f} | {cpu:.1f} | {memory:.0f} |", flush=True)
    for name, points in taken.items():
        (a, s), (b, t) = points[-2], points[-1]
        print(f"{name}: CPU grows with the rows to the power {math.log(t / s) / math.log(b / a):.2f} (last step)")


if __name__ == "__main__":
    main()
