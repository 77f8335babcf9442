# Sourced: makes apt look at the configured Debian suites and at the backports of this release, in a folder of its own.
# Sets APT (words for apt-get and apt-cache) and BACKPORTS (the suite; SUITE names another one). No host name is
# written here: the sources are those that this machine has configured, with the suite replaced.
set -euo pipefail

. /etc/os-release
BACKPORTS="${SUITE:-$VERSION_CODENAME-backports}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/parts"

for file in /etc/apt/sources.list.d/*.sources; do
	# one stanza whose suites hold this release's plain name is Debian's main archive
	[ -e "$file" ] && awk -v RS= -v name="$VERSION_CODENAME" -v back="$BACKPORTS" '
		{
			plain = 0
			n = split($0, lines, "\n")
			for (i = 1; i <= n; i++)
				if (lines[i] ~ /^Suites:/ && (" " lines[i] " ") ~ (" " name " ")) plain = 1
			print $0 "\n"
			if (!plain) next
			for (i = 1; i <= n; i++)
				if (lines[i] !~ /^#/) print (lines[i] ~ /^Suites:/ ? "Suites: " back : lines[i])
			print ""
		}' "$file" >"$work/parts/$(basename "$file")"
done
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
	[ -e "$file" ] && awk -v name="$VERSION_CODENAME" -v back="$BACKPORTS" '
		{ print }
		/^deb / { line = $0; for (i = 2; i <= NF; i++) if ($i == name) { sub(" " name " ", " " back " ", line); print line } }
	' "$file" >"$work/parts/$(basename "$file" .list)-tussle.list"
done
APT=(-q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/parts" -o Dir::State::lists="$work/lists"
	-o APT::Sandbox::User=root)
apt-get "${APT[@]}" update
