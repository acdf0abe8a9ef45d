# shellcheck shell=bash
# All moves to another Redis while messages arrive: none is lost, none runs twice.

: "${dir:=}" "${bin:=}" "${worker_pid:=}" "${gateway_pid:=}" "${redis_port:=}" "${patience:=}"
: "${said_by_users:=}" "${status:=}" "${body:=}"

# send: messages 1, 2, 3... to the Redis of $dir/url, each repeated with its id until it is accepted.
send() {
	local n=0
	while [[ ! -e $dir/enough ]]; do
		n=$((n + 1))
		until REDIS_URL=$(<"$dir/url") timeout "$patience" "$bin/enqueue" -s moving --id "n$n" "t$n" >"$dir/send.out" 2>>"$dir/refused"; do
			sleep 0.05
		done
		echo "$n" >"$dir/sent.new"
		mv "$dir/sent.new" "$dir/sent"
	done
}
sent() { [[ -e $dir/sent && $(<"$dir/sent") -ge $1 ]]; }

check_moving() {
	local old new sender n last
	own_redis old --repl-diskless-sync-delay 0
	old=$redis_port
	echo "$REDIS_URL" >"$dir/url"
	start_worker a
	start_gateway gateway
	enqueued -s later --in 1h --id d1 "a reminder"
	enqueue -s dead --id b1 --wait "broken agent"
	enqueued -s running --id g1 "gate one"
	eventually "the running turn" turn_started g1
	send &
	sender=$!
	started_pids+=("$sender")
	eventually "some messages" sent 5

	own_redis new --appendonly yes --replicaof 127.0.0.1 "$old"
	new=$redis_port
	eventually "a replica in step" replica_says "$new" master_link_status:up
	open_gate
	stop_worker "$worker_pid"
	last=$(<"$dir/sent")
	eventually "messages that wait" sent $((last + 3))
	same "the old Redis, asked to hand over" OK "$(redis-cli -p "$old" failover to 127.0.0.1 "$new" timeout 30000)"
	eventually "the new primary" replica_says "$new" role:master
	eventually "a refusal by the old one" grep -q . "$dir/refused"
	seen "the refusal" "Redis is a read-only replica: point REDIS_URL at the master" "$(<"$dir/refused")"
	seen "the refusal" "nothing was stored" "$(<"$dir/refused")"
	post /v1/sessions/moving/messages '{"text": "late"}' -H 'Idempotency-Key: late'
	same "status of a gateway at the old Redis" 503 "$status"
	seen "the gateway's code" redis_unavailable "$body"
	kill -TERM "$gateway_pid"
	ends "$gateway_pid"

	echo "redis://127.0.0.1:$new/0" >"$dir/url"
	start_worker b
	start_gateway gateway
	last=$(<"$dir/sent")
	eventually "messages over the new Redis" sent $((last + 3))
	: >"$dir/enough"
	ends "$sender"
	last=$(<"$dir/sent")
	post /v1/sessions/moving/messages '{"text": "late"}' -H 'Idempotency-Key: late' -H 'Prefer: wait=30'
	same "its status at the new one" 200 "$status"
	for ((n = 1; n <= last; n++)); do
		same "turns of n$n" 1 "$(turns start "n$n")"
	done
	same "the users' part" "$(seq -s, -f t%g "$last"),late" "$(show moving "$said_by_users")"
	same "turns of the one that ran" 1 "$(turns start g1)"
	same "delayed messages" 1 "$(show later .scheduled)"
	same "dead letters" 1 "$(show dead .archived)"
	figure "moved beside $last messages: missing 0, ran twice 0, refused at the old Redis and repeated $(grep -c . "$dir/refused")"
}
