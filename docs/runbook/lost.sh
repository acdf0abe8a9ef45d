# shellcheck shell=bash
# Redis is lost. It comes back with its whole AOF, without the AOF's end, and from a backup.

: "${dir:=}" "${code:=}" "${err:=}" "${waiter_pid:=}" "${bin:=}" "${redis_pid:=}" "${worker_pid:=}" "${redis_port:=}" "${said_by_users:=}"

check_lost() {
	local port
	port=$(free_port)
	own_redis redis --appendonly yes
	start_worker a TURNSTILE_HTTP_ADDR="127.0.0.1:$port" TURNSTILE_SENTINEL_TTL=60s
	whole_aof "$port"
	stop_worker "$worker_pid"
	start_worker b
	short_aof
	backup
}

# Redis is killed in the middle of a turn, and back within the lease.
whole_aof() {
	local id running
	waiter whole -s whole --id g1 --wait "gate one"
	running=$waiter_pid
	eventually "the running turn" turn_started g1
	enqueued -s whole --id m1 two
	kill -9 "$redis_pid"
	eventually "/readyz without Redis" http_says "$1" /readyz 503
	enqueue -s whole --id m2 three
	same "exit code of enqueue" 1 "$code"
	seen "enqueue" "refuses the connection: is it running, and is REDIS_URL right?" "$err"
	logged a 'level=WARN msg="claiming sessions failed, trying again"'
	shown "$1" turnstile_redis_up == 0
	redis_again redis "$redis_pid" --appendonly yes
	open_gate
	ends "$running"
	same "the reply" "reply to gate one" "$(<"$dir/whole.out")"
	enqueued -s whole --id m2 --wait three
	same "the users' part" "gate one,two,three" "$(show whole "$said_by_users")"
	for id in g1 m1 m2; do
		same "turns of $id" 1 "$(turns start "$id")"
	done
	figure "whole AOF: missing 0, ran twice 0"
	rm "$dir/open"
}

# The machine loses the AOF's end, as after a power cut with appendfsync everysec.
short_aof() {
	local file=$dir/redis/appendonlydir/appendonly.aof.1.incr.aof size
	enqueued -s short --id g2 "gate two"
	eventually "the running turn" turn_started g2
	size=$(stat -c %s "$file")
	open_gate
	enqueued -s short --id g2 --wait "gate two"
	enqueued -s short --id m3 --wait three
	kill -9 "$redis_pid"
	truncate -s "$size" "$file"
	redis_again redis "$redis_pid" --appendonly yes
	again "short AOF" g2
	eventually "the end of the second turn" shows short .phase idle
	same "the users' part" "gate two" "$(show short "$said_by_users")"
	figure "short AOF: m3 is missing, although its sender had the reply"
	enqueued -s short --id m3 --wait three
	same "the users' part" "gate two,three" "$(show short "$said_by_users")"
	again "short AOF, sent again" m3
	rm "$dir/open"
}

# The disk is lost, and there is a backup of before.
backup() {
	enqueue -s dropped --id b1 --wait "broken agent"
	enqueued -s backup --id g3 "gate three"
	enqueued -s backup --id m4 four
	eventually "the running turn" turn_started g3
	mkdir "$dir/new" "$dir/trap"
	cli config set repl-diskless-sync-delay 0 >/dev/null
	redis-cli -p "$redis_port" --rdb "$dir/new/dump.rdb" >/dev/null 2>&1
	cp "$dir/new/dump.rdb" "$dir/trap/"
	open_gate
	enqueued -s backup --id m4 --wait four
	enqueued -s backup --id m5 --wait five
	"$bin/worker" dead drop --all >"$dir/drop"
	kill -9 "$redis_pid"
	rm -r "$dir/redis"

	redis_again trap "$redis_pid" --appendonly yes
	figure "backup, started with appendonly yes: $(cli zcard turnstile:sessions) known sessions"
	same "sessions known to a redis-server that was started with appendonly yes" 0 "$(cli zcard turnstile:sessions)"
	kill -9 "$redis_pid"

	redis_again new "$redis_pid" --appendonly no
	same "appendonly, set while it runs" OK "$(cli config set appendonly yes)"
	again backup g3 m4
	same "dead letters that were dropped" 1 "$(show dropped .archived)"
	eventually "the end of the turns" shows backup "$said_by_users" "gate three,four"
	figure "backup: m5 is missing, although its sender had the reply"
	enqueued -s backup --id m5 --wait five
	again "backup, sent again" m5
}
