"""Every verb that is a function prints what the command line prints, and gives the same document."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import tussle

HEADER = {"tussle_bench": 1, "arms": ["a", "b"], "commands": ["true", "false"], "order": "random_within_pairs",
          "metric": {"name": "wall time (s)", "kind": "cost", "from": "wall"}, "seed": 1, "warmup": 0, "cpus": 2,
          "sequential": False}  # fmt: skip


@pytest.fixture
def bench_file(tmp_path):
    """Twelve pairs; the second arm takes a fifth longer, one of its runs failed."""
    runs = []
    for pair in range(12):
        for arm in (0, 1):
            failed = (pair, arm) == (7, 1)
            runs.append({"arm": arm, "pair": pair, "position": (arm + pair) % 2, "warmup": False,
                         "status": {"exit": 1} if failed else "ok",
                         "value": None if failed else 1 + 0.2 * arm + pair / 1000,
                         "started_s": 1_700_000_000 + pair, "wall_s": 1 + 0.2 * arm, "user_s": 0.1, "system_s": 0.0,
                         "foreign_s": 0.25 if pair else None})  # fmt: skip
    path = tmp_path / "bench.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in [HEADER, *runs]))
    return path, runs


def test_bench_rows_are_those_of_the_file(bench_file):
    pa = pytest.importorskip("pyarrow")
    path, runs = bench_file
    table = pa.table(tussle.bench(path)).to_pylist()
    for name in ("pair", "position", "warmup", "value", "wall_s", "user_s", "system_s", "foreign_s"):
        assert [r[name] for r in table] == [r[name] for r in runs], name
    assert [r["arm"] for r in table] == ["ab"[r["arm"]] for r in runs]
    assert table[15]["status"] == "exit status 1" and table[14]["status"] == "ok"
    assert {r["metric"] for r in table} == {"wall time (s)"} and not table[0]["higher_is_better"]


def test_half_a_line_is_said(bench_file):
    """A run of `tussle bench` that was killed."""
    pa = pytest.importorskip("pyarrow")
    path, runs = bench_file
    path.write_text(path.read_text()[:-30])
    for call in (tussle.bench, tussle.compare):
        with pytest.warns(UserWarning, match="bench.jsonl: 1 lines could not be read: line 25"):
            got = call(path)
        assert call is tussle.compare or pa.table(got).num_rows == len(runs) - 1


@pytest.mark.skipif("TUSSLE" not in os.environ, reason="TUSSLE names the command line's program")
def test_what_is_printed_is_the_command_lines(program, evidence_file, bench_file, tmp_path):
    new, rules = program.with_name("q"), tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nid = "apart"\ntype = "stats"\nseparate = ["hits", "misses"]\nphases = [0]\n')
    recorded = pathlib.Path(__file__).parents[2] / "docs/guide.in/tussle.data"
    e, full, bench, hits = tussle.evidence(evidence_file), tussle.evidence(recorded), bench_file[0], "struct hits"
    both = [
        (["report", evidence_file], lambda: tussle.report(e)),
        (["report", evidence_file, "--line", "128", "--phase", "8"], lambda: tussle.report(e, line_bytes=128, phase=8)),
        (["report", recorded], lambda: tussle.report(full)),
        (["report", recorded, "-C", hits, "--phase", "0"], lambda: tussle.report(full, [hits], phase=0)),
        (["report", recorded, evidence_file], lambda: tussle.compare(full, e)),
        (["advise", recorded, "-C", hits], lambda: tussle.advise(full, hits)),
        (["advise", recorded, "-C", hits, "--moves", "2", "-c", "128"],
         lambda: tussle.advise(full, hits, moves=2, line_bytes=128)),
        (["diff", program, new, "-C", "stats", "--hot", "hits,misses"],
         lambda: tussle.diff(program, new, ["stats"], hot=["hits", "misses"])),
        (["check", program, new, "--rules", rules], lambda: tussle.check([program, new], rules)),
        (["place", program, "-C", "stats", "--field", "char more"],
         lambda: tussle.place([program], "stats", "char more")),
        # All of it: what the command line leaves out of its text unless it is asked.
        (["compare", bench, "--verbose"], lambda: tussle.compare(bench)),
        (["compare", bench, "--verbose", "--margin", "30"], lambda: tussle.compare(bench, margin_percent=30)),
        (["predict", "pcp_lists", "--draws", "4", "--seed", "3"], lambda: tussle.predict("pcp_lists", draws=4, seed=3)),
    ]  # fmt: skip
    for words, call in both:
        view = call()
        for form, have in (("text", view.text), ("json", view.json), ("md", view.markdown), ("html", view.html)):
            done = subprocess.run([os.environ["TUSSLE"], *map(str, words), "--format", form], capture_output=True,
                                  text=True)  # fmt: skip
            assert have() == done.stdout, (words, form, done.stderr)
            assert view.status == done.returncode, (words, done.stderr)


@pytest.mark.skipif("TUSSLE" not in os.environ, reason="TUSSLE names the command line's program")
def test_what_is_refused_is_refused_in_the_command_lines_words(program, evidence_file, tmp_path):
    e, absent, other = tussle.evidence(evidence_file), tmp_path / "absent", tmp_path / "other.o"
    words = ["gcc", "-g", "-c", "-x", "c", "-o", other, "-"]
    subprocess.run(words, input="struct t { int a; } x;", text=True, check=True)
    place, advise = ["place", program, "-C"], ["advise", evidence_file, "-C", "stats", "--builds"]
    both = [
        ([*place, "stats", "--field", "nothing more"], lambda: tussle.place([program], "stats", "nothing more")),
        ([*place, "stats", "--field", ""], lambda: tussle.place([program], "stats", "")),
        ([*place, "stat", "--field", "char c"], lambda: tussle.place([program], "stat", "char c")),
        (["place", absent, "-C", "x", "--field", "char c"], lambda: tussle.place([absent], "x", "char c")),
        ([*advise, absent], lambda: tussle.advise(e, "stats", builds=[absent])),
        ([*advise, other], lambda: tussle.advise(e, "stats", builds=[other])),
        ([*advise, evidence_file], lambda: tussle.advise(e, "stats", builds=[evidence_file])),
        (["advise", evidence_file, "-C", "nobody"], lambda: tussle.advise(e, "nobody")),
    ]  # fmt: skip
    for words, call in both:
        done = subprocess.run([os.environ["TUSSLE"], *map(str, words)], capture_output=True, text=True)
        with pytest.raises(tussle.Error) as refused:
            call()
        assert (done.stderr, done.returncode) == (f"tussle: {refused.value}\n", 2), words


CODE = """
struct stats { long hits; long misses; };
struct stats all;
int count(void) {
    all.hits++;
    return 0;
}
"""


@pytest.mark.skipif("TUSSLE" not in os.environ, reason="TUSSLE names the command line's program")
def test_paths_and_source_lines_are_the_command_lines(tmp_path, monkeypatch):
    """In the folder of the sources: paths are seen from there, and lines of the source stand beside the code."""
    import made

    if not shutil.which("gcc"):
        pytest.skip("gcc")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "a.c").write_text(CODE)
    os.utime(folder / "a.c", (1_600_000_000, 1_600_000_000))
    subprocess.run(["gcc", "-g", "-c", "-o", "p.o", folder / "a.c"], check=True)
    (folder / "rules.toml").write_text('[[rule]]\ntype = "stats"\nseparate = ["hits", "misses"]\n')
    tables = made.tables()
    code = next(rows for name, _, rows in tables if name == "code")
    for row in code:
        row[3] = [{"function": "count", "file": str(folder / "a.c"), "line": 5, "column": 0}]
    made.write_evidence(folder / "e.data", tables)
    e, seen = tussle.evidence(folder / "e.data"), {}
    both = [
        (["report", folder / "e.data"], lambda: tussle.report(e)),
        (["report", folder / "e.data", folder / "e.data"], lambda: tussle.compare(e, e)),
        (["advise", folder / "e.data", "-C", "stats"], lambda: tussle.advise(e, "stats")),
        (["check", "p.o", "--rules", "rules.toml"], lambda: tussle.check(["p.o"], "rules.toml")),
        (["check", "p.o", "absent", "--rules", "rules.toml"], lambda: tussle.check(["p.o", "absent"], "rules.toml")),
    ]
    for words, call in both:
        for form, of in (("text", lambda v: v.text()), ("json", lambda v: v.json()), ("md", lambda v: v.markdown())):
            done = subprocess.run([os.environ["TUSSLE"], *words, "--format", form], capture_output=True, text=True)
            try:
                view = call()
            except tussle.Error as error:
                assert (done.stderr.strip(), done.returncode) == (f"tussle: {error}", 2)
                break
            assert (of(view), view.status) == (done.stdout, done.returncode), (words, form, done.stderr)
            seen.setdefault(words[0], "")
            seen[words[0]] += done.stdout
    assert "all.hits++" in seen["report"] and str(folder / "a.c") not in seen["report"] + seen["check"], seen
    # From elsewhere the whole path is shown.
    monkeypatch.chdir(tmp_path)
    assert "project/a.c" in tussle.report(e).text()
