"""What the tests of datasets and sweeps share."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
PROGRAM = pathlib.Path(os.environ.get("TUSSLE_FLEET", HERE.parent / "target" / "debug" / "tussle-fleet"))


def fleet(*words, status=0, python=sys.executable, user=None):
    """tussle-fleet with these words: its output, or its errors where it must fail."""
    env = os.environ | {"TUSSLE_PYTHON": str(python)}
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, env=env, user=user)
    assert done.returncode == status, done.stderr + done.stdout
    return done.stderr if status == 2 else done.stdout


def rows(*words, status=0):
    """Rows of a question, as dictionaries."""
    return json.loads(fleet("fleet", *words, "--format", "json", status=status))["rows"]


def made():
    """What the Python tests make: evidence and programs."""
    sys.path.insert(0, str(HERE.parents[1] / "python" / "tests"))
    import made

    return made
