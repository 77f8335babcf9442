#!/usr/bin/env bash
# Records Debian's memcached under load from a real client (libmemcached's memcslap) and prints the report.
#
#   examples/real/memcached.sh [WORKDIR]
#
# Everything stays in WORKDIR (default: a new temporary folder, removed at the end). The server listens on loopback only, for at most
# LIMIT_S seconds (default 60). TUSSLE names the binary (default: target/release/tussle, built if missing). A missing optional tool is
# reported as skipped, by name, and the script succeeds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

limit_s=${LIMIT_S:-60}
need "dpkg-dev make libmemcached-tools libevent-dev" apt-get dpkg-source make memcslap
echo '#include <event2/event.h>' | ${CC:-cc} -E - >/dev/null 2>&1 || { echo "skipped: libevent's headers are missing (apt-get install libevent-dev)"; exit 0; }

begin "$@"

# 1. Source and instrumented build.
if ! [ -x build/memcached ]; then
	src=$(debian_source memcached "$work")
	rm -rf build
	mv "$src" build
	(
		cd build
		./configure -q CC="$tussle cc" CFLAGS='-O2 -g -Wno-error' >configure.log 2>&1
		make -j2 memcached >make.log 2>&1
	) || { tail -n 20 build/make.log build/configure.log >&2; exit 2; }
fi

# 2. A server on loopback with four workers, recorded; a client for a bounded time.
port=$((20000 + RANDOM % 20000))
user=()
[ "$(id -u)" = 0 ] && user=(-u root)
timeout --signal=TERM "$limit_s" "$tussle" record -o "$work/memcached.data" -- \
	build/memcached -l 127.0.0.1 -p "$port" -U 0 -t 4 -m 64 "${user[@]}" &
recorder=$!
for _ in $(seq 100); do
	memcping --servers="127.0.0.1:$port" >/dev/null 2>&1 && break
	sleep 0.1
done
slap() { timeout "$limit_s" memcslap --servers="127.0.0.1:$port" --concurrency=8 "$@" >>"$work/client.log" 2>&1 || true; }
slap --execute-number=5000 --test=set
slap --execute-number=10000 --initial-load=10000 --test=get
slap --execute-number=500 --initial-load=10000 --test=mget
# A few keys that everybody wants: what a cache sees at a sale or on election day.
if command -v python3 >/dev/null; then
	timeout "$limit_s" python3 "$here/hot_keys.py" "$port" >>"$work/client.log" 2>&1 || true
else
	echo "skipped: python3 is missing, so no load on hot keys"
fi
# timeout passes the signal to tussle, and tussle to the server.
kill -TERM "$recorder"
wait "$recorder" || true
tail -n 3 "$work/client.log"

# 3. The report.
report memcached.data
