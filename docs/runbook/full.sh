# shellcheck shell=bash
# Redis is full: nothing is claimed or accepted, running turns end, and freed memory is enough.

: "${gateway:=}" "${dir:=}" "${code:=}" "${err:=}" "${waiter_pid:=}" "${bin:=}" "${status:=}" "${body:=}" "${worker_pid:=}"

check_full() {
	local port big used running waiting n refused
	own_redis redis
	port=$(free_port)
	start_worker a TURNSTILE_HTTP_ADDR="127.0.0.1:$port" TURNSTILE_CONCURRENCY=1
	start_gateway gateway
	big="broken $(head -c 1000000 /dev/zero | tr '\0' x)"
	for n in 1 2 3 4 5 6 7 8; do
		"$bin/enqueue" -s old --id "b$n" --wait - <<<"$big" >"$dir/out" 2>&1 && die "the broken agent succeeded"
	done
	enqueued -s unused --wait hello
	waiter running -s running --id g1 --wait "gate one"
	running=$waiter_pid
	eventually "the running turn" turn_started g1
	waiter waiting -s waiting --id w1 --wait two
	waiting=$waiter_pid
	eventually "the waiting message" shows waiting .pending 1

	used=$(cli info memory | tr -d '\r' | awk -F: '$1 == "used_memory" { print $2 }')
	cli config set maxmemory $((used - 4000000)) >/dev/null # more than the buffers of connections that shrink again

	enqueue -s new --id n1 three
	same "exit code of enqueue" 1 "$code"
	seen "enqueue" "Redis is out of memory (maxmemory) and stores nothing more: raise maxmemory or free some" "$err"
	seen "enqueue" "nothing was stored" "$err"
	post /v1/sessions/new/messages '{"text": "three"}' -H 'Idempotency-Key: n1'
	same "the gateway's status" 503 "$status"
	seen "the gateway's code" redis_refused "$body"
	logged a 'level=WARN msg="a periodic job failed, trying again"'
	shown "$port" 'turnstile_redis_failures_total{duty="sweep"}' '>' 0
	same "/readyz" 503 "$(http_status "$port" /readyz)"
	seen "/readyz" "redis refuses writes" "$(curl -sS "http://127.0.0.1:$port/readyz")"
	same "the gateway's /readyz" 200 "$(http_status "${gateway##*:}" /readyz)"
	# Redis responds: this does not show that it is full.
	metric_is "$port" turnstile_redis_up == 1 || die "turnstile_redis_up is not 1"

	open_gate
	ends "$running"
	same "the running turn's reply" "reply to gate one" "$(<"$dir/running.out")"
	shown "$port" 'turnstile_redis_failures_total{duty="claim"}' '>' 0
	eventually "the end of the heartbeats" unknown_workers
	seen "worker ps" "heartbeats cannot be written" "$(<"$dir/ps")"
	same "turns of the waiting message" 0 "$(turns start w1)"
	refused=$(cli info errorstats | tr -d '\r' | sed -n 's/^errorstat_OOM:count=//p')

	"$bin/worker" forget unused >"$dir/forget"
	"$bin/worker" dead drop old b1 >"$dir/drop"
	"$bin/worker" dead drop --all >"$dir/drop"
	seen "dead drop in a full Redis" "old: 7 dead letters deleted." "$(<"$dir/drop")"
	ends "$waiting"
	same "the waiting message's reply" "reply to two" "$(<"$dir/waiting.out")"
	enqueued -s new --id n1 --wait three
	for n in g1 w1 n1; do
		same "turns of $n" 1 "$(turns start "$n")"
	done
	figure "lost: 0. Ran twice: 0. Redis refused $refused commands meanwhile"
}
unknown_workers() {
	"$bin/worker" ps 2>"$dir/ps" && grep -q 'heartbeats cannot be written' "$dir/ps"
}
