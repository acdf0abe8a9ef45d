# shellcheck shell=bash
# The model's provider returns 429 for an hour: seconds here, with a shorter TURNSTILE_RETRY_BACKOFF.

: "${dir:=}" "${bin:=}" "${worker_pid:=}" "${said_by_users:=}" "${err:=}" "${code:=}"

# start_provider: a server of Chat Completions. 429 for an hour, unless $dir/up exists. Each request is a
# line of $dir/requests.
start_provider() {
	cat >"$dir/provider.py" <<'PROVIDER'
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
folder = sys.argv[1]
class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        up = os.path.exists(folder + "/up")
        with open(folder + "/requests", "a") as f:
            f.write("200\n" if up else "429\n")
        self.send_response(200 if up else 429)
        if up:
            self.send_header("Content-Type", "text/event-stream")
        else:
            self.send_header("Retry-After", "3600")
        self.end_headers()
        if up:
            chunk = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}]}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n")
    def log_message(self, *args):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
with open(folder + "/port.new", "w") as f:
    f.write(str(server.server_port))
os.rename(folder + "/port.new", folder + "/port")
server.serve_forever()
PROVIDER
	python3 "$dir/provider.py" "$dir" >"$dir/provider.log" 2>&1 </dev/null &
	started_pids+=("$!")
	eventually "the provider" test -e "$dir/port"
}
requests() { [[ $(grep -c "$1" "$dir/requests") -ge $2 ]]; }

# start_openai NAME SETTING...: a worker with that provider.
start_openai() {
	local name=$1
	shift
	start_worker "$name" TURNSTILE_AGENT=openai TURNSTILE_AGENT_COMMAND= TURNSTILE_MODEL=m \
		TURNSTILE_OPENAI_BASE_URL="http://127.0.0.1:$(<"$dir/port")/v1" "$@"
}

check_provider() {
	local port n
	start_provider
	port=$(free_port)
	start_openai a TURNSTILE_RETRY_BACKOFF=100ms TURNSTILE_HTTP_ADDR="127.0.0.1:$port"
	enqueue -s default --id m1 --wait one
	same "exit code" 5 "$code"
	seen "enqueue" "the model's server has too many requests (HTTP 429)" "$err"
	shown "$port" 'turnstile_turns_ended_total{status="retried"}' == 2
	seen "the log" "status=retried" "$(<"$dir/a.log")"
	n=$(grep -c 429 "$dir/requests")
	figure "default: a dead letter after $n attempts"
	stop_worker "$worker_pid"

	start_openai b TURNSTILE_RETRY_BACKOFF=100ms TURNSTILE_MAX_ATTEMPTS=100
	enqueued -s patient --id m2 two
	enqueued -s patient --id m3 three
	eventually "five more requests" requests 429 $((n + 5))
	eventually "worker ps" tries_again
	seen "worker ps" "tries again in" "$(<"$dir/ps")"
	: >"$dir/up"
	enqueued -s patient --id m3 --wait three
	same "dead letters of the patient session" 0 "$(show patient .archived)"
	same "the users' part" two,three "$(show patient "$said_by_users")"
	"$bin/worker" dead rerun --all >"$dir/rerun"
	eventually "the reply" shows default "$said_by_users" one,one # the turn that failed, too
	figure "with 100 attempts: 0 dead letters, in order, after $(($(grep -c 429 "$dir/requests") - n)) refusals"
}
tries_again() {
	"$bin/worker" ps >"$dir/ps"
	grep -q "^patient .*tries again in" "$dir/ps"
}
