"""A bot for a made-up chat platform. docs/first-bot.md explains it, and how to start it."""

import base64, concurrent.futures, contextlib, hashlib, hmac, http.client, json, os, sqlite3, sys, threading, time, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GATEWAY = os.environ.get("TURNSTILE_URL", "http://127.0.0.1:8081")
TOKEN, SECRET, PLATFORM = os.environ["TURNSTILE_TOKEN"], os.environ["WEBHOOK_SECRET"], os.environ["PLATFORM_URL"]
ROOM = "room:"  # a chat's session is room:CHAT: tokens.json and destinations.json admit no other
DB = sqlite3.connect(os.environ.get("BOT_DB", "bot.db"), isolation_level=None, check_same_thread=False)
DB.execute("CREATE TABLE IF NOT EXISTS handled (session TEXT PRIMARY KEY, sequence INTEGER)")
DB.execute("CREATE TABLE IF NOT EXISTS ids (id TEXT PRIMARY KEY)")
LOCK = threading.Lock()  # one delivery at a time
CALLS = {server: concurrent.futures.ThreadPoolExecutor(16) for server in (GATEWAY, PLATFORM)}


class Refused(Exception):
    """A response that is no 2xx."""

    def __init__(self, status, body):
        super().__init__(f"{status} {body}")
        self.status = status

    def final(self, *but):
        """Reports whether the same request can never succeed. It may if the token is wrong (401), or if it is too early."""
        return 400 <= self.status < 500 and self.status not in (401, 408, 425, 429, *but)


def post(server, path, body, headers={}, patience=10):
    """Posts JSON. The call as a whole ends in time: a socket's timeout bounds each read only, and a server may dribble."""
    call = CALLS[server].submit(exchange, urllib.parse.urlsplit(server + path), json.dumps(body), headers, patience)
    try:
        status, text = call.result(patience)
    finally:
        call.cancel()
    if status // 100 != 2:
        raise Refused(status, text)


def exchange(url, body, headers, patience):
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    with contextlib.closing(connect(url.netloc, timeout=patience)) as connection:
        connection.request("POST", url._replace(scheme="", netloc="").geturl() or "/", body, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read(1000).decode(errors="replace")


def heard(event):
    """A message of the platform. The platform's id of it is the key: sent again, it runs once. 2 s leave time to acknowledge."""
    message = {"text": event["text"], "as": event["user"], "reply_to": "bot"}
    session, key = (urllib.parse.quote(str(event[name]), safe=":@+=~") for name in ("chat", "id"))
    try:
        post(GATEWAY, f"/v1/sessions/{ROOM}{session}/messages", message, {"Authorization": "Bearer " + TOKEN, "Idempotency-Key": key}, patience=2)
    except Refused as e:
        if not e.final(403, 404):  # those two may be tokens.json
            raise
        if e.status != 410:  # it ran before, and its result is gone
            print(f"message {event['id']!r} is dropped:", e, file=sys.stderr)


def reply(delivery):
    """The end of a message, or a question of the agent: docs/webhooks.md lists the types."""
    data, kind = delivery["data"], delivery["type"]
    outcome = data.get("outcome", {})
    said = {"message.done": outcome.get("reply"), "question.asked": "The agent asks: " + str(data.get("question", {}).get("name"))}
    text = said.get(kind) or {"message.failed": "This failed.", "message.stopped": "Stopped."}.get(kind)
    if text:
        post(PLATFORM, "", {"chat": data["session"].removeprefix(ROOM), "text": text})


def verified(headers, body):
    id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "0")
    signed = hmac.new(base64.b64decode(SECRET.removeprefix("whsec_")), f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    right = "v1," + base64.b64encode(signed).decode()
    recent = at.isdecimal() and abs(time.time() - int(at)) < 300
    return recent and any(hmac.compare_digest(right.encode(), s.encode()) for s in headers.get("webhook-signature", "").split(" "))


class Server(BaseHTTPRequestHandler):
    timeout = 30

    def do_POST(self):
        try:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), 1 << 20))
            status = self.platform(body) if self.path == "/platform" else self.turnstile(body)
        except Exception as e:  # such as a time-out: whoever called calls again
            print("not handled:", repr(e), file=sys.stderr)
            status = 503
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def platform(self, body):
        event = json.loads(body)  # verify the platform's signature first
        if event.keys() >= {"id", "chat", "user", "text"}:  # others, such as that someone has joined, need an acknowledgement only
            heard(event)
        return 200

    def turnstile(self, body):
        if not verified(self.headers, body):
            return 401
        delivery = json.loads(body)
        if delivery["type"] == "ping":
            return 204
        session, sequence, id = delivery["data"]["session"], int(self.headers["Turnstile-Sequence"]), self.headers["webhook-id"]
        if not session.startswith(ROOM):
            return 422  # it is no chat of this bot
        with LOCK:
            last = DB.execute("SELECT sequence FROM handled WHERE session = ?", (session,)).fetchone()
            known = "Turnstile-Possible-Duplicate" in self.headers and DB.execute("SELECT id FROM ids WHERE id = ?", (id,)).fetchone()
            if not known and (last is None or sequence > last[0]):
                try:
                    reply(delivery)
                except Refused as e:
                    if not e.final():
                        raise
                    print(f"delivery {id} is refused:", e, file=sys.stderr)
                    return 422  # at the fifth the delivery is a dead letter, and the room's next one comes
                DB.execute("INSERT OR REPLACE INTO ids VALUES (?)", (id,))
                DB.execute("INSERT OR REPLACE INTO handled VALUES (?, ?)", (session, sequence))
        return 204


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server)
print("listening on", server.server_port, flush=True)
server.serve_forever()
