# shellcheck shell=bash
# The checks of outside.sh, one function each. They run in the order of their
# names, each in a subshell with a database of its own.

: "${dir:=}" "${code:=}" "${out:=}" "${err:=}" "${waiter_pid:=}" "${worker_pid:=}" "${database:=}"
: "${said_by_users:=}" "${said_by_agents:=}" "${redis_port:=}" "${bin:=}" "${patience:=}"

check_main_job() {
	start_worker a
	enqueued -s chat:1 --id m1 --wait hello there
	same "the reply" "reply to hello there" "$out"
	enqueued -s chat:1 --id m2 --wait --json again
	local last
	last=$(tail -n 1 "$dir/out")
	same "status" "done" "$(jq -r .status <<<"$last")"
	same "reply" "reply to again" "$(jq -r .reply <<<"$last")"
	same "id" m2 "$(jq -r .id <<<"$last")"
	same "the users' part of the transcript" "hello there,again" "$(show chat:1 "$said_by_users")"
	same "the agent's part" "reply to hello there,reply to again" "$(show chat:1 "$said_by_agents")"
	eventually "an idle session" shows chat:1 .phase idle
	printf 'from stdin' | timeout "$patience" "$bin/enqueue" -s chat:1 --wait - >"$dir/out"
	same "the reply to stdin" "reply to from stdin" "$(<"$dir/out")"
	enqueued -s chat:1 --follow streamed
	holds "the followed reply" "reply to streamed" "$out"
	kill -TERM "$worker_pid"
	worker_ends "$worker_pid" 0
}

check_dev_mode() {
	local port
	port=$(free_port)
	TURNSTILE_HTTP_ADDR=127.0.0.1:$port "$bin/worker" --dev >"$dir/dev.log" 2>&1 </dev/null &
	started_pids+=("$!")
	local pid=$!
	enqueued -s dev:1 --wait hello
	holds "the echo" hello "$out"
	eventually "/readyz" http_says "$port" /readyz 200
	same "/healthz" 200 "$(http_status "$port" /healthz)"
	case $(http_status "$port" /asynqmon) in
	200 | 30[1278]) ;;
	*) die "asynqmon's page: $(http_status "$port" /asynqmon)" ;;
	esac
	holds "what --dev prints" enqueue "$(<"$dir/dev.log")"
	kill -TERM "$pid"
	worker_ends "$pid" 0
}

# Without REDIS_URL, and with no redis-server on PATH, --dev brings its own.
check_dev_mode_needs_nothing() {
	local url addr
	env -u REDIS_URL PATH="$dir" "$bin/worker" --dev >"$dir/dev.log" 2>&1 </dev/null &
	local pid=$!
	started_pids+=("$pid")
	eventually "the line to try" grep -q 'enqueue.* -s demo --wait hello' "$dir/dev.log"
	holds "what --dev says of its Redis" embedded "$(<"$dir/dev.log")"
	url=$(grep -o 'redis://127[^ ,]*' "$dir/dev.log" | head -n 1)
	addr=$(grep -o 'http://127[^ ]*/asynqmon' "$dir/dev.log" | head -n 1 | grep -o '[0-9]*/asynqmon')
	same "asynqmon's page" 200 "$(http_status "${addr%/asynqmon}" /asynqmon)"
	REDIS_URL=$url enqueue -s demo --wait hello
	same "the reply" "echo: hello" "$out"
	# The line that it prints is one that works.
	local line
	line=$(sed -n 's/.*a message *//p' "$dir/dev.log")
	same "the reply to the printed line" "echo: hello" "$(env -u REDIS_URL bash -c "$line")"
	kill -TERM "$pid"
	worker_ends "$pid" 0
}

