#!/usr/bin/env bash
# Installs an emulator that `tussle record-kernel` can use (QEMU 10 or later) on Debian, as root: from the release
# itself where it is new enough, else from its backports.
set -euo pipefail
. "$(dirname "$0")/backports.sh"

new_enough() {
	dpkg --compare-versions "$1" ge 1:10.0
}
have=$(dpkg-query -W -f '${Status}|${Version}' qemu-system-x86 2>/dev/null | sed -n 's/^.* installed|//p' || true)
if [ -n "$have" ] && new_enough "$have"; then
	echo "qemu-system-x86 $have is installed"
	exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# What emulates programs stays as it is: backports' has no plugins (docs/emulate.md).
if dpkg-query -W -f '${Status}' qemu-user 2>/dev/null | grep -q ' installed$' && ! apt-mark showhold | grep -qx qemu-user; then
	apt-mark hold qemu-user >/dev/null
	trap 'apt-mark unhold qemu-user >/dev/null; rm -rf "$work"' EXIT
fi
apt-get "${APT[@]}" install -y --no-install-recommends -t "$BACKPORTS" qemu-system-x86
qemu-system-x86_64 --version | head -n 1
