#!/usr/bin/env bash
# Records Debian's nginx with four worker processes that share zones, under load from `ab`, and prints the report.
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
need "dpkg-dev make apache2-utils" apt-get dpkg-source make ab
echo '#include <pcre2.h>' | ${CC:-cc} -DPCRE2_CODE_UNIT_WIDTH=8 -E - >/dev/null 2>&1 || { echo "skipped: the headers of PCRE are missing (apt-get install libpcre2-dev)"; exit 0; }
begin "$@"

# 1. Source and instrumented server.
if ! [ -x nginx ]; then
	src=$(debian_source nginx "$work")
	(
		cd "$src"
		./configure --with-cc="$tussle cc" --with-cc-opt='-O2 -g' --with-http_stub_status_module --without-http_gzip_module
		make -j2
	) >make.log 2>&1 || { tail -n 20 make.log >&2; exit 2; }
	ln -s "$src/objs/nginx" nginx
fi

# 2. Workers that share limits, a cache and a list of upstream servers; the upstream servers are their own.
mkdir -p logs html
head -c 4096 /dev/urandom | base64 >html/index.html
port=$((20000 + RANDOM % 20000))
cat >nginx.conf <<EOF
daemon off;
worker_processes 4;
error_log logs/error.log;
pid logs/nginx.pid;
events { worker_connections 256; accept_mutex on; }
http {
	access_log off;
	client_body_temp_path temp_body;
	fastcgi_temp_path temp_fastcgi;
	uwsgi_temp_path temp_uwsgi;
	scgi_temp_path temp_scgi;
	proxy_temp_path temp_proxy;
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	limit_req_zone \$arg_u zone=rate:1m rate=10000r/s;
	limit_conn_zone \$arg_u zone=conns:1m;
	proxy_cache_path cache keys_zone=pages:1m;
	upstream back {
		zone upstreams 64k;
		least_conn;
		server 127.0.0.1:$((port + 1));
		server 127.0.0.1:$((port + 2));
		keepalive 8;
	}
	server {
		listen 127.0.0.1:$port;
		location / { root html; limit_req zone=rate burst=10000 nodelay; limit_conn conns 1000; }
		location /cached { proxy_pass http://back/index.html; proxy_cache pages; proxy_cache_valid 200 1s; }
		location /passed { proxy_pass http://back/index.html; }
	}
	server { listen 127.0.0.1:$((port + 1)); listen 127.0.0.1:$((port + 2)); location / { root html; } }
}
EOF
cat >load.sh <<EOF
ab -q -n 10000 -c 8 'http://127.0.0.1:$port/?u=1'
ab -q -k -n 10000 -c 8 'http://127.0.0.1:$port/?u=2'
ab -q -n 5000 -c 8 'http://127.0.0.1:$port/cached'
ab -q -n 5000 -c 8 'http://127.0.0.1:$port/passed'
EOF
"$tussle" record -o nginx.data --ready "port:$port" --load 'bash load.sh' --for "${limit_s}s" -- \
	./nginx -p . -c "$work/nginx.conf" >server.log 2>&1 || { tail -n 20 server.log >&2; exit 2; }
grep 'Requests per second' server.log || true

# 3. The report.
report nginx.data
