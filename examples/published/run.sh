#!/bin/sh
# Predicts a published curve of false sharing on a machine that has the CPUs, and measures nothing.
#   examples/published/run.sh [TUSSLE] [MACHINE]
set -eu
tussle=${1:-tussle}
machine=${2:-2s-icelake-sp-96}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$tussle" cc -O2 -g -pthread "$here/sums.c" -o "$work/sums"
for threads in 2:+100% 4:+310% 8:+440% 16:+570%; do
	n=${threads%%:*}
	"$tussle" record -q -o "$work/$n.data" -- "$work/sums" "$n" >"$work/out"
	echo "$n threads, published ${threads#*:}:"
	"$tussle" predict -q "$work/$n.data" --machine "$machine" --cpus "$n" -C part --move element=64 --check |
		grep -E '^(undecided|faster|slower|No verdict|Withheld)'
done
