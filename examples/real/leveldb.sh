#!/usr/bin/env bash
# Records four threads that read and write one database of Debian's leveldb (built from its source package) and prints the report.
#
#   examples/real/leveldb.sh [WORKDIR]
#
# Everything stays in WORKDIR (default: a new temporary folder, removed at the end). TUSSLE names the binary (default:
# target/release/tussle, built if missing). A missing optional tool is reported as skipped, by name, and the script succeeds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

need "dpkg-dev cmake make g++" apt-get dpkg-source cmake make c++
begin "$@"

# 1. Source, instrumented library, and the program that uses it.
if ! [ -e build/libleveldb.a ]; then
	src=$(debian_source leveldb "$work")
	cmake -S "$src" -B build -DCMAKE_C_COMPILER="$tussle" -DCMAKE_C_COMPILER_ARG1=cc -DCMAKE_CXX_COMPILER="$tussle" \
		-DCMAKE_CXX_COMPILER_ARG1=c++ -DCMAKE_BUILD_TYPE=RelWithDebInfo -DLEVELDB_BUILD_TESTS=OFF \
		-DLEVELDB_BUILD_BENCHMARKS=OFF >configure.log 2>&1
	make -C build -j2 leveldb >make.log 2>&1 || { tail -n 20 make.log >&2; exit 2; }
	libraries=(-lpthread)
	grep -q HAVE_SNAPPY:INTERNAL=1 build/CMakeCache.txt && libraries+=(-lsnappy)
	"$tussle" c++ -O2 -g -std=c++17 -I"$src/include" "$here/leveldb.cc" build/libleveldb.a "${libraries[@]}" -o threads
fi

# 2. Four threads, one write in sixteen operations.
rm -rf db
timeout "${LIMIT_S:-60}" "$tussle" record -o leveldb.data -- ./threads db 4 60000

# 3. The report.
report leveldb.data
