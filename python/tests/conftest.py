"""Files that several tests share."""

import shutil
import subprocess

import pytest
from made import SOURCE, tables, write_evidence


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """An executable with DWARF, and the source of its types."""
    if not shutil.which("gcc"):
        pytest.skip("gcc")
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O0", "-o", folder / "p", folder / "p.c"], check=True)
    (folder / "q.c").write_text(SOURCE.replace("long misses", "long pad[7]; long misses"))
    subprocess.run(["gcc", "-g", "-O0", "-o", folder / "q", folder / "q.c"], check=True)
    return folder / "p"


@pytest.fixture(scope="session")
def evidence_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("evidence") / "tussle.data"
    write_evidence(path, tables())
    return path
