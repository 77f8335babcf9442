#!/usr/bin/env bash
# All tests of what lies outside of tussle's own build: the Python package, the dataset, queries, sweeps.
# Needs Rust, gcc, Python 3.10 or newer with venv, and a package index. TUSSLE_SLOW=fleet runs it (docs/testing.md).
set -euo pipefail
cd "$(dirname "$0")"
python=${TUSSLE_PYTHON:-python3}

[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/pip install -q maturin pytest pyarrow duckdb polars pandas numpy nbclient nbformat ipykernel ${TUSSLE_FLEET_EXTRA:-}
cargo test --workspace --exclude tussle-python
cargo build --workspace
install -m 644 target/debug/lib_tussle.so ../python/tussle/_tussle.abi3.so
# Spark and Ray are tested where they are installed: TUSSLE_FLEET_EXTRA="pyspark ray" installs them.
export TUSSLE_PYTHON=$PWD/.venv/bin/python PYTHONPATH=$PWD/../python
.venv/bin/python -m pytest -q -rs ../python/tests tests "$@"
