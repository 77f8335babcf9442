#!/usr/bin/env python3
"""What recording costs, to the end: the program itself, memory, conversion, file, report.

    scripts/bill.py [--rounds N] [--work DIR] [PROGRAM..]     programs: those of crates/rt/benches/programs
    scripts/bill.py --same OLD NEW                            do two tussles say the same of the same programs?

Variants are run in turns; times are user + system of the process and of what it waited for, medians of all rounds, so that
other work on the machine disturbs little. TUSSLE: the binary (target/release/tussle). Needs gcc with its thread sanitizer.
--same records programs whose threads meet at barriers only, so that each thread's accesses are the same in every run, and
compares what each tussle counted of every thread's accesses to every object; exit status 1 if any sum differs.
"""
import argparse, collections, json, os, pathlib, shutil, statistics, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = HERE / "crates/rt/benches/programs"
EMPTY = HERE / "crates/rt/tests/programs/empty.c"
# Name, arguments, and whether its recording is the same every time.
TABLE = {
    "squeeze": (["128"], False),
    "maps": (["100000"], False),
    "kmeans": (["20000"], False),
    "fft": (["1024", "2"], True),
    "lu": (["512"], True),
    "bodies": (["16000", "4"], True),
}
VARIANTS = ["native", "empty", "silent", "recorded", "tsan"]


def tool(*command, **kw):
    done = subprocess.run(command, capture_output=True, text=True, **kw)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def source_of(name):
    return next(p for p in (PROGRAMS / f"{name}.c", PROGRAMS / f"{name}.cc") if p.exists())


def build(name, tussle, work):
    """Native, empty hooks (reached as ours are), ours, and the sanitizer's."""
    source = source_of(name)
    cc, ours = ("gcc", "cc") if source.suffix == ".c" else ("g++", "c++")
    at = lambda kind: work / f"{name}-{kind}"
    flags, libraries = ["-O2", "-g", "-w"], ["-lpthread", "-lm"]
    tool(cc, *flags, source, "-o", at("native"), *libraries)
    tool(cc, *flags, "-fsanitize=thread", source, "-o", at("tsan"), *libraries)
    tool(tussle, ours, *flags, "-c", source, "-o", at("o"))
    tool(tussle, ours, at("o"), "-o", at("silent"), *libraries)
    tool("gcc", "-O2", "-w", "-DSITES", "-c", EMPTY, "-o", at("hooks.o"))
    tool(cc, at("o"), at("hooks.o"), "-o", at("empty"), *libraries)
    return {v: at("silent" if v == "recorded" else v) for v in VARIANTS}


