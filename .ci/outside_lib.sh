# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is read in outside_checks.sh
#
# What the checks of outside.sh are written with. In a check: $dir is its own
# directory, REDIS_URL its own database.

: "${bin:?}" "${root:?}"
dir=${dir:-}
redis_port=
database=${database:-0}

# How long anything may take before it counts as broken, in seconds. A machine
# that also runs other work needs slack; a healthy run waits for none of it.
patience=${OUTSIDE_PATIENCE:-60}

# start_redis DIR [OPTION...]: starts a redis-server on a free port. Sets redis_pid and redis_port.
start_redis() {
	local try
	for try in {1..20}; do
		redis_port=$((22000 + RANDOM % 9000))
		if redis_at "$redis_port" "$@"; then
			return
		fi
	done
	echo "redis-server does not start (try $try)" >&2
	cat "$1/redis.log" >&2 || true
	exit 1
}

# redis_at PORT DIR [OPTION...]: starts a redis-server there, and waits until it responds. Sets redis_pid.
redis_at() {
	local port=$1 folder=$2 tick
	shift 2
	redis-server --port "$port" --bind 127.0.0.1 --databases 128 --save '' --appendonly no \
		--maxmemory-policy noeviction --dir "$folder" --logfile "$folder/redis.log" --daemonize no "$@" </dev/null &
	redis_pid=$!
	for tick in {1..500}; do
		if redis-cli -p "$port" info server 2>/dev/null | grep -q "^process_id:$redis_pid"; then
			return
		fi
		kill -0 "$redis_pid" 2>/dev/null || break
		sleep 0.02
	done
	kill -9 "$redis_pid" 2>/dev/null || true
	wait "$redis_pid" 2>/dev/null || true
	echo "redis-server on port $port: not up (tick $tick)" >>"$folder/redis.log"
	return 1
}

# die MESSAGE: ends the check.
die() {
	echo "$*"
	trap - ERR
	exit 1
}

# eventually WHAT COMMAND...: repeats the command until it succeeds.
eventually() {
	local what=$1 end=$((SECONDS + patience))
	shift
	until "$@" >/dev/null 2>&1; do
		[[ $SECONDS -lt $end ]] || die "waited $patience s in vain: $what"
		sleep 0.02
	done
}

# same WHAT WANT GOT
same() { [[ $2 == "$3" ]] || die "$1: want '$2', got '$3'"; }

# holds WHAT PART WHOLE
holds() { [[ $3 == *"$2"* ]] || die "$1: '$2' is not in: $3"; }

# cli ARGS...: redis-cli on the check's database.
cli() { redis-cli -p "$redis_port" -n "$database" "$@"; }

# enqueue ARGS...: sets $out, $err and $code.
enqueue() {
	code=0
	timeout "$patience" "$bin/enqueue" "$@" >"$dir/out" 2>"$dir/err" || code=$?
	out=$(<"$dir/out")
	err=$(<"$dir/err")
	[[ $code -ne 124 ]] || die "enqueue $* did not end within $patience s"
}

# enqueued ARGS...: enqueue that must succeed.
enqueued() {
	enqueue "$@"
	same "exit code of enqueue $* (stderr: $err)" 0 "$code"
}

# waiter NAME ARGS...: enqueue in the background, with its output in NAME.out.
waiter() {
	local name=$1
	shift
	"$bin/enqueue" "$@" >"$dir/$name.out" 2>"$dir/$name.log" </dev/null &
	waiter_pid=$!
	started_pids+=("$waiter_pid")
}

# ends PID: waits for the end of a child, sets $code.
ends() {
	eventually "the end of process $1" gone "$1"
	code=0
	wait "$1" || code=$?
}

# A child that has ended but was not waited for is still a process: Z.
gone() {
	local state
	state=$(ps -o stat= -p "$1" 2>/dev/null) || return 0
	[[ -z $state || $state == Z* ]]
}

# start_worker NAME [SETTING=VALUE...]: starts a worker with the agent below
# and sets $worker_pid. Its log is NAME.log.
start_worker() {
	local name=$1
	shift
	write_agent
	env TURNSTILE_AGENT=exec TURNSTILE_AGENT_COMMAND="bash $dir/agent.sh $dir" TURNSTILE_SENTINEL_TTL=2s \
		TURNSTILE_SWEEP_INTERVAL=2s TURNSTILE_LOG_FORMAT=text "$@" \
		"$bin/worker" >>"$dir/$name.log" 2>&1 </dev/null &
	worker_pid=$!
	started_pids+=("$worker_pid")
}

# worker_ends PID CODE
worker_ends() {
	ends "$1"
	same "the worker's exit code" "$2" "$code"
}

started_pids=()

# shellcheck disable=SC2329 # called by a trap
end_check() {
	local pid
	for pid in "${started_pids[@]}"; do
		kill -CONT "$pid" 2>/dev/null || true
		kill -9 "$pid" 2>/dev/null || true
	done
	: >"$dir/open" || true
}

# The agent writes a line to $dir/turns at its start and at its end. A message
# that begins with "gate" makes it wait until $dir/open exists. Only the last
# line counts: a note may stand before the message.
write_agent() {
	[[ ! -e $dir/agent.sh ]] || return 0
	cat >"$dir/agent.new" <<'AGENT'
dir=$1
text=$(tail -n 1)
echo "start $TURNSTILE_SESSION $TURNSTILE_MESSAGE_ID $$ $TURNSTILE_FENCE" >>"$dir/turns"
case $text in
gate*) while [ ! -e "$dir/open" ] && [ -d "$dir" ]; do sleep 0.02; done ;;
broken*) echo "the agent broke" >&2; exit 1 ;;
esac
echo "end $TURNSTILE_SESSION $TURNSTILE_MESSAGE_ID $$ $TURNSTILE_FENCE" >>"$dir/turns"
printf 'reply to %s' "$text"
AGENT
	mv "$dir/agent.new" "$dir/agent.sh"
}

open_gate() { : >"$dir/open"; }

# turns KIND ID: how often the agent started or ended for a message.
turns() { grep -c "^$1 [^ ]* $2 " "$dir/turns" || true; }

# turn_started ID [N]: the agent has started N times (once) for a message.
turn_started() { [[ -e $dir/turns && $(turns start "$1") -ge ${2:-1} ]]; }

# agent_pid ID: the pid of the agent that was started last for a message.
agent_pid() { awk -v id="$1" '$1 == "start" && $3 == id { pid = $4 } END { print pid }' "$dir/turns"; }

# show SESSION FILTER: jq's answer about `worker show SESSION --json`.
show() { timeout "$patience" "$bin/worker" show "$1" --json | jq -r "$2"; }

said_by_users='[.transcript[] | select(.role == "user") | .text] | join(",")'
said_by_agents='[.transcript[] | select(.role == "assistant") | .text] | join(",")'

shows() { [[ $(show "$1" "$2") == "$3" ]]; }

# free_port: a port for a worker's HTTP_ADDR.
free_port() {
	local port
	while :; do
		port=$((31100 + RANDOM % 1600))
		if ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
}

# http_status PORT PATH
http_status() {
	local status
	exec 9<>"/dev/tcp/127.0.0.1/$1" || return 1
	printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$2" >&9
	read -r -t 10 _ status _ <&9 || status=none
	exec 9>&-
	echo "$status"
}

http_says() { [[ $(http_status "$1" "$2") == "$3" ]]; }
