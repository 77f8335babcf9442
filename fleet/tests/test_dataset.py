"""Datasets: what was planted is found, what was exported is there once, what is broken is said."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest
import tool
from tool import PROGRAM, fleet, rows

duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")


def write_evidence(path, **run):
    """The evidence of the Python tests, with another run row."""
    made = tool.made()
    tables = made.tables(1, 50)
    name, columns, values = tables[0]
    tables[0] = (name, columns, [list((dict(zip(columns, values[0])) | run).values())])
    made.write_evidence(path, tables)
    return path


def files(folder):
    return sorted(p for p in pathlib.Path(folder).rglob("*.parquet"))


def test_what_was_planted_is_found(planted):
    folder, truth = planted
    top = rows("top", "--dataset", folder, "--limit", 3)
    assert [[r["type_name"], r["fields"]] for r in top] == truth["top"]
    assert all(r["hosts"] == truth["hosts"] and r["runs"] == truth["runs"] and r["builds"] == 6 for r in top)
    new = rows("new", "--dataset", folder, "--since", truth["since"])
    assert [[r["type_name"], r["fields"]] for r in new] == [truth["new"]]
    assert rows("new", "--dataset", folder, "--since-build", truth["build"]) == new
    worse = rows("regressions", "--dataset", folder, status=1)
    assert [[r["type_name"], r["fields"]] for r in worse] == [truth["regression"]]
    assert worse[0]["low"] < truth["factor"] < worse[0]["high"] and worse[0]["hosts"] == truth["hosts"]
    same = rows("regressions", "--dataset", folder, "--old", "b01", "--new", "b02")
    assert same == []


def test_other_questions(planted):
    folder, _ = planted
    assert [r["build"] for r in rows("builds", "--dataset", folder)] == [f"b0{i}" for i in range(5, -1, -1)]
    by_cpu = rows("cpus", "--dataset", folder, "--limit", 1000)
    assert {r["cpu_model"] for r in by_cpu} == {"Example Gold 96C", "Example EPYC 64C", "Example Arm 80C"}
    assert {r["phase_bytes"] for r in rows("phases", "--dataset", folder, "--limit", 5000)} == set(range(0, 64, 8))
    assert sum(r["access_rows"] for r in rows("accesses", "--dataset", folder, "--limit", 99)) == 300 * 50
    assert rows("rules", "--dataset", folder) == []
    for form, sign in [("text", "struct conn.refs"), ("md", "| struct conn"), ("html", "<td")]:
        assert sign in fleet("fleet", "--dataset", folder, "--format", form)


def test_an_export_is_there_once(tmp_path):
    data, to = write_evidence(tmp_path / "a.data"), tmp_path / "set"
    words = ["export", "--parquet", data, "--to", to, "--host", "web/1", "--kernel", "6.1"]
    fleet(*words)
    before = {p: p.read_bytes() for p in files(to)}
    assert any("host=web%2F1" in str(p) and "day=2023-11-14" in str(p) and "build=abcd" in str(p) for p in before)
    fleet(*words)
    assert {p: p.read_bytes() for p in files(to)} == before
    # The same evidence from another host is the same run.
    fleet("export", data, "--to", to, "--host", "web2")
    top = rows("top", "--dataset", to)
    assert len(top) == 1 and top[0]["runs"] == 1 and top[0]["hosts"] == 1
    assert rows("builds", "--dataset", to) == [
        {"build": "abcd", "first_s": 1700000000.5, "hosts": 1, "runs": 1}
    ]
    accesses = next(p for p in before if "kind=accesses" in str(p))
    t = pq.read_table(accesses)
    assert t.num_rows == 52 and t["row"].to_pylist() == list(range(52)) and len(set(t["run"].to_pylist())) == 1
    assert pq.read_metadata(accesses).metadata[b"tussle.schema"] == b"1"


def test_cut_off_at_any_moment(tmp_path):
    """Killed at random moments and started again: as if it had not been interrupted."""
    data = write_evidence(tmp_path / "a.data")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    fleet("export", data, "--to", whole, "--host", "h")
    dice = random.Random(3)
    for _ in range(12):
        child = subprocess.Popen([PROGRAM, "export", data, "--to", cut, "--host", "h", "--quiet"])
        time.sleep(dice.random() * 0.03)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if (cut / "tussle-dataset.json").exists():
            assert len(rows("top", "--dataset", cut)) in (0, 1)
    fleet("export", data, "--to", cut, "--host", "h")
    names = lambda folder: [p.relative_to(folder) for p in files(folder) if not p.name.startswith(".")]
    assert names(cut) == names(whole)
    assert rows("top", "--dataset", cut) == rows("top", "--dataset", whole)


def test_units_and_versions_never_meet_in_one_sum(tmp_path):
    to = tmp_path / "set"
    for i, run in enumerate([{}, {"tool_version": "0.2.0"}, {"tool_version": "0.2.0", "seed": 9}]):
        fleet("export", write_evidence(tmp_path / f"{i}.data", **run), "--to", to)
    top = rows("top", "--dataset", to)
    assert sorted((r["tool_version"], r["runs"]) for r in top) == [("0.1.0", 1), ("0.2.0", 2)]
    assert all(r["share_ppm"] == 1_000_000 for r in top)


def test_broken_datasets_say_so(tmp_path, planted):
    folder = tmp_path / "set"
    shutil.copytree(planted[0], folder)
    victim = files(folder / "kind=lines")[7]
    good = victim.read_bytes()
    for bad in [good[: len(good) // 2], b"", b"PAR1" + good[4:-20] + b"\0" * 16 + b"PAR1", b"not parquet at all"]:
        victim.write_bytes(bad)
        said = fleet("fleet", "--dataset", folder, status=2)
        assert victim.name in said and "damaged" in said, said
        assert victim.read_bytes() == bad
    pq.write_table(pa.table({"a": [1, 2]}), victim)
    assert "no file of tussle" in fleet("fleet", "--dataset", folder, status=2)
    victim.unlink()
    (folder / "kind=lines" / "day=2030-01-01" / "host=x" / "build=y").mkdir(parents=True)
    assert len(rows("top", "--dataset", folder, "--limit", 3)) == 3
    # Rows without columns that a later version added, and with one that it does not know.
    t = pq.read_table(files(folder / "kind=runs")[0], partitioning=None)
    pq.write_table(t.drop_columns(["kernel"]).append_column("later", pa.array([1])), files(folder / "kind=runs")[0])
    assert len(rows("top", "--dataset", folder, "--limit", 3)) == 3
    (folder / "tussle-dataset.json").write_text('{"format":"tussle-dataset","schema":7}')
    assert "schema 7" in fleet("fleet", "--dataset", folder, status=2)
    assert "schema 7" in fleet("export", write_evidence(tmp_path / "a.data"), "--to", folder, status=2)


def test_mistakes(tmp_path, planted):
    folder = planted[0]
    assert "no dataset" in fleet("fleet", "--dataset", tmp_path / "nothing", status=2)
    assert "no question `best`" in fleet("fleet", "best", "--dataset", folder, status=2)
    assert "--since" in fleet("fleet", "new", "--dataset", folder, status=2)
    assert "no such option" in fleet("fleet", "--datasett", folder, status=2)
    (tmp_path / "thesis").write_text("x")
    assert "other things" in fleet("export", write_evidence(tmp_path / "a.data"), "--to", tmp_path, status=2)
    (tmp_path / "bad").write_bytes(b"\x7fELF")
    assert "not an evidence file" in fleet("export", tmp_path / "bad", "--to", tmp_path / "new", status=2)
    said = fleet("fleet", "--dataset", folder, status=2, python="/nothing/python")
    assert "TUSSLE_PYTHON" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_rights(tmp_path):
    data, to = write_evidence(tmp_path / "a.data"), tmp_path / "set"
    fleet("export", data, "--to", to)
    (to / "kind=runs").chmod(0o500)
    assert "denied" in fleet("export", write_evidence(tmp_path / "b.data", seed=3), "--to", to, status=2)


def test_spark_gives_the_same_rows(planted):
    pytest.importorskip("pyspark")
    folder, truth = planted
    questions = [["top"], ["new", "--since", truth["since"]], ["cpus"], ["phases"], ["builds"], ["accesses"], ["rules"]]
    for words in questions:
        both = [rows(*words, "--dataset", folder, "--limit", 50, "--engine", e) for e in ("duckdb", "spark")]
        assert both[0] == both[1], words
    both = [rows("regressions", "--dataset", folder, "--engine", e, status=1) for e in ("duckdb", "spark")]
    assert len(both[0]) == len(both[1]) == 1
    for k, v in both[0][0].items():
        assert v == both[1][0][k] or abs(v / both[1][0][k] - 1) < 1e-6, k
