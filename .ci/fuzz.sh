#!/usr/bin/env bash
# Every fuzz target of the repository, each for FUZZTIME (60s): .ci/fuzz.sh [NAME-PATTERN].
# Coverage guides how inputs are changed, so all packages are compiled anew for it.
# It finds the targets by itself, prints each with its package, and fails if one of them finds
# something; the input is then in the package's testdata/fuzz and is a test from then on. As many
# targets run at once as there are processors, one process each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pattern=${1:-.}
time=${FUZZTIME:-60s}
root=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT
cache=$(go env GOCACHE)/fuzz/turnstile

# A binary for each package: go test would link one for each target.
: >"$work/targets"
while read -r dir; do
	names=$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/^func //' | grep -E -- "$pattern" | sort) || continue
	binary=$work/${dir//\//-}.test
	go test -c -vet=off -fuzz '^$' -o "$binary" "./$dir"
	for name in $names; do
		echo "$dir $binary $name" >>"$work/targets"
	done
done < <(git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -lE '^func Fuzz' | xargs -n 1 dirname | sort -u)

# only_its_end LOG: whether a target failed because its time was over. Go 1.26 reports that as a failure
# now and then (golang/go#75804, mended in 1.27); a finding has more lines.
only_its_end() {
	[[ $(grep -vE '^(warning|fuzz): ' "$1") == '--- FAIL: '*$'s)\n    context deadline exceeded\nFAIL' ]]
}

# one DIR BINARY NAME: runs a target and prints its last line of figures, or all that it says if it fails.
one() {
	local log=$work/$3.log status=0
	cd "$root/$1"
	"$2" -test.run '^$' -test.fuzz "^$3\$" -test.fuzztime "$time" -test.fuzzminimizetime 1x -test.parallel 1 \
		-test.fuzzcachedir "$cache/$1" -test.timeout 0 >"$log" 2>&1 || status=$?
	if [[ $status -ne 0 ]] && ! only_its_end "$log"; then
		printf 'FAILED  %s %s\n' "$1" "$3"
		cat "$log"
		return 1
	fi
	printf 'ok      %s %s: %s\n' "$1" "$3" "$(grep -aoE '(execs|testing seed corpus|gathering baseline coverage): .*' "$log" | tail -1)"
}
export -f one only_its_end
export root work time cache

count=$(wc -l <"$work/targets")
echo "fuzz: $count targets, $time each"
xargs -r -P "$(getconf _NPROCESSORS_ONLN)" -L 1 bash -c 'one "$@"' one <"$work/targets" || {
	echo "fuzz: FAILED; the inputs are in testdata/fuzz, and tests from now on" >&2
	exit 1
}
echo "fuzz: $count targets found nothing"
