# shellcheck shell=bash
# The primary dies, and redis-sentinel promotes a replica that lacks its last writes.

: "${dir:=}" "${code:=}" "${err:=}" "${waiter_pid:=}" "${bin:=}" "${redis_pid:=}" "${redis_port:=}"

# start_sentinel: redis-sentinel for the primary at redis_port. Sets sentinel_port.
start_sentinel() {
	sentinel_port=$(free_port)
	printf '%s\n' "port $sentinel_port" "bind 127.0.0.1" "dir $dir" "logfile $dir/sentinel.log" \
		"sentinel monitor main 127.0.0.1 $redis_port 1" "sentinel down-after-milliseconds main 1000" \
		"sentinel failover-timeout main 5000" >"$dir/sentinel.conf"
	redis-server "$dir/sentinel.conf" --sentinel </dev/null &
	started_pids+=("$!")
	eventually "a sentinel that knows the replica" knows_replica
}
knows_replica() { redis-cli -p "$sentinel_port" sentinel replicas main | grep -A1 '^master-link-status$' | grep -q '^ok$'; }

# promoted PORT: the sentinel reports this primary.
promoted() { [[ $(redis-cli -p "$sentinel_port" sentinel get-master-addr-by-name main | tail -n 1) == "$1" ]]; }

check_failover() {
	local primary primary_pid replica running killed
	own_redis primary --repl-diskless-sync-delay 0
	primary=$redis_port primary_pid=$redis_pid
	own_redis replica --replicaof 127.0.0.1 "$primary"
	replica=$redis_port
	redis_port=$primary
	eventually "a replica in step" replica_says "$replica" master_link_status:up
	start_sentinel
	export REDIS_URL="redis-sentinel://127.0.0.1:$sentinel_port/0?master=main"

	start_worker a TURNSTILE_SENTINEL_TTL=60s TURNSTILE_CONCURRENCY=1
	waiter running -s running --id g1 --wait "gate one"
	running=$waiter_pid
	eventually "the running turn" turn_started g1
	enqueued -s waiting --id m1 one
	eventually "all writes at the replica" in_step "$primary" "$replica"

	# From here on the replica gets nothing, as when the network between the two breaks first.
	redis-cli -p "$primary" acl setuser default -psync -sync >/dev/null
	redis-cli -p "$primary" client kill type replica >/dev/null
	eventually "the broken link" replica_says "$replica" master_link_status:down
	start_worker b
	enqueued -s waiting --id m1 --wait one
	enqueued -s late --id m2 --wait two
	# With min-replicas-to-write the primary refuses what only it would have.
	redis-cli -p "$primary" config set min-replicas-to-write 1 >/dev/null
	eventually "a refusal without a replica" refused_alone
	seen "the refusal" "NOREPLICAS" "$err"
	seen "the refusal" "nothing was stored" "$err"

	killed=$(date +%s%3N)
	kill -9 "$primary_pid"
	eventually "the promoted replica" promoted "$replica"
	figure "promoted after $(($(date +%s%3N) - killed)) ms, with down-after-milliseconds 1000"
	redis_port=$replica
	logged b 'level=WARN msg="claiming sessions failed, trying again"'
	again failover m1
	open_gate
	ends "$running"
	same "the running turn's reply" "reply to gate one" "$(<"$dir/running.out")"
	same "turns of the running message" 1 "$(turns start g1)"
	figure "failover: the running turn went on, with the fencing token $(fences g1)"
	! "$bin/worker" show late >"$dir/show" 2>&1 || die "m2 is not missing: $(<"$dir/show")"
	figure "failover: m2 is missing, although its sender had the reply"
	enqueued -s late --id m2 --wait two
	again "failover, sent again" m2
}
refused_alone() {
	enqueue -s refused --id "r$RANDOM" hello
	[[ $code -eq 1 ]]
}
