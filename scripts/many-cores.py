#!/usr/bin/env python3
"""The suite on a machine with many CPUs that has no compiler: built here, judged there.

    scripts/many-cores.py build FOLDER              builds the programs, and copies tussle beside them
    scripts/many-cores.py record FOLDER SECONDS     records as many twins as the time allows, at 2 to 16 threads
    scripts/many-cores.py live FOLDER SECONDS       watches plain ones that fight there, four threads each

`record` and `live` print one line of JSON for each twin, and a table at their end. Order is by chance (SEED=N).
KEEP=FOLDER keeps the evidence of what was judged wrong. TUSSLE=FILE is the binary that is built with and copied
(target/release/tussle).
"""
import concurrent.futures as futures
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDED_THREADS = (2, 4, 8, 16)
LIVE_THREADS = 4
# A fight counts if its fixed twin is faster by this, at the median of so many pairs.
EFFECT_MIN, PAIRS = 0.05, 5
RUN_S, WATCH_S, WATCHED_S = 0.3, 10, 13


def build(folder):
    import tomllib

    tussle = pathlib.Path(os.environ.get("TUSSLE", ROOT / "target/release/tussle"))
    (folder / "p").mkdir(parents=True, exist_ok=True)
    shutil.copy(tussle, folder / "tussle")
    cases = []
    for n, case in enumerate(tomllib.loads((ROOT / "suite/manifest.toml").read_text())["case"]):
        source = ROOT / "suite/programs" / case["source"]
        cxx = source.suffix == ".cc"
        for twin in ("buggy", "fixed"):
            if twin not in case:
                continue
            flags = ["-O2", "-g", "-pthread", *case.get("flags", []), *(["-DFIXED"] if twin == "fixed" else [])]
            one = {"source": case["source"], "flags": case.get("flags", []), "twin": twin, "class": case[twin],
                   "pair": case.get("pair"), "case": n, "threads_max": case.get("threads_max", 64)}
            plain = "g++" if cxx else "gcc"
            wrapper = [str(tussle), "c++" if cxx else "cc"]
            for how, objects, links in (("r", wrapper, wrapper), ("l", [plain], [plain])):
                if not case.get("instrumented", True):
                    if how == "l":
                        continue
                    objects = [plain]
                name = f"p/{n}-{twin}-{how}"
                with tempfile.TemporaryDirectory() as d:
                    done = subprocess.run([*objects, *flags, "-c", source, "-o", f"{d}/o.o"], capture_output=True)
                    if done.returncode == 0:
                        done = subprocess.run([*links, *flags, f"{d}/o.o", "-o", folder / name, "-lrt"],
                                              capture_output=True)
                if done.returncode == 0:
                    one[how] = name
                else:
                    print(f"skipped: {name} {case['source']}: {done.stderr.decode()[:200]}", file=sys.stderr)
            cases.append(one)
    (folder / "cases.json").write_text(json.dumps(cases))
    print(f"{len(cases)} twins", file=sys.stderr)


def tussle(folder, arguments, cwd, cpus=None, limit=120):
    pinned = ["taskset", "-c", cpus] if cpus else []
    env = dict(os.environ, NO_COLOR="1", XDG_CACHE_HOME=f"{cwd}/cache")
    return subprocess.run([*pinned, str(folder / "tussle"), *map(str, arguments)], cwd=cwd, env=env,
                          capture_output=True, timeout=limit)


def view_of(folder, data, cwd):
    report = tussle(folder, ["report", "--format", "json", data], cwd)
    try:
        return report.returncode, json.loads(report.stdout)
    except ValueError:
        return report.returncode, {}


def names(view, pair):
    """Some case that a layout helps has both fields."""
    if not pair:
        return True
    rows = [r["fields"] for r in view.get("lines", []) if "layout helps" in str(r.get("class") or r.get("sharing"))]
    rows += [r["fields"] for r in view.get("latent", [])]
    for line in view.get("live_lines", []):
        if line["class"] == "a layout helps":
            rows.append(" ".join(str(f["field"]) for f in line["fields"]))
    return any(all(p in str(r) for p in pair) for r in rows)


def verdict(one, status, view):
    fight = one["class"] == "layout"
    missed = status != 1 if fight else status != 2 if one["class"] == "nothing" else status not in (0, 1)
    accused = not fight and status == 1
    named = not fight or missed or names(view, one["pair"])
    return "missed" if missed else "accused" if accused else "right" if named else "misnamed"


def keep(what, evidence, one, threads):
    if what != "right" and "KEEP" in os.environ and os.path.exists(evidence):
        flags = "".join(f for f in one["flags"] if f.startswith("-D")).replace('"', "")
        shutil.copy(evidence, f"{os.environ['KEEP']}/{one['source']}{flags}-{one['twin']}-{threads}.data")


def classes(view):
    rows = view.get("lines", []) + view.get("live_lines", [])
    return [str(r.get("class") or r.get("sharing")) for r in rows][:3]


def recorded(folder, one, threads):
    with tempfile.TemporaryDirectory() as cwd:
        begun = time.time()
        try:
            ran = tussle(folder, ["record", "-o", "e.data", "--", folder / one["r"], threads], cwd)
            if ran.returncode:
                return {"what": "not recorded", "why": ran.stderr.decode(errors="replace")[-300:]}
            status, view = view_of(folder, "e.data", cwd)
        except subprocess.TimeoutExpired:
            return {"what": "too slow"}
        what = verdict(one, status, view)
        keep(what, f"{cwd}/e.data", one, threads)
        own = ran.stdout.decode(errors="replace").split("\n")[:2]
        fields = [str(r.get("fields"))[:90] for r in view.get("lines", [])[:2]]
        return {"what": what, "exit": status, "classes": classes(view), "own": own,
                "s": round(time.time() - begun, 2), "fields": fields}


