#!/usr/bin/env bash
# Runs the worker and the sender of the version before (.ci/previous) beside those
# of this one, as during a deploy. It needs redis-server and a clone that has that
# commit.
#
#   .ci/neighbours.sh [ARGS OF go test...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

previous=$(grep -m 1 -E '^[0-9a-f]{40}$' .ci/previous) ||
	{ echo "neighbours.sh: .ci/previous has no line that is a commit's hash of 40 digits" >&2; exit 2; }
if ! git cat-file -e "$previous^{commit}"; then
	cat >&2 <<-END
		neighbours.sh: the version before, $previous, is not in this clone.
		If the clone is shallow, fetch the commit:  git fetch --depth 1 origin $previous
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

git worktree add --quiet --detach "$root/tree" "$previous"
mkdir "$root/bin"
(cd "$root/tree" && go build -trimpath -o "$root/bin/" ./cmd/worker ./cmd/enqueue)

# Most of the time these tests wait for others: more of them than there are cores.
CI=true TURNSTILE_NEIGHBOUR=$root/bin go test -count=1 -parallel 16 -timeout 5m "$@" ./internal/neighbours
