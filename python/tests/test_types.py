"""Layouts against the compiler's own offsetof."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from made import SOURCE

import tussle


def test_offsets_are_the_compilers(program, tmp_path):
    fields = ["hits", "flag", "in", "misses"]
    asks = "".join(f'printf("%zu\\n", offsetof(struct stats, {f}));' for f in fields)
    main = f"#include <stdio.h>\n#include <stddef.h>\n{SOURCE.split('int main')[0]}"
    (tmp_path / "ask.c").write_text(main + "int main(void) {" + asks + 'printf("%zu\\n", sizeof(struct stats));}')
    subprocess.run(["gcc", "-o", tmp_path / "ask", tmp_path / "ask.c"], check=True)
    out = [int(n) for n in subprocess.check_output([tmp_path / "ask"], text=True).split()]
    ty = tussle.open(program)["stats"]
    members = {m.name: m for m in ty.members}
    assert [members[f].offset_bytes for f in fields] + [ty.size_bytes] == out
    assert members["low"].bits == 3 and members["high"].bits == 7
    assert [(h.after, h.offset_bytes, h.size_bytes) for h in ty.holes][0] == ("flag", 9, 3)
    covered = sum(h.size_bytes for h in ty.holes) + ty.padding_bytes
    assert 0 < covered < ty.size_bytes and ty.align_bytes == 8 and ty.kind == "struct"
    assert ty.file.endswith("p.c") and ty.line == 3 and not ty.align_inferred


def test_lines_and_phases(program):
    pa = pytest.importorskip("pyarrow")
    ty = tussle.open(str(program))["struct stats2"]
    assert ty.phases() == [0, 8, 16, 24, 32, 40, 48, 56]
    rows = pa.table(ty.lines(phase=8)).to_pylist()
    assert [r["line"] for r in rows] == [0, 1, 2] and all(r["straddles"] and r["path"] == "x" for r in rows)
    assert pa.table(ty.lines())["phase_bytes"].unique().to_pylist() == ty.phases()
    fields = pa.table(tussle.open(program)["stats"].fields())
    assert fields["path"].to_pylist()[:3] == ["hits", "flag", "in.a"]
    assert "x" in ty.view().text() and "srcdoc" in ty._repr_html_() and "struct stats2" in ty.text()


def test_bytes_are_as_good_as_a_file(program):
    a, b = tussle.open(program), tussle.open(pathlib.Path(program).read_bytes())
    assert a["stats"].text() == b["stats"].text() and a.build_id == b.build_id and a.arch == "x86_64"
    assert "stats" in a.names() and "stats" in a and "nothing" not in a


def test_errors_have_the_command_lines_text(program, tmp_path):
    with pytest.raises(tussle.Error, match="close: stats"):
        tussle.open(program)["statz"]
    with pytest.raises(tussle.Error, match="No such file"):
        tussle.open(tmp_path / "nothing")
    with pytest.raises(tussle.Error, match="the file is empty"):
        tussle.open(b"")
    with pytest.raises(tussle.Error, match="evidence"):
        tussle.open(b'{"format":"tussle-evidence","major":2}')
    with pytest.raises(tussle.Error, match="power of two"):
        tussle.open(program)["stats"].lines(line_bytes=3)
    with pytest.raises(TypeError):
        tussle.open(3)


@pytest.mark.skipif("TUSSLE" not in os.environ, reason="TUSSLE names the command line's program")
def test_errors_are_the_command_lines_word_for_word(program, evidence_file, tmp_path):
    """The same mistake on both sides."""
    (tmp_path / "bad").write_bytes(b"\x7fELF")
    (tmp_path / "rules.toml").write_text("[[rule]]\ntype = 3\n")
    good = tmp_path / "good.toml"
    good.write_text('[[rule]]\ntype = "stats"\nseparate = ["hits", "misses"]\n')
    bad, rules, absent = tmp_path / "bad", tmp_path / "rules.toml", tmp_path / "absent"
    data, e, t = evidence_file, tussle.evidence(evidence_file), tussle.open(program)["stats"]
    stats = ["layout", program, "-C", "stats", "--lines"]
    both = [
        (["diff", program, program, "-C", "statz"], lambda: tussle.diff(program, program, ["statz"])),
        (["diff", program, program, "-C", "stats", "--hot", "nothing"],
         lambda: tussle.diff(program, program, ["stats"], hot=["nothing"])),
        (["diff", program, absent], lambda: tussle.diff(program, absent)),
        (["check", program, "--rules", rules], lambda: tussle.check([program], rules)),
        (["check", program, "--rules", absent], lambda: tussle.check([program], absent)),
        (["check", absent, "--rules", good], lambda: tussle.check([absent], good)),
        (["check", "--rules", good], lambda: tussle.check([], good)),
        (["report", bad], lambda: tussle.report(tussle.evidence(bad))),
        (["report", absent], lambda: tussle.evidence(absent)),
        (["report", tmp_path], lambda: tussle.report(tussle.evidence(tmp_path))),
        (["report", data, "-C", "nothing"], lambda: tussle.report(e, ["nothing"])),
        (["report", data, "--phase", "64"], lambda: tussle.report(e, phase=64)),
        (["report", data, "--phase=-1"], lambda: tussle.report(e, phase=-1)),
        (["report", data, "--phase", str(2**64)], lambda: tussle.report(e, phase=2**64)),
        (["report", data, "--window=-5"], lambda: tussle.contention(e, window=-5)),
        (["report", data, "--line", "63"], lambda: tussle.report(e, line_bytes=63)),
        (["report", data, "--line=-1"], lambda: tussle.contention(e, line_bytes=-1)),
        (["report", data, "--sources", absent], lambda: tussle.report(e, sources=absent)),
        (["advise", data, "-C", "nothing"], lambda: tussle.advise(e, "nothing")),
        (["advise", data, "-C", "stats", "--moves", "0"], lambda: tussle.advise(e, "stats", moves=0)),
        (["advise", data, "-C", "stats", "--moves=-1"], lambda: tussle.advise(e, "stats", moves=-1)),
        (["place", program, "-C", "stats", "--field", "nothing"], lambda: tussle.place([program], "stats", "nothing")),
        (["compare", absent], lambda: tussle.compare(absent)),
        (["compare", rules], lambda: tussle.compare(rules)),
        (["layout", absent], lambda: tussle.open(absent)),
        ([*stats, "--phase", "100"], lambda: t.lines(phase=100)),
        ([*stats, "--phase=-1"], lambda: t.view(phase=-1)),
        ([*stats, "-c", "63"], lambda: t.lines(line_bytes=63)),
        ([*stats, "-c=-1"], lambda: t.phases(line_bytes=-1)),
        (["predict", "pcp_lists", "--machine", "abacus"], lambda: tussle.predict("pcp_lists", machine="abacus")),
        (["predict", "nothing"], lambda: tussle.predict("nothing")),
        (["predict", "pcp_lists", "--cpus", "0"], lambda: tussle.predict("pcp_lists", cpus=[0])),
        (["predict", "pcp_lists", "--draws", "0"], lambda: tussle.predict("pcp_lists", draws=0)),
        (["predict", "pcp_lists", "--draws=-1"], lambda: tussle.predict("pcp_lists", draws=-1)),
    ]  # fmt: skip
    for words, call in both:
        said = subprocess.run([os.environ["TUSSLE"], *map(str, words)], capture_output=True, text=True)
        assert said.returncode == 2, (words, said)
        with pytest.raises(tussle.Error) as error:
            call()
        # What arguments cannot be is followed by where to look; short names of options are not told.
        text = said.stderr.split("\n\nFor more information")[0].removeprefix("tussle: ").removeprefix("error: ")
        assert str(error.value) == re.sub(r"'-\w, (--\w+)", r"'\1", text.strip()), words


def test_diff_check_place(program, tmp_path):
    new = program.with_name("q")
    d = tussle.diff(program, tussle.open(new), ["stats"], hot=["hits", "misses"])
    assert d.kind == "diff" and d.dict()["types"][0]["name"].endswith("stats")
    assert tussle.diff(program, program).status == 0
    with pytest.raises(tussle.Error, match="no field `nothing`"):
        tussle.diff(program, new, ["stats"], hot=["nothing"])
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ntype = "stats"\nseparate = ["hits", "misses"]\nphases = [0]\n')
    bad = tussle.check([program], rules)
    assert bad.status == 1 and bad.dict()["failed"] == 1
    assert tussle.check([new], rules).status == 0
    # Of several builds one that cannot be read keeps no other from being judged.
    some = tussle.check([program, tmp_path / "absent"], rules)
    assert some.status == 2 and some.dict()["failed"] == 1 and some.dict()["errors"] == 1
    with pytest.raises(tussle.Error, match="name what to check"):
        tussle.check([], rules)
    with pytest.raises(TypeError):
        tussle.diff(program, new, phase=1.5)
    rules.write_text("[[rule]]\ntype = 3\n")
    with pytest.raises(tussle.Error, match=re.escape(str(rules))):
        tussle.check([program], rules)
    spot = tussle.place([program], "stats", "char more")
    assert spot.kind == "place" and "flag" in spot.text()


INTERRUPTED = """
import os, signal, threading, time
import tussle

ticks = 0

def tick():
    global ticks
    while True:
        time.sleep(0.01)
        ticks += 1

def interrupt():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)

for target in (tick, interrupt):
    threading.Thread(target=target, daemon=True).start()
start = time.monotonic()
try:
    tussle.predict("mmap_lock", draws=100_000)
except KeyboardInterrupt:
    print(time.monotonic() - start, ticks)
"""


def test_the_gil_is_released_and_ctrl_c_works():
    """A prediction of many draws: another thread runs meanwhile, and an interrupt ends the wait at once.

    In a process of its own: the draws go on until it ends, and would slow down all tests after this one.
    """
    seconds, ticks = subprocess.check_output([sys.executable, "-c", INTERRUPTED], text=True).split()
    assert float(seconds) < 5 and int(ticks) >= 5


def test_predict_a_scenario():
    p = tussle.predict("pcp_lists", draws=4, seed=3)
    assert p.kind == "predict" and p.dict() == tussle.predict("pcp_lists", draws=4, seed=3).dict()
    with pytest.raises(tussle.Error, match="no_such_story"):
        tussle.predict("no_such_story")
