# Sourced by the scripts of this folder after `here` is set: what all of them begin with.
root=$(cd "$here/../.." && pwd)
# shellcheck source=debian-source.sh
. "$here/debian-source.sh"

# need PACKAGES TOOL...: ends the script with success and one line where a tool is missing; with TUSSLE_STRICT=1 it fails.
need() {
	local packages=$1 tool
	shift
	for tool in "$@"; do
		command -v "$tool" >/dev/null || {
			echo "skipped: $tool is missing (apt-get install $packages)"
			[ "${TUSSLE_STRICT:-0}" = 0 ]
			exit
		}
	done
}

# begin [WORKDIR]: sets `tussle` (from TUSSLE, or the release build) and goes to the folder to work in.
begin() {
	tussle=${TUSSLE:-$root/target/release/tussle}
	[ -x "$tussle" ] || (cd "$root" && cargo build --release)
	if [ $# -gt 0 ]; then
		work=$1
		mkdir -p "$work"
	else
		work=$(mktemp -d)
		trap 'rm -rf "$work"' EXIT
	fi
	cd "$work"
	work=$PWD
}

# report FILE: exit 1 means findings, which is an answer, not a failure.
report() {
	local status=0
	"$tussle" report "$1" || status=$?
	[ "$status" -le 1 ]
}
