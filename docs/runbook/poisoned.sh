# shellcheck shell=bash
# A message kills each worker that runs it, and the turns beside it die, too.

: "${dir:=}" "${bin:=}" "${worker_pid:=}" "${said_by_users:=}" "${out:=}"

# write_poison: an agent that kills its worker, the parent of its guardian, for a message that is poison.
# In the session poisoned it waits for the turn beside it, so that this one loses as many workers.
write_poison() {
	cat >"$dir/poison.sh" <<'AGENT'
dir=$1
text=$(tail -n 1)
begun() { grep -c "^start $1 " "$dir/turns"; }
if [ "$text" = poison ]; then
	echo "start $TURNSTILE_SESSION $TURNSTILE_MESSAGE_ID $$ $TURNSTILE_FENCE" >>"$dir/turns"
	while [ "$TURNSTILE_SESSION" = poisoned ] && [ "$(begun beside)" -lt "$(begun poisoned)" ]; do sleep 0.02; done
	kill -9 "$(ps -o ppid= -p "$PPID")"
	while :; do sleep 1; done # until the guardian ends it
fi
printf %s "$text" | bash "$dir/agent.sh" "$dir"
AGENT
}

# supervised: starts a worker, as its supervisor does after each death.
supervised() {
	start_worker a TURNSTILE_AGENT_COMMAND="bash $dir/poison.sh $dir" TURNSTILE_SENTINEL_TTL=1s TURNSTILE_SWEEP_INTERVAL=1s
}

check_poisoned() {
	local deaths=0
	write_poison
	supervised
	enqueued -s beside --id g1 gate
	eventually "the turn beside it" turn_started g1
	enqueued -s poisoned --id p1 poison
	enqueued -s poisoned --id m1 behind
	while :; do
		eventually "the worker's death, or the next message's end" died_or_ended m1
		gone "$worker_pid" || break
		deaths=$((deaths + 1))
		wait "$worker_pid" || true
		supervised
	done
	same "deaths" 3 "$deaths"
	same "turns of the message" 3 "$(turns start p1)"
	rising "the message" p1
	same "the users' part" behind "$(show poisoned "$said_by_users")"
	logged a 'level=INFO msg="the turn is resumed"'
	logged a 'level=WARN msg="the session begins a new transcript"'
	figure "deaths: $deaths, then the next message of the session ran"

	eventually "the end of the turn beside it" shows beside .archived 1
	"$bin/worker" dead >"$dir/dead"
	same "dead letters" beside,poisoned "$(awk 'NR > 1 { print $1 }' "$dir/dead" | sort | paste -sd,)"
	seen "worker dead" "given up: its worker died in 3 turns in a row" "$(<"$dir/dead")"
	"$bin/worker" ls >"$dir/ls"
	holds "worker ls" suspended "$(grep ^beside "$dir/ls")"
	figure "dead letters: the message, and that of the turn beside it"

	open_gate
	"$bin/worker" dead drop poisoned p1 >"$dir/drop"
	"$bin/worker" dead rerun beside >"$dir/rerun"
	eventually "the message beside it" shows beside "$said_by_users" gate
	same "dead letters left" "No dead letters." "$("$bin/worker" dead)"

	enqueued -s early --id p2 poison
	eventually "the worker's death" gone "$worker_pid"
	enqueued -s early /stop
	seen "/stop" "Stopping the running turn." "$out"
	supervised
	enqueued -s early --id m2 --wait behind
	same "turns of the stopped message" 1 "$(turns start p2)"
	figure "with /stop after the first death: 1 turn"
}
died_or_ended() { gone "$worker_pid" || [[ $(turns end "$1") -gt 0 ]]; }
