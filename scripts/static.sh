#!/usr/bin/env bash
# Makes one file that runs on any x86-64 Linux, whatever its libc: scripts/static.sh [FOLDER].
#
# With `rustup target add x86_64-unknown-linux-musl` musl is linked in, else this machine's glibc. The recorder inside is
# the same as ever: programs that are recorded need glibc, tussle itself then does not.
# `TUSSLE=FOLDER/tussle scripts/package.sh` packs it.
set -euo pipefail
out=$(realpath -m "${1:-target/package}")
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-musl
if [ ! -d "$(rustc --print target-libdir --target $target)" ]; then
	target=x86_64-unknown-linux-gnu
	export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static"
fi
echo "static.sh: for $target"
cargo build --release --target $target -p tussle-cli
built=${CARGO_TARGET_DIR:-target}/$target/release/tussle
mkdir -p "$out"
install -m 755 -s "$built" "$out/tussle"
# A program that asks for a loader is not static.
if readelf -l "$out/tussle" | grep -q INTERP; then
	echo "static.sh: $out/tussle is not static" >&2
	exit 1
fi
ls -l "$out/tussle"
