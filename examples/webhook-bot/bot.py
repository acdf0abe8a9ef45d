#!/usr/bin/env python3
"""A receiver of Turnstile's webhooks in Python, with nothing but the standard library.

    WEBHOOK_SECRET=whsec_... python3 examples/webhook-bot/bot.py 8000

It verifies each delivery's signature, ignores what it has handled before, prints one line for each
of the others, and acknowledges it. A real bot sends the reply to its chat instead of printing it.
The last sequence of each session, and the deliveries' ids, are kept in bot.db (or in the file that BOT_DB names), so that a
restarted bot knows what it has handled. BOT_SESSIONS says which sessions it serves: "telegram:dm:*" has the chat 42 in the
session telegram:dm:42. Without it the whole key is the chat. A delivery of another session, or with the context of another
chat, is refused: whoever may send to a session chooses the context. docs/webhooks.md specifies everything that it reads.
"""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE = 5 * 60  # seconds that a delivery's time may differ from the clock
LARGEST = 1 << 20  # bytes of a body: Turnstile's are smaller


def verified(secret, headers, body):
    """Reports whether one of the signatures is right, and recent."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(time.time() - int(at)) > TOLERANCE:
        return False
    signed = f"{id}.{at}.".encode() + body
    want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(want.encode(), s.encode()) for s in given)


class Handled:
    """The last sequence of each session, and the ids. They are stored after the delivery was handled: a bot
    that dies in between handles it twice, and loses none. Hold the lock meanwhile: a deliverer that
    gives up waiting sends the delivery again, while this one may still be handled."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.db.execute("CREATE TABLE IF NOT EXISTS handled (session TEXT PRIMARY KEY, sequence INTEGER)")
        self.db.execute("CREATE TABLE IF NOT EXISTS ids (id TEXT PRIMARY KEY)")

    def includes(self, session, sequence, id, perhaps):
        if perhaps and self.db.execute("SELECT id FROM ids WHERE id = ?", (id,)).fetchone():
            return True  # it was redriven: its sequence is new
        row = self.db.execute("SELECT sequence FROM handled WHERE session = ?", (session,)).fetchone()
        return row is not None and sequence <= row[0]

    def add(self, session, sequence, id):
        self.db.execute("INSERT OR REPLACE INTO ids VALUES (?)", (id,))
        self.db.execute("INSERT OR REPLACE INTO handled VALUES (?, ?)", (session, sequence))


def chat_of(data):
    """The chat of a session, which is where its replies go. None if the session is another bot's, or if the context names
    another chat. A context is whatever JSON the sender chose."""
    session, context = data["session"], data.get("context")
    chat = session.removeprefix(PREFIX)
    named = context.get("chat", chat) if isinstance(context, dict) else chat
    return chat if session.startswith(PREFIX) and chat and str(named) == chat else None


def handle(event, chat):
    """What the bot is there for."""
    data = event["data"]
    if event["type"] == "question.asked":
        text = data["question"].get("text") or data["question"].get("name", "a question")
    else:
        outcome = data.get("outcome", {})
        text = outcome.get("reply") or outcome.get("error", "")
    print(json.dumps([event["type"], data["session"], chat, text]), flush=True)


class Receiver(BaseHTTPRequestHandler):
    """Each connection has its own thread: a slow sender stops no other one."""

    timeout = 30  # of a slow sender

    def do_POST(self):
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal():
            return self.respond(400)
        if int(length) > LARGEST:
            return self.respond(413)
        body = self.rfile.read(int(length))
        if not verified(SECRET, self.headers, body):
            return self.respond(401)
        try:
            return self.respond(self.take(json.loads(body)))
        except (AttributeError, KeyError, TypeError, ValueError) as e:  # no delivery of Turnstile
            print("refused", self.headers["webhook-id"], repr(e), file=sys.stderr)
            return self.respond(400)

    def take(self, event):
        """Handles a delivery unless it was handled before, and returns the status."""
        if event["type"] == "ping":  # an operator tests this receiver
            return 204
        session, sequence = event["data"]["session"], int(self.headers["Turnstile-Sequence"])
        chat = chat_of(event["data"])
        if chat is None:
            print("refused", self.headers["webhook-id"], "of the session", session, file=sys.stderr)
            return 422
        id, perhaps = self.headers["webhook-id"], "Turnstile-Possible-Duplicate" in self.headers
        with HANDLED.lock:
            if not HANDLED.includes(session, sequence, id, perhaps):
                handle(event, chat)
                HANDLED.add(session, sequence, id)
        return 204

    def respond(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    SECRET = os.environ.get("WEBHOOK_SECRET", "")
    PREFIX, star, rest = os.environ.get("BOT_SESSIONS", "*").partition("*")
    if len(sys.argv) != 2 or not SECRET.startswith("whsec_") or not star or rest:
        sys.exit("usage: WEBHOOK_SECRET=whsec_... [BOT_SESSIONS=PREFIX*] bot.py PORT")
    HANDLED = Handled(os.environ.get("BOT_DB", "bot.db"))
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print("listening on", server.server_port, flush=True)
    server.serve_forever()