check_worker_commands() {
	local port status=0
	port=$(free_port)
	TURNSTILE_HTTP_ADDR=127.0.0.1:$port "$bin/worker" dashboard >"$dir/dashboard.log" 2>&1 </dev/null &
	local pid=$!
	started_pids+=("$pid")
	eventually "the dashboard" http_says "$port" /asynqmon 401
	local token
	token=$(sed -n "s|.*http://turnstile:\(.*\)@127.0.0.1:$port/asynqmon\$|\1|p" "$dir/dashboard.log")
	same "the dashboard with the token that it shows" 200 "$(curl -s -o /dev/null -w '%{http_code}' -u "any:$token" "http://127.0.0.1:$port/asynqmon")"
	TURNSTILE_HTTP_ADDR=127.0.0.1:$port "$bin/worker" health
	kill -TERM "$pid"
	worker_ends "$pid" 0
	TURNSTILE_HTTP_ADDR=127.0.0.1:$port "$bin/worker" health 2>"$dir/err" || status=$?
	same "exit code of health with nobody there" 1 "$status"
	same "ps of nothing" "[]" "$("$bin/worker" ps --json)"
	status=0
	"$bin/worker" show nobody 2>"$dir/err" || status=$?
	same "exit code of show with an unknown session" 1 "$status"
	status=0
	"$bin/worker" show 'a b' 2>"$dir/err" || status=$?
	same "exit code of show with a bad key" 2 "$status"
}

check_two_sessions_do_not_wait_for_each_other() {
	start_worker a
	waiter slow -s slow --id g1 --wait "gate please"
	eventually "the slow turn" turn_started g1
	enqueued -s quick --wait hello
	same "the quick session's reply" "reply to hello" "$out"
	enqueued -s slow --id g2 --json behind
	same "the follow-up's status" queued "$(jq -r .status <<<"$out")"
	same "turns begun for the follow-up" 0 "$(turns start g2)"
	enqueue -s slow --id g3 --mode reject --json refused
	same "exit code of a refused message" 3 "$code"
	same "phase" running "$(show slow .phase)"
	"$bin/worker" ps --json >"$dir/ps"
	jq -e . <"$dir/ps" >/dev/null || die "ps --json is no JSON: $(<"$dir/ps")"
	holds "ps" slow "$(<"$dir/ps")"
	open_gate
	ends "$waiter_pid"
	same "the slow session's reply" "reply to gate please" "$(<"$dir/slow.out")"
	enqueued -s slow --id g2 --wait behind
	same "the follow-up's reply" "reply to behind" "$out"
	same "turns of the refused message" 0 "$(turns start g3)"
}

check_a_duplicate_is_one_turn() {
	start_worker a
	enqueued -s dup --id d1 --wait once
	enqueued -s dup --id d1 --json once
	same "status" duplicate "$(jq -r .status <<<"$out")"
	enqueued -s dup --id d1 --wait once
	same "the stored reply" "reply to once" "$out"
	same "turns" 1 "$(turns start d1)"
}

check_failed_turn() {
	start_worker a
	enqueue -s bad --id b1 --wait --json broken agent
	same "exit code" 5 "$code"
	same "status" failed "$(jq -r .status <<<"$(tail -n 1 "$dir/out")")"
	enqueued -s bad --wait fine
	same "the session goes on" "reply to fine" "$out"
}

check_wait_timeout_and_ctrl_c_cancel_nothing() {
	enqueue -s later --id w1 --wait --timeout 200ms hello
	same "exit code of a timeout" 4 "$code"
	# Not through timeout: it would take the signal's place.
	"$bin/enqueue" -s later --id w2 --wait again >"$dir/w2.out" 2>"$dir/w2.log" </dev/null &
	local pid=$!
	started_pids+=("$pid")
	eventually "the second message" second_is_pending
	kill -INT "$pid"
	ends "$pid"
	same "exit code of Ctrl-C" 130 "$code"
	start_worker a
	enqueued -s later --id w1 --wait hello
	same "the first reply" "reply to hello" "$out"
	enqueued -s later --id w2 --wait again
	same "the second reply" "reply to again" "$out"
	same "turns of the first" 1 "$(turns start w1)"
	same "turns of the second" 1 "$(turns start w2)"
}
second_is_pending() { [[ $(cli llen 'asynq:{session:later}:pending') == 2 ]]; }

# A turn that ends within DRAIN_TIMEOUT is finished; nothing is interrupted.
check_sigterm_lets_a_turn_finish() {
	local port
	port=$(free_port)
	start_worker a TURNSTILE_DRAIN_TIMEOUT=50s TURNSTILE_HTTP_ADDR="127.0.0.1:$port"
	local first=$worker_pid
	waiter one -s drain --id m1 --wait "gate one"
	local one=$waiter_pid
	eventually "the turn" turn_started m1
	enqueued -s drain --id m2 two
	same "/readyz of a working worker" 200 "$(http_status "$port" /readyz)"
	kill -TERM "$first"
	eventually "/readyz of a draining worker" http_says "$port" /readyz 503
	open_gate
	worker_ends "$first" 0
	ends "$one"
	same "the reply" "reply to gate one" "$(<"$dir/one.out")"
	same "turns of the drained message" 1 "$(turns start m1)"
	same "turns of the message behind it" 0 "$(turns start m2)"
	start_worker b
	enqueued -s drain --id m2 --wait two
	same "the reply of the next worker" "reply to two" "$out"
}

