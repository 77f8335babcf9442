#!/usr/bin/env bash
# Records the workloads of docs/kernel-pairs.md and writes a report of each.
#
#   examples/kernel-pairs/run.sh VMLINUX-6.1 VMLINUX-6.12 [NUMBER..]
#
# Results go to the folder $OUT (default: target/kernel-pairs), as NUMBER.data and NUMBER.txt. TUSSLE names the
# program (default: tussle), CC the compiler.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
v61=$1 v612=$2
shift 2
out=${OUT:-target/kernel-pairs}
tussle=${TUSSLE:-tussle}
mkdir -p "$out"
here=$(dirname "$0")
"${CC:-cc}" -O2 -static -pthread -I"$here/../../crates/rt/include" -o "$out/work" "$here/work.c"

# record NUMBER VMLINUX WORDS...
record() {
	local number=$1 vmlinux=$2
	shift 2
	"$tussle" record-kernel --vmlinux "$vmlinux" --smp 4 --quantum 1000 -o "$out/$number.data" "$@"
	"$tussle" report "$out/$number.data" >"$out/$number.txt" || [ $? = 1 ]
}
# work NUMBER VMLINUX NAME ROUNDS
work() {
	record "$1" "$2" --initrd-add "$out/work=/bin/work" --threads --run "/bin/work $3 $4" --ops 1
}
pair() {
	case $1 in
	1) record 1 "$v61" --workload mmap1 --ops 100 ;;
	2) record 2 "$v61" --workload exec_storm ;;
	3) work 3 "$v61" switch 100 ;;
	4) work 4 "$v61" stat 200 ;;
	5) work 5 "$v612" open 200 ;;
	6) work 6 "$v61" tcp 100 ;;
	7) work 7 "$v612" udp 80 ;;
	8) record 8 "$v612" --workload fork_storm ;;
	9) work 9 "$v61" aio 10 ;;
	10) work 10 "$v612" socket 100 ;;
	*) echo "no pair $1" >&2; exit 2 ;;
	esac
}
[ $# -gt 0 ] || set -- 1 2 3 4 5 6 7 8 9 10
for number; do pair "$number"; done
