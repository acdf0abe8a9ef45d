#!/usr/bin/env bash
# Runs every command of the sh blocks of README and of the pages below, as a reader
# would, in the folder it is started in (a clone). What starts a worker runs in the
# background until the next one or the page's end; `make test` is .ci/run's own step;
# what needs containers is parsed only: its services and its programs must exist.
set -euo pipefail

pages=(README.md docs/commands.md docs/deploy.md)

passed=0 failed=0
worker=
log=$(mktemp)

ok() { passed=$((passed + 1)); echo "ok    $1"; }
bad() {
	failed=$((failed + 1))
	echo "FAIL  $1: $2" >&2
}

stop_worker() {
	[ -n "$worker" ] || return 0
	kill -INT -- "-$worker" 2>/dev/null || true
	wait "$worker" 2>/dev/null || true
	worker=
}
trap 'stop_worker; rm -f "$log"' EXIT

# start_worker COMMAND: in a process group of its own, until its dashboard answers.
start_worker() {
	stop_worker
	unset REDIS_URL
	: >"$log"
	set -m
	bash -c "exec env $1" </dev/null >"$log" 2>&1 &
	worker=$!
	set +m
	for _ in $(seq 600); do
		kill -0 "$worker" 2>/dev/null || { bad "$1" "it ended: $(tail -n 3 "$log")"; worker=; return; }
		REDIS_URL=$(grep -o 'redis://[0-9.:]*/[0-9]*' "$log" | head -n 1 || true)
		address=$(grep -o 'http://[^ ]*/asynqmon' "$log" | head -n 1 || true)
		if [ -n "$address" ] && curl -fsS -o /dev/null "${address%/asynqmon}/readyz" 2>/dev/null; then
			[ -z "$REDIS_URL" ] || export REDIS_URL
			ok "$1"
			return
		fi
		sleep 0.2
	done
	bad "$1" "it did not become ready: $(tail -n 3 "$log")"
}

# fails COMMAND: one that is meant to, and then says what stands behind its || echo.
fails() {
	local output
	output=$(bash -c "$1" </dev/null 2>&1) || true
	if [ "${output##*$'\n'}" = "${1##* || echo }" ]; then ok "$1"; else bad "$1" "$output"; fi
}

# parse_containers COMMAND: docker compose's subcommand and services.
parse_containers() {
	local words word
	read -ra words <<<"$1"
	case "${words[2]}" in
	build | up | exec | logs | down) ;;
	*) bad "$1" "unknown subcommand ${words[2]}"; return ;;
	esac
	for word in "${words[@]:3}"; do
		case "$word" in
		--scale | --build | --detach | --follow) ;;
		-*) bad "$1" "unknown flag $word"; return ;;
		*)
			grep -q "^  ${word%%=*}:" docker-compose.yml || { bad "$1" "no service ${word%%=*} in docker-compose.yml"; return; }
			# What follows the service of exec is the program to run in it.
			[ "${words[2]}" = exec ] && { [ -d "cmd/${words[4]}" ] || { bad "$1" "no program ${words[4]}"; return; }; break; }
			;;
		esac
	done
	ok "$1 (parsed)"
}

run_line() {
	local output
	case "$1" in
	"" | "#"*) ;;
	"make test") if grep -q '^make test$' .ci/run; then ok "$1 (run by .ci/run)"; else bad "$1" ".ci/run does not run it"; fi ;;
	*"./cmd/worker --dev") start_worker "$1" ;;
	"docker compose "*) parse_containers "$1" ;;
	deploy/roll.sh) if [ -x deploy/roll.sh ]; then ok "$1 (is there)"; else bad "$1" "it is not there"; fi ;;
	*" || echo "*) fails "$1" ;;
	*) if output=$(bash -c "$1" </dev/null 2>&1); then ok "$1"; else bad "$1" "$output"; fi ;;
	esac
}

for page in "${pages[@]}"; do
	before=$((passed + failed))
	while IFS= read -r line; do
		run_line "$line"
	done < <(awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$page")
	stop_worker
	[ "$((passed + failed))" -gt "$before" ] || bad "$page" "it has no commands"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
