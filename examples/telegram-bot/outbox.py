"""Deliveries of Turnstile out: docs/webhooks.md."""

import base64
import hashlib
import hmac
import json
import logging
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from calls import Refused, Unreachable
from markdown import formatted, whole
from telegram import parts, preview

log = logging.getLogger("outbox")

TOLERANCE = 5 * 60  # seconds that a delivery's time may differ from the clock
LARGEST = 1 << 20  # bytes of a body: Turnstile's are smaller
PATIENCE = 8  # seconds after which no further message of a delivery is sent: a response is due in 15 s


class Later(Exception):
    """The delivery is to come again."""

    def __init__(self, status, seconds):
        super().__init__()
        self.status, self.seconds = status, seconds


def verified(secret, headers, body):
    """Reports whether one of the signatures is right, and recent."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(time.time() - int(at)) > TOLERANCE:
        return False
    signed = f"{id}.{at}.".encode() + body
    want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(want.encode(), s.encode()) for s in headers.get("webhook-signature", "").split(" "))


def chat_of(data):
    """The chat of a delivery: that of the session's key. Whoever may send to a session chooses the
    context, so it names no chat, and is ignored if it is of another one."""
    kind, _, last = data["session"].rpartition(":")
    if kind not in ("telegram:dm", "telegram:group") or not last.removeprefix("-").isdecimal():
        return None, None
    chat, context = int(last), data.get("context")
    mine = isinstance(context, dict) and context.get("chat") == chat
    return chat, context.get("reply_to_message") if mine else None


def text_of(kind, data):
    """What the chat gets at the end of a message. '' for a type that this bot does not know."""
    outcome = data.get("outcome", {})
    reply, error = outcome.get("reply", ""), outcome.get("error", "")
    if data.get("truncated"):
        return "The reply is too long for this chat. It is in the session's transcript."
    remark = {
        "message.done": "" if reply.strip() else "The reply is empty.",
        "message.failed": f"This failed: {error}",
        "message.stopped": "Stopped.",
        "message.interrupted": "Interrupted by a newer message.",
        "message.rolled_back": "Taken back by a newer message.",
        "message.expired": "This waited too long and was not done.",
        "message.dropped": "Too many messages were waiting. This one was dropped.",
        "message.withdrawn": "The last turn was taken back.",
    }.get(kind)
    return "" if remark is None else "\n\n".join(text for text in (reply, remark) if text.strip())


class Outbox:
    def __init__(self, telegram, turnstile, store):
        self.telegram, self.turnstile, self.store = telegram, turnstile, store

    def handle(self, id, sequence, perhaps, event):
        """Carries a delivery out, once unless the bot dies in between. perhaps: it may have come before, with another
        sequence if it was redriven."""
        data = event["data"]
        session = data["session"]
        with self.store.session(session):
            last, told = self.store.handled(session)
            if sequence <= last or perhaps and self.store.done(session, id):
                return
            outcome = data.get("outcome", {})
            turn = outcome.get("turn")
            ended = data["messages"] + outcome.get("messages", []) if event["type"].startswith("message.") else []
            chat, reply_to = chat_of(data)
            if chat is None:
                log.warning("delivery %s names no chat", id)
            elif event["type"] == "question.asked":
                self.ask(session, chat, reply_to, data)
            elif event["type"] == "question.closed":
                self.close(session, data["number"])
            elif turn is None or turn != told:  # a turn of several messages has a delivery for each
                self.send(id, session, chat, reply_to, self.store.of(session, ended), text_of(event["type"], data))
            self.store.finish(session, id, sequence, turn, ended)

    def send(self, id, session, chat, reply_to, rows, text):
        """Sends a text in as many messages as it takes. The first one replaces the preview."""
        sent, until = self.store.begin(session, id), time.monotonic() + PATIENCE
        if sent is not None:
            log.warning("delivery %s was begun before: message %d of it may come twice", id, sent + 1)
        draft = next((row[4] for row in rows if row[4]), None)
        for n, part in enumerate(whole(parts(text))):
            if n < (sent or 0):
                continue
            if time.monotonic() > until:
                raise Later(429, 1)
            plain, entities = formatted(part)
            if n > 0 or not draft or not self.replace(chat, draft, plain, entities):
                self.telegram.send(chat, plain, reply_to if n == 0 else None, entities=entities)
            self.store.sent(session, id, n + 1)

    def replace(self, chat, draft, text, entities=()):
        """Reports whether the preview is there to be replaced: a user may have deleted it."""
        try:
            self.telegram.edit(chat, draft, text, entities)
        except Refused as e:
            if e.temporary:
                raise
            return False
        return True

    def ask(self, session, chat, reply_to, data):
        """Shows a question with buttons, if the session still has it."""
        number = data["number"]
        try:
            state = self.turnstile.session(session)
        except Refused as e:
            log.warning("session %s: %s", session, e)
            raise Later(503, e.retry_after) from None
        if state.get("turn") != data["turn"] or (state.get("question") or {}).get("number") != number or self.store.question(session, number):
            return  # closed by now, or shown for another message of the turn
        question = f"{data['turn']}.{number}"
        text = preview(f"May I do this? {data['question']['name']}\n{data['question'].get('text', '')}".strip())
        message = self.telegram.send(chat, text, reply_to, [("Approve", "approve " + question), ("Deny", "deny " + question)])
        senders = {row[2] for row in self.store.of(session, state["messages"])}
        self.store.ask(session, number, chat, message, text, senders)

    def close(self, session, number):
        asked = self.store.question(session, number)
        if asked:
            chat, message, text, _ = asked
            self.replace(chat, message, f"{text}\n\nNot open any more.")
            self.store.close(session, number)


class Receiver(BaseHTTPRequestHandler):
    """Acknowledges a delivery after Telegram has taken it."""

    timeout = 30  # of a slow sender
    secret = outbox = None

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            return self.respond(413)
        body = self.rfile.read(int(length))
        if not verified(self.secret, self.headers, body):
            return self.respond(401)
        id, perhaps = self.headers["webhook-id"], self.headers.get("Turnstile-Possible-Duplicate") == "true"
        try:
            event = json.loads(body)
            if event["type"] == "ping":  # an operator tests this destination
                return self.respond(204)
            self.outbox.handle(id, int(self.headers["Turnstile-Sequence"]), perhaps, event)
        except (AttributeError, KeyError, TypeError, ValueError) as e:  # no delivery of Turnstile
            log.warning("delivery %s is refused: %r", id, e)
            return self.respond(400)
        except Later as e:
            return self.respond(e.status, e.seconds)
        except Unreachable as e:
            log.warning("no response: %s", e)
            return self.respond(503)
        except Refused as e:
            log.warning("refused: %s", e)
            if e.status == 429:
                return self.respond(429, e.retry_after)
            # 422: this chat is gone, or has blocked the bot. Other chats go on.
            return self.respond(422 if e.status in (400, 403) else 503)
        return self.respond(204)

    def respond(self, status, seconds=None):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if seconds:
            self.send_header("Retry-After", str(seconds))
        self.end_headers()

    def log_message(self, *args):
        pass


def serve(address, secret, outbox):
    """Returns a server that hands deliveries to the outbox."""
    host, _, port = address.rpartition(":")
    receiver = type("Receiver", (Receiver,), {"secret": secret, "outbox": outbox})
    return ThreadingHTTPServer((host.strip("[]"), int(port)), receiver)
