# shellcheck shell=bash
# A person asks for their data, and wants it deleted.

: "${dir:=}" "${code:=}" "${bin:=}" "${status:=}" "${body:=}" "${said_by_users:=}"

# says SESSION USER TEXT: a person's message through the gateway, until its outcome.
says() {
	post "/v1/sessions/$1/messages" "{\"text\": \"$3\", \"as\": \"$2\"}" -H 'Authorization: Bearer secret-of-web' -H 'Prefer: wait=30'
	same "status of $2's message (body: $body)" 200 "$status"
}

in_aof() { grep -qr "Main Street" "$dir/redis/appendonlydir"; }
not_in_aof() { ! in_aof; }

check_person() {
	local text
	own_redis redis --appendonly yes
	printf '[{"name": "web", "sha256": "%s", "sessions": ["*"], "may": ["send"]}]' \
		"$(printf %s secret-of-web | sha256sum | cut -d ' ' -f 1)" >"$dir/tokens.json"
	start_worker a
	start_gateway gateway TURNSTILE_GATEWAY_OPEN= TURNSTILE_GATEWAY_TOKENS_FILE="$dir/tokens.json"
	says alice alice "my address is 1 Main Street"
	says alice alice "broken and dead"
	says family alice "hello from alice"
	says family bob "hello from bob"
	says bob bob "only bob"
	enqueued -s alice --in 1h --meta sender=web/alice "a reminder"

	"$bin/worker" export --sender web/alice >"$dir/alice.jsonl"
	for text in "my address is 1 Main Street" "reply to my address" "broken and dead" "a reminder" "hello from alice"; do
		holds "the export" "$text" "$(<"$dir/alice.jsonl")"
	done
	! grep -q "from bob\|only bob" "$dir/alice.jsonl" || die "the export has bob's texts"
	seen "the export" '{"session":"family","shared":true}' "$(<"$dir/alice.jsonl")"

	"$bin/worker" forget --sender web/alice >"$dir/forget" 2>&1
	seen "what is deleted" "alice: erased" "$(<"$dir/forget")"
	seen "what is kept" "family: shared" "$(<"$dir/forget")"
	seen "what it leaves" "Directories on other machines, agents' files in the worker's HOME, logs and backups are kept." "$(<"$dir/forget")"
	same "keys of the session" "" "$(cli --scan --pattern '*{session:alice}*')"
	same "bob's session" "only bob" "$(show bob "$said_by_users")"
	same "the shared session" "hello from alice,hello from bob" "$(show family "$said_by_users")"

	# The commands that wrote the texts stay in the AOF until it is rewritten.
	in_aof || die "the AOF has the text no more: the page says that it has"
	cli bgrewriteaof >/dev/null
	eventually "an AOF without the text" not_in_aof
	figure "exported: $(wc -l <"$dir/alice.jsonl") lines. Left of the session: 0 keys. In the AOF until BGREWRITEAOF: yes"
}
