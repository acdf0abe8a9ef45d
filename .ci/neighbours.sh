#!/usr/bin/env bash
# Runs the workers and senders of earlier versions (.ci/previous) beside those of
# this one, as during a deploy. It needs redis-server and a clone that has those
# commits.
#
#   .ci/neighbours.sh [ARGS OF THE TEST BINARY...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-neighbours.XXXXXX")
# shellcheck disable=SC2329 # called by the trap
end_all() {
	git worktree remove --force "$root/tree" 2>/dev/null || true
	rm -rf "$root"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# This version is built once for all.
mkdir "$root/today"
go build -trimpath -o "$root/today/" ./cmd/...
go test -c -o "$root/neighbours.test" ./test/neighbours

# beside COMMIT TESTS ARGS...: the tests whose names match, with that version.
beside() {
	local commit=$1 tests=$2
	shift 2
	if ! git cat-file -e "$commit^{commit}"; then
		cat >&2 <<-END
			neighbours.sh: the version $commit is not in this clone.
			If the clone is shallow, fetch the commit:  git fetch --depth 1 origin $commit
			or all of the history:                      git fetch --unshallow
			In a CI service, ask for the whole history (fetch-depth: 0, GIT_DEPTH: 0).
			Without git history (an archive, a container) this check cannot run.
		END
		return 1
	fi
	git worktree add --quiet --detach "$root/tree" "$commit"
	rm -rf "${root:?}/bin"
	mkdir "$root/bin"
	(cd "$root/tree" && go build -trimpath -o "$root/bin/" ./cmd/worker ./cmd/enqueue)
	git worktree remove --force "$root/tree"
	echo "beside ${commit:0:7}: $tests"
	# Most of the time these tests wait for others: more of them than there are cores.
	(cd test/neighbours && CI=true TURNSTILE_NEIGHBOUR=$root/bin TURNSTILE_TODAY=$root/today \
		"$root/neighbours.test" -test.parallel 16 -test.timeout 5m -test.run "$tests" "$@")
}

versions=0
while read -r commit tests; do
	[[ $commit =~ ^[0-9a-f]{40}$ ]] || continue
	beside "$commit" "${tests:-.}" "$@" </dev/null
	versions=$((versions + 1))
done <.ci/previous
if [ "$versions" = 0 ]; then
	echo "neighbours.sh: .ci/previous has no line that begins with a commit's hash of 40 digits" >&2
	exit 2
fi
