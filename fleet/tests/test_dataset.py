"""Datasets: what was planted is found, what was exported is there once, what is broken is said."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import scale
import tool
from tool import PROGRAM, fleet, rows

duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")


def write_evidence(path, build_id="abcd", **run):
    """The evidence of the Python tests, with another run row."""
    made = tool.made()
    tables = made.tables(1, 50)
    tables[1][2][0][3] = build_id
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
    folder, truth = planted
    assert [r["build"] for r in rows("builds", "--dataset", folder)] == [f"b0{i}" for i in range(5, -1, -1)]
    by_cpu = rows("cpus", "--dataset", folder, "--limit", 1000)
    assert {r["cpu_model"] for r in by_cpu} == {"Example Gold 96C", "Example EPYC 64C", "Example Arm 80C", None}
    assert {r["phase_bytes"] for r in rows("phases", "--dataset", folder, "--limit", 5000)} == set(range(0, 64, 8))
    assert sum(r["access_rows"] for r in rows("accesses", "--dataset", folder, "--limit", 99)) == 300 * 50
    broken = rows("rules", "--dataset", folder)
    assert [(r["type_name"], r["rule"]) for r in broken] == [tuple(truth["rule"][:2])] * 3
    assert [r["build"] for r in broken] == truth["rule"][2]
    assert sum(r["points"] for r in rows("sweep", "--dataset", folder)) == 6 * 20
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


def test_raw_tables_can_follow(tmp_path):
    """First without the raw tables, then with them: they are there, and the run counts once."""
    data = write_evidence(tmp_path / "a.data")
    late, whole = tmp_path / "late", tmp_path / "whole"
    fleet("export", data, "--to", late, "--no-raw")
    assert {p.relative_to(late).parts[0] for p in files(late)} == {"kind=lines", "kind=runs"}
    assert "already there" in exported(data, late, "--no-raw")
    fleet("export", data, "--to", late)
    # As if that had been cut off.
    next(p for p in files(late) if "kind=touches" in str(p)).unlink()
    fleet("export", data, "--to", late)
    fleet("export", data, "--to", whole)
    assert {p.relative_to(late): p.read_bytes() for p in files(late)} == {
        p.relative_to(whole): p.read_bytes() for p in files(whole)
    }
    assert "already there" in exported(data, late) and "already there" in exported(data, late, "--no-raw")


def exported(data, to, *words):
    """What an export says."""
    done = subprocess.run([PROGRAM, "export", data, "--to", to, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


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


LAYOUT = {"kind": "layout", "schema_version": 1, "types": [
    {"name": "struct s", "size_bytes": 16, "align_bytes": 8, "fields": [
        {"path": "a", "offset_bytes": 0, "size_bytes": 4, "type": "unsigned int", "bits": 3},
        {"path": "b", "offset_bytes": 8, "size_bytes": 8, "type": "long", "bits": None}]}]}  # fmt: skip


def test_what_verbs_print_is_exported(tmp_path):
    """Documents of `--format json`; any verb's is kept, those of three are rows."""
    tussle = pytest.importorskip("tussle")
    if not shutil.which("gcc"):
        pytest.skip("gcc")
    (tmp_path / "p.c").write_text("struct s { long a; long b; } x;\n")
    program, rules, to = tmp_path / "p.o", tmp_path / "rules.toml", tmp_path / "set"
    subprocess.run(["gcc", "-g", "-c", "-o", program, tmp_path / "p.c"], check=True)
    rules.write_text('[[rule]]\nid = "apart"\ntype = "s"\nseparate = ["a", "b"]\n'
                     '[[rule]]\nid = "close"\ntype = "s"\ntogether = ["a", "b"]\nphases = [0]\n')  # fmt: skip
    prediction = tussle.predict("pcp_lists", draws=2, cpus=[4])
    made = {"check": tussle.check([program], rules).json(), "predict": prediction.json(),
            "diff": tussle.diff(program, program, ["s"]).json(), "layout": json.dumps(LAYOUT)}  # fmt: skip
    for name, text in made.items():
        (tmp_path / f"{name}.json").write_text(text)
        fleet("export", "--parquet", tmp_path / f"{name}.json", "--to", to, "--host", "ci")
        fleet("export", tmp_path / f"{name}.json", "--to", to, "--host", "other")
    assert "cannot be redacted" in fleet("export", tmp_path / "diff.json", "--to", to, "--redact", status=2)
    points = rows("sweep", "--dataset", to)
    assert [(r["verb"], r["status"], r["points"]) for r in points] == [
        ("check", 1, 1), ("diff", None, 1), ("layout", None, 1), ("predict", None, 1)
    ]  # fmt: skip
    broken = rows("rules", "--dataset", to)
    assert [(r["build"], r["rules"]) for r in broken] == [(str(program), "check.json")] and broken[0]["rule"] == "apart"
    (predicted,) = rows("predictions", "--dataset", to)
    assert predicted["cpus"] == 4 and abs(predicted["mean_median"] - prediction.dict()["effect"]["median"]) < 1e-9
    fields = pq.read_table(next(iter((to / "kind=layouts").rglob("*.parquet"))), partitioning=None).to_pylist()
    assert [(f["type_name"], f["path"], f["offset_bytes"], f["bits"]) for f in fields] == [
        ("struct s", "a", 0, 3), ("struct s", "b", 8, None)
    ]  # fmt: skip


