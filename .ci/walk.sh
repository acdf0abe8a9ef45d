#!/usr/bin/env bash
# Sends one message with the built enqueue to the built worker, both with coverage, and prints
# how many functions the message passes. Fails where docs/internals/architecture.md's walk names another
# function, or other numbers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d "${TMPDIR:-/tmp}/turnstile-walk.XXXXXX")
worker='' server=''
trap end EXIT
end() {
	local process
	for process in $worker $server; do kill "$process" || true; done
	wait
	rm -rf "$work"
}

cover=(-cover -covermode=atomic -coverpkg=turnstile/...)
go build "${cover[@]}" -tags walk -o "$work/worker" ./cmd/worker
go build "${cover[@]}" -o "$work/enqueue" ./cmd/enqueue

# until_true COMMAND...: waits for it, at most 20 s.
until_true() {
	for ((i = 0; i < 200; i++)); do
		if "$@"; then return; fi
		sleep 0.1
	done
	echo "walk: gave up waiting for: $*" >&2
	cat "$work/log" >&2
	exit 1
}

redis-server --port 0 --unixsocket "$work/redis" --save '' --dir "$work" >"$work/redis.log" &
server=$!
until_true test -S "$work/redis"
export REDIS_URL="redis-socket://$work/redis"
mkdir "$work/counters" "$work/enqueue.first" "$work/enqueue.idle" "$work/enqueue.message"
WALK_COUNTERS=$work/counters TURNSTILE_AGENT=echo TURNSTILE_SWEEP_INTERVAL=1h GOCOVERDIR=$work "$work/worker" >"$work/log" 2>&1 &
worker=$!

# send FOLDER: sends a message, and waits until the worker has reported its turn's end.
turns=0
send() {
	GOCOVERDIR=$1 "$work/enqueue" -s demo --wait --timeout 20s "sleep=200ms hello" >/dev/null
	turns=$((turns + 1))
	until_true turns_ended "$turns"
}
turns_ended() { [[ $(grep -c 'turn ended' "$work/log") -ge $1 ]]; }

# write_counters FOLDER: the worker's counters since the last call.
write_counters() {
	kill -USR1 "$worker"
	until_true test -d "$work/counters/$1"
}

# What the programs do without a message too, such as their start and heartbeats, is not counted.
send "$work/enqueue.first"
GOCOVERDIR=$work/enqueue.idle "$work/enqueue" --version >/dev/null
write_counters 1
sleep 6 # the worker has no message for a while
write_counters 2
send "$work/enqueue.message"
write_counters 3

go run ./test/walk/measure "$work/counters/2,$work/enqueue.idle" "$work/counters/3,$work/enqueue.message" docs/internals/architecture.md
