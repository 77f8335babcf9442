"""A sweep of 100,000 points: what its engine costs, and that no point is lost or doubled whoever is killed.

    python sweep_scale.py FOLDER [--points 100000] [--ray]

FOLDER must be new. TUSSLE_FLEET names the program. Prints what docs/validation/fleet.md says.
"""

import argparse
import itertools
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import duckdb

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("TUSSLE_FLEET", "tussle-fleet")
FIELDS = ["mm_count", "mmap_lock", "page_table_lock", "pgd", "mm_users", "map_count", "total_vm", "locked_vm",
          "task_size", "stack_vm", "def_flags", "arg_lock", "start_code", "mmlist"]  # fmt: skip


def plans(folder, points):
    """Half of the points checks, half of them diffs, on the snapshots of the repository."""
    folder.mkdir(parents=True)
    for snapshot in (ROOT / "crates/layout/tests/data/snapshots").glob("*.json"):
        shutil.copy(snapshot, folder)
    builds = len(list(folder.glob("*.json")))
    pairs = list(itertools.combinations(FIELDS, 2))
    (folder / "rules").mkdir()
    for i in range(points // 2 // builds):
        a, b = pairs[i % len(pairs)]
        rule = f'[[rule]]\nid = "r{i}"\ntype = "mm_struct"\nseparate = ["{a}", "{b}"]\n'
        (folder / f"rules/{i:05}.toml").write_text(rule)
    (folder / "check.toml").write_text('verb = "check"\n[over]\nbuild = ["*.json"]\nrules = ["rules/*.toml"]\n')
    phases = list(range(0, 64, 8))
    hot = [list(p) for p in pairs][: max(1, points // 2 // (builds * builds * 3 * len(phases)))]
    (folder / "diff.toml").write_text(
        'verb = "diff"\n[fixed]\nname = "mm_struct"\n[over]\nold = ["*.json"]\nnew = ["*.json"]\n'
        f"line = [64, 128, 256]\nphase = {phases}\nhot = {hot}\n".replace("'", '"')
    )
    return [folder / "check.toml", folder / "diff.toml"]


def answers(to):
    """(rows, tasks, a hash of all that they say)."""
    rows = f"read_parquet('{to}/kind=answers/**/*.parquet')"
    said = "concat_ws('|', task, plan, job, verb, parameters, status, error, md5(document))"
    all_of_it = f"md5(string_agg({said}, chr(10) ORDER BY task))"
    return duckdb.sql(f"SELECT count(*), count(DISTINCT task), {all_of_it} FROM {rows}").fetchall()[0]


def sweep(plan, to, *words):
    done = subprocess.run([PROGRAM, "sweep", plan, "--to", to, *words], capture_output=True, text=True)
    assert done.returncode in (0, 1, 2) and "tussle:" in done.stderr, done.stderr
    return done.stderr.strip().splitlines()[-1]


def whole(plan, to):
    start = time.monotonic()
    said = sweep(plan, to, "--threads", "2")
    wall = time.monotonic() - start
    points = int(re.search(r"of (\d+) points", said).group(1))
    total, inside = map(float, re.search(r"([\d.]+) s of CPU, ([\d.]+) s of them", said).groups())
    print(f"{plan.stem}: {points} points in {wall:.1f} s, {total:.1f} s of CPU, {1000 * inside / points:.2f} ms a point, "
          f"overhead {100 * (total - inside) / inside:.1f}% (load {os.getloadavg()[0]:.1f})", flush=True)  # fmt: skip
    return points, total, inside


def tree(pid):
    """Processes below this one, by command."""
    parents, names = {}, {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            names[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            parents[int(entry.name)] = int(stat[1])
        except (OSError, IndexError):
            continue
    def below(p):
        return p == pid or (p in parents and below(parents[p]))
    return {p: n for p, n in names.items() if p != pid and below(p)}


def killed(plan, to, kills, dice):
    """Killed so many times, then to its end."""
    for _ in range(kills):
        child = subprocess.Popen([PROGRAM, "sweep", plan, "--to", to, "--threads", "2", "-q"])
        time.sleep(1 + 4 * dice.random())
        child.send_signal(signal.SIGKILL)
        child.wait()
    return sweep(plan, to, "--threads", "2")


def workers_killed(plan, to, kills, dice):
    """On Ray: its workers are killed while they work, and once the driver."""
    words = [PROGRAM, "sweep", plan, "--to", to, "--engine", "ray", "--threads", "2", "-q"]
    dead = 0
    for until in (kills, 0):
        child = subprocess.Popen(words)
        while until and child.poll() is None:
            time.sleep(1 + 2 * dice.random())
            mine = [p for p, n in tree(child.pid).items() if n.startswith("ray::part")]
            if mine:
                os.kill(dice.choice(mine), signal.SIGKILL)
                dead, until = dead + 1, until - 1
                if until == 0:
                    time.sleep(2)
                    child.send_signal(signal.SIGKILL)
        status = child.wait()
    print(f"{dead} workers and the driver killed; then exit {status}", flush=True)


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("folder", type=pathlib.Path)
    ask.add_argument("--points", type=int, default=100_000)
    ask.add_argument("--ray", action="store_true")
    a = ask.parse_args()
    dice = random.Random(7)
    sums = [0, 0.0, 0.0]
    for plan in plans(a.folder / "plan", a.points):
        base, cut, spread = (a.folder / f"{plan.stem}-{n}" for n in ("whole", "cut", "ray"))
        sums = [x + y for x, y in zip(sums, whole(plan, base))]
        truth = answers(base)
        assert truth[0] == truth[1], truth
        print(f"  {truth[0]} answers; killed 5 times and resumed: {killed(plan, cut, 5, dice)}", flush=True)
        assert answers(cut) == truth, (answers(cut), truth)
        if a.ray:
            workers_killed(plan, spread, 3, dice)
            assert answers(spread) == truth, (answers(spread), truth)
    print(f"{sums[0]} points: overhead {100 * (sums[1] - sums[2]) / sums[2]:.1f}%")
    print("no point lost, none twice, all with the same answer")


if __name__ == "__main__":
    main()
