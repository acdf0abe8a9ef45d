#!/usr/bin/env bash
# Runs the explorer: two processes for the searches, because a search uses one core, and one for the mutations and
# all else. EXPLORE=gate: only beginnings of the searches; EXPLORE=long: deeper ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export EXPLORE=${EXPLORE:-whole}
work=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-explore.XXXXXX")
searches=()
trap '[[ ${#searches[@]} -eq 0 ]] || kill "${searches[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
go test -c -o "$work/explore.test" ./test/explore

cd test/explore
halves=('[^s-z]' '[s-z]') # the first letters of configurations: each takes about half of the time
for half in "${halves[@]}"; do
	"$work/explore.test" -test.v -test.timeout 60m -test.run "^TestConfigurations\$/^$half" >"$work/$half" 2>&1 &
	searches+=($!)
done
status=0
"$work/explore.test" -test.v -test.timeout 60m -test.skip '^TestConfigurations$' || status=$?
for search in "${searches[@]}"; do wait "$search" || status=$?; done
searches=()
for half in "${halves[@]}"; do cat "$work/$half"; done
exit "$status"
