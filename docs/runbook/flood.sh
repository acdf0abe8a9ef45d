# shellcheck shell=bash
# A flood: one session with too many messages, then too many sessions.

: "${dir:=}" "${bin:=}" "${said_by_users:=}" "${err:=}" "${code:=}" "${status:=}" "${body:=}"

# lines SESSIONS EACH PREFIX: messages as JSON.
lines() {
	local s m
	for ((m = 1; m <= $2; m++)); do
		for ((s = 1; s <= $1; s++)); do
			printf '{"session":"%s%d","id":"%s%d.%d","text":"t%d"}\n' "$3" "$s" "$3" "$s" "$m" "$m"
		done
	done
}
# before ID PATTERN: how many turns of sessions like PATTERN began before the message's.
before() { awk -v id="$1" -v like="^($2)" '$1 == "start" && $3 == id { print n + 0; exit } $1 == "start" && $2 ~ like { n++ }' "$dir/turns"; }

check_flood() {
	local port session
	own_redis redis
	port=$(free_port)
	export TURNSTILE_LINE_CAP=30
	start_worker a TURNSTILE_FOLLOWUP_CAP=30 TURNSTILE_CONCURRENCY=1 TURNSTILE_HTTP_ADDR="127.0.0.1:$port"
	start_gateway gateway
	enqueued -s busy --id g1 gate
	eventually "a turn in the only slot" turn_started g1

	lines 1 40 one >"$dir/one.jsonl"
	enqueue --file "$dir/one.jsonl"
	same "exit code of 10 messages too many" 3 "$code"
	seen "enqueue" "refused: too many messages wait in session one1 (TURNSTILE_LINE_CAP); nothing was stored" "$err"
	enqueued -s quiet --id q1 hello
	lines 10 1 bot: >"$dir/bot.jsonl"
	lines 15 1 user: >"$dir/user.jsonl"
	enqueued --file "$dir/bot.jsonl"
	enqueued --file "$dir/user.jsonl"
	enqueued -s late --id q2 hello

	shown "$port" 'turnstile_sessions{index="ready"}' '>=' 28
	shown "$port" turnstile_ready_oldest_age_seconds '>' 0
	"$bin/worker" ps >"$dir/ps"
	seen "worker ps" "waits for a slot" "$(grep '^bot:1 ' "$dir/ps")"
	post /v1/sessions/one1/messages '{"text": "more"}'
	same "the gateway's status" 429 "$status"
	seen "the gateway's code" line_full "$body"

	"$bin/worker" ls --json 'bot:*' | jq -r .session | while read -r session; do
		"$bin/enqueue" -s "$session" /stop
	done >"$dir/stops"
	same "sessions that are stopped" 10 "$(wc -l <"$dir/stops")"
	open_gate
	enqueued -s quiet --id q1 --wait hello
	enqueued -s late --id q2 --wait hello
	same "turns of stopped sessions" 0 "$(before q2 bot:)"
	[[ $(before q1 one1) -le 10 ]] || die "$(before q1 one1) turns of the flooding session ran first: 10 are its share"
	figure "one session with 30 messages: $(before q1 one1) of its turns ran before another session's message"
	figure "15 sessions with a message each: $(before q2 user:) of their turns ran first, of 10 that were stopped $(before q2 bot:)"
	enqueued -s one1 --id one1.30 --wait t30
	same "the flood's order" "$(seq -s, -f t%g 30)" "$(show one1 "$said_by_users")"
}
