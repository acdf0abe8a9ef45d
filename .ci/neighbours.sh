#!/usr/bin/env bash
# Runs the worker and the sender of the version before (the commit in .ci/previous) beside those of this
# one, as during a deploy. It needs redis-server and a clone that has that commit.
#
#   .ci/neighbours.sh [ARGS OF THE TEST BINARY...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=$(<.ci/previous)
if ! git cat-file -e "$commit^{commit}"; then
	cat >&2 <<-END
		neighbours.sh: the version $commit is not in this clone.
		If the clone is shallow, fetch the commit:  git fetch --depth 1 origin $commit
		or all of the history:                      git fetch --unshallow
		In a CI service, ask for the whole history (fetch-depth: 0, GIT_DEPTH: 0).
		Without git history (an archive, a container) this check cannot run.
	END
	exit 1
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-neighbours.XXXXXX")
# shellcheck disable=SC2329 # called by the trap
end_all() {
	git worktree remove --force "$root/tree" 2>/dev/null || true
	rm -rf "$root"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

mkdir "$root/today" "$root/before"
go build -trimpath -o "$root/today/" ./cmd/worker ./cmd/enqueue
go test -c -o "$root/neighbours.test" ./test/neighbours
git worktree add --quiet --detach "$root/tree" "$commit"
(cd "$root/tree" && go build -trimpath -o "$root/before/" ./cmd/worker ./cmd/enqueue)
git worktree remove --force "$root/tree"
echo "beside ${commit:0:7}"
# Most of the time these tests wait for others: more of them than there are cores.
(cd test/neighbours && CI=true TURNSTILE_NEIGHBOUR=$root/before TURNSTILE_TODAY=$root/today \
	"$root/neighbours.test" -test.parallel 16 -test.timeout 5m "$@")
