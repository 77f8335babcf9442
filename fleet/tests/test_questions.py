"""Questions over datasets written here by hand: what one field, one run and one version are."""

import math

import pytest
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
        assert (row["runs"], row["transfers"], row["per_million"]) == (12, sums[fields], sums[fields] // 12), row
    # At phase 0 in twelve runs, at phase 8 in six.
    by_phase = {(r["fields"], r["phase_bytes"]): (r["runs"], r["per_million"]) for r in rows("phases", "--dataset", to)}
    assert by_phase[("struct b.same", 0)] == (12, sums["struct b.same"] // 12)
    assert by_phase[("struct a.worse", 8)] == (6, sum(100 + 2 * i for i in range(6)) // 6)
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