def test_a_benchmark_is_there_once(tmp_path):
    """Its day is that of its first run, not of the file, which a copy changes; no version is made up for it."""
    header = {"tussle_bench": 1, "arms": ["a", "b"], "commands": ["true", "false"], "order": "random_within_pairs",
              "metric": {"name": "wall time (s)", "kind": "cost", "from": "wall"}, "seed": 1, "warmup": 0, "cpus": 2,
              "sequential": False}  # fmt: skip
    run = {"pair": 0, "position": 0, "warmup": False, "status": "ok", "value": 0.5, "started_s": 1_700_000_000.5,
           "wall_s": 0.5, "user_s": 0.1, "system_s": 0.0, "foreign_s": 0.25}  # fmt: skip
    file, to = tmp_path / "b.jsonl", tmp_path / "set"
    said = [header, run | {"arm": 0}, run | {"arm": 1, "position": 1}]
    file.write_text("".join(json.dumps(r) + "\n" for r in said))
    for modified in (1_500_000_000, 1_600_000_000):
        os.utime(file, (modified, modified))
        fleet("export", file, "--to", to, "--host", "h")
    (path,) = files(to / "kind=bench")
    assert "day=2023-11-14" in str(path)
    found = pq.ParquetFile(path).read().to_pylist()
    assert [(r["arm"], r["pair"], r["value"], r["foreign_s"], r["tool_version"]) for r in found] == [
        ("a", 0, 0.5, 0.25, None), ("b", 0, 0.5, 0.25, None)
    ]  # fmt: skip


def test_half_a_line_of_a_benchmark_is_said(tmp_path):
    header = {"tussle_bench": 1, "arms": ["a"], "commands": ["true"], "order": "random_within_pairs", "seed": 1,
              "metric": {"name": "wall time (s)", "kind": "cost", "from": "wall"}, "warmup": 0, "cpus": 2,
              "sequential": False}  # fmt: skip
    run = {"pair": 0, "position": 0, "arm": 0, "status": "ok", "value": 0.5, "started_s": 1.7e9, "wall_s": 0.5}
    file = tmp_path / "b.jsonl"
    file.write_text(json.dumps(header) + "\n" + json.dumps(run) + "\n" + json.dumps(run)[:40])
    said = exported(file, tmp_path / "set")
    assert "1 runs of a benchmark; damaged in 1 places: line 3" in said, said


