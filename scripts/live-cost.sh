#!/usr/bin/env bash
# What `tussle live` at its default budget costs redis and memcached: runs with and without it by turns, judged by
# `tussle bench`. Needs redis-server, redis-benchmark, memcached, memcslap (libmemcached-tools) and two quiet CPUs.
#
#   scripts/live-cost.sh [PAIRS] [redis] [memcached]      24 pairs of both take about a quarter of an hour
#
# TUSSLE=FILE is the binary (target/release/tussle). What each watched run said of its own cost is in
# live-cost.SERVER.said in the current folder.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
tussle=${TUSSLE:-$here/target/release/tussle}
port=7391

serve() {
	case $1 in
	redis) redis-server --port $port --bind 127.0.0.1 --io-threads 2 --io-threads-do-reads yes --save "" >/dev/null & ;;
	memcached) memcached -u "$(id -un)" -l 127.0.0.1 -p $port -t 2 & ;;
	esac
	server=$!
	for _ in $(seq 100); do
		(: </dev/tcp/127.0.0.1/$port) 2>/dev/null && return
		sleep 0.05
	done
	echo "$1 does not answer" >&2
	exit 1
}

# Requests of so many rounds.
load() {
	case $1 in
	redis) redis-benchmark -p $port -n $((200000 * $2)) -c 8 -P 4 -t set -q >/dev/null ;;
	memcached) memcslap -s 127.0.0.1:$port --concurrency 4 --execute-number $((20000 * $2)) --test get >/dev/null ;;
	esac
}

clean() {
	set +e
	for pid in $live $server; do kill "$pid" 2>/dev/null; done
	wait
	rm -rf "$folder"
}

# One run: rounds per second of the load, as last number.
one() {
	local name=$1 how=$2 rounds=4 said=$PWD/live-cost.$1.said
	folder=$(mktemp -d) live= server=
	trap clean EXIT
	serve "$name"
	load "$name" 1
	if [ "$how" = watched ]; then
		"$tussle" live --duration 10m -o "$folder/live.data" -p "$server" >/dev/null 2>"$folder/said" &
		live=$!
	fi
	# What watching costs is measured before it begins; both arms wait as long.
	sleep 1
	local begin end
	begin=$(date +%s%N)
	load "$name" $rounds
	end=$(date +%s%N)
	if [ "$how" = watched ]; then
		kill -TERM "$live"
		wait "$live" || { cat "$folder/said" >&2; exit 1; }
		grep -h 'cost the program' "$folder/said" >>"$said"
		live=
	fi
	awk -v ns=$((end - begin)) -v rounds=$rounds 'BEGIN { printf "%.4f\n", rounds * 1e9 / ns }'
}

if [ "${1:-}" = --one ]; then
	one "$2" "$3"
	exit
fi
pairs=24
case ${1:-} in [0-9]*) pairs=$1 && shift ;; esac
for name in "${@:-redis memcached}"; do
	for server in $name; do
		rm -f "live-cost.$server.said"
		echo "== $server"
		status=0
		"$tussle" bench --pairs "$pairs" --metric last-number --kind rate -v \
			"bare=bash $here/scripts/live-cost.sh --one $server bare" \
			"watched=bash $here/scripts/live-cost.sh --one $server watched" || status=$?
		[ $status -le 1 ] || exit $status
		sort "live-cost.$server.said" | awk '{ for (i = 1; i < NF; i++) if ($i == "about") print $(i + 1) }' |
			sort -n | awk '{ a[NR] = $1 } END { print "said by live itself: median " a[int((NR + 1) / 2)] ", highest " a[NR] }'
	done
done