# A turn that does not end is interrupted, requeued and run by another worker.
check_sigterm_hands_a_turn_over() {
	start_worker a TURNSTILE_DRAIN_TIMEOUT=0s TURNSTILE_INTERRUPT_GRACE=1s
	local first=$worker_pid
	waiter one -s hand --id m1 --wait "gate one"
	local one=$waiter_pid
	eventually "the turn" turn_started m1
	local agent
	agent=$(agent_pid m1)
	enqueued -s hand --id m2 two
	kill -TERM "$first"
	worker_ends "$first" 0
	gone "$agent" || die "the agent outlived its worker's drain"
	start_worker b
	eventually "the next worker's turn" turn_started m1 2
	open_gate
	ends "$one"
	same "the reply" "reply to gate one" "$(<"$dir/one.out")"
	enqueued -s hand --id m2 --wait two
	same "order" "gate one,two" "$(show hand "$said_by_users")"
}

# kill -9 of one of two workers in mid-turn: the other takes the message, once,
# and the dead worker's agent is gone.
check_kill_9_of_one_of_two_workers() {
	start_worker a
	local victim=$worker_pid
	waiter one -s crash --id m1 --wait "gate one"
	local one=$waiter_pid
	eventually "the turn" turn_started m1
	local agent
	agent=$(agent_pid m1)
	start_worker b
	enqueued -s other --wait both are up
	enqueued -s crash --id m2 two
	enqueued -s crash --id m3 three
	kill -9 "$victim"
	eventually "the end of the dead worker's agent" gone "$agent"
	eventually "the second worker's turn" turn_started m1 2
	same "turns of the message behind it" 0 "$(turns start m2)"
	open_gate
	ends "$one"
	same "the reply" "reply to gate one" "$(<"$dir/one.out")"
	enqueued -s crash --id m3 --wait three
	same "the users' part" "gate one,two,three" "$(show crash "$said_by_users")"
	same "the agent's part" "reply to gate one,reply to two,reply to three" "$(show crash "$said_by_agents")"
	same "turns of the message" 2 "$(turns start m1)"
}

# A worker that was stopped past its lease and goes on writes nothing.
check_sigstop_past_the_lease() {
	start_worker a
	local stopped=$worker_pid
	waiter one -s stopped --id m1 --wait "gate one"
	local one=$waiter_pid
	eventually "the turn" turn_started m1
	local agent
	agent=$(agent_pid m1)
	kill -STOP "$stopped"
	start_worker b
	local other=$worker_pid
	eventually "the other worker's turn" turn_started m1 2
	eventually "the end of the stopped worker's agent" gone "$agent"
	open_gate
	ends "$one"
	same "the reply" "reply to gate one" "$(<"$dir/one.out")"
	kill -CONT "$stopped"
	kill -TERM "$other"
	worker_ends "$other" 0
	# The one that came back is of use again, and what it lost stays lost.
	enqueued -s stopped --id m2 --wait two
	same "the users' part" "gate one,two" "$(show stopped "$said_by_users")"
	same "the agent's part" "reply to gate one,reply to two" "$(show stopped "$said_by_agents")"
	kill -TERM "$stopped"
	worker_ends "$stopped" 0
}

# Many sessions, two workers, one of them killed: all answered once, in order.
check_kill_9_under_load() {
	local sessions=12 each=5 s m
	for ((m = 1; m <= each; m++)); do
		for ((s = 1; s <= sessions; s++)); do
			printf '{"session":"load:%d","id":"m%d","text":"t%d"}\n' "$s" "$m" "$m"
		done
	done >"$dir/messages.jsonl"
	enqueued --file "$dir/messages.jsonl"
	start_worker a
	local victim=$worker_pid
	start_worker b
	eventually "ten turns" some_turns 10
	kill -9 "$victim"
	for ((s = 1; s <= sessions; s++)); do
		enqueued -s "load:$s" --id "m$each" --wait "t$each"
		same "the users' part of load:$s" t1,t2,t3,t4,t5 "$(show "load:$s" "$said_by_users")"
		same "the agent's part of load:$s" "reply to t1,reply to t2,reply to t3,reply to t4,reply to t5" \
			"$(show "load:$s" "$said_by_agents")"
	done
}
some_turns() { [[ $(wc -l <"$dir/turns") -ge $1 ]]; }

