#!/usr/bin/env bash
# Runs the tests of which `make test` tries a sample of the cases, and those that it leaves out, with
# all of their cases and without the race detector. It finds the files that have such tests by itself,
# runs all of their tests, and prints how many tests and cases each package has passed.
#
#   .ci/cases.sh [ARGS OF go test...]
#   .ci/cases.sh unraced [ARGS OF go test...]    only those that make test leaves out, with a sample of their cases
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
log=$(mktemp "${TMPDIR:-/tmp}/turnstile-cases.XXXXXX")
trap 'rm -f "$log"' EXIT

if [[ ${1:-} == unraced ]]; then
	shift
	all=
	mapfile -t files < <(git grep --untracked -l 'expect\.Unraced(' -- '*_test.go' | grep -v '^test/explore/')
	names=$(awk '/^func (Test|Fuzz)/ { name = $2; sub(/\(.*/, "", name) } /expect\.Unraced\(/ && name { print name; name = "" }' "${files[@]}" |
		sort -u | paste -sd '|')
else
	all=true
	mapfile -t files < <(git grep --untracked -lE 'expect\.(Proof|Sampled|Unraced)\(|acl\.Suite\(' -- '*_test.go' |
		grep -v -e '^test/expect/' -e '^test/deploy/' -e '^test/explore/') # make explore runs its own
	names=$(grep -hoE '^func (Test|Fuzz)[A-Za-z0-9_]+' "${files[@]}" | sed 's/^func //' | grep -vx TestMain | sort -u | paste -sd '|')
fi
mapfile -t packages < <(dirname "${files[@]}" | sort -u | sed 's,^,./,')
status=0
# Most of the time these tests wait for a lease to end: more of them than there are cores.
TURNSTILE_PROOF=$all go test -v -vet=off -parallel 6 -timeout 20m -run "^($names)$" "$@" "${packages[@]}" >"$log" 2>&1 || status=$?
if [[ $status -ne 0 ]]; then
	grep -vE '^(=== | *--- (PASS|SKIP))' "$log" || true
fi
awk '
	/^ *--- PASS/ { n++ }
	/^(ok|FAIL)[ \t]/ { printf "%-5s %6d passed  %s %s\n", $1, n, $2, $3; all += n; n = 0 }
	END { printf "cases: %d passed\n", all }
' "$log"
exit "$status"
