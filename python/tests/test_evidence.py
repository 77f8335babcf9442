"""Arrow tables are the evidence, row for row."""

import json
import os
import pathlib
import re
import subprocess
import sys
import warnings

import pytest
from made import RUN, numbers, tables, write_evidence

import tussle

pa = pytest.importorskip("pyarrow")

PARTS = {
    ("accesses", "held"): ["object", "offset", "sections", "stores"],
    ("operations", "visits"): ["object", "offset", "size", "kind", "accesses_between"],
    ("operations", "inner"): ["first", "end", "object", "offset", "shared"],
    ("operations", "work"): ["kind", "instructions"],
    ("order", "visits"): ["object", "offset", "size", "kind"],
}


def flat(table, column, value):
    """A cell of Arrow as the file has it: tuples are structs with names there."""
    names = PARTS.get((table, column))
    if names is None or value is None:
        return value
    one = lambda v: [v[n] for n in names]
    return one(value) if isinstance(value, dict) else [one(v) for v in value]


@pytest.mark.parametrize("seed", range(8))
def test_every_cell_is_that_of_the_file(tmp_path, seed):
    path = tmp_path / "e.data"
    expected = tables(seed, rows=seed * 300) + numbers(seed, rows=seed * 40)
    write_evidence(path, expected)
    e = tussle.evidence(path)
    assert e.problems == []
    for name, columns, rows in expected:
        got = pa.table(e.table(name))
        assert set(columns) <= set(got.column_names), name
        cells = [got[c].to_pylist() for c in columns]
        got_rows = [[flat(name, c, v) for c, v in zip(columns, row)] for row in zip(*cells)]
        assert got_rows == rows, name


def test_columns_are_those_of_the_page(tmp_path):
    """docs/evidence.md names all tables and columns: none is forgotten here."""
    page = (pathlib.Path(__file__).parents[2] / "docs/evidence.md").read_text().split("\n## Tables\n")[1]
    sections = re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", page, flags=re.M | re.S)
    columns = {name: re.findall(r"^\| `(\w+)` \|", text, flags=re.M) for name, text in sections}
    assert len(columns) >= 21 and "sample_every" in columns["run"]
    path = tmp_path / "e.data"
    write_evidence(path, [(n, c, [[RUN.get(k) for k in c]] if n == "run" else []) for n, c in columns.items()])
    e = tussle.evidence(path)
    assert sorted(e.table_names) == sorted(columns)
    for name, wanted in columns.items():
        table = e.table(name)
        assert table.column_names == wanted and pa.table(table).column_names == wanted, name


LARGE = """
import json, re, resource, sys
import pyarrow as pa, pyarrow.compute as pc, tussle
own = lambda: int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read()).group(1))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before, whole, most = own(), peak(), 0
rows = reads = 0
for batch in pa.RecordBatchReader.from_stream(tussle.evidence(sys.argv[1]).table("accesses")):
    rows += batch.num_rows
    reads += pc.sum(batch.column("reads")).as_py()
    most = max(most, own() - before)
print(json.dumps({"rows": rows, "reads": reads, "own_kib": most, "more_kib": peak() - whole}))
"""


@pytest.mark.skipif("TUSSLE_LARGE" not in os.environ, reason="TUSSLE_LARGE names an evidence of large_evidence.rs")
def test_a_large_table_is_read_a_block_at_a_time():
    """8 MiB are a million rows, more than 100 MB as a whole. Of the file itself, 768 MiB may stay mapped."""
    path = os.environ["TUSSLE_LARGE"]
    out = json.loads(subprocess.check_output([sys.executable, "-c", LARGE, path]))
    mapped = min(os.path.getsize(path), 768 << 20) >> 10
    assert out["own_kib"] < 60 * 1024 and out["more_kib"] < mapped + 120 * 1024, out
    assert {k: out[k] for k in ("rows", "reads")} == json.loads(pathlib.Path(path + ".json").read_text())
    print(out)


def test_more_rows_than_a_batch(tmp_path):
    path = tmp_path / "e.data"
    expected = tables(3, rows=150_000)
    write_evidence(path, expected)
    t = tussle.evidence(path.read_bytes()).table("accesses")
    reader = pa.RecordBatchReader.from_stream(t)
    sizes = [b.num_rows for b in reader]
    assert sum(sizes) == 150_002 and max(sizes) == 65_536
    rows = next(r for n, _, r in expected if n == "accesses")
    assert pa.table(t)["reads"].to_pylist() == [r[6] for r in rows]


def test_others_take_the_same_table(evidence_file):
    t = tussle.evidence(evidence_file).table("accesses")
    want = sum(r[7] for r in next(r for n, _, r in tables() if n == "accesses"))
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("select sum(writes) from t").fetchall()[0][0] == want
    pl = pytest.importorskip("polars")
    assert pl.DataFrame(t)["writes"].sum() == want
    pytest.importorskip("pandas")
    assert int(pa.table(t).to_pandas()["writes"].sum()) == want


def test_absent_is_unknown_not_empty(evidence_file):
    e = tussle.evidence(evidence_file)
    assert "samples" not in e.table_names and "accesses" in e.table_names
    with pytest.raises(tussle.Error, match="unknown, not empty"):
        e.table("samples")
    with pytest.raises(tussle.Error, match="no table `x`"):
        e.table("x")


def test_a_table_that_nobody_takes_is_freed(evidence_file):
    e = tussle.evidence(evidence_file)
    for _ in range(100):
        e.table("code").__arrow_c_stream__()
        e.table("code").__arrow_c_schema__()


