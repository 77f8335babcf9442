#!/usr/bin/env bash
# Fetches a Debian cloud kernel and its debug information by package name and unpacks the two without installing them.
#
#   scripts/fetch-kernel.sh FOLDER               this release's kernel
#   scripts/fetch-kernel.sh FOLDER --backports   the newer one of its backports
#
# Prints the paths for `tussle record-kernel --vmlinux`. Needs about 1 GB in FOLDER.
set -euo pipefail
folder=${1:?usage: fetch-kernel.sh FOLDER [--backports]}
. "$(dirname "$0")/backports.sh"

[ "${2:-}" = --backports ] && APT+=(-o APT::Default-Release="$BACKPORTS")
package=$(apt-cache "${APT[@]}" --no-all-versions show linux-image-cloud-amd64 |
	sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | head -n 1)
[ -n "$package" ] || { echo "no package linux-image-cloud-amd64" >&2; exit 1; }
version=${package#linux-image-}
mkdir -p "$folder"
cd "$folder"
if [ ! -e "usr/lib/debug/boot/vmlinux-$version" ]; then
	for name in "linux-image-$version-unsigned" "linux-image-$version-dbg"; do
		apt-get "${APT[@]}" download "$name"
		dpkg -x "$name"_*.deb .
		rm -f "$name"_*.deb
	done
fi
echo "$folder/usr/lib/debug/boot/vmlinux-$version"
