#!/usr/bin/env bash
# Records Debian's nginx with four workers that share a zone (a limit of requests) under load from `ab` and prints the report.
#
#   examples/real/nginx.sh [WORKDIR]
#
# Everything stays in WORKDIR (default: a new temporary folder, removed at the end). The server listens on loopback only, for at most
# LIMIT_S seconds (default 60). TUSSLE names the binary (default: target/release/tussle, built if missing). A missing optional tool is
# reported as skipped, by name, and the script succeeds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh
. "$here/common.sh"

limit_s=${LIMIT_S:-60}
need "dpkg-dev make gcc apache2-utils" apt-get dpkg-source make gcc ab
begin "$@"

# 1. Source and instrumented server.
if ! [ -x server ]; then
	src=$(debian_source nginx "$work" || debian_source nginx/stable "$work")
	(cd "$src" && ./configure --with-cc="$tussle cc" --with-cc-opt='-O2 -g' --with-http_stub_status_module \
		--without-http_gzip_module --without-http_rewrite_module >"$work/configure.log" 2>&1 && make -j2 >"$work/make.log" 2>&1) ||
		{ tail -n 20 configure.log make.log >&2; exit 2; }
	ln -s "$src/objs/nginx" server
fi

# 2. Four workers on loopback, recorded; a client for a bounded time.
port=$((20000 + RANDOM % 20000))
mkdir -p own/logs own/html
echo hello >own/html/index.html
cat >own/nginx.conf <<CONF
daemon off;
worker_processes 4;
events { worker_connections 64; }
http {
	access_log off;
	limit_req_zone \$arg_who zone=all:1m rate=100000r/s;
	limit_conn_zone \$server_name zone=open:1m;
	server {
		listen 127.0.0.1:$port reuseport;
		limit_req zone=all burst=100000 nodelay;
		limit_conn open 1000;
		location /status { stub_status; }
	}
}
CONF
cat >load.sh <<LOAD
for who in a b c d; do ab -q -n 5000 -c 8 "http://127.0.0.1:$port/?who=\$who" >ab.\$who.log 2>&1 & done
wait
LOAD
"$tussle" record -o nginx.data --ready "port:$port" --load 'bash load.sh' --for "${limit_s}s" -- ./server -p "$PWD/own" -c nginx.conf \
	>server.log 2>&1 || { tail -n 5 server.log >&2; exit 2; }
grep -h 'Requests per second\|Failed' ab.*.log

# 3. The report.
report nginx.data
