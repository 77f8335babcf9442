#!/usr/bin/env bash
# Records ten workloads on every kernel named, and prints for each how many of the transfers have a field's name: the
# table of docs/kernel.md.
#
#   examples/kernel-pairs/matrix.sh NAME=VMLINUX..
#
# Results go to the folder $OUT (default: target/kernel-matrix), as NAME-WORKLOAD.data. TUSSLE names the program
# (default: tussle), CC the compiler.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
out=${OUT:-target/kernel-matrix}
tussle=${TUSSLE:-tussle}
mkdir -p "$out"
here=$(dirname "$0")
"${CC:-cc}" -O2 -static -pthread -I"$here/../../crates/rt/include" -o "$out/work" "$here/work.c"

# record NAME VMLINUX WORKLOAD WORDS...
record() {
	local file=$out/$1-$3.data vmlinux=$2 row="$1 $3" begun=$SECONDS said
	shift 3
	said=$("$tussle" record-kernel --vmlinux "$vmlinux" --smp 4 --quantum 1000 -o "$file" "$@" 2>&1) || row+=" FAILED"
	echo "$row, $((SECONDS - begun)) s: $(grep -o 'of the transfers .* none' <<<"$said" || tail -n 1 <<<"$said")"
}
for kernel; do
	name=${kernel%%=*} vmlinux=${kernel#*=}
	for workload in mmap1 page_fault1 page_fault2 pft exec_storm fork_storm sem_ops; do
		record "$name" "$vmlinux" $workload --workload $workload
	done
	for work in 'open 200' 'futex 200' 'tcp 100'; do
		record "$name" "$vmlinux" "${work% *}" --initrd-add "$out/work=/bin/work" --threads --ops 1 --run "/bin/work $work"
	done
done
