"""Every verb that is a function prints what the command line prints, and gives the same document."""

import json
import os
import pathlib
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
        for form, have in (("text", view.text), ("json", view.json), ("md", view.markdown)):
            done = subprocess.run([os.environ["TUSSLE"], *map(str, words), "--format", form], capture_output=True,
                                  text=True)  # fmt: skip
            assert have() == done.stdout, (words, form, done.stderr)
            assert view.status == done.returncode, (words, done.stderr)
