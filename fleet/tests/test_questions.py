"""Questions over datasets written here by hand: what one field, one run and one version are."""

import json
import math
import os
import subprocess
import sys

import pytest
import tool
from tool import fleet, rows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

MILLION = 1_000_000


def put(to, kind, run, made):
    folder = to / f"kind={kind}/day={run['day']}/host={run['host']}/build={run['build']}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(made), folder / f"{run['run']}.parquet")


def dataset(to, runs):
    """Runs of a million accesses each: {run, day, host, build, tool, fights: [(fields, process, phase, transfers)]}."""
    to.mkdir()
    (to / "tussle-dataset.json").write_text('{"format":"tussle-dataset","schema":1}')
    for run in runs:
        common = {"run": run["run"], "tool_version": run.get("tool", "0.1.0"), "unit": "accesses"}
        fights = [
            common | {"type_name": fields.split(".")[0], "fields": fields, "exe": exe, "phase_bytes": phase,
                      "transfers": float(transfers), "class": "a layout helps"}
            for fields, exe, phase, transfers in run["fights"]
        ]  # fmt: skip
        put(to, "lines", run, fights)
        put(to, "runs", run, [common | {"accesses": MILLION, "cpu_model": "C", "started_unix_s": run["started"]}])
    return to


def run(number, build, host, fights, **other):
    day = {"old": 1, "new": 2}[build]
    return {"run": f"{number:032x}", "day": f"2026-11-0{day}", "started": 1.7e9 + 86_400 * day, "build": build,
            "host": host, "fights": fights} | other  # fmt: skip


def test_a_field_of_several_rows_is_one_value_of_its_run(tmp_path):
    """A run has a row for each process, and for each place that allocates: together they are what the field does."""
    runs = []
    for i in range(6):
        # `worse` fights three times as much, now in two processes. `same` does what it did, in one instead of two.
        old = [("struct a.worse", "/bin/x", 0, 100 + i), ("struct b.same", "/bin/x", 0, 150),
               ("struct b.same", "/bin/y", 0, 50 + i)]  # fmt: skip
        new = [("struct a.worse", "/bin/x", 0, 200 + i), ("struct a.worse", "/bin/y", 8, 100 + 2 * i),
               ("struct b.same", "/bin/x", 0, 200 + i)]  # fmt: skip
        runs += [run(2 * i, "old", f"h{i}", old), run(2 * i + 1, "new", f"h{i}", new)]
    to = dataset(tmp_path / "set", runs)
    worse = rows("regressions", "--dataset", to, "--old", "old", "--new", "new", status=1)
    assert [r["fields"] for r in worse] == ["struct a.worse"]
    # By hand: the mean logarithm of (300 + 3i) / (100 + i) is that of 3.
    assert math.isclose(worse[0]["ratio"], 3, rel_tol=1e-4) and worse[0]["old_per_million"] == 102.5
    assert worse[0]["new_per_million"] == 307.5
    by_cpu = {r["fields"]: r for r in rows("cpus", "--dataset", to)}
    sums = {f: sum(t for r in runs for g, _, _, t in r["fights"] if g == f) for f in by_cpu}
    for fields, row in by_cpu.items():
        assert (row["runs"], row["transfers"]) == (12, sums[fields]), row
        assert math.isclose(row["per_million"], sums[fields] / 12, rel_tol=1e-9), row
    # At phase 0 in twelve runs, at phase 8 in six.
    by_phase = {(r["fields"], r["phase_bytes"]): (r["runs"], r["per_million"]) for r in rows("phases", "--dataset", to)}
    for key, runs_there, total in [(("struct b.same", 0), 12, sums["struct b.same"]),
                                   (("struct a.worse", 8), 6, sum(100 + 2 * i for i in range(6)))]:  # fmt: skip
        assert by_phase[key][0] == runs_there and math.isclose(by_phase[key][1], total / runs_there, rel_tol=1e-9)
    top = {r["fields"]: (r["processes"], r["runs"], r["transfers"]) for r in rows("top", "--dataset", to)}
    assert top == {f: (2, 12, total) for f, total in sums.items()}


