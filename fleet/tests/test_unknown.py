"""What an evidence does not say is null; what it says counts; what changes meanwhile is an error."""

import os
import signal
import subprocess
import time

import pytest
import tool
from test_dataset import exported, write_evidence
from tool import PROGRAM, fleet, rows

pq = pytest.importorskip("pyarrow.parquet")


def row_of(to):
    """The row of the only run."""
    (path,) = (to / "kind=runs").rglob("*.parquet")
    (row,) = pq.read_table(path, partitioning=None).to_pylist()
    return row


UNKNOWN = ["tool_version", "source", "unit", "command", "arch", "cpu_model", "cpus", "line_bytes", "complete",
           "started_unix_s"]  # fmt: skip


@pytest.mark.parametrize("how", ["absent", "empty", "unreadable"])
def test_a_run_that_cannot_be_read_is_unknown(tmp_path, how):
    tables = tool.made().tables(1, 50)
    name, columns, (values,) = tables[0]
    if how == "absent":
        del tables[0]
    else:
        tables[0] = (name, columns, [] if how == "empty" else [["no version", *values[1:]]])
    data, to = tmp_path / "a.data", tmp_path / "set"
    tool.made().write_evidence(data, tables)
    assert "damaged" in exported(data, to)
    row = row_of(to)
    assert {k: row[k] for k in UNKNOWN} == dict.fromkeys(UNKNOWN), row
    assert row["problems"] > 0 and row["lines_known"] is False
    # What is not known to be accesses is in no sum of them.
    assert rows("top", "--dataset", to) == [] and rows("cpus", "--dataset", to) == []


def test_none_counted_is_none(tmp_path):
    """And what was not counted is not known."""
    tables = tool.made().tables(1, 0)
    tables[0][2][0][tables[0][1].index("accesses")] = 0
    for i, (counted, there) in enumerate([(0, 0), (None, None)]):
        tables[0][2][0][tables[0][1].index("accesses")] = counted
        accesses = [t for t in tables if t[0] != "accesses"] + [("accesses", tables[6][1], [])]
        data, to = tmp_path / f"{i}.data", tmp_path / f"set{i}"
        tool.made().write_evidence(data, accesses)
        exported(data, to)
        assert row_of(to)["accesses"] == there, i


def test_a_build_is_what_the_evidence_says(tmp_path):
    to = tmp_path / "set"
    said = exported(write_evidence(tmp_path / "a.data"), to, "--build", "named")
    assert "of build abcd, by its own build-id; --build named is not used" in said, said
    said = exported(write_evidence(tmp_path / "b.data", None), to, "--build", "named")
    assert "not used" not in said, said
    assert sorted(r["build"] for r in rows("builds", "--dataset", to)) == ["abcd", "named"]


def many(folder, points):
    """A plan of two builds, the first of them first, with quick points."""
    for build in ("a", "b"):
        (folder / f"{build}.c").write_text(f"struct s {{ long x; long y; long {build}; }} x;\n")
        subprocess.run(["gcc", "-g", "-c", "-o", folder / f"{build}.o", folder / f"{build}.c"], check=True)
    (folder / "r.toml").write_text('[[rule]]\nid = "r"\ntype = "s"\nseparate = ["x", "y"]\n')
    rules = ", ".join(['"r.toml"'] * points)
    plan = folder / "plan.toml"
    plan.write_text(f'verb = "check"\n[over]\nbuild = ["a.o", "b.o"]\nrules = [{rules}]\n')
    return plan


@pytest.mark.parametrize("changed", ["a.o", "b.o", "r.toml"])
@pytest.mark.parametrize("how", ["rewritten", "cut"])
def test_a_file_that_changes_during_a_sweep_ends_it(tmp_path, changed, how):
    """One that was read and is done, one that is still to be read, and one of every point."""
    plan, to = many(tmp_path, 3000), tmp_path / "set"
    words = [PROGRAM, "sweep", plan, "--to", to, "--threads", "1", "--batch", "50", "-q"]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    # Points of the first build are done, or all of them where it is the one that changes.
    enough = 3100 // 50 if changed == "a.o" else 1
    while len(list(to.rglob("[!.]*.parquet"))) < 2 * enough and child.poll() is None:
        time.sleep(0.001)
    child.send_signal(signal.SIGSTOP)
    assert child.poll() is None, child.communicate()
    path = tmp_path / changed
    if how == "cut":
        os.truncate(path, 10)
    else:
        path.write_bytes(path.read_bytes() + b"\n")
    child.send_signal(signal.SIGCONT)
    _, said = child.communicate(timeout=120)
    assert child.returncode == 2 and f"{changed}: changed while the sweep ran" in said, (child.returncode, said)


def test_names_are_those_of_the_plan(tmp_path):
    """From wherever it is asked, and however the files are spelled."""
    plan, to = many(tmp_path, 1), tmp_path / "set"
    for where, path in [(tmp_path, plan.name), (tmp_path.parent, f"{tmp_path.name}/{plan.name}"), ("/", plan)]:
        env = os.environ | {"PWD": str(where)}
        subprocess.run([PROGRAM, "sweep", path, "--to", to, "-q"], check=False, cwd=where, env=env)
        plan.write_text('verb = "check"\n[over]\nbuild = ["./*.o"]\nrules = [".//r.toml"]\n')
        listed = subprocess.run([PROGRAM, "sweep", path, "--list"], cwd=where, capture_output=True, text=True).stdout
        assert '{"build":"a.o","rules":"r.toml"}' in listed, listed
    points = rows("sweep", "--dataset", to)
    assert sum(r["points"] for r in points) == 2 and len({r["plan"] for r in points}) == 1, points


def test_points_that_ask_the_same_are_all_answered(tmp_path):
    """Whatever the batches are."""
    plan, to = many(tmp_path, 100), tmp_path / "set"
    fleet("sweep", plan, "--to", to, "-q", "--batch", "7")
    assert sum(r["points"] for r in rows("sweep", "--dataset", to)) == 200
