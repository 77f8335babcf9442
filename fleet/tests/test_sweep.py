"""Sweeps: every point once, whatever is killed."""

import collections
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
import tool
from tool import PROGRAM, fleet, rows

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

TYPES = 40


def snapshot(number):
    """A snapshot of types as `tussle snapshot` writes it: fields in another order in every one."""
    dice = random.Random(number)
    names = ["lock", "hits", "misses", "flags", "owner", "next"]
    dice.shuffle(names)
    return names


@pytest.fixture(scope="session")
def builds(tmp_path_factory):
    """Objects with the same struct in other orders, and rules about it."""
    if not shutil.which("gcc"):
        pytest.skip("gcc")
    folder = tmp_path_factory.mktemp("builds")
    for i in range(12):
        fields = "".join(f"long {n}; char {n}_pad[{random.Random(i).randrange(1, 60)}];" for n in snapshot(i))
        (folder / f"b{i:02}.c").write_text(f"struct s {{ {fields} }}; struct s x{i};\n")
        subprocess.run(["gcc", "-g", "-c", "-o", folder / f"b{i:02}.o", folder / f"b{i:02}.c"], check=True)
    for i, (a, b) in enumerate([("lock", "hits"), ("lock", "misses"), ("owner", "next")]):
        (folder / f"r{i}.toml").write_text(f'[[rule]]\nid = "r{i}"\ntype = "s"\nseparate = ["{a}", "{b}"]\n')
    (folder / "check.toml").write_text(
        'verb = "check"\n[over]\nbuild = ["*.o"]\nrules = ["r0.toml", "r1.toml", "r2.toml"]\n'
    )
    (folder / "diff.toml").write_text(
        'verb = "diff"\n[fixed]\nname = "s"\nhot = ["lock", "hits"]\n'
        '[over]\nold = ["*.o"]\nnew = ["*.o"]\nline = [64, 128]\nphase = [0, 8, 16]\n'
    )
    return folder


def answers(to):
    """Everything that does not hang on when it was done."""
    sql = "select task, job, parameters, status, error, document from read_parquet('{}/kind=answers/**/*.parquet')"
    return sorted(duckdb.sql(sql.format(to)).fetchall(), key=str)


def test_a_check_of_everything(builds, tmp_path):
    to = tmp_path / "set"
    fleet("sweep", builds / "check.toml", "--to", to, "-q")
    points = rows("sweep", "--dataset", to)
    assert sum(r["points"] for r in points) == 36 and all(r["errors"] == 0 for r in points)
    broken = rows("rules", "--dataset", to, "--limit", 100)
    # Held against the command line's own library, rule by rule.
    tussle = pytest.importorskip("tussle")
    want = set()
    for build in sorted(builds.glob("*.o")):
        for i in range(3):
            if tussle.check([build], builds / f"r{i}.toml").status == 1:
                want.add((build.name, f"r{i}"))
    assert {(pathlib.Path(r["build"]).name, r["rule"]) for r in broken} == want and want


