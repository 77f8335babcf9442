#!/usr/bin/env bash
# How often `tussle live` finds a fight that has a small share of the samples: two threads that store to neighbours once
# in so many stores of their own, watched for 2 and 10 s, five times each. Prints a row of the report per watch.
#
#   scripts/live-odds.sh      three minutes; TUSSLE=FILE is the binary (target/release/tussle)
set -euo pipefail
tussle=${TUSSLE:-$(cd "$(dirname "$0")/.." && pwd)/target/release/tussle}
folder=$(mktemp -d)
trap 'kill "${target:-}" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
cat >odds.c <<'C'
#include <pthread.h>
#include <stdlib.h>
struct pair { volatile long left, right; } pair __attribute__((aligned(128)));
struct own { volatile long here[64]; } own[2] __attribute__((aligned(128)));
static long work;
static void *run(void *at)
{
	long n = (long)at;
	for (;;) {
		for (long k = 0; k < work; k++)
			own[n].here[k & 63]++;
		if (n)
			pair.right++;
		else
			pair.left++;
	}
}
int main(int argc, char **argv)
{
	pthread_t t;
	work = argc > 1 ? atol(argv[1]) : 0;
	pthread_create(&t, 0, run, (void *)1);
	run(0);
}
C
${CC:-cc} -O2 -g -pthread odds.c -o odds
for work in 50 500 3000; do
	./odds $work &
	target=$!
	for seconds in 2 10; do
		for _ in 1 2 3 4 5; do
			"$tussle" live --duration ${seconds}s -o odds.data -p $target >odds.txt 2>odds.err
			row=$(grep -E '^[0-9]+ .*pair\.' odds.txt | head -n 1 || true)
			echo "one in $work, $seconds s, $(sed -n 's/^sampled *//p' odds.txt): ${row:-not listed}"
		done
	done
	kill $target
	wait $target 2>/dev/null || true
done
