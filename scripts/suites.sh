#!/usr/bin/env bash
# Runs the test suites of five multi-threaded packages of Debian, built with `tussle cc`, with and without recording, and prints
# which tests differ. The recorder must not change what a program does: a difference is a fault of it, or a test of time.
#
#   scripts/suites.sh [WORKDIR [PACKAGE..]]        packages: memcached redis leveldb libuv1 apr
#
# RUNS (3): how often each way. LONG=1: every test, also those that take minutes in one thread. TUSSLE: the binary (target/release/tussle, built if missing). LIMIT_S (1200): bound of one run.
# Builds and logs stay in WORKDIR (default: a temporary folder, removed). Servers listen on loopback only. A missing tool is reported
# as skipped, by name. Exit 1: a test failed under recording in every run and without it in none, or was not run.
set -euo pipefail
here=$(cd "$(dirname "$0")/../examples/real" && pwd)
self=$(cd "$(dirname "$0")" && pwd)/suites.sh
# shellcheck source=../examples/real/common.sh
. "$here/common.sh"

# How each package is built. The working folder is the package's own; its source is in $1.
cmake_with_tussle() {
	cmake -S "$1" -B build -DCMAKE_C_COMPILER="$tussle" -DCMAKE_C_COMPILER_ARG1=cc -DCMAKE_CXX_COMPILER="$tussle" \
		-DCMAKE_CXX_COMPILER_ARG1=c++ -DCMAKE_BUILD_TYPE=RelWithDebInfo "${@:2}"
}
build_memcached() {
	(cd "$1" && ./configure -q --disable-docs CC="$tussle cc" CFLAGS='-O2 -g -Wno-error')
	make -C "$1" -j2 memcached memcached-debug sizes testapp timedrun
}
build_redis() {
	make -C "$1/src" -j2 CC="$tussle cc" MALLOC=libc OPTIMIZATION=-O2 USE_SYSTEMD=no BUILD_TLS=no \
		redis-server redis-cli redis-benchmark
}
build_leveldb() { cmake_with_tussle "$1" -DLEVELDB_BUILD_BENCHMARKS=OFF && make -C build -j2; }
build_libuv1() { cmake_with_tussle "$1" && make -C build -j2 uv_run_tests_a; }
build_apr() {
	(cd "$1" && ./configure -q CC="$tussle cc" CFLAGS='-O2 -g')
	make -C "$1" -j2 && make -C "$1/test" -j2 all
}

# How each suite is run, in the folder of its source; what it prints goes to the log. $1: a folder for files of this run.
suite_memcached() {
	./testapp || true
	# Not tests of the program: style of the sources, and generation of certificates. LONG=1: also those that print 170,000
	# of all 175,000 lines, one client after the other.
	local long=(! -name lru-crawler.t ! -name binary-extstore.t ! -name getset.t ! -name chunked-items.t ! -name binary.t)
	[ -z "${LONG:-}" ] || long=()
	find t -maxdepth 1 -name '*.t' ! -name whitespace.t ! -name line-lengths.t "${long[@]}" -printf '%f\n' | sort >"$1/tests"
	# Sequences of several commands on one line come out whole: each test writes into its own file first.
	xargs -P 4 -I{} sh -c 'timeout 200 perl -It/lib t/{} >"$0/{}.tap" 2>&1; echo "exit $?" >>"$0/{}.tap"' "$1" <"$1/tests"
	local name
	while read -r name; do sed "s/^/$name: /" "$1/$name.tap"; done <"$1/tests"
}
suite_redis() {
	local unit units=()
	# `networking` and `introspection` connect to an address that is not loopback; where none answers the whole run ends.
	# Those with threads, children, signals, blocked clients and memory given back; the rest tests commands in one thread.
	for unit in type/list expire multi pubsub scripting lazyfree protocol querybuf shutdown; do
		units+=(--single "unit/$unit")
	done
	./runtest --clients 2 --config bind 127.0.0.1 --config io-threads 4 --config io-threads-do-reads yes --tags -needs:debug-reload \
		"${units[@]}" </dev/null
}
suite_leveldb() {
	local test
	for test in ../../build/*_test; do
		# One thread that inserts for minutes.
		[ -n "${LONG:-}" ] || [ "${test##*/}" != issue178_test ] || continue
		mkdir -p "$1/tmp"
		echo "== ${test##*/}"
		(cd "$1/tmp" && TEST_TMPDIR="$1/tmp" timeout 600 "$OLDPWD/$test" && echo "exit 0" || echo "exit $?")
		rm -rf "$1/tmp"
	done
}
suite_libuv1() { UV_RUN_AS_ROOT=1 UV_TEST_TIMEOUT_MULTIPLIER=6 ../../build/uv_run_tests_a </dev/null; }
suite_apr() { cd test && ./testall -v; }

