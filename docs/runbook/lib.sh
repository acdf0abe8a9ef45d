# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is read in the entries
#
# What the entries of docs/runbook.md are carried out with, beside .ci/outside_lib.sh. An entry is a
# function check_NAME in NAME.sh here: `make runbook ENTRY=NAME`.

: "${dir:=}" "${root:=}" "${bin:=}" "${patience:=}" "${redis_pid:=}" "${redis_port:=}"
# A line of the page may be broken anywhere.
page=$(tr -s '\n ' ' ' <"${BASH_SOURCE[0]%/*}/../runbook.md")

# own_redis NAME [OPTION...]: a redis-server for this entry alone, with its files in $dir/NAME.
own_redis() {
	local name=$1
	shift
	mkdir -p "$dir/$name"
	start_redis "$dir/$name" "$@"
	use_redis
}

# redis_again NAME PID [OPTION...]: another redis-server at the same port, with the files in $dir/NAME.
redis_again() {
	local name=$1 pid=$2
	shift 2
	eventually "the end of redis-server" gone "$pid"
	wait "$pid" || true
	eventually "redis-server again" redis_at "$redis_port" "$dir/$name" "$@"
	started_pids+=("$redis_pid")
	eventually "a loaded redis-server" loaded
}
loaded() { [[ $(redis-cli -p "$redis_port" ping) == PONG ]]; }

# replica_says PORT LINE: a line of what it says of its replication.
replica_says() { redis-cli -p "$1" info replication | tr -d '\r' | grep -q "^$2\$"; }

# in_step PORT PORT: a primary and its replica have the same writes.
in_step() { [[ $(written "$1") == "$(written "$2")" ]]; }
written() { redis-cli -p "$1" info replication | tr -d '\r' | sed -n 's/^master_repl_offset://p'; }

# use_redis: what follows uses the redis-server at redis_port.
use_redis() {
	started_pids+=("$redis_pid")
	database=0
	export REDIS_URL=redis://127.0.0.1:$redis_port/0
}

# start_gateway NAME [SETTING=VALUE...]: sets gateway and gateway_pid.
start_gateway() {
	local name=$1 port
	shift
	port=$(free_port)
	gateway=http://127.0.0.1:$port
	env TURNSTILE_GATEWAY_ADDR="127.0.0.1:$port" TURNSTILE_GATEWAY_OPEN=true "$@" "$bin/gateway" >>"$dir/$name.log" 2>&1 </dev/null &
	gateway_pid=$!
	started_pids+=("$gateway_pid")
	eventually "the gateway" http_says "$port" /readyz 200
}

# post PATH JSON [CURL'S OPTION...]: sets $status and $body.
post() {
	local path=$1 json=$2
	shift 2
	status=$(curl -sS --max-time "$patience" -o "$dir/body" -w '%{http_code}' -H 'Content-Type: application/json' \
		"$@" -d "$json" "$gateway$path" 2>"$dir/curl.err") || status=none
	body=$(cat "$dir/body" 2>/dev/null || true)
}

# seen WHAT PART WHOLE: holds, and the page says so.
seen() {
	holds "$@"
	[[ $page == *"$2"* ]] || die "docs/runbook.md does not have '$2'"
}

# logged NAME LINE: the log has a line that the page has, too.
logged() {
	eventually "'$2' in $1.log" grep -qF -- "$2" "$dir/$1.log"
	seen "$1.log" "$2" "$2"
}

# metric PORT NAME: a number of a worker's /metrics.
metric() { curl -fsS --max-time "$patience" "http://127.0.0.1:$1/metrics" | awk -v name="$2" '$1 == name { print $2 }'; }

# metric_is PORT NAME COMPARISON NUMBER
metric_is() { awk -v is="$(metric "$1" "$2")" -v want="$4" "BEGIN { exit !(is != \"\" && is + 0 $3 want + 0) }"; }

# shown PORT NAME COMPARISON NUMBER: /metrics comes to that, and the page names the metric.
shown() {
	eventually "$2 $3 $4" metric_is "$@"
	seen "/metrics" "$2" "$2"
}

# figure TEXT: a line of the entry's report.
figure() { echo "$*" >>"$dir/figures"; }

# fences ID: the fencing tokens of a message's turns, in their order.
fences() { awk -v id="$1" '$1 == "start" && $3 == id { print $5 }' "$dir/turns"; }

# rising WHAT ID: each turn of the message had a higher fencing token than the one before.
rising() { fences "$2" | sort -n -c -u || die "$1: fencing tokens do not rise: $(fences "$2" | tr '\n' ' ')"; }

# again LABEL ID...: each message has had two turns, with rising fencing tokens.
again() {
	local label=$1 id
	shift
	for id in "$@"; do
		eventually "the second turn of $id" turn_started "$id" 2
		rising "$id" "$id"
		figure "$label: $id ran twice, with the fencing tokens $(fences "$id" | paste -sd ' ')"
	done
}

# stop_worker PID: drains it.
stop_worker() {
	kill -TERM "$1"
	worker_ends "$1" 0
}
