#!/usr/bin/env bash
# Makes a Debian package of the release binary, with man pages and completions: scripts/package.sh [FOLDER].
#
# Needs dpkg-deb. The package depends on libc6 alone, of the version that this machine builds against; with TUSSLE it
# packs that binary (one of scripts/static.sh depends on nothing).
set -euo pipefail
out=$(realpath -m "${1:-target/package}")
cd "$(dirname "$0")/.."
[ -n "${TUSSLE:-}" ] || cargo build --release
tussle=$(realpath "${TUSSLE:-target/release/tussle}")
version=$($tussle --version | awk '{ print $2 }')
depends=
if readelf -l "$tussle" | grep -q INTERP; then
	libc=$(dpkg-query -W -f '${Version}' libc6 | sed 's/-.*//')
	depends="Depends: libc6 (>= $libc)"$'\n'
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
install -D -m 755 -s "$tussle" "$root/usr/bin/tussle"
install -D -m 644 crates/rt/include/tussle.h "$root/usr/include/tussle.h"
"$tussle" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
	"$root/usr/share/fish/vendor_completions.d" "$root/usr/share/doc/tussle" "$root/DEBIAN"
"$tussle" completions bash >"$root/usr/share/bash-completion/completions/tussle"
"$tussle" completions zsh >"$root/usr/share/zsh/vendor-completions/_tussle"
"$tussle" completions fish >"$root/usr/share/fish/vendor_completions.d/tussle.fish"
cat LICENSE-MIT LICENSE-APACHE >"$root/usr/share/doc/tussle/copyright"
# The emulator's plugin is compiled on first use from sources inside the binary; its licence is its own.
install -m 644 qemu/COPYING "$root/usr/share/doc/tussle/copyright.emulator-plugin"
cat >"$root/DEBIAN/control" <<EOF
Package: tussle
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: the tussle developers <tussle@localhost>
${depends}Recommends: gcc | clang, make, less
Suggests: qemu-system-x86
Section: devel
Priority: optional
Description: which fields of which structures fight over a cache line
 Finds false sharing by field name on any Linux machine, without hardware
 counters, writes the patch and proves it.
EOF
mkdir -p "$out"
dpkg-deb --build --root-owner-group "$root" "$out" >/dev/null
ls -l "$out"/tussle_"$version"_*.deb