def test_jobs_in_parts_are_the_whole(builds, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    fleet("sweep", builds / "diff.toml", "--to", whole, "-q")
    listed = fleet("sweep", builds / "diff.toml", "--list").splitlines()
    assert len(listed) == 12 * 12 * 2 * 3 == len(answers(whole))
    for a, b in [(0, 100), (100, 101), (101, 900), (50, 200)]:
        fleet("sweep", builds / "diff.toml", "--to", parts, "--jobs", f"{a}..{b}", "-q")
    assert answers(parts) == answers(whole)
    before = sorted((whole / "kind=answers").rglob("*.parquet"))
    fleet("sweep", builds / "diff.toml", "--to", whole, "-q")
    assert sorted((whole / "kind=answers").rglob("*.parquet")) == before


def test_killed_again_and_again(builds, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    fleet("sweep", builds / "diff.toml", "--to", whole, "-q")
    dice = random.Random(5)
    for _ in range(8):
        words = [PROGRAM, "sweep", builds / "diff.toml", "--to", cut, "--batch", "20", "-q"]
        child = subprocess.Popen(words)
        time.sleep(0.02 + dice.random() * 0.3)
        child.send_signal(signal.SIGKILL)
        child.wait()
    fleet("sweep", builds / "diff.toml", "--to", cut, "-q")
    assert answers(cut) == answers(whole)
    assert max(collections.Counter(r[0] for r in answers(cut)).values()) == 1


def test_a_plan_is_what_it_asks(builds, tmp_path):
    """Under another name, with other blanks: nothing is done again, and it is one plan."""
    to, other = tmp_path / "set", builds / "renamed.toml"
    fleet("sweep", builds / "check.toml", "--to", to, "-q")
    before = sorted(to.rglob("*.parquet"))
    other.write_text("# The same.\n" + (builds / "check.toml").read_text() + "\n\n")
    assert "36 of 36 points are there already" in said(["sweep", other, "--to", to])
    assert sorted(to.rglob("*.parquet")) == before
    points = rows("sweep", "--dataset", to)
    assert sum(r["points"] for r in points) == 36 and {r["name"] for r in points} == {"check"}
    # Another plan that asks some of the same is one of its own.
    other.write_text('verb = "check"\n[fixed]\nrules = "r0.toml"\n[over]\nbuild = ["*.o"]\n')
    fleet("sweep", other, "--to", to, "-q")
    by_name = collections.Counter()
    for r in rows("sweep", "--dataset", to):
        by_name[r["name"]] += r["points"]
    assert by_name == {"check": 36, "renamed": 12}
    broken = rows("rules", "--dataset", to, "--limit", 100)
    assert len({(r["build"], r["rule"]) for r in broken}) == len(broken)


def said(words, status=0):
    """What is said on standard error."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True,
                          env=os.environ | {"TUSSLE_PYTHON": sys.executable})  # fmt: skip
    assert done.returncode == status, done.stderr
    return done.stderr


def test_jobs_beyond_the_end_and_odd_words(builds, tmp_path):
    plan, to = builds / "check.toml", tmp_path / "set"
    assert "this plan has 36 jobs, 0..36" in fleet("sweep", plan, "--to", to, "--jobs", "99..100", status=2)
    for none in ("36..40", "36..36"):
        assert "this plan has 36 jobs, 0..36" in fleet("sweep", plan, "--to", to, "--jobs", none, status=2)
    assert "--jobs 7..3: it begins after its end" in fleet("sweep", plan, "--to", to, "--jobs", "7..3", status=2)
    fleet("sweep", plan, "--to", to, "--jobs", "30..100", "-q")
    for words, what in [(["--threads", "100000"], "from 1 to 1024"), (["--batch", "0"], "from 1 to"),
                        (["--master", "x"], "--engine ray only"), (["--list"], "--list answers no point"),
                        (["--limit", "3"], "--limit: not used here, but by `fleet`")]:  # fmt: skip
        assert what in fleet("sweep", plan, "--to", to, *words, status=2), words


def test_what_fails_is_an_answer(builds, tmp_path):
    plan = builds / "bad.toml"
    plan.write_text('verb = "diff"\n[fixed]\nold = "b00.o"\nnew = "b01.o"\n[over]\nname = ["s", "nothing"]\n')
    to = tmp_path / "set"
    fleet("sweep", plan, "--to", to, "-q", status=2)
    errors = [r for r in rows("sweep", "--dataset", to) if r["errors"]]
    assert len(errors) == 1 and "no type named `nothing`" in errors[0]["first_error"] and errors[0]["status"] == 2
    plan.write_text('verb = "diff"\n[fixed]\nold = "absent.o"\nnew = "b01.o"\n')
    assert "absent.o" in fleet("sweep", plan, "--to", to, "-q", status=2)
    # A word that nobody reads would be believed.
    plan.write_text('verb = "diff"\n[fixed]\nold = "b00.o"\nnew = "b01.o"\nlines = 128\n')
    assert "`lines` is no parameter of diff" in fleet("sweep", plan, "--to", to, "-q", status=2)
    plan.write_text('verb = "diff"\n[fixed]\nold = "b00.o"\nnew = "b01.o"\nhot = 5\nname = "s"\n')
    fleet("sweep", plan, "--to", tmp_path / "typed", "-q", status=2)
    assert "a list of texts" in rows("sweep", "--dataset", tmp_path / "typed")[0]["first_error"]


CHECK, PREDICT = 'verb = "check"\n[fixed]\n', 'verb = "predict"\n[fixed]\n'
OVER = '[over]\nbuild = ["*.o"]\n'
PLANS = [
    (f'{CHECK}rules = "absent.toml"\n{OVER}', "absent.toml: cannot be read"),
    (f'{CHECK}rules = "r0.toml"\n[over]\nbuild = ["b00.o", "nobody.o"]\n', "nobody.o: cannot be read"),
    (f"{CHECK}{OVER}", "the plan has no `rules`, which check needs"),
    (f'{CHECK}rules = ["r0.toml", "r1.toml"]\n{OVER}', "the name of a file is needed"),
    (f'{CHECK}rules = "folder"\n{OVER}', "folder: cannot be read"),
    (f'{PREDICT}machine = "epyc"\n', "the plan has no `scenario` or `evidence`"),
    (f'{PREDICT}scenario = "pcp_lists"\nevidence = "b00.o"\n', "`scenario` or `evidence`: one of them"),
]


@pytest.mark.parametrize("text, what", PLANS, ids=range(len(PLANS)))
def test_what_all_points_lack_is_said_once(builds, tmp_path, text, what):
    """Before any of them is answered: an error of the plan, not one of each point."""
    (builds / "folder").mkdir(exist_ok=True)
    plan, to = builds / "lacks.toml", tmp_path / "set"
    plan.write_text(text)
    try:
        for words in (["--to", to], ["--list"]):
            said = fleet("sweep", plan, *words, status=2)
            assert what in said and "lacks.toml" in said and len(said.splitlines()) == 1, said
    finally:
        plan.unlink()
    assert not to.exists() or not list(to.rglob("*.parquet"))


def test_the_first_error_is_the_first_points(builds, tmp_path):
    plan, to = builds / "errors.toml", tmp_path / "set"
    plan.write_text('verb = "diff"\n[fixed]\nold = "b00.o"\nnew = "b01.o"\n[over]\nname = ["s", "zzz", "aaa"]\n')
    fleet("sweep", plan, "--to", to, "-q", status=2)
    plan.unlink()
    by = {bool(r["errors"]): r for r in rows("sweep", "--dataset", to)}
    assert by[False]["first_error"] is None and "`zzz`" in by[True]["first_error"], by
    text = fleet("fleet", "sweep", "--dataset", to)
    assert "unknown" not in text and "none" in text, text


def test_what_cannot_be_judged_says_why(builds, tmp_path):
    """A rule about a type that a build does not have: status 2 of `check`, and no error of the call."""
    rules, plan, to = builds / "odd-rules.toml", builds / "odd.toml", tmp_path / "set"
    rules.write_text('[[rule]]\nid = "o"\ntype = "nobody"\nseparate = ["a", "b"]\n')
    plan.write_text('verb = "check"\n[fixed]\nrules = "odd-rules.toml"\n[over]\nbuild = ["b00.o"]\n')
    try:
        fleet("sweep", plan, "--to", to, "-q", status=2)
    finally:
        rules.unlink(), plan.unlink()
    (row,) = rows("sweep", "--dataset", to)
    assert (row["status"], row["errors"]) == (2, 1) and "nobody" in row["first_error"], row


@pytest.mark.parametrize("said", ["2", "0", "x", None])
def test_answers_of_another_schema_stop_a_resume(builds, tmp_path, said):
    pq = pytest.importorskip("pyarrow.parquet")
    to = tmp_path / "set"
    fleet("sweep", builds / "check.toml", "--to", to, "-q", "--jobs", "0..20")
    (file,) = (to / "kind=answers").rglob("*.parquet")
    schema = {} if said is None else {"tussle.schema": said}
    pq.write_table(pq.read_table(file, partitioning=None).replace_schema_metadata(schema), file)
    before = {p: p.read_bytes() for p in to.rglob("*.parquet")}
    refused = fleet("sweep", builds / "check.toml", "--to", to, "-q", status=2)
    assert f"schema {said or 'unknown'}" in refused and str(file) in refused and "damaged" not in refused, refused
    assert {p: p.read_bytes() for p in to.rglob("*.parquet")} == before


def test_nobody_works_on_when_answers_cannot_be_kept(builds, tmp_path):
    """No byte may be written to a file: most of the work is not done."""
    def spent(to, **limit):
        words = [PROGRAM, "sweep", builds / "diff.toml", "--to", to, "--batch", "1", "--threads", "2", "-q"]
        child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, **limit)
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return said, child.returncode, usage.ru_utime

    to = tmp_path / "set"
    fleet("sweep", builds / "diff.toml", "--to", to, "--jobs", "0..1", "-q")
    whole = spent(tmp_path / "whole")
    assert whole[1] == 0, whole
    none = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    said, status, cpu = spent(to, preexec_fn=none)
    assert status == 2 and "File too large" in said and len(answers(to)) == 1, said
    assert cpu < 0.5 * whole[2], (cpu, whole[2])


def test_a_damaged_answer_stops_a_resume(builds, tmp_path):
    to = tmp_path / "set"
    fleet("sweep", builds / "check.toml", "--to", to, "-q")
    file = next((to / "kind=answers").rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:100])
    assert "damaged" in fleet("sweep", builds / "check.toml", "--to", to, "-q", status=2)
    assert file.stat().st_size == 100
    file.unlink()
    fleet("sweep", builds / "check.toml", "--to", to, "-q")
    assert sum(r["points"] for r in rows("sweep", "--dataset", to)) == 36


def test_predictions(builds, tmp_path):
    plan = tmp_path / "p.toml"
    plan.write_text('verb = "predict"\n[fixed]\nscenario = "pcp_lists"\ndraws = 2\n[over]\ncpus = [2, 4]\nseed = [1, 2]\n')
    to = tmp_path / "set"
    fleet("sweep", plan, "--to", to, "-q")
    got = rows("predictions", "--dataset", to)
    assert sorted(r["cpus"] for r in got) == [2, 4] and all(r["points"] == 2 for r in got)
    assert all(r["lowest"] <= r["mean_median"] <= r["highest"] for r in got)


def test_parts_of_ray_are_the_whole(monkeypatch):
    monkeypatch.syspath_prepend(str(tool.HERE.parent / "engine"))
    import sweep_ray

    for jobs, batch, cpus in itertools.product([(0, 1), (0, 7), (3, 100_003)], [None, 1, 1_000], [0, 1, 2.0, 300]):
        parts = sweep_ray.ranges({"jobs": jobs, "batch": batch}, cpus)
        assert [a for a, _ in parts] + [jobs[1]] == [jobs[0]] + [b for _, b in parts]
        assert max(b - a for a, b in parts) <= (batch or sweep_ray.POINTS_MAX)
        # Every CPU of a large cluster has something to do.
        assert batch or len(parts) >= min(jobs[1] - jobs[0], cpus)


MODULES = ["json", "os", "site", "subprocess", "ctypes", "time", "ray", "numpy", "yaml", "msgpack", "sitecustomize",
           "usercustomize", "psutil", "filelock", "packaging", "random", "logging", "google"]  # fmt: skip


def test_ray_runs_no_module_of_the_current_folder(builds, tmp_path):
    """Neither the driver nor Ray's own processes nor its workers: of the folder, the plan's, the dataset's,
    PYTHONPATH."""
    pytest.importorskip("ray")
    here, plan, to = tmp_path / "here", tmp_path / "plan", tmp_path / "set"
    shutil.copytree(builds, plan)
    for folder in (here, plan, to):
        folder.mkdir(exist_ok=True)
    fleet("sweep", plan / "check.toml", "--to", to, "--jobs", "0..1", "-q")
    for folder in (here, plan, to):
        for name in MODULES:
            (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__file__ + chr(10))\n")
    env = os.environ | {"TUSSLE_PYTHON": sys.executable, "PYTHONPATH": f"{here}:"}
    words = [PROGRAM, "sweep", plan / "check.toml", "--to", to, "--engine", "ray", "--batch", "9", "--threads", "2"]
    done = subprocess.run(words, cwd=here, env=env, capture_output=True, text=True, timeout=300)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert done.returncode in (0, 1) and len(answers(to)) == 36, done.stderr


def test_ray_gives_the_same_and_survives_a_dead_worker(builds, tmp_path):
    pytest.importorskip("ray")
    whole, spread = tmp_path / "whole", tmp_path / "spread"
    fleet("sweep", builds / "diff.toml", "--to", whole, "-q")
    words = ["sweep", builds / "diff.toml", "--to", spread, "--engine", "ray", "--batch", "100", "--threads", "2"]
    env = os.environ | {"TUSSLE_PYTHON": sys.executable}
    child = subprocess.Popen([PROGRAM, *map(str, words)], env=env, stderr=subprocess.PIPE, text=True)
    killed = 0
    for _ in range(6000):
        if child.poll() is not None or killed >= 2:
            break
        # Points of this sweep only: the programs that Ray started for it.
        mine = subprocess.run(["pgrep", "-f", f"sweep .*--to {spread.resolve()} --jobs"],
                              capture_output=True, text=True).stdout.split()  # fmt: skip
        for pid in mine[:1]:
            try:
                os.kill(int(pid), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        time.sleep(0.005)
    last = child.communicate(timeout=300)[1].strip().splitlines()[-1]
    assert child.returncode in (0, 1), last
    figures = r"of 864 points done now; [\d.]+ s of CPU, [\d.]+ s of them in the points, without Ray"
    assert re.search(figures, last), last
    assert killed and answers(spread) == answers(whole)
    assert json.loads(fleet("fleet", "sweep", "--dataset", spread, "--format", "json"))["rows"]
