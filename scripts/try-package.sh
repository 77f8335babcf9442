#!/usr/bin/env bash
# Tries in a fresh Debian, as root, what scripts/package.sh and scripts/static.sh made:
# scripts/try-package.sh PACKAGE.deb STATIC-TUSSLE [ROOT].
#
# Needs debootstrap and a mirror of Debian (MIRROR, else its own). ROOT is made if it is not there, and kept; without
# it a temporary folder is used. The new system has gcc and make, which hunting needs, and no other tool.
set -euo pipefail
package=$(realpath "$1") static=$(realpath "$2")
cd "$(dirname "$0")/.."
root=$(realpath -m "${3:-$(mktemp -d)/root}")
trap 'umount "$root/proc" 2>/dev/null || true; [ -n "${3:-}" ] || rm -rf --one-file-system "$(dirname "$root")"' EXIT
if [ ! -d "$root/usr" ]; then
	debootstrap --variant=minbase --include=gcc,libc6-dev,make bookworm "$root" ${MIRROR:+"$MIRROR"}
fi
mount -t proc proc "$root/proc"
inside() { chroot "$root" env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root TERM=dumb "$@"; }
said() { printf '== %s (%s s)\n' "$1" "$SECONDS"; }
cp "$package" "$root/tmp/tussle.deb"
install -m 755 "$static" "$root/tmp/static-tussle"
rm -rf "$root/root/tallyd"
cp -r examples/tallyd "$root/root/tallyd"

# The example ends with 0 or 1: whether something is left hangs on how its threads were scheduled.
hunted() {
	local status=0
	inside sh -c "cd /root && $1 hunt tallyd" >"$root/tmp/hunt.txt" 2>"$root/tmp/hunt.err" || status=$?
	if [ "$status" -gt 1 ] || ! grep -q 'offsets verified' "$root/tmp/hunt.txt"; then
		tail -n 20 "$root/tmp/hunt.err" "$root/tmp/hunt.txt" >&2
		exit 1
	fi
	grep -E 'Patch of|Faster|after .* against' "$root/tmp/hunt.txt"
	echo "exit status $status"
}

said "static: version, demo, hunt"
inside /tmp/static-tussle --version
inside /tmp/static-tussle demo | tail -n 3
hunted /tmp/static-tussle

said "package: install, version, demo, hunt"
inside dpkg -i /tmp/tussle.deb
inside tussle --version
inside tussle demo | tail -n 3
hunted tussle

said "package: every verb has a man page, three shells have completions"
for verb in hunt record report advise fix bench layout check; do
	gzip -dc "$root/usr/share/man/man1/tussle-$verb.1.gz" | grep -q '^\.SH DESCRIPTION'
done
gzip -dc "$root/usr/share/man/man1/tussle.1.gz" | grep -q '^\.SH NAME'
inside bash -n /usr/share/bash-completion/completions/tussle
test -s "$root/usr/share/zsh/vendor-completions/_tussle"
test -s "$root/usr/share/fish/vendor_completions.d/tussle.fish"
ls "$root"/usr/share/man/man1/tussle*.1.gz | wc -l

said "package: removed without a trace"
files=$(inside dpkg -L tussle | while read -r f; do [ ! -f "$root$f" ] || echo "$f"; done)
[ "$(wc -l <<<"$files")" -gt 20 ]
inside dpkg -r tussle
for f in $files; do
	[ ! -e "$root$f" ] || { echo "left behind: $f" >&2; exit 1; }
done
said "done"
