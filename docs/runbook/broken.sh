# shellcheck shell=bash
# One session's key gets another type: it is shown as broken, and the others go on.

: "${dir:=}" "${bin:=}" "${said_by_users:=}" "${redis_port:=}"

check_broken() {
	own_redis redis
	start_worker a TURNSTILE_AGENT_COMMAND="bash $dir/agent.sh $dir" TURNSTILE_SWEEP_INTERVAL=1s
	enqueued -s spoilt --id m1 --wait hello
	enqueued -s other --id g1 "gate one"
	eventually "the other session's turn" turn_started g1
	enqueued -s other /stop
	eventually "its end" shows other .archived 1

	redis-cli -p "$redis_port" del "turnstile:{session:spoilt}:run" >"$dir/del"
	redis-cli -p "$redis_port" set "turnstile:{session:spoilt}:run" x >"$dir/set"
	"$bin/worker" ls >"$dir/ls"
	holds "worker ls" "broken: turnstile:{session:spoilt}:run" "$(grep ^spoilt "$dir/ls")"
	"$bin/worker" dead >"$dir/dead"
	holds "worker dead" g1 "$(<"$dir/dead")"
	redis-cli -p "$redis_port" del "asynq:{session:spoilt}:archived" >"$dir/del"
	redis-cli -p "$redis_port" set "asynq:{session:spoilt}:archived" x >"$dir/set"
	"$bin/worker" dead >"$dir/dead" 2>"$dir/dead.err"
	holds "worker dead" g1 "$(<"$dir/dead")"
	seen "worker dead" "left out: " "$(<"$dir/dead.err")"
	seen "worker dead" ": a key has a wrong type" "$(<"$dir/dead.err")"

	redis-cli -p "$redis_port" del "turnstile:{session:spoilt}:run" "asynq:{session:spoilt}:archived" >"$dir/del"
	enqueued -s spoilt --id m2 --wait again
	same "the users' part" hello,again "$(show spoilt "$said_by_users")"
	figure "the other session was listed, and the broken one answered after DEL"
}