def run(command, env=None, folder=None, fine=(0,)):
    """CPU seconds (with children) and the largest resident set, MB."""
    full = dict(os.environ, TSAN_OPTIONS="report_bugs=0", **(env or {}))
    with open(os.devnull, "w") as nothing:
        child = subprocess.Popen(["setarch", "-R", *map(str, command)], stdout=nothing, stderr=nothing, env=full, cwd=folder)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in fine:
        sys.exit(f"{command}: status {child.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def session(executable, arguments, keep_all=False):
    """Records into a new session folder, as `tussle record` has it before it converts."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bill-", dir="/dev/shm"))
    cost = run([executable, *arguments], {"TUSSLE_SESSION": str(folder), "TUSSLE_MEM_MAX": str(1 << 30)})
    pid = int(next(folder.glob("*.raw")).name.split(".")[0])
    note = {"command": [executable.name, *arguments], "program": str(executable), "children": False, "keep_all": keep_all,
            "started_unix_s": 0.0, "duration_s": cost[0], "pid": pid, "wait_status": 0}
    (folder / "session.json").write_text(json.dumps(note))
    (folder / "lock").touch()
    return folder, cost


def convert(tussle, folder, data):
    """CPU seconds and memory of the conversion, which removes the folder; of the report; MB of the file."""
    cost = run([tussle, "record", "--convert", folder, "-o", data], folder=data.parent)
    shutil.rmtree(folder, ignore_errors=True)
    # The report's status tells whether a layout helps, and whether anything was seen.
    report = run([tussle, "report", data], folder=data.parent, fine=(0, 1, 2))
    return cost, report[0], data.stat().st_size / 1e6


def bill(tussle, names, rounds, work):
    print(f"{'program':<9}{'native s':>9}{'silent':>8}{'(/empty)':>9}{'tussle':>8}{'TSan':>7}{'/TSan':>7}"
          f"{'RSS native':>11}{'tussle':>7}{'TSan':>6}{'convert s':>10}{'its MB':>7}{'report s':>9}{'file MB':>8}", flush=True)
    for name in names:
        arguments = TABLE[name][0]
        executables = build(name, tussle, work)
        seen = {v: [] for v in VARIANTS}
        last = []
        for _ in range(rounds):
            for v in VARIANTS:
                if v == "recorded":
                    folder, cost = session(executables[v], arguments)
                    last.append(convert(tussle, folder, work / f"{name}.data"))
                    seen[v].append(cost)
                else:
                    seen[v].append(run([executables[v], *arguments]))
        cpu = {v: statistics.median(c for c, _ in seen[v]) for v in VARIANTS}
        rss = {v: statistics.median(m for _, m in seen[v]) for v in VARIANTS}
        of = lambda v: cpu[v] / cpu["native"]
        end = lambda pick: statistics.median(map(pick, last))
        print(f"{name:<9}{cpu['native']:>9.2f}{of('silent'):>8.2f}{cpu['silent'] / cpu['empty']:>9.2f}{of('recorded'):>8.2f}"
              f"{of('tsan'):>7.2f}{cpu['recorded'] / cpu['tsan']:>7.2f}{rss['native']:>11.0f}{rss['recorded']:>7.0f}"
              f"{rss['tsan']:>6.0f}{end(lambda l: l[0][0]):>10.2f}{end(lambda l: l[0][1]):>7.0f}{end(lambda l: l[1]):>9.2f}"
              f"{end(lambda l: l[2]):>8.2f}", flush=True)


def counts_of(tussle, data):
    """Accesses of each actor to each heap object or variable, by kind, sorted. Where in memory a program lies differs with the
    size of the runtime, and with it when a line leaves the recorder's table: rows differ, their sums must not."""
    text = subprocess.run([tussle, "export", "--jsonl", data], capture_output=True, check=True).stdout
    objects, sums, table = [], collections.Counter(), None
    for line in text.splitlines():
        row = json.loads(line)
        if isinstance(row, dict):
            table = row.get("table")
        elif table == "objects":
            objects.append((row[1], row[3], row[4]))
        elif table == "accesses" and objects[row[0]][0] in ("heap", "global"):
            for kind, n in zip(("reads", "writes", "rmws"), row[6:9]):
                sums[(row[0], *objects[row[0]], row[3], kind)] += n
    # Which of two threads registered first, and has the smaller number, is the scheduler's.
    return sorted((str(k[1:4] + k[5:]), n) for k, n in sums.items() if n)


def same(old, new, names, work):
    """Whether two tussles count the same accesses to all objects, shared or not."""
    differ = 0
    for name in names:
        said = []
        for tussle in old, new:
            folder = work / "same"
            folder.mkdir(exist_ok=True)
            raw, _ = session(build(name, tussle, folder)["recorded"], TABLE[name][0], keep_all=True)
            convert(tussle, raw, folder / "tussle.data")
            said.append(counts_of(new, folder / "tussle.data"))
        differ += said[0] != said[1]
        print(f"{name:<9} {len(said[0])} and {len(said[1])} sums: {'same' if said[0] == said[1] else 'DIFFERENT'}", flush=True)
    return differ


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--work", type=pathlib.Path)
    p.add_argument("--same", nargs=2, metavar=("OLD", "NEW"))
    p.add_argument("program", nargs="*", choices=[[], *TABLE])
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = (a.work or pathlib.Path(folder)).absolute()
        work.mkdir(exist_ok=True)
        if a.same:
            steady = [n for n in a.program or TABLE if TABLE[n][1]]
            sys.exit(1 if same(*map(os.path.abspath, a.same), steady, work) else 0)
        tussle = os.environ.get("TUSSLE", HERE / "target/release/tussle")
        bill(pathlib.Path(tussle).absolute(), a.program or list(TABLE), a.rounds, work)


main()
