#!/usr/bin/env bash
# Records Debian's PostgreSQL 15 under pgbench on loopback and prints the report.
#
#   examples/real/postgresql.sh [WORKDIR]
#
# Everything stays in WORKDIR (default: a new temporary folder, removed at the end). The server listens on loopback only, for at most
# LIMIT_S seconds (default 30), as the user PG_USER where this is root (default: postgres), who must be able to read WORKDIR. The
# database is made by Debian's initdb, of the same version. TUSSLE names the binary (default: target/release/tussle, built if missing).
# PG_SRC is a folder with the source (default: Debian's source package). A missing optional tool is reported as skipped, by name, and
# the script succeeds.
#
# PostgreSQL's atomics and spin locks are inline assembly on x86-64, which no compiler instruments. The copy of the source uses the
# compiler's builtins instead, which PostgreSQL has for other machines.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

limit_s=${LIMIT_S:-30}
debian=/usr/lib/postgresql/15/bin
need "dpkg-dev make gcc bison flex postgresql-15" apt-get dpkg-source make gcc bison flex $debian/initdb $debian/pgbench
begin "$@"

# 1. Source and instrumented server; it finds Debian's shared files.
if ! [ -x server ]; then
	src=${PG_SRC:-$(debian_source postgresql-15 "$work")}
	sed -i -E 's/^#ifdef __x86_64__(.*AMD Opteron)/#if 0 \1/' "$src/src/include/storage/s_lock.h"
	sed -i -E 's/^#if defined\(__GNUC__\).*/#if 0/' "$src/src/include/port/atomics/arch-x86.h"
	(cd "$src" && ./configure -q CC="$tussle cc" CFLAGS='-O2 -g' --without-readline --without-zlib \
		--with-system-tzdata=/usr/share/zoneinfo --bindir=$debian --datadir=/usr/share/postgresql/15 \
		--libdir=/usr/lib/postgresql/15/lib) >configure.log 2>&1 || { tail -n 20 configure.log >&2; exit 2; }
	make -C "$src/src/backend" generated-headers >make.log 2>&1 && make -C "$src/src/backend" -j2 >>make.log 2>&1 || { tail -n 20 make.log >&2; exit 2; }
	ln -s "$src/src/backend/postgres" server
fi

# 2. As an ordinary user: a database, the server on loopback, recorded, and pgbench for a bounded time.
as=()
if [ "$(id -u)" = 0 ]; then
	as=(runuser -u "${PG_USER:-postgres}" --)
	mkdir -p own
	chown "${PG_USER:-postgres}" own
	chmod 755 "$work"
else
	mkdir -p own
fi
port=$((20000 + RANDOM % 20000))
rm -rf own/data
"${as[@]}" $debian/initdb -D own/data --locale=C -A trust -U postgres >initdb.log 2>&1 || { tail -n 5 initdb.log >&2; exit 2; }
cat >load.sh <<LOAD
$debian/pgbench -h 127.0.0.1 -p $port -U postgres -i -s 2 -q postgres >pgbench.log 2>&1
$debian/pgbench -h 127.0.0.1 -p $port -U postgres -c 4 -j 2 -T 10 postgres >>pgbench.log 2>&1
LOAD
cp load.sh own/load.sh
(cd own && "${as[@]}" env HOME="$PWD" XDG_CACHE_HOME="$PWD/cache" "$tussle" record -o pg.data --ready "port:$port" \
	--load 'bash load.sh' --for "${limit_s}s" -- "$(readlink -f ../server)" -D data -h 127.0.0.1 -p "$port" -k "$PWD" \
	-c shared_buffers=16MB -c max_parallel_workers=0) >server.log 2>&1 || { tail -n 5 server.log >&2; exit 2; }
tail -n 8 own/pgbench.log

# 3. The report.
report own/pg.data
