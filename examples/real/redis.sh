#!/usr/bin/env bash
# Records Debian's redis with four I/O threads under load from its own benchmark client and prints the report.
#
#   examples/real/redis.sh [WORKDIR]
#
# Everything stays in WORKDIR (default: a new temporary folder, removed at the end). The server listens on loopback only, for at most
# LIMIT_S seconds (default 60), and keeps nothing on disk. TUSSLE names the binary (default: target/release/tussle, built if missing).
# A missing optional tool is reported as skipped, by name, and the script succeeds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

limit_s=${LIMIT_S:-60}
need "dpkg-dev make redis-tools" apt-get dpkg-source make redis-benchmark redis-cli
begin "$@"

# 1. Source and instrumented server; libc's allocator, so that the recorder sees every object.
if ! [ -x server ]; then
	src=$(debian_source redis "$work")
	make -C "$src/src" -j2 CC="$tussle cc" MALLOC=libc OPTIMIZATION=-O2 USE_SYSTEMD=no BUILD_TLS=no redis-server >make.log 2>&1 ||
		{ tail -n 20 make.log >&2; exit 2; }
	ln -s "$src/src/redis-server" server
fi

# 2. A server on loopback, recorded; a client for a bounded time.
port=$((20000 + RANDOM % 20000))
timeout --signal=TERM "$limit_s" "$tussle" record -o redis.data -- ./server --bind 127.0.0.1 --port "$port" --save '' \
	--appendonly no --io-threads 4 --io-threads-do-reads yes --daemonize no >server.log 2>&1 &
recorder=$!
for _ in $(seq 100); do
	redis-cli -p "$port" ping >/dev/null 2>&1 && break
	sleep 0.1
done
timeout "$limit_s" redis-benchmark -p "$port" -c 50 -n 20000 -P 4 -q -t set,get,incr,lpush >client.log 2>&1 || true
# timeout passes the signal to tussle, and tussle to the server.
kill -TERM "$recorder"
wait "$recorder" || true
tail -n 4 client.log

# 3. The report.
report redis.data