check_busy_modes() {
	start_worker a
	waiter long -s modes --id g1 --wait "gate please"
	local long=$waiter_pid
	eventually "the long turn" turn_started g1
	enqueued -s modes --id c1 --mode collect --json one
	same "the collected message's status" queued "$(jq -r .status <<<"$out")"
	enqueued -s modes --id c2 --mode collect two
	same "the follow-ups' states" collected,collected "$(show modes '[.followups[].state] | join(",")')"
	enqueued -s modes --id i1 --mode interrupt --wait first
	same "the interrupting message's reply" "reply to first" "$out"
	ends "$long"
	same "exit code of the interrupted message" 5 "$code"
	holds "what its sender is told" "interrupted" "$(<"$dir/long.log")"
	enqueued -s modes --id c1 --mode collect --wait one
	enqueued -s modes --id c2 --mode collect --wait two
	same "turns of the first collected message" 1 "$(turns start c1)"
	same "turns of the second, which is part of that" 0 "$(turns start c2)"
	same "the users' part" "gate please,first,one,two" "$(show modes "$said_by_users")"
	same "what is marked as interrupted" "gate please" "$(show modes '[.transcript[] | select(.interrupted) | .text] | join(",")')"

	waiter long -s modes --id g2 --wait "gate again"
	long=$waiter_pid
	eventually "the second long turn" turn_started g2
	enqueued -s modes --id r1 --mode rollback --wait instead
	ends "$long"
	same "exit code of the message that was taken back" 5 "$code"
	same "archived" 1 "$(show modes .archived)"
	same "the users' part" "gate please,first,one,two,instead" "$(show modes "$said_by_users")"

	enqueued -s modes /queue cap:1 drop:old
	enqueued -s modes --id g3 gate
	eventually "the third long turn" turn_started g3
	waiter old -s modes --id d1 --wait --json oldest
	local old=$waiter_pid
	eventually "the message that waits" shows modes '.pending' 1
	enqueued -s modes --id d2 newest
	ends "$old"
	same "exit code of the dropped message" 5 "$code"
	same "its status" dropped "$(jq -r 'select(.status != "queued") | .status' "$dir/old.out" | head -n 1)"
}

check_slash_commands() {
	start_worker a
	enqueued -s talk --wait one
	enqueued -s talk --id m2 --wait two
	enqueued -s talk /title My talk
	same "the title" "My talk by user" "$(show talk '.title + " by " + .title_by')"
	enqueued -s talk --json /queue collect debounce:0.5s
	same "the command's status" answered "$(jq -r .status <<<"$out")"
	same "the queue's settings" '{"mode":"collect","debounce_ms":500}' "$(show talk '.queue | tojson')"
	enqueued -s talk /history
	same "lines of the history" 4 "$(wc -l <"$dir/out")"
	enqueued -s talk /undo
	same "the users' part after /undo" one "$(show talk "$said_by_users")"
	enqueued -s talk /retry
	eventually "the turn that runs again" shows talk "$said_by_agents" "reply to one"
	enqueued -s talk --id g1 "gate one"
	eventually "the turn" turn_started g1
	enqueued -s talk --id b1 behind
	enqueued -s talk /undo
	holds "/undo in mid-turn" "A turn is running" "$out"
	enqueued -s talk /stop
	holds "/stop" "Stopping the running turn. 1 waiting" "$out"
	eventually "the end of the turn" shows talk .phase idle
	same "archived" 2 "$(show talk .archived)"
	open_gate
	enqueued -s talk /resume
	holds "/resume" "Rerunning 2 messages" "$out"
	enqueued -s talk --id b1 --wait behind
	same "the reply of what was stopped" "reply to behind" "$out"
	local before
	before=$(show talk .session_id)
	enqueued -s talk /new
	enqueued -s talk --wait anew
	same "the users' part of the new conversation" anew "$(show talk "$said_by_users")"
	[[ $before != "$(show talk .session_id)" ]] || die "/new kept the session id"
}

