"""A chat platform to type into, for docs/first-bot.md. It posts each line to the bot, again until the bot takes it, and prints what the
bot posts."""

import json, os, sys, threading, time, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, BOT = int(sys.argv[1]), sys.argv[2]


class Chat(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(f"bot: {message['text']}", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


def send(message):
    while True:
        request = urllib.request.Request(BOT, json.dumps(message).encode(), {"Content-Type": "application/json"})
        try:
            return urllib.request.urlopen(request, timeout=10).close()
        except OSError as e:
            print(f"the bot did not take it ({e}); again in a second", flush=True)
            time.sleep(1)


server = ThreadingHTTPServer(("127.0.0.1", PORT), Chat)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"The chat is at http://127.0.0.1:{server.server_port}/. Write to the bot; Ctrl-C ends.", flush=True)
try:
    for number, line in enumerate(sys.stdin):
        if line.strip():
            send({"id": f"{os.getpid()}-{number}", "chat": "7", "user": os.environ.get("USER", "ann"), "text": line.strip()})
    threading.Event().wait()  # for replies, after the last line
except KeyboardInterrupt:
    pass