def test_units_and_versions_never_meet_in_one_sum(tmp_path):
    to = tmp_path / "set"
    for i, run in enumerate([{}, {"tool_version": "0.2.0"}, {"tool_version": "0.2.0", "seed": 9}]):
        fleet("export", write_evidence(tmp_path / f"{i}.data", **run), "--to", to)
    top = rows("top", "--dataset", to)
    assert sorted((r["tool_version"], r["runs"]) for r in top) == [("0.1.0", 1), ("0.2.0", 2)]
    assert all(r["share_ppm"] == 1_000_000 for r in top)
    fleet("export", write_evidence(tmp_path / "samples.data", unit="clock_samples"), "--to", to)
    raw = rows("accesses", "--dataset", to)
    assert sorted((r["unit"], r["tool_version"], r["runs"]) for r in raw) == [
        ("accesses", "0.1.0", 1), ("accesses", "0.2.0", 2), ("clock_samples", "0.1.0", 1)
    ]  # fmt: skip


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
    # DuckDB does not name a file whose pages are no pages.
    victim.write_bytes(good)
    group = pq.ParquetFile(victim).metadata.row_group(0)
    column = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "transfers")
    at = column.dictionary_page_offset or column.data_page_offset
    victim.write_bytes(good[:at] + b"\xff" * 8 + good[at + 8 :])
    said = fleet("fleet", "--dataset", folder, status=2)
    assert victim.name in said and "damaged" in said, said
    pq.write_table(pa.table({"a": [1, 2]}), victim)
    assert "no file of tussle" in fleet("fleet", "--dataset", folder, status=2)
    victim.unlink()
    text = pa.table({"run": ["x"], "transfers": ["many"]})
    pq.write_table(text, victim)
    assert "`transfers` is text in one of the files" in fleet("fleet", "--dataset", folder, status=2)
    for foreign in [pa.array([{"x": 1}]), pa.array([[1.0]]), pa.array([b"x"])]:
        pq.write_table(pa.table({"run": ["x"], "transfers": foreign}), victim)
        said = fleet("fleet", "--dataset", folder, status=2)
        assert "`transfers` is " in said and "it is none of tussle's" in said, said
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
    for day in ["2026-13-45", "zzzz-zz-zz", "2026-1-1"]:
        assert "a day as" in fleet("fleet", "new", "--dataset", folder, "--since", day, status=2)
    # What is not there is not the same as nothing found.
    assert "no run of build `b99`" in fleet("fleet", "new", "--dataset", folder, "--since-build", "b99", status=2)
    words = ["fleet", "regressions", "--dataset", folder, "--old", "b01", "--new", "b99"]
    assert "no run of build `b99`" in fleet(*words, status=2)
    said = fleet("fleet", "--dataset", folder, status=2, python="/nothing/python")
    assert "TUSSLE_PYTHON" in said


def test_a_build_on_too_few_hosts_is_not_clean(tmp_path):
    """Two builds on one host: nothing can be compared, and exit 0 would say that nothing got worse."""
    to = tmp_path / "set"
    for build in ["old", "new"]:
        data = write_evidence(tmp_path / f"{build}.data", None, seed=len(build) + ord(build[0]))
        fleet("export", data, "--to", to, "--host", "h", "--build", build)
    said = subprocess.run([PROGRAM, "fleet", "regressions", "--dataset", to, "--format", "json", "--old", "old",
                           "--new", "new"], capture_output=True, text=True,
                          env=os.environ | {"TUSSLE_PYTHON": sys.executable})  # fmt: skip
    assert said.returncode == 2 and json.loads(said.stdout)["fields_compared"] == 0, said


def test_any_path_is_a_dataset(tmp_path):
    to = tmp_path / "we[i]rd *?{a,b}' %41"
    fleet("export", write_evidence(tmp_path / "a.data"), "--to", to, "--host", "../..")
    assert [r["hosts"] for r in rows("top", "--dataset", to)] == [1]
    fifo = to / "kind=lines/pipe.parquet"
    os.mkfifo(fifo)
    assert "pipe.parquet: no file" in fleet("fleet", "--dataset", to, status=2)
    fifo.unlink()
    fifo.symlink_to("/nowhere")
    assert "pipe.parquet: no file" in fleet("fleet", "--dataset", to, status=2)


def test_what_has_no_day_is_not_new(tmp_path):
    to = tmp_path / "set"
    fleet("export", write_evidence(tmp_path / "a.data"), "--to", to)
    words = ["new", "--dataset", to, "--since", "2020-01-01"]
    assert len(rows(*words)) == 1
    fleet("export", write_evidence(tmp_path / "b.data", started_unix_s=None), "--to", to)
    assert rows(*words) == []


