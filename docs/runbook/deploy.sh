# shellcheck shell=bash
# A deploy breaks the agent, and is rolled back. A mistake in a file stops no worker.

: "${dir:=}" "${bin:=}" "${worker_pid:=}" "${said_by_users:=}" "${out:=}" "${err:=}" "${waiter_pid:=}" "${code:=}"

check_deploy() {
	local port before after running n
	own_redis redis
	cat >"$dir/bad.sh" <<'AGENT'
echo "start $TURNSTILE_SESSION $TURNSTILE_MESSAGE_ID $$ $TURNSTILE_FENCE" >>"$1/turns"
echo "no module named agent" >&2
exit 1
AGENT
	start_worker a TURNSTILE_DRAIN_TIMEOUT=50s
	before=$worker_pid
	waiter running -s s1 --id g1 --wait "gate one"
	running=$waiter_pid
	eventually "the running turn" turn_started g1
	enqueued -s s1 --id m1 two

	# The deploy: the new worker starts, the old one drains.
	port=$(free_port)
	start_worker b TURNSTILE_AGENT_COMMAND="bash $dir/bad.sh $dir" TURNSTILE_HTTP_ADDR="127.0.0.1:$port"
	after=$worker_pid
	eventually "the new worker" http_says "$port" /readyz 200
	kill -TERM "$before"
	logged a "msg=draining"
	open_gate
	ends "$running"
	same "the reply" "reply to gate one" "$(<"$dir/running.out")"
	worker_ends "$before" 0
	for n in 2 3; do
		enqueue -s "s$n" --id "m$n" --wait "t$n"
		same "exit code" 5 "$code"
		seen "enqueue" "exit status 1: no module named agent" "$err"
	done
	shown "$port" 'turnstile_turns_ended_total{status="failed"}' == 3
	seen "the log" "status=failed" "$(<"$dir/b.log")"
	"$bin/worker" dead >"$dir/dead"
	same "dead letters" m1,m2,m3 "$(awk 'NR > 1 { print $2 }' "$dir/dead" | sort | paste -sd,)"

	# The rollback. What arrives meanwhile waits behind what runs again.
	stop_worker "$after"
	"$bin/worker" dead rerun --all >"$dir/rerun"
	seen "dead rerun" "3 dead letters of 3 sessions requeued." "$(<"$dir/rerun")"
	enqueued -s s1 --id m4 five
	start_worker a
	enqueued -s s1 --id m4 --wait five
	same "the users' part" "gate one,two,two,five" "$(show s1 "$said_by_users")"
	for n in m2 m3; do
		eventually "the reply of $n" turn_ended "$n"
	done
	same "dead letters" "No dead letters." "$("$bin/worker" dead)"
	for n in m1 m2 m3; do
		rising "$n" "$n"
	done
	figure "deploy: 3 dead letters ran again, in the order of their session; the drained turn ran $(turns start g1) time"
	stop_worker "$worker_pid"

	# A mistake in a file, at SIGHUP.
	printf '{"named": {"sessions": ["named:*"], "agent": "echo"}}' >"$dir/agents.json"
	port=$(free_port)
	start_worker c TURNSTILE_AGENTS_FILE="$dir/agents.json" TURNSTILE_HTTP_ADDR="127.0.0.1:$port"
	eventually "the worker with a file" http_says "$port" /readyz 200
	echo '{"named": ' >"$dir/agents.json"
	kill -HUP "$worker_pid"
	logged c 'level=ERROR msg="SIGHUP is ignored: a restarted worker would not start"'
	enqueued -s named:1 --wait hello
	same "the reply" "echo: hello" "$out"
	! TURNSTILE_AGENT=echo TURNSTILE_AGENTS_FILE="$dir/agents.json" "$bin/worker" agents check >"$dir/check" 2>&1 ||
		die "worker agents check finds no mistake"
	stop_worker "$worker_pid"
}
turn_ended() { [[ $(turns end "$1") -gt 0 ]]; }
