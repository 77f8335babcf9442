"""What the tests of datasets and sweeps share."""

import json
import subprocess
import sys

import pytest
from tool import HERE


@pytest.fixture(scope="session")
def planted(tmp_path_factory):
    """A small fleet with answers that are known."""
    folder = tmp_path_factory.mktemp("planted") / "dataset"
    subprocess.run([sys.executable, HERE / "generate.py", folder, "--runs", "300", "--accesses", "50"], check=True)
    return folder, json.loads((folder / ".planted.json").read_text())