def test_no_rights(tmp_path, tmp_path_factory):
    """Root may write anywhere, so it becomes somebody else."""
    data, to = write_evidence(tmp_path / "a.data"), tmp_path / "set"
    fleet("export", data, "--to", to)
    other = write_evidence(tmp_path / "b.data", seed=3)
    before = {p: p.read_bytes() for p in files(to)}
    somebody = 65534 if os.geteuid() == 0 else None
    base = tmp_path_factory.getbasetemp()
    own = [base.parent, *(p for p in [tmp_path, *tmp_path.parents] if base in [p, *p.parents])]
    for folder in own if somebody else []:
        folder.chmod(0o755)
    if somebody and subprocess.run(["test", "-x", PROGRAM], user=somebody).returncode:
        pytest.skip("the build, or the folder of temporary files, lies where only its owner comes")
    (to / "kind=runs").chmod(0o500 if somebody is None else 0o755)
    assert "denied" in fleet("export", other, "--to", to, status=2, user=somebody)
    assert {p: p.read_bytes() for p in files(to)} == before
    (to / "kind=lines").chmod(0o000 if somebody is None else 0o700)
    assert "denied" in fleet("fleet", "--dataset", to, status=2, user=somebody)
    (to / "kind=lines").chmod(0o755)
    # What may not be looked at is not said to be absent, nor to be somebody else's folder.
    for mode in [0o700, 0o744] if somebody else []:
        to.chmod(mode)
        for words in (["fleet", "--dataset", to], ["export", other, "--to", to]):
            said = fleet(*words, status=2, user=somebody)
            assert "denied" in said and "no dataset" not in said and "other things" not in said, said


def test_two_exports_meet_in_a_new_folder(tmp_path):
    """One is held up after it saw no dataset; the other one makes it meanwhile."""
    if not shutil.which("strace"):
        pytest.skip("strace")
    data, to = [write_evidence(tmp_path / f"{i}.data", seed=i) for i in range(2)], tmp_path / "set"
    slow = ["strace", "-f", "-o", "/dev/null", "-e", "trace=mkdir", "-e", "inject=mkdir:delay_exit=5000000:when=1"]
    child = subprocess.Popen([*slow, PROGRAM, "export", data[0], "--to", to], stderr=subprocess.PIPE, text=True)
    for _ in range(500):
        if to.exists():
            break
        time.sleep(0.01)
    fleet("export", data[1], "--to", to)
    said = child.communicate()[1]
    if "PTRACE" in said:
        pytest.skip("nobody may be traced here")
    assert child.returncode == 0, said
    assert len(files(to / "kind=runs")) == 2


def test_linked_folders(tmp_path, planted):
    folder = tmp_path / "set"
    shutil.copytree(planted[0], folder)
    want = rows("top", "--dataset", folder)
    day = sorted((folder / "kind=lines").iterdir())[0]
    day.rename(tmp_path / "elsewhere")
    day.symlink_to(tmp_path / "elsewhere")
    assert rows("top", "--dataset", folder) == want
    (tmp_path / "elsewhere" / "host=round").symlink_to(tmp_path / "elsewhere")
    assert "host=round: a link to a folder" in fleet("fleet", "--dataset", folder, status=2)
    (tmp_path / "elsewhere" / "host=round").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "away")
    assert f"{day.name}: no folder" in fleet("fleet", "--dataset", folder, status=2)


def test_what_is_damaged_is_said_and_does_not_stop_the_others(tmp_path):
    good, other, bad = write_evidence(tmp_path / "a.data"), tmp_path / "b.data", tmp_path / "c.data"
    other.write_bytes(good.read_bytes()[:-2000])
    bad.write_bytes(b"\x7fELF")
    to = tmp_path / "set"
    said = fleet("export", bad, other, good, "--to", to, status=2)
    assert "c.data: not an evidence file" in said and "b.data: " in said and "damaged in " in said, said
    assert len(files(to / "kind=runs")) == 2


