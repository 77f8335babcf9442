#!/usr/bin/env bash
# Makes every picture of the repository anew, from what tussle prints: scripts/screenshots.sh [FOLDER].
#
# The pictures are SVGs with the printed text inside (docs/pictures). With Chromium on this machine the HTML pages are
# photographed, too, light and dark, into FOLDER (target/screenshots): to be looked at, not to be kept.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-target/screenshots}")
pictures=$PWD/docs/pictures
[ -n "${TUSSLE:-}" ] || cargo build --release
tussle=$(realpath "${TUSSLE:-target/release/tussle}")
svg=$PWD/scripts/terminal_svg.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder" "$pictures"

cp -r examples/tallyd "$work/tallyd"
cd "$work/tallyd"
make -s CC="$tussle cc"
"$tussle" record -- ./tallyd >/dev/null
# The report's first finding, as far as its fields; what a shared line costs.
python3 "$svg" --columns 104 --rows 26 --from '#1  ' "$pictures/report.svg" "$tussle" --no-pager report
python3 "$svg" --columns 104 "$pictures/demo.svg" "$tussle" --no-pager demo
for verb in report "advise -C worker_stats"; do
	# shellcheck disable=SC2086
	"$tussle" $verb --format html >"$folder/${verb%% *}.html" || [ $? = 1 ]
done

browser=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$browser" ]; then
	echo "skipped: pages are not photographed: no chromium on this machine" >&2
	exit 0
fi
for page in "$folder"/*.html; do
	for scheme in light dark; do
		flag=$([ $scheme = dark ] && echo --force-dark-mode --enable-features=WebContentsForceDark || true)
		# shellcheck disable=SC2086
		"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,1800 $flag \
			--screenshot="${page%.html}.$scheme.png" "file://$page" 2>/dev/null
	done
done
ls -l "$folder"
