"""The notebooks run from top to bottom."""

import os
import pathlib

import pytest
from tool import PROGRAM

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

FOLDER = pathlib.Path(__file__).parents[2] / "examples/notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_runs(path, monkeypatch):
    monkeypatch.setenv("TUSSLE_FLEET", str(PROGRAM))
    book = nbformat.read(path, as_version=4)
    assert not any(c.get("outputs") for c in book.cells), "outputs are not committed"
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    shown = [o for c in book.cells for o in c.get("outputs", []) if o.output_type in ("execute_result", "display_data")]
    assert shown, "nothing was shown"
    assert os.path.getsize(path) < 100_000
