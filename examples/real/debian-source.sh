# shellcheck shell=bash
# debian_source PACKAGE DIR: unpacks Debian's source package into DIR/src, from the mirrors that this machine is configured for.
# The machine's own apt configuration is not touched: a private source list and state folder are used.

debian_source() {
	local package=$1 dir=$2 lists options
	mkdir -p "$dir/apt/lists/partial" "$dir/src"
	lists=$dir/apt/sources.sources
	: >"$lists"
	# deb822 files: the same entries with deb-src; one-line files: deb lines turned into deb-src lines.
	if compgen -G '/etc/apt/sources.list.d/*.sources' >/dev/null; then
		cat /etc/apt/sources.list.d/*.sources | sed -E 's/^Types:.*/Types: deb-src/' >>"$lists"
	fi
	options=(-o "Dir::Etc::sourcelist=$lists" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$dir/apt/lists" -q)
	if ! grep -q '^Types:' "$lists"; then
		lists=$dir/apt/sources.list
		cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -nE 's/^deb /deb-src /p' >"$lists"
		options[1]="Dir::Etc::sourcelist=$lists"
	fi
	# A third-party repository without sources may fail here; what counts is whether the package can be had.
	apt-get "${options[@]}" update >"$dir/apt/log" 2>&1 || true
	# A mirror may list a version, mostly of a security update, that it no longer has: then the next older one.
	local version
	while read -r version; do
		if (cd "$dir/src" && apt-get "${options[@]}" -o APT::Sandbox::User=root source "$package=$version" >>"$dir/apt/log" 2>&1); then
			find "$dir/src" -mindepth 1 -maxdepth 1 -type d | head -n 1
			return 0
		fi
	done < <(apt-cache "${options[@]}" madison "$package" 2>>"$dir/apt/log" | awk '/Sources/ { print $3 }')
	echo "apt-get source $package failed; see $dir/apt/log" >&2
	return 1
}
