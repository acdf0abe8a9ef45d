# shellcheck shell=bash
# The model's provider returns 429 for an hour: one wait of 21 s here.

: "${dir:=}" "${bin:=}" "${said_by_users:=}"

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
            self.send_header("Retry-After", "21")
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

# start_model NAME SETTING...: a worker with that provider.
start_model() {
	local name=$1
	shift
	start_worker "$name" TURNSTILE_AGENT=model TURNSTILE_AGENT_COMMAND= TURNSTILE_MODEL=m \
		TURNSTILE_MODEL_URL="http://127.0.0.1:$(<"$dir/port")/v1" "$@"
}

check_provider() {
	local port
	start_provider
	port=$(free_port)
	start_model a TURNSTILE_HTTP_ADDR="127.0.0.1:$port"
	enqueued -s patient --id m2 two
	enqueued -s patient --id m3 three
	eventually "worker ps" tries_again
	seen "worker ps" "tries again in" "$(<"$dir/ps")"
	shown "$port" 'turnstile_turns_ended_total{status="parked"}' == 1
	seen "the log" "status=parked" "$(<"$dir/a.log")"
	seen "the log" "the model's server has too many requests (HTTP 429)" "$(<"$dir/a.log")"
	: >"$dir/up"
	enqueued -s patient --id m3 --wait three
	same "requests that were refused" 1 "$(grep -c 429 "$dir/requests")"
	same "dead letters" 0 "$(show patient .archived)"
	same "the users' part" two,three "$(show patient "$said_by_users")"
	figure "default: 0 dead letters, in order, after one request in the wait"
}
tries_again() {
	"$bin/worker" ps >"$dir/ps"
	grep -q "^patient .*tries again in" "$dir/ps"
}
