# shellcheck shell=bash
# Agents hang: one is stopped, one that does not obey is killed, one turn is cancelled, one takes too long.

: "${dir:=}" "${bin:=}" "${worker_pid:=}" "${said_by_users:=}" "${out:=}" "${err:=}" "${waiter_pid:=}" "${code:=}" "${gateway:=}"

# write_deaf: an agent that ignores signals for the message "gate deaf".
write_deaf() {
	cat >"$dir/deaf.sh" <<'AGENT'
text=$(tail -n 1)
[ "$text" != "gate deaf" ] || trap '' INT TERM HUP
printf %s "$text" | bash "$1/agent.sh" "$1"
AGENT
}

check_stuck() {
	local port waiting deaf
	write_deaf
	port=$(free_port)
	start_worker a TURNSTILE_AGENT_COMMAND="bash $dir/deaf.sh $dir" TURNSTILE_CONCURRENCY=2 TURNSTILE_INTERRUPT_GRACE=1s \
		TURNSTILE_HTTP_ADDR="127.0.0.1:$port"
	start_gateway gateway
	enqueued -s hung --id g1 "gate one"
	enqueued -s hung --id m1 behind
	enqueued -s deaf --id d1 "gate deaf"
	enqueued -s deaf --id d2 behind
	eventually "the deaf agent" turn_started d1
	eventually "the hung agent" turn_started g1
	waiter waiting -s other --id w1 --wait hello
	waiting=$waiter_pid
	shown "$port" turnstile_turns_running == 2
	shown "$port" turnstile_turn_slots == 2
	shown "$port" turnstile_ready_oldest_age_seconds '>' 0
	"$bin/worker" ps >"$dir/ps"
	seen "worker ps" "waits for a slot" "$(grep ^other "$dir/ps")"
	holds "worker ps" running "$(grep ^hung "$dir/ps")"

	deaf=$(agent_pid d1)
	enqueued -s deaf /stop
	seen "/stop" "Stopping the running turn. 1 waiting message is now a dead letter; /resume reruns it." "$out"
	ends "$waiting"
	gone "$deaf" || die "the deaf agent is alive, and its slot was given away"
	"$bin/worker" dead list deaf >"$dir/dead"
	seen "worker dead" "stopped by user" "$(<"$dir/dead")"
	"$bin/worker" dead rerun deaf d2 >"$dir/rerun"
	eventually "what waited behind it" shows deaf "$said_by_users" "gate deaf,behind"

	same "cancel" 202 "$(curl -sS -o "$dir/cancel" -w '%{http_code}' -X DELETE "$gateway/v1/sessions/hung/messages/g1?running=true")"
	enqueued -s hung --id m1 --wait behind
	same "the users' part" "gate one,behind" "$(show hung "$said_by_users")"
	stop_worker "$worker_pid"

	start_worker b TURNSTILE_AGENT_TIMEOUT=1s
	enqueue -s timed --id t1 --wait "gate two"
	same "exit code" 5 "$code"
	seen "enqueue" "the agent took too long" "$err"
	enqueued -s timed --wait next
	figure "the deaf agent was killed; what waited ran: once each of d2 ($(turns end d2)), m1 ($(turns end m1)), w1 ($(turns end w1))"
}