def record(folder, seconds):
    cases = [c for c in json.loads((folder / "cases.json").read_text()) if "r" in c]
    todo = [(c, t) for c in cases for t in RECORDED_THREADS if t <= c["threads_max"]]
    random.Random(os.environ.get("SEED", "1")).shuffle(todo)
    end, tally = time.time() + seconds, {}
    # Two of 16 threads fill sixteen CPUs; so do eight of four.
    with futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 4)) as pool:
        def work(item):
            one, threads = item
            return None if time.time() > end else (one, threads, recorded(folder, one, threads))
        for got in pool.map(work, todo):
            if got:
                show(tally, got[0], got[1], got[2])
    table(tally)


def show(tally, one, threads, out):
    tally.setdefault(threads, []).append((one, out["what"]))
    print(json.dumps({"source": one["source"], "flags": one["flags"], "twin": one["twin"],
                      "expected": one["class"], "threads": threads, **out}), flush=True)


def table(tally):
    print("threads  judged  recall       accused  misnamed  not judged")
    for threads in sorted(tally):
        rows = tally[threads]
        judged = [(o, w) for o, w in rows if w in ("right", "missed", "accused", "misnamed")]
        fights = [w for o, w in judged if o["class"] == "layout"]
        print(f"{threads:7}  {len(judged):6}  {sum(w != 'missed' for w in fights):4} of {len(fights):4}"
              f"  {sum(w == 'accused' for _, w in judged):7}  {sum(w == 'misnamed' for _, w in judged):8}"
              f"  {len(rows) - len(judged):10}")


def took(program, threads, times, cpus):
    begun = time.time()
    done = subprocess.run(["taskset", "-c", cpus, program, str(threads), str(times)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20)
    if done.returncode:
        raise ValueError("its work cannot be repeated")
    return time.time() - begun


def watched(folder, buggy, fixed, cpus):
    programs = [str(folder / one["l"]) for one in (buggy, fixed)]
    try:
        times = 1
        while took(programs[0], LIVE_THREADS, times, cpus) < RUN_S:
            times *= 4
            if times > 1 << 22:
                raise ValueError("its work cannot be repeated")
        gains = []
        for pair in range(PAIRS):
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            both = {k: took(programs[k], LIVE_THREADS, times, cpus) for k in order}
            gains.append(both[0] / both[1] - 1)
    except (ValueError, subprocess.TimeoutExpired) as e:
        return [(buggy, {"what": "not judged", "why": str(e)[:80]})]
    gain = statistics.median(gains)
    if gain < EFFECT_MIN:
        return [(buggy, {"what": "no fight", "gain": round(gain, 3)})]
    out = []
    for k, one in enumerate((buggy, fixed)):
        with tempfile.TemporaryDirectory() as cwd:
            try:
                more = max(times, int(times * WATCHED_S / took(programs[k], LIVE_THREADS, times, cpus)))
                ran = tussle(folder, ["live", "-o", "e.data", "--duration", f"{WATCH_S}s", "--", programs[k],
                                      LIVE_THREADS, more], cwd, cpus)
                status, view = view_of(folder, "e.data", cwd)
            except (ValueError, subprocess.TimeoutExpired) as e:
                out.append((one, {"what": "not judged", "why": str(e)[:80]}))
                continue
            what = verdict(one, status, view)
            keep(what, f"{cwd}/e.data", one, LIVE_THREADS)
            said = ran.stderr.decode(errors="replace").strip().split("\n")[-1][-200:]
            fields = [" ".join(str(f["field"]) for f in r["fields"])[:90] for r in view.get("live_lines", [])[:2]]
            out.append((one, {"what": what, "exit": status, "gain": round(gain, 3),
                              "classes": classes(view), "fields": fields, "said": said}))
    return out


def live(folder, seconds):
    cases = [c for c in json.loads((folder / "cases.json").read_text()) if "l" in c]
    fixed = {c["case"]: c for c in cases if c["twin"] == "fixed"}
    todo = [(c, fixed[c["case"]]) for c in cases
            if c["twin"] == "buggy" and c["class"] == "layout" and c["case"] in fixed]
    random.Random(os.environ.get("SEED", "1")).shuffle(todo)
    groups = max(1, (os.cpu_count() or 2) // (LIVE_THREADS + 1))
    free = [f"{g * (LIVE_THREADS + 1)}-{g * (LIVE_THREADS + 1) + LIVE_THREADS}" for g in range(groups)]
    end, tally = time.time() + seconds, {}

    def work(item):
        if time.time() > end:
            return []
        cpus = free.pop()
        try:
            return watched(folder, *item, cpus)
        finally:
            free.append(cpus)

    with futures.ThreadPoolExecutor(groups) as pool:
        for rows in pool.map(work, todo):
            for one, out in rows:
                show(tally, one, LIVE_THREADS, out)
    table(tally)


if __name__ == "__main__":
    verb, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if verb == "build":
        build(folder)
    else:
        {"record": record, "live": live}[verb](folder, float(sys.argv[3]))
