#!/usr/bin/env bash
# Fetches the debug information of a Debian kernel by package name and unpacks its vmlinux, nothing else. The kernel
# itself is not needed: the emulator boots the vmlinux. Nothing is installed.
#
#   scripts/fetch-kernel.sh FOLDER                          this release's kernel
#   scripts/fetch-kernel.sh FOLDER --backports              the newer one of its backports
#   scripts/fetch-kernel.sh FOLDER --suite trixie-backports the one of another suite
#   scripts/fetch-kernel.sh FOLDER --suite S --version 7.2  of several in a suite, the newest that begins so
#   scripts/fetch-kernel.sh FOLDER --suite S --list         the versions there are
#   scripts/fetch-kernel.sh FOLDER --flavour rt-amd64       another flavour than cloud-amd64, with any of the above
#
# The last line names the file for `tussle record-kernel --vmlinux`. FOLDER needs room for the package (250 MB for 6.1
# and 6.12) and for the vmlinux (about 600 MB); the package is removed.
set -euo pipefail
usage() {
	sed -n 's/^#   //p' "$0" >&2
	exit 2
}
[ $# -gt 0 ] || usage
folder=$1
shift
suite= wanted= list= flavour=cloud-amd64
while [ $# -gt 0 ]; do
	case $1 in
	--backports) suite=backports ;;
	--suite) suite=${2:-}; shift ;;
	--version) wanted=${2:-}; shift ;;
	--flavour) flavour=${2:-}; shift ;;
	--list) list=yes ;;
	*) usage ;;
	esac
	shift
done
[ "$suite" = backports ] || [ -z "$suite" ] || SUITE=$suite
. "$(dirname "$0")/backports.sh" >&2

# Versions of all suites, or of the one asked for, newest first. Names are linux-image-VERSION-FLAVOUR-dbg in all.
versions() {
	apt-cache "${APT[@]}" search --names-only "^linux-image-[0-9.]+[^a-z]*(\+[a-z0-9]+)?-$flavour-dbg\$" | while read -r name _; do
		from=$(apt-cache "${APT[@]}" madison "$name" | awk -F'|' '{ print $3 }')
		[ -z "$suite" ] || case $from in *" $BACKPORTS/"*) ;; *) continue ;; esac
		[ -n "$suite" ] || case $from in *" $BACKPORTS/"*) continue ;; esac
		name=${name#linux-image-}
		echo "${name%-dbg}"
	done | grep '[0-9]\.[0-9]*\.[0-9]' | sort -rV
}

if [ -n "$list" ]; then
	versions
	exit
fi
# Without --version what the meta package of the suite depends on, whatever else it depends on.
depended_on() {
	[ -z "$suite" ] || APT+=(-o APT::Default-Release="$BACKPORTS")
	apt-cache "${APT[@]}" --no-all-versions show "linux-image-$flavour-dbg" |
		sed -n 's/^Depends: \(.*, \)\?linux-image-\([^ ,]*\)-dbg.*/\2/p' | head -n 1
}
if [ -n "$wanted" ]; then
	version=$(versions | awk -v w="$wanted" 'index($0, w) == 1 { print; exit }')
else
	version=$(depended_on)
fi
[ -n "$version" ] || { echo "no package linux-image-$wanted*-$flavour-dbg${suite:+ in $BACKPORTS}" >&2; exit 1; }
mkdir -p "$folder"
cd "$folder"
file=usr/lib/debug/boot/vmlinux-$version
if [ ! -e "$file" ]; then
	package=linux-image-$version-dbg
	apt-get "${APT[@]}" download "$package" >&2
	dpkg --fsys-tarfile "${package}"_*.deb | tar -x --wildcards './usr/lib/debug/*vmlinux*'
	rm -f "${package}"_*.deb
fi
echo "$PWD/$file"
