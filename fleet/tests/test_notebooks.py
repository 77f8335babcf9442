"""The notebooks run from top to bottom, by nbconvert, as docs/fleet.md says."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from tool import PROGRAM

pytest.importorskip("nbconvert")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

FOLDER = pathlib.Path(__file__).parents[2] / "examples/notebooks"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda p: p.stem)
def test_runs(path, tmp_path):
    outputs = lambda book: [o for c in book["cells"] for o in c.get("outputs", [])]
    assert not outputs(json.loads(path.read_text())), "outputs are not committed"
    assert os.path.getsize(path) < 100_000
    words = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output-dir", tmp_path, path]
    env = os.environ | {"TUSSLE_FLEET": str(PROGRAM)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    shown = [o["data"] for o in outputs(json.loads((tmp_path / path.name).read_text())) if "data" in o]
    assert any("text/html" in d or "image/png" in d for d in shown), "no table and no picture"