def test_fights_by_name(evidence_file):
    e = tussle.evidence(evidence_file)
    rows = pa.table(tussle.contention(e)).to_pylist()
    top = rows[0]
    assert [r["rank"] for r in rows] == list(range(1, len(rows) + 1)) and top["unit"] == "accesses"
    # Fifty thousand stores of each of two threads, side by side.
    stats = next(r for r in rows if "stats" in r["fields"])
    assert stats["class"] == "a layout helps" and stats["e"] > 10_000 and 0 < stats["share"] <= 1
    assert stats["phase_bytes"] == 0 and stats["writes"] == 100_000 and stats["actors"] == 2
    listed = tussle.report(e)
    assert listed.status == 1
    assert listed.dict()["lines"][0]["expected_invalidations"] == round(top["e"])
    assert "stats" in listed.text() and "<iframe" in listed._repr_html_()


def test_bad_files_say_what_the_command_line_says(tmp_path):
    with pytest.raises(tussle.Error, match="tussle record"):
        tussle.evidence(tmp_path / "absent")
    bad = tmp_path / "bad"
    bad.write_bytes(b"\x7fELF")
    with pytest.raises(tussle.Error, match="not an evidence file"):
        tussle.evidence(bad).problems
    with pytest.raises(tussle.Error, match="newer than"):
        tussle.evidence(b'{"format":"tussle-evidence","major":9,"minor":0}\n').problems


def test_a_cut_file_gives_what_is_there(evidence_file):
    whole = evidence_file.read_bytes()
    for cut in range(100, len(whole), len(whole) // 40):
        e = tussle.evidence(whole[:cut])
        assert isinstance(e.problems, list)
        if "accesses" in e.table_names:
            assert pa.table(e.table("accesses")).num_rows <= 202


def test_two_side_by_side(evidence_file):
    e = tussle.evidence(evidence_file)
    assert tussle.compare(e, e).kind == "report_comparison"
    with pytest.raises(tussle.Error, match="give two evidences"):
        tussle.compare(e)


def without(path, to, table):
    """The evidence without this table."""
    text = path.read_text()
    start = text.index('{"table": "%s"' % table)
    to.write_text(text[:start] + text[text.index('{"table"', start + 1) :])
    return to


@pytest.mark.parametrize("table", ["accesses", "processes", "actors", "code", "touches", "losses"])
def test_a_table_that_is_not_there_is_no_empty_one(evidence_file, tmp_path, table):
    e = tussle.evidence(without(evidence_file, tmp_path / "cut.data", table))
    assert table not in e.table_names
    with pytest.raises(tussle.Error, match=f"no table `{table}`: unknown, not empty"):
        e.table(table)
    if table in ("accesses", "actors"):
        with pytest.raises(tussle.Error, match="who fights is unknown"):
            tussle.contention(e)


RECORDED = pathlib.Path(__file__).parents[2] / "docs/guide.in/tussle.data"


@pytest.mark.parametrize("table", ["accesses", "objects", "code"])
def test_a_damaged_table_is_no_empty_one(tmp_path, table):
    """One byte of its only block: nothing of it can be read."""
    data = bytearray(RECORDED.read_bytes())
    starts = [m.end() for m in re.finditer(rb'\{"table":"%s"[^\n]*\n' % table.encode(), data)]
    for at in starts:
        data[at + 3] ^= 0xFF
    e = tussle.evidence(bytes(data))
    assert table in tussle.evidence(RECORDED).table_names and table not in e.table_names
    with pytest.raises(tussle.Error, match="or it is damaged"):
        e.table(table)


def test_a_table_with_a_lost_part_is_said(tmp_path):
    path = tmp_path / "e.data"
    write_evidence(path, tables(3, rows=50))
    text = path.read_text()
    path.write_text(text.replace('"rows": 52,', '"rows": 53,', 1))
    e = tussle.evidence(path)
    with pytest.warns(UserWarning, match="table accesses is damaged: rows are missing"):
        assert pa.table(e.table("accesses")).num_rows == 52
    with pytest.warns(UserWarning, match="damaged in 1 places: table accesses"):
        tussle.contention(e)


def lines_without(path, *names):
    """The evidence without these tables."""
    write_evidence(path, [t for t in tables(5) if t[0] not in names])
    return path


def test_a_file_that_is_cut_is_an_error(tmp_path):
    """And no end of the interpreter; nor are rows of other contents given."""
    large = os.environ.get("TUSSLE_LARGE")
    if large is None:
        pytest.skip("TUSSLE_LARGE names an evidence of large_evidence.rs")
    for size in (0, 5000, os.path.getsize(large) // 2):
        path = tmp_path / "e.data"
        path.write_bytes(pathlib.Path(large).read_bytes())
        t = tussle.evidence(path).table("accesses")
        reader = pa.RecordBatchReader.from_stream(t)
        reader.read_next_batch()
        os.truncate(path, size)
        with pytest.raises(Exception, match="changed since it was opened|failed to fill"):
            reader.read_all()


def test_what_rows_refer_to_may_be_lost(tmp_path):
    for other in ("objects", "actors"):
        e = tussle.evidence(lines_without(tmp_path / f"{other}.data", other))
        with pytest.warns(UserWarning, match=f"rows of accesses refer to rows of {other} that cannot be read"):
            e.table("accesses")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tussle.evidence(lines_without(tmp_path / "whole.data", "losses")).table("accesses")


def test_a_run_that_cannot_be_read_is_no_row(tmp_path):
    broken = tables(5)
    broken[0] = (broken[0][0], broken[0][1], [["no version", *broken[0][2][0][1:]]])
    write_evidence(tmp_path / "broken.data", broken)
    for path in (lines_without(tmp_path / "none.data", "run"), tmp_path / "broken.data"):
        e = tussle.evidence(path)
        with pytest.raises(tussle.Error, match="no table `run`: unknown, not empty"):
            e.table("run")
        assert "run" not in e.table_names