check_dead_letters() {
	start_worker a
	local s status=0
	same "none" "No dead letters." "$("$bin/worker" dead)"
	for s in one two; do
		enqueue -s "dead:$s" --id m1 --wait broken agent
		same "exit code" 5 "$code"
	done
	same "their sessions" dead:one,dead:two "$("$bin/worker" dead --json | jq -rs '[.[].session] | sort | join(",")')"
	same "the first" 'm1 failed broken agent' "$("$bin/worker" dead list dead:one --json | jq -r '"\(.id) \(.status) \(.text)"')"
	holds "its reason" "the agent broke" "$("$bin/worker" dead list dead:one)"
	holds "rerun" "1 dead letter requeued" "$("$bin/worker" dead rerun dead:one)"
	eventually "its second turn" turn_started m1 3
	enqueue -s dead:one --id m1 --wait broken agent
	same "exit code of the second failure" 5 "$code"
	"$bin/worker" dead drop dead:one nobody 2>"$dir/err" || status=$?
	same "exit code of drop with an unknown id" 1 "$status"
	status=0
	"$bin/worker" dead drop 2>"$dir/err" || status=$?
	same "exit code of drop with neither session nor --all" 2 "$status"
	holds "drop" "2 dead letters of 2 sessions deleted" "$("$bin/worker" dead drop --all)"
	same "none again" "No dead letters." "$("$bin/worker" dead)"
}

check_forget() {
	start_worker a
	local status=0 index
	enqueued -s gone --wait hello
	enqueued -s gone /new
	enqueue -s gone --wait broken agent
	enqueued -s gone --id g1 "gate please"
	eventually "the turn" turn_started g1
	"$bin/worker" forget gone >"$dir/out" 2>"$dir/err" || status=$?
	same "exit code of forget in mid-turn ($(<"$dir/err"))" 3 "$status"
	open_gate
	enqueued -s gone --id g1 --wait "gate please"
	"$bin/worker" forget gone >"$dir/out"
	holds "what forget says" "Session gone is forgotten: 3 transcript entries, 0 waiting messages, 0 delayed, 1 dead letter" "$(<"$dir/out")"
	same "keys left" "" "$(cli --scan --pattern '*{session:gone}*')"
	for index in ready due owned sessions; do
		same "its score in $index" "" "$(cli zscore "turnstile:$index" gone)"
	done
	same "its queue is listed" 0 "$(cli sismember asynq:queues session:gone)"
	status=0
	"$bin/worker" forget gone 2>"$dir/err" || status=$?
	same "exit code of forget with an unknown session" 1 "$status"
	enqueued -s gone --wait again
	same "the users' part of what begins anew" again "$(show gone "$said_by_users")"
}

# refused WHAT ARGS...: exit code 2, one line on stderr, nothing stored.
refused() {
	local what=$1
	shift
	enqueue "$@"
	same "exit code of $what (stderr: $err)" 2 "$code"
	same "lines on stderr for $what ($err)" 1 "$(grep -c . <<<"$err")"
	same "keys stored by $what" 0 "$(cli dbsize)"
}

check_bad_input() {
	refused "a session key with a slash" -s 'bad/key' hello
	refused "a session key with a space" -s 'bad key' hello
	refused "an empty session key" -s '' hello
	refused "a session key of 257 characters" -s "$(printf 'a%.0s' {1..257})" hello
	refused "no session" hello
	refused "no text" -s ok
	refused "an empty text" -s ok ''
	refused "an unknown mode" -s ok --mode sideways hello
	refused "a negative delay" -s ok --in=-1s hello
	refused "an unreadable file" --file "$dir/absent.jsonl"
	refused "an unknown flag" --frobnicate
	refused "a bad message id" -s ok --id 'a b' hello
	head -c 2097152 /dev/zero | tr '\0' x >"$dir/big"
	local status=0
	"$bin/enqueue" -s ok - <"$dir/big" >"$dir/out" 2>"$dir/err" || status=$?
	same "exit code of a message over 2 MiB ($(<"$dir/err"))" 2 "$status"
	same "keys stored by it" 0 "$(cli dbsize)"
	REDIS_URL='redis://nowhere:port' refused "a malformed REDIS_URL" -s ok hello
	REDIS_URL=gopher://localhost refused "an unknown kind of REDIS_URL" -s ok hello

	# Just inside the limits all is well.
	enqueued -s "$(printf 'a%.0s' {1..256})" --id "$(printf 'b%.0s' {1..128})" hello
	head -c 2097100 "$dir/big" >"$dir/fits"
	"$bin/enqueue" -s fits - <"$dir/fits" >"$dir/out" 2>"$dir/err" || die "a message of just 2 MiB: $(<"$dir/err")"
	same "messages of it" 1 "$(cli llen 'asynq:{session:fits}:pending')"
}

