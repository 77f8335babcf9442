#!/usr/bin/env bash
# All tests of what lies outside of tussle's own build: the Python package, the dataset, queries, sweeps.
# Needs Rust, gcc, Python 3.10 or newer with venv, and a package index. TUSSLE_SLOW=fleet runs it (docs/testing.md).
set -euo pipefail
cd "$(dirname "$0")"
python=${TUSSLE_PYTHON:-python3}
target=${CARGO_TARGET_DIR:-$PWD/target}

[ -x .venv/bin/python ] || "$python" -m venv .venv
export TUSSLE_PYTHON=$PWD/.venv/bin/python TUSSLE_FLEET=$target/debug/tussle-fleet TUSSLE_LARGE=$target/large.data
export PATH=$PWD/.venv/bin:$PATH
# Spark and Ray are tested where they are installed: TUSSLE_FLEET_EXTRA="pyspark ray" installs them.
pip install -q maturin pytest pyarrow duckdb polars pandas numpy matplotlib nbconvert ipykernel ${TUSSLE_FLEET_EXTRA:-}
cargo test --workspace
cargo build --workspace
# The wheel, unoptimised: what a release takes minutes for is built already.
MATURIN_PEP517_ARGS="--profile dev" pip install -q --no-build-isolation --no-deps --force-reinstall ../python
"$target/debug/examples/large_evidence" "$TUSSLE_LARGE" 8 >"$TUSSLE_LARGE.json"
python -m pytest -q -rs --durations=10 ../python/tests tests "$@"
rm -f "$TUSSLE_LARGE"
