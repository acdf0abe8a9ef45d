#!/usr/bin/env bash
# Checks the built binaries from outside, as their users meet them.
#
#   .ci/outside.sh BIN_DIR [CHECK...]
#
# BIN_DIR holds worker and enqueue. It needs redis-server, redis-cli, jq and ps.
# Every check has a database of its own on a redis-server that this script
# starts and ends. The last line counts: 'N passed, M failed'.
# OUTSIDE_CHECKS names a directory with other checks, such as docs/runbook.
set -euo pipefail

if [[ $# -lt 1 || ! -x $1/worker || ! -x $1/enqueue ]]; then
	echo "usage: .ci/outside.sh BIN_DIR [CHECK...]   (BIN_DIR holds worker and enqueue)" >&2
	exit 2
fi
bin=$(cd "$1" && pwd)
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for tool in redis-server redis-cli jq timeout ps; do
	command -v "$tool" >/dev/null || { echo "outside.sh: $tool is not on PATH" >&2; exit 2; }
done

# Settings of the surroundings must not decide what is checked here.
for name in "${!TURNSTILE_@}"; do unset "$name"; done
unset REDIS_URL

root=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-outside.XXXXXX")
redis_pid=
# shellcheck disable=SC2329 # called by the trap
end_all() {
	if [[ -n $redis_pid ]]; then
		kill -9 "$redis_pid" 2>/dev/null || true
		wait "$redis_pid" 2>/dev/null || true
	fi
	# Agents that wait at their gate end when it is gone.
	rm -rf "$root"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# shellcheck source=.ci/outside_lib.sh
. "$here/outside_lib.sh"
if [[ -n ${OUTSIDE_CHECKS:-} ]]; then
	for file in "$OUTSIDE_CHECKS"/*.sh; do
		# shellcheck disable=SC1090 # each is checked by itself
		. "$file"
	done
else
	# shellcheck source=.ci/outside_checks.sh
	. "$here/outside_checks.sh"
fi

start_redis "$root"
passed=0
failed=0
if [[ $# -eq 0 ]]; then
	mapfile -t chosen < <(declare -F | awk '$3 ~ /^check_/ { print substr($3, 7) }')
else
	chosen=("$@")
fi
database=0
for name in "${chosen[@]}"; do
	if ! declare -F "check_$name" >/dev/null; then
		echo "outside.sh: there is no check $name" >&2
		failed=$((failed + 1))
		continue
	fi
	database=$((database + 1))
	dir=$root/$name
	mkdir "$dir"
	began=$SECONDS
	set +e
	(
		set -euo pipefail
		trap end_check EXIT
		trap 'echo "${FUNCNAME[0]}, line $LINENO: $BASH_COMMAND: exit code $?" >&2' ERR
		set -E
		REDIS_URL=redis://127.0.0.1:$redis_port/$database
		export REDIS_URL
		"check_$name"
	) >"$dir/said" 2>&1 </dev/null
	code=$?
	set -e
	if [[ $code -eq 0 ]]; then
		passed=$((passed + 1))
		echo "ok    $name ($((SECONDS - began)) s)"
		[[ ! -e $dir/figures ]] || sed 's/^/      /' "$dir/figures"
	else
		failed=$((failed + 1))
		echo "FAIL  $name ($((SECONDS - began)) s)"
		sed 's/^/      /' "$dir/said"
		for log in "$dir"/*.log; do
			[[ -s $log ]] || continue
			echo "      --- the last lines of ${log##*/}"
			tail -n 25 "$log" | sed 's/^/      /'
		done
	fi
done

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