check_bad_line_in_a_file() {
	printf '%s\n' '{"session":"f:1","id":"m1","text":"one"}' '{"session":"f:1","text":' \
		'{"session":"f:2","id":"m2","text":"two","colour":"red"}' '{"session":"f:3","id":"m3","text":"three"}' >"$dir/lines"
	enqueue --file "$dir/lines"
	same "exit code" 2 "$code"
	holds "the broken line's number" 2 "$err"
	holds "the number of the line with an unknown field" 3 "$err"
	holds "the unknown field" colour "$err"
	same "messages of the good line before" 1 "$(cli llen 'asynq:{session:f:1}:pending')"
	same "messages of the line with an unknown field" 0 "$(cli llen 'asynq:{session:f:2}:pending')"
	same "messages of the good line behind" 1 "$(cli llen 'asynq:{session:f:3}:pending')"
}

# wrong_settings WHAT PART SETTING...: the worker ends with 2 and names PART.
wrong_settings() {
	local what=$1 part=$2 status=0
	shift 2
	env "$@" timeout "$patience" "$bin/worker" >"$dir/out" 2>"$dir/err" || status=$?
	same "exit code with $what ($(tail -n 3 "$dir/err"))" 2 "$status"
	holds "what is said of $what" "$part" "$(<"$dir/err")"
}

check_wrong_settings() {
	wrong_settings "no agent" TURNSTILE_AGENT A=
	wrong_settings "an unknown agent" TURNSTILE_AGENT TURNSTILE_AGENT=psychic
	wrong_settings "no command" TURNSTILE_AGENT_COMMAND TURNSTILE_AGENT=exec
	wrong_settings "a short lease" TURNSTILE_SENTINEL_TTL TURNSTILE_AGENT=echo TURNSTILE_SENTINEL_TTL=500ms
	wrong_settings "a drain that the supervisor cuts short" TURNSTILE_STOP_TIMEOUT TURNSTILE_AGENT=echo \
		TURNSTILE_DRAIN_TIMEOUT=60s TURNSTILE_STOP_TIMEOUT=30s
	wrong_settings "an open HTTP address" TURNSTILE_HTTP_TOKEN TURNSTILE_AGENT=echo TURNSTILE_HTTP_ADDR=0.0.0.0:0
	wrong_settings "a bad REDIS_URL" REDIS_URL TURNSTILE_AGENT=echo REDIS_URL=redis://nowhere:port
	wrong_settings "two mistakes, the first" TURNSTILE_SENTINEL_TTL TURNSTILE_AGENT=psychic TURNSTILE_SENTINEL_TTL=1ms
	holds "two mistakes, the second" TURNSTILE_AGENT "$(<"$dir/err")"
}

check_unreachable_redis() {
	local port
	port=$(free_port)
	REDIS_URL=redis://127.0.0.1:$port/0 enqueue -s ok hello
	same "enqueue's exit code" 1 "$code"
	same "lines on stderr ($err)" 1 "$(grep -c . <<<"$err")"
	local status=0
	TURNSTILE_AGENT=echo REDIS_URL=redis://127.0.0.1:$port/0 timeout "$patience" "$bin/worker" >"$dir/out" 2>&1 || status=$?
	same "the worker's exit code" 1 "$status"
}

# What another program put into a session's queue and is no message is
# archived; the session goes on. The task is asynq's protobuf, written by hand:
# type "other:type", payload "x", id "x1", queue "session:odd", 3 retries.
check_foreign_task() {
	printf '\012\012other:type\022\001x\032\002x1\042\013session:odd\050\003' |
		cli -x hset 'asynq:{session:odd}:t:x1' state pending msg >/dev/null
	cli lpush 'asynq:{session:odd}:pending' x1 >/dev/null
	cli sadd asynq:queues session:odd >/dev/null
	start_worker a
	enqueued -s odd --id m1 --wait hello
	same "the reply" "reply to hello" "$out"
	same "archived" 1 "$(cli zcard 'asynq:{session:odd}:archived')"
}