@pytest.fixture(scope="module")
def spark():
    """A function that asks Spark, in one session for all questions."""
    pytest.importorskip("pyspark")
    sys.path.insert(0, str(tool.HERE.parent / "engine"))
    import query

    def ask(folder, *words):
        request = scale.request(folder, words[0], "spark", limit=50)
        request["parameters"] |= dict(zip(words[1::2], words[2::2]))
        out = query.answer(request)
        return [dict(zip(out["columns"], r)) for r in out["rows"]]

    yield ask
    from pyspark.sql import SparkSession

    SparkSession.builder.getOrCreate().stop()


def test_spark_gives_the_same_rows(planted, spark):
    folder, truth = planted
    for name in scale.QUESTIONS:
        out = query_here(folder, name)
        assert spark(folder, name) == out, name
        assert out or name == "predictions"


def query_here(folder, name):
    """DuckDB's rows, by the script that tussle-fleet starts."""
    request = scale.request(folder, name, limit=50)
    script = tool.HERE.parent / "engine/query.py"
    out = subprocess.run([sys.executable, script], input=json.dumps(request), capture_output=True, text=True)
    out = json.loads(out.stdout)
    return [dict(zip(out["columns"], r)) for r in out["rows"]]


def test_spark_by_the_command_line(planted):
    pytest.importorskip("pyspark")
    both = [rows("top", "--dataset", planted[0], "--limit", 50, "--engine", e) for e in ("duckdb", "spark")]
    assert both[0] == both[1] and len(both[0]) == 50


