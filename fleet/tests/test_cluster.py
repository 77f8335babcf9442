"""Spark on a cluster of one master and two workers gives DuckDB's rows."""

import os
import pathlib
import subprocess
import sys

import pytest
from tool import rows

SCRIPT = pathlib.Path(__file__).parents[1] / "spark-cluster.sh"


def test_a_cluster_on_loopback(planted):
    pytest.importorskip("pyspark")
    folder, _ = planted
    env = os.environ | {"TUSSLE_PYTHON": sys.executable}
    with subprocess.Popen([SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as cluster:
        try:
            url = cluster.stdout.readline().strip()
            assert url.startswith("spark://127.0.0.1:"), url
            for words in (["top"], ["rules"]):
                spark = rows(*words, "--dataset", folder, "--engine", "spark", "--master", url)
                assert spark and spark == rows(*words, "--dataset", folder)
        finally:
            cluster.stdin.close()
