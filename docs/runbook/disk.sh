# shellcheck shell=bash
# The disk of Redis is full: nothing is stored, running turns are lost, and all goes on by itself.

: "${gateway:=}" "${dir:=}" "${code:=}" "${err:=}" "${bin:=}" "${status:=}" "${body:=}" "${redis_pid:=}" "${waiter_pid:=}"

check_disk() {
	local port running size waited
	trap '' XFSZ # redis-server shall get an error, as from a full disk, and no signal
	own_redis redis --appendonly yes
	port=$(free_port)
	start_worker a TURNSTILE_HTTP_ADDR="127.0.0.1:$port"
	start_gateway gateway
	waiter running -s running --id g1 --wait "gate one"
	running=$waiter_pid
	eventually "the running turn" turn_started g1

	size=$(stat -c %s "$dir"/redis/appendonlydir/*.incr.aof)
	prlimit --pid "$redis_pid" --fsize="$size:"
	eventually "Redis to refuse a write" refuses_writes

	enqueue -s new --id n1 two
	same "exit code of enqueue" 1 "$code"
	seen "enqueue" "Redis cannot save its data to disk and takes no writes: see its log for why (disk full?)" "$err"
	post /v1/sessions/new/messages '{"text": "two"}' -H 'Idempotency-Key: n1'
	same "the gateway's status" 503 "$status"
	seen "the gateway's code" redis_unavailable "$body"
	same "/readyz of the worker" 503 "$(http_status "$port" /readyz)"
	seen "/readyz" "redis refuses writes" "$(curl -sS "http://127.0.0.1:$port/readyz")"
	same "/readyz of the gateway" 200 "$(http_status "${gateway##*:}" /readyz)"
	"$bin/worker" ls >"$dir/ls"
	holds "ls" running "$(<"$dir/ls")"
	eventually "the end of the lease" grep -qF 'lost' "$dir/a.log"

	prlimit --pid "$redis_pid" --fsize=unlimited:
	waited=$SECONDS
	open_gate
	enqueued -s new --id n1 --wait two
	ends "$running"
	same "the running turn's reply" "reply to gate one" "$(<"$dir/running.out")"
	same "turns of the new message" 1 "$(turns start n1)"
	same "turns of the running message" 2 "$(turns start g1)"
	rising "the running message" g1
	figure "lost: 0. Ran twice: the running turn. All had ended after $((SECONDS - waited)) s"
}
refuses_writes() { cli set probe x | grep -q MISCONF; }
