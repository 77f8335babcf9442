#!/usr/bin/env bash
# Records Debian's PostgreSQL, all of its processes, under load from its own pgbench and prints the report.
#
#   examples/real/postgresql.sh [WORKDIR]
#
# Everything stays in WORKDIR (default: a new temporary folder, removed at the end). The server listens on loopback only, for at most
# LIMIT_S seconds (default 100). It refuses to run as root: then it runs as `nobody`. TUSSLE names the binary (default:
# target/release/tussle, built if missing). A missing optional tool is reported as skipped, by name, and the script succeeds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

limit_s=${LIMIT_S:-100}
need "dpkg-dev make util-linux" apt-get dpkg-source make runuser
begin "$@"

# 1. Source and instrumented server. Its makefile takes a hook of the recorder for a call of exit(): the coverage switch leaves that
# check out, and nothing else.
if ! [ -x inst/bin/postgres ]; then
	src=$(debian_source postgresql-15 "$work")
	(
		cd "$src"
		./configure -q --prefix="$work/inst" --without-readline --without-zlib CC="$tussle cc" CFLAGS='-O2 -g'
		make -s -C src/backend generated-headers
		for part in backend timezone interfaces/libpq bin/initdb bin/pgbench pl/plpgsql backend/snowball; do
			make -s -j2 enable_coverage=yes -C "src/$part" install
		done
	) >make.log 2>&1 || { tail -n 20 make.log >&2; exit 2; }
fi

# 2. A server on loopback, recorded; its own client for a bounded time: updates on few rows, then reads.
run=$work/run
rm -rf "$run"
mkdir "$run"
cp "$tussle" "$run/tussle"
as=()
if [ "$(id -u)" = 0 ]; then
	chmod 755 "$work"
	chown nobody "$run"
	as=(runuser -u nobody --)
fi
port=$((20000 + RANDOM % 20000))
cat >"$run/run.sh" <<-EOF
	cd '$run' && export HOME='$run' PATH='$work/inst/bin:'"\$PATH" PGHOST=127.0.0.1 PGPORT=$port PGDATABASE=postgres
	initdb -D data -A trust -N >initdb.log 2>&1
	./tussle record -o pg.data --ready port:$port --for ${limit_s}s \\
		--load 'pgbench -i -q && pgbench -n -c 4 -j 2 -T 10 && pgbench -n -S -c 4 -j 2 -T 10' -- \\
		postgres -D data -p $port -k '$run' -c listen_addresses=127.0.0.1 -c fsync=off -c shared_buffers=16MB
EOF
"${as[@]}" bash "$run/run.sh" >server.log 2>&1 || { tail -n 20 server.log >&2; exit 2; }
grep '^tps' server.log || true

# 3. The report.
cp "$run/pg.data" pg.data
report pg.data