def test_spark_says_what_is_broken(tmp_path, planted, spark):
    folder = tmp_path / "set"
    shutil.copytree(planted[0], folder)
    victim = files(folder / "kind=lines")[7]
    good = victim.read_bytes()
    for bad in [good[: len(good) // 2], b"not parquet at all"]:
        victim.write_bytes(bad)
        with pytest.raises(Exception, match="damaged") as said:
            spark(folder, "top")
        assert victim.name in str(said.value) and victim.read_bytes() == bad
    pq.write_table(pa.table({"a": [1, 2]}), victim)
    with pytest.raises(Exception, match="no file of tussle"):
        spark(folder, "top")
    victim.unlink()
    (folder / "kind=lines" / "day=2030-01-01" / "host=x" / "build=y").mkdir(parents=True)
    assert len(spark(folder, "top")) == 50


def without(path, to, table):
    """The evidence without this table, as a file that was damaged or that its source never wrote."""
    text = path.read_text()
    start = text.index('{"table": "%s"' % table)
    to.write_text(text[:start] + text[text.index('{"table"', start + 1) :])
    return to


def test_what_was_not_read_has_no_known_lines(tmp_path):
    """An evidence whose accesses are lost says nothing about lines; one that lost something else has some of them."""
    whole = write_evidence(tmp_path / "a.data")
    known = {}
    for table in ["accesses", "objects", "actors", "losses"]:
        to = tmp_path / f"set-{table}"
        fleet("export", without(whole, tmp_path / "cut.data", table), "--to", to)
        (row,) = pq.read_table(next(iter((to / "kind=runs").rglob("*.parquet"))), partitioning=None).to_pylist()
        known[table] = row["lines_known"]
        assert row["problems"] > 0 and row["accesses"] is None, row
    assert known == {"accesses": False, "objects": False, "actors": False, "losses": None}
    fleet("export", whole, "--to", tmp_path / "set")
    (row,) = pq.read_table(next(iter((tmp_path / "set/kind=runs").rglob("*.parquet"))), partitioning=None).to_pylist()
    assert row["lines_known"] is True and row["accesses"] > 0


@pytest.mark.parametrize("name", ["__HIVE_DEFAULT_PARTITION__", "NULL", "null", "%5F", "a=b/c", ".", "__x", "-h",
                                  "--format", "\\xFF", "ü%FF"])  # fmt: skip
def test_a_name_stays_itself(tmp_path, name):
    """Engines read some names of folders as nothing."""
    to = tmp_path / "set"
    fleet("export", write_evidence(tmp_path / "a.data", None), "--to", to, f"--host={name}", f"--build={name}")
    assert [(r["build"], r["hosts"]) for r in rows("builds", "--dataset", to)] == [(name, 1)]
    assert [r["hosts"] for r in rows("top", "--dataset", to)] == [1]


@pytest.mark.parametrize("name", ["--format", "-q", "--", "-"])
def test_a_dataset_whose_name_begins_with_a_dash(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write_evidence(tmp_path / "-x.data")
    fleet("export", f"--to={name}", "--", "-x.data")
    assert files(tmp_path / name) and not (tmp_path / "tussle-dataset.json").exists()
    assert len(rows("top", f"--dataset={name}")) == 1
    # A forgotten value is no folder, and a file is no forgotten option.
    before = files(tmp_path)
    assert "--to: a value is missing" in fleet("export", "./-x.data", "--to", "--host", "h", status=2)
    assert "--dataset: a value is missing" in fleet("fleet", "top", "--dataset", "--format", "json", status=2)
    assert "./-x.data" in fleet("export", "-x.data", "--to", "set", status=2)
    assert files(tmp_path) == before and not (tmp_path / "set").exists() and not (tmp_path / "--host").exists()


def test_names_that_are_no_text(tmp_path):
    """A host by half of its bytes would be another one: nothing is exported, and what is there is refused."""
    data, to = write_evidence(tmp_path / "a.data"), tmp_path / "set"
    for option in ("--host", "--build", "--kernel"):
        done = subprocess.run([PROGRAM, "export", data, "--to", to, option, b"web\xff"], capture_output=True)
        assert done.returncode == 2 and b"not UTF-8" in done.stderr and not files(to), done
    fleet("export", data, "--to", to, "--host", "web")
    (line,) = files(to / "kind=lines")
    for name in (b"host=web\xff", b"host=web%FF"):
        moved = os.path.join(os.fsencode(line.parents[2]), name)
        os.rename(line.parents[1], moved)
        for engine in ["duckdb", "spark"]:
            said = fleet("fleet", "top", "--dataset", to, "--engine", engine, status=2)
            assert "its name is not UTF-8; rename it" in said and "host=web" in said, said
        os.rename(moved, line.parents[1])
    assert len(rows("top", "--dataset", to)) == 1
    # The way to a dataset may have any bytes, where engines can be told of it; else it is said.
    odd = os.path.join(os.fsencode(tmp_path), b"set\xff")
    os.rename(to, odd)
    done = subprocess.run([PROGRAM, "fleet", "top", b"--dataset=" + odd], capture_output=True)
    assert done.returncode == 2 and b"UTF-8" in done.stderr and b"Traceback" not in done.stderr, done


def test_a_redacted_evidence_does_not_tell_its_host(tmp_path):
    import socket

    data, to = write_evidence(tmp_path / "a.data"), tmp_path / "set"
    fleet("export", data, "--to", to, "--redact")
    assert files(to) and all("host=redacted" in str(p) for p in files(to))
    assert not any(socket.gethostname().encode() in p.read_bytes() or socket.gethostname() in str(p) for p in files(to))
    fleet("export", data, "--to", to, "--redact", "--host", "web1")
    assert any("host=web1" in str(p) for p in files(to))
    bench = tmp_path / "b.jsonl"
    bench.write_text('{"tussle_bench":1}')
    assert "cannot be redacted" in fleet("export", bench, "--to", to, "--redact", status=2)


def test_whoever_may_read_the_evidence_may_read_its_rows(tmp_path):
    data, to = write_evidence(tmp_path / "a.data"), tmp_path / "set"
    for mode in (0o600, 0o640):
        data.chmod(mode)
        fleet("export", data, "--to", to, "--host", f"h{mode}")
        made = [p for p in files(to) if f"host=h{mode}" in str(p)]
        assert made and {p.stat().st_mode & 0o777 for p in made} == {mode}


def test_the_next_export_clears_what_a_killed_one_left(tmp_path):
    data, to = write_evidence(tmp_path / "a.data"), tmp_path / "set"
    fleet("export", data, "--to", to, "--no-raw")
    folder = next(iter((to / "kind=lines").rglob("*.parquet"))).parent
    old, held, young = (folder / f".part-{n}" for n in ("old", "held", "young"))
    for part in (old, held, young):
        part.write_text("half")
    import fcntl

    for part in (old, held):
        os.utime(part, (1_700_000_000, 1_700_000_000))
    with held.open() as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        fleet("export", write_evidence(tmp_path / "b.data", seed=2), "--to", to, "--no-raw")
    # Somebody writes to one, somebody may just have made another.
    assert not old.exists() and held.exists() and young.exists()


def test_options_that_nobody_reads_are_refused(planted):
    folder = planted[0]
    for words, said in [
        (["top", "--since", "2026-11-22"], "--since: not used here, but by `fleet new`"),
        (["builds", "--old", "x"], "--old: not used here, but by `fleet regressions`"),
        (["top", "--host", "x"], "--host: not used here, but by `export`"),
        (["top", "top"], "one question at a time: `top` and `top`"),
        (["new", "--since", "2026-11-22", "--since-build", "b01"], "one of them"),
        (["top", "--master", "spark://x"], "--master: of --engine spark only"),
        (["top", "--threads", "100000"], "--threads 100000: from 1 to 1024"),
        (["top", "--memory-gb", "0"], "--memory-gb 0: from 1 to"),
    ]:
        assert said in fleet("fleet", *words, "--dataset", folder, status=2), words
    assert "--limit: not used here" in fleet("fleet", "schema", "--limit", "3", status=2)
    assert "CREATE" in fleet("fleet", "schema")
    for day in ["2025-02-30", "2025-02-29", "2026-04-31"]:
        assert "that the calendar has" in fleet("fleet", "new", "--dataset", folder, "--since", day, status=2)
    assert rows("new", "--dataset", folder, "--since", "2028-02-29") == []


def test_a_result_is_there_once(tmp_path):
    """Exported again nothing is written; printed again later in the same words it is newer, and one result."""
    file, to = tmp_path / "layout.json", tmp_path / "set"
    file.write_text(json.dumps(LAYOUT))
    os.utime(file, (1_700_000_000, 1_700_000_000))
    fleet("export", file, "--to", to, "--host", "h")
    before = {p: (p.read_bytes(), p.stat().st_ino, p.stat().st_mtime_ns) for p in files(to)}
    assert "already there" in exported(file, to, "--host", "h")
    assert {p: (p.read_bytes(), p.stat().st_ino, p.stat().st_mtime_ns) for p in files(to)} == before
    for later in (1_700_000_100, 1_700_200_000):
        os.utime(file, (later, later))
        fleet("export", file, "--to", to, "--host", "h")
    (row,) = rows("sweep", "--dataset", to)
    assert row["points"] == 1


def test_a_mended_violation_is_not_listed(tmp_path):
    """Check, mend, check: the newest check of a build counts, and a violation that came back is there again."""
    tussle = pytest.importorskip("tussle")
    if not shutil.which("gcc"):
        pytest.skip("gcc")
    program, rules, to = tmp_path / "p.o", tmp_path / "rules.toml", tmp_path / "set"
    rules.write_text('[[rule]]\nid = "apart"\ntype = "s"\nseparate = ["a", "b"]\n')
    bad, good = "struct s { long a; long b; } x;\n", "struct s { long a; char gap[128]; long b; } x;\n"
    plan, check = tmp_path / "plan.toml", tmp_path / "check.json"
    plan.write_text('verb = "check"\n[fixed]\nbuild = "p.o"\nrules = "rules.toml"\n')
    for i, source in enumerate([bad, good, bad, good]):
        (tmp_path / "p.c").write_text(source)
        subprocess.run(["gcc", "-g", "-c", "-o", program, tmp_path / "p.c"], check=True)
        fleet("sweep", plan, "--to", to, "-q")
        check.write_text(tussle.check([program], rules).json())
        os.utime(check, (1_700_000_000 + i, 1_700_000_000 + i))
        fleet("export", check, "--to", to, "--host", "ci")
        listed = rows("rules", "--dataset", to)
        assert len(listed) == (2 if source == bad else 0), (i, listed)
        if source == bad:
            # One spelling, whoever checked; a build is called what its check called it.
            same = [{k: r[k] for k in ("rule", "type_name", "message")} for r in listed]
            assert {r["build"] for r in listed} == {"p.o", str(program)}
            assert same[0] == same[1] and same[0]["rule"] == "apart" and same[0]["type_name"] == "s", same
        points = rows("sweep", "--dataset", to)
        assert sum(r["points"] for r in points if r["plan"] != "exported") == 1, points
