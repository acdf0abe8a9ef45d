#!/usr/bin/env bash
# Runs the explorer: the searches in one process, the mutations and all else in another, because a
# search uses one core. EXPLORE=long makes the searches deeper.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export EXPLORE=${EXPLORE:-ci}
work=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-explore.XXXXXX")
searches=
trap '[[ -z $searches ]] || kill "$searches" 2>/dev/null || true; rm -rf "$work"' EXIT
go test -c -o "$work/explore.test" ./test/explore

cd test/explore
"$work/explore.test" -test.v -test.timeout 60m -test.run '^TestConfigurations$' >"$work/searches" 2>&1 &
searches=$!
status=0
"$work/explore.test" -test.v -test.timeout 60m -test.skip '^TestConfigurations$' || status=$?
wait "$searches" || status=$?
searches=
cat "$work/searches"
exit "$status"