def test_a_newer_tussle_makes_no_field_new(tmp_path):
    known, fresh = ("struct a.known", "/bin/x", 0, 10), ("struct b.fresh", "/bin/x", 0, 20)
    to = dataset(tmp_path / "set", [
        run(1, "old", "h1", [known]), run(2, "new", "h1", [known, fresh], tool="0.2.0"),
        run(3, "new", "h2", [fresh], tool="0.2.0"),
    ])  # fmt: skip
    for since in (["--since", "2026-11-02"], ["--since-build", "new"]):
        found = rows("new", "--dataset", to, *since)
        assert [(r["fields"], r["tool_version"], r["transfers"], r["hosts"]) for r in found] == [
            ("struct b.fresh", "0.2.0", 40, 2)
        ], found


def test_spark_says_what_is_not_there_as_duckdb_does(tmp_path):
    pytest.importorskip("pyspark")
    to = dataset(tmp_path / "set", [run(1, "old", "h1", [("struct a.known", "/bin/x", 0, 10)])])
    asked = ["fleet", "new", "--since-build", "b99", "--dataset", to]
    said = [fleet(*asked, "--engine", e, status=2).splitlines()[-1] for e in ("duckdb", "spark")]
    assert said[0] == said[1] and "no run of build `b99`" in said[0], said


def test_numbers_are_rounded_when_they_are_shown(tmp_path):
    """A thousand rows of 0.4 are 400, and a rate below one is not nothing."""
    many = [("struct a.small", f"/bin/{i}", 0, 0.4) for i in range(1000)]
    rare = [("struct b.rare", "/bin/x", 0, 0.25)]
    to = dataset(tmp_path / "set", [run(1, "old", "h1", many), run(2, "old", "h2", rare)])
    top = {r["fields"]: r for r in rows("top", "--dataset", to)}
    assert (top["struct a.small"]["transfers"], top["struct b.rare"]["transfers"]) == (400, 0.25)
    assert math.isclose(top["struct b.rare"]["share_ppm"], 1e6 * 0.25 / 400.25, rel_tol=1e-9)
    for name in ("cpus", "phases"):
        rates = {r["fields"]: r["per_million"] for r in rows(name, "--dataset", to)}
        assert rates == {"struct a.small": 400, "struct b.rare": 0.25}, name
    assert [r["transfers"] for r in rows("new", "--dataset", to, "--since", "2026-01-01")] == [400, 0.25]


def test_what_is_no_number_is_said_with_its_file(tmp_path):
    for kind in (math.nan, math.inf):
        to = dataset(tmp_path / str(kind), [run(i, "old", f"h{i}", [("struct a.x", "/x", 0, 1 + i)]) for i in range(3)])
        run_of = run(7, "old", "h7", [("struct a.x", "/x", 0, kind)])
        put(to, "runs", run_of, [{"run": run_of["run"], "tool_version": "0.1.0", "unit": "accesses"}])
        put(to, "lines", run_of, [{"run": run_of["run"], "fields": "f", "class": "a layout helps", "transfers": kind}])
        said = fleet("fleet", "top", "--dataset", to, status=2)
        assert run_of["run"] in said and "`transfers` has a value that is no number" in said, said