# From a log: lines of `ok` or `not ok`, a tab, and the test's name, without times and numbers of processes.
results() {
	case $1 in
	# maxconns.t has a line for each connection that read its refusal in time: one test here.
	memcached) sed -nE -e 's/^(maxconns\.t: )(ok|not ok) .*/\2\t\1all/p;t' -e 's/^([^ ]+\.t: )?(ok|not ok) ([0-9]+).*/\2\t\1\3/p' \
		-e 's/^([^ ]+\.t: )exit 0$/ok\t\1exit/p' -e 's/^([^ ]+\.t: )exit .*/not ok\t\1exit/p' ;;
	redis) sed -E 's/\x1b\[[0-9;]*m//g' | sed -nE -e 's/^\[ok\]: (.*) \([0-9]+ ms\)$/ok\t\1/p' \
		-e 's/^\[err\]: (.*) in tests.*/not ok\t\1/p' -e 's/^\[(exception|TIMEOUT)\]: *(.*)/not ok\t\1 \2/p' ;;
	leveldb) sed -nE -e 's/^\[ +OK \] (.*) \(.*/ok\t\1/p' -e 's/^\[  FAILED  \] ([^ ]+) \(.*/not ok\t\1/p' \
		-e 's/^== (.*)/ok\t\1 begins/p' \
		-e 's/^exit 0$/ok\tall exits/p' -e 's/^exit .*/not ok\tall exits/p' ;;
	libuv1) sed -nE 's/^(ok|not ok) [0-9]+ - ([^ ]+)( # .*)?$/\1\t\2/p' ;;
	apr) sed -nE -e 's/^.*\r//' -e 's/^([a-z_0-9]+) +: .*SUCCESS$/ok\t\1/p' -e 's/^([a-z_0-9]+) +: .*(FAILED|Line [0-9]+:).*/not ok\t\1/p' ;;
	esac
}

# One run of the suite, for this script itself and for `tussle record` to start.
if [ "${1:-}" = --suite ]; then
	cd "$3"
	"suite_$2" "$4"
	exit
fi

prepare() {
	local package=$1 source by
	mkdir -p "$work/$package"
	cd "$work/$package"
	# The recorder is inside of what is built: another tussle builds anew.
	by=$(sha256sum <"$tussle")
	if ! [ -e source ] || [ "$(cat built-by 2>/dev/null)" != "$by" ]; then
		find . -mindepth 1 -delete
		source=$(debian_source "$package" "$PWD")
		"build_$package" "$source" >build.log 2>&1 || { tail -n 20 build.log >&2; return 1; }
		ln -s "$source" source
		echo "$by" >built-by
	fi
}

# run_once PACKAGE SIDE NUMBER: leaves SIDE.NUMBER.log and .results.
run_once() {
	local package=$1 log=$work/$1/$2.$3 launcher=() scratch
	scratch=$(mktemp -d "$work/$package/run.XXXXXX")
	[ "$2" = plain ] || launcher=("$tussle" record --children --no-names --mem-max 256M -o "$log.data" --)
	timeout "${LIMIT_S:-1200}" "${launcher[@]}" bash "$self" --suite "$package" \
		"$(readlink -f "$work/$package/source")" "$scratch" >"$log.log" 2>&1 || echo "exit $?" >"$log.status"
	results "$package" <"$log.log" >"$log.results"
	rm -rf "$scratch"
}

# Sums both sides up: one row of the table, and one line per test that differs. A test failed in a run if any of its lines did.
compare() {
	local package=$1
	awk -F '\t' -v package="$package" -v version="$(basename "$(readlink -f source)")" -v runs="$runs" '
		FNR == 1 { delete before }
		{ side = FILENAME ~ /^plain/ ? "a" : "b"; names[$2]; seen[side, $2] = 1 }
		$1 == "not ok" && !($2 in before) { before[$2]; failed[side, $2]++; total[side]++ }
		END {
			for (name in names) {
				tests++
				a = failed["a", name] + 0; b = failed["b", name] + 0
				missing = !seen["b", name] ? ", not run when recorded" : !seen["a", name] ? ", run only when recorded" : ""
				if (a == b && missing == "") continue
				differ++
				list = list sprintf("    %s: %s: failed in %d of %d plain, %d of %d recorded%s\n", package, name, a, runs, b, runs, missing)
				if ((b == runs && !a) || !seen["b", name]) fault = 1
			}
			printf "| %s | %d | %d | %d | %d |\n", version, tests, total["a"], total["b"], differ
			printf "%s", list
			exit (fault || !tests)
		}' plain.*.results recorded.*.results
}

need "dpkg-dev make cmake g++ perl tcl" apt-get dpkg-source make cmake c++ perl tclsh
begin "${@:1:1}"
packages=("${@:2}")
[ ${#packages[@]} -gt 0 ] || packages=(memcached redis leveldb libuv1 apr)
runs=${RUNS:-3}
status=0
echo "| package | tests | failures in $runs runs | failures in $runs runs recorded | tests that differ |"
echo "|---|---|---|---|---|"
for package in "${packages[@]}"; do
	prepare "$package" || { echo "| $package | not built | | | |"; status=1; continue; }
	rm -f plain.* recorded.*
	for number in $(seq "$runs"); do
		run_once "$package" plain "$number"
		run_once "$package" recorded "$number"
	done
	compare "$package" || status=1
done
exit "$status"