def test_a_damaged_run_has_no_rate(tmp_path):
    """Of its accesses or of its fights a part is lost: their quotient is neither."""
    to = dataset(tmp_path / "set", [run(1, "old", "h1", [("struct a.x", "/x", 0, 10)])])
    broken = run(2, "old", "h2", [("struct a.x", "/x", 0, 1)])
    common = {"run": broken["run"], "tool_version": "0.1.0", "unit": "accesses"}
    put(to, "lines", broken, [common | {"type_name": "struct a", "fields": "struct a.x", "exe": "/x", "phase_bytes": 0,
                                        "transfers": 1.0, "class": "a layout helps"}])  # fmt: skip
    put(to, "runs", broken, [common | {"accesses": MILLION, "cpu_model": "C", "problems": 1}])
    assert [(r["runs"], r["per_million"]) for r in rows("cpus", "--dataset", to)] == [(1, 10)]
    assert [(r["runs"], r["transfers"]) for r in rows("top", "--dataset", to)] == [(2, 11)]


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_modules_of_the_current_folder_are_not_run(tmp_path, engine):
    """Nor those of the dataset, nor of PYTHONPATH: whoever may write there may not run anything here."""
    if engine == "spark":
        pytest.importorskip("pyspark")
    to, here = dataset(tmp_path / "set", [run(1, "old", "h1", [("struct a.x", "/x", 0, 5)])]), tmp_path / "here"
    here.mkdir()
    for folder in (here, to):
        for name in ("json", "re", "duckdb", "pyspark", "numpy", "decimal", "functools", "sitecustomize", "py4j"):
            (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n")
    env = os.environ | {"TUSSLE_PYTHON": sys.executable, "PYTHONPATH": f"{here}:"}
    words = [tool.PROGRAM, "fleet", "top", "--dataset", to, "--format", "json", "--engine", engine]
    done = subprocess.run(words, cwd=here, env=env, capture_output=True, text=True)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert done.returncode == 0 and json.loads(done.stdout)["rows"][0]["transfers"] == 5, done.stderr


def test_sums_have_all_their_digits(tmp_path):
    large = [run(1, "old", "h1", [("struct a.x", "/x", 0, 10**15)]), run(2, "old", "h2", [("struct a.x", "/x", 0, 1)]),
             run(3, "old", "h3", [("struct a.x", "/x", 0, 1001), ("struct b.y", "/x", 0, 0.3)])]  # fmt: skip
    large[0]["started"] = 1_763_900_000.123456
    to = dataset(tmp_path / "set", large)
    for name in ("top", "new", "cpus", "phases"):
        words = ["--since", "2026-01-01"] if name == "new" else []
        found = {r["fields"]: r["transfers"] for r in rows(name, "--dataset", to, *words)}
        assert found == {"struct a.x": 10**15 + 1002, "struct b.y": 0.3}, name
    assert "1,000,000,000,001,002" in fleet("fleet", "top", "--dataset", to)
    first = [r["first_s"] for r in rows("builds", "--dataset", to)]
    assert first == [min(r["started"] for r in large)]


def test_logarithms_are_as_exact_as_numbers_are(tmp_path):
    """Exactly twice as much on every host is twice; else mean and interval are those of the definition."""
    pairs = [(1.25, 2.5), (0.001, 0.002), (1e6 / 3, 2e6 / 3)]
    odd = [(1.237, 2.471), (7.1, 14.2003), (313.7, 626.1), (0.00123, 0.00247)]
    runs = []
    for i, (old, new) in enumerate(odd):
        more = [("struct a.two", "/x", 0, pairs[i][j]) for j in (0, 1)] if i < 3 else [None, None]
        for j, (build, value) in enumerate([("old", old), ("new", new)]):
            fights = [("struct b.odd", "/x", 0, value)] + [f for f in [more[j]] if f]
            runs.append(run(2 * i + j, build, f"h{i}", fights))
    to = dataset(tmp_path / "set", runs)
    found = {r["fields"]: r for r in rows("regressions", "--dataset", to, "--old", "old", "--new", "new", status=1)}
    two = found["struct a.two"]
    assert (two["ratio"], two["low"], two["high"]) == (2, 2, 2), two
    logs = [math.log(new / old) for old, new in odd]
    mean = sum(logs) / 4
    sd = math.sqrt(sum((x - mean) ** 2 for x in logs) / 3)
    b = found["struct b.odd"]
    # The quantile of Student's t with 3 degrees at 1 - 0.05 / 4.
    half = 4.176534846 * sd / 2
    assert math.isclose(b["ratio"], math.exp(mean), rel_tol=1e-10), (b, math.exp(mean))
    assert math.isclose(b["low"], math.exp(mean - half), rel_tol=1e-8), (b, math.exp(mean - half))
    assert math.isclose(b["high"], math.exp(mean + half), rel_tol=1e-8)
    assert math.isclose(b["old_per_million"], sum(o for o, _ in odd) / 4, rel_tol=1e-11)


def test_builds_without_a_time_are_listed(tmp_path):
    undated = run(3, "new", "h2", [("struct a.x", "/x", 0, 5)]) | {"build": "b9", "day": "unknown", "started": None}
    to = dataset(tmp_path / "set", [run(1, "old", "h1", [("struct a.x", "/x", 0, 5)]), undated])
    listed = [(r["build"], r["first_s"] is None) for r in rows("builds", "--dataset", to)]
    assert listed == [("old", False), ("b9", True)]
    assert "fewer than two builds with a time" in fleet("fleet", "regressions", "--dataset", to, status=2)
    said = fleet("fleet", "new", "--since-build", "b9", "--dataset", to, status=2)
    assert "no run of build `b9` with a known time" in said, said
    two = ["regressions", "--dataset", to, "--old", "old", "--new"]
    # It is there, and nothing of it can be compared: no error.
    assert fleet("fleet", *two, "b9", status=2) == ""
    assert "no run of build `b8`;" in fleet("fleet", *two, "b8", status=2)


def test_a_file_of_a_newer_schema_is_refused(tmp_path):
    to = dataset(tmp_path / "set", [run(1, "old", "h1", [("struct a.x", "/x", 0, 5)])])
    (path,) = (to / "kind=lines").rglob("*.parquet")
    table = pq.read_table(path, partitioning=None)
    for schema, sign in [("1", None), ("0", None), ("2", "schema 2 is newer than 1"), ("99", "schema 99 is newer"),
                         ("next", "is no number"), ("", "is no number"), ("-1", "is no number")]:  # fmt: skip
        pq.write_table(table.replace_schema_metadata({"other": "x", "tussle.schema": schema}), path)
        if sign is None:
            assert len(rows("top", "--dataset", to)) == 1
        else:
            said = fleet("fleet", "top", "--dataset", to, status=2)
            assert sign in said and path.name in said, said
    # Without one it is of any version.
    pq.write_table(table.replace_schema_metadata(None), path)
    assert len(rows("top", "--dataset", to)) == 1


def test_what_one_host_mended_another_has_still(tmp_path):
    """Both printed the same words: a document counts for its host. And a violation is as old as when it was seen."""
    to = tmp_path / "set"
    document = lambda status: json.dumps({"kind": "check", "schema_version": 1, "errors": 0, "findings": [], "outcomes": [
        {"build": "vmlinux", "rule": "apart", "type": "s", "status": status, "message": "share a line"}]})  # fmt: skip
    check = tmp_path / "check.json"
    day = lambda n: 1_700_000_000 + 86_400 * n

    def export(host, when, status):
        check.write_text(document(status))
        os.utime(check, (day(when), day(when)))
        fleet("export", check, "--to", to, "--host", host)

    listed = lambda: [(r["hosts"], r["first_day"], r["last_day"]) for r in rows("rules", "--dataset", to)]
    export("a", 0, "violated")
    export("b", 1, "violated")
    assert listed() == [(2, "2023-11-14", "2023-11-15")]
    export("a", 2, "holds")
    assert listed() == [(1, "2023-11-15", "2023-11-15")]
    # The same words later, on another day.
    export("b", 4, "violated")
    assert listed() == [(1, "2023-11-15", "2023-11-18")]
    export("b", 5, "holds")
    assert listed() == []
    export("a", 6, "violated")
    assert listed() == [(1, "2023-11-14", "2023-11-20")]
