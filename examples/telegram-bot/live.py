"""Replies as they come: one message of the chat is edited while a turn runs.

This is a preview. The reply itself comes by a delivery (outbox.py), which replaces the preview.
"""

import logging
import threading
import time

from calls import Refused, Unreachable
from telegram import preview

log = logging.getLogger("live")

EDIT_EVERY = 1.0  # seconds between two edits of a message: Telegram limits them


class Turn:
    """What a session's running turn has said."""

    def __init__(self, messages):
        self.messages = messages
        self.text = ""
        self.shown = ""


class Live:
    def __init__(self, telegram, turnstile, store):
        self.telegram, self.turnstile, self.store = telegram, turnstile, store
        self.lock = threading.Lock()
        self.following = set()
        self.turns = {}
        self.quiet = {}  # until when a session's chat is not edited

    def start(self):
        threading.Thread(target=self.paint_all, daemon=True).start()
        for session in self.store.waiting():
            self.follow(session)

    def follow(self, session):
        """Follows a session's events until none of the bot's messages waits for its end."""
        with self.lock:
            if session not in self.following:
                self.following.add(session)
                threading.Thread(target=self.run, args=(session,), daemon=True).start()

    def done(self, session):
        with self.lock:
            if self.store.waiting(session):
                return False
            self.following.remove(session)
            return True

    def run(self, session):
        after, wait = self.store.place(session), 1
        while not self.done(session):
            try:
                for id, event in self.turnstile.events(session, after):
                    wait = 1
                    after = id or after
                    if event:
                        self.see(session, event)
                        if event["type"] in ("turn_ended", "turn_retry", "turn_requeued") and id:
                            self.store.move(session, id)  # a restarted bot reads a running turn from its start
                    if not self.store.waiting(session):
                        break
                else:
                    time.sleep(wait)  # the gateway ended the stream: perhaps it drains
            except (Unreachable, Refused) as e:
                log.warning("events of %s: %s", session, e)
                time.sleep(getattr(e, "retry_after", None) or wait)
                wait = min(2 * wait, 30)

    def see(self, session, event):
        turn, kind = self.turns.get(session), event["type"]
        if kind == "turn_started":
            self.turns[session] = Turn(event["messages"])
        elif kind in ("turn_ended", "gap", "reset", "turn_retry", "turn_requeued"):
            self.turns.pop(session, None)
            if kind == "turn_ended":
                self.store.ended(session, event["messages"])
        elif turn and kind == "text":
            turn.text += event["text"]
        elif turn and kind == "tool_start":
            turn.text = ""  # the reply is the text after the last tool
        elif turn and kind == "steered":
            turn.messages = turn.messages + event["messages"]

    def paint_all(self):
        while True:
            time.sleep(EDIT_EVERY)
            for session in list(self.turns):
                if self.quiet.get(session, 0) < time.monotonic():
                    self.paint(session)

    def paint(self, session):
        """Brings a session's preview up to date, unless its turn has been delivered."""
        with self.store.session(session):
            turn = self.turns.get(session)
            rows = turn and self.store.of(session, turn.messages)
            if not rows or not turn.text.strip() or turn.text == turn.shown:
                return
            text = turn.text
            id, chat, _, reply_to, _ = rows[0]
            draft = next((row[4] for row in rows if row[4]), None)
            try:
                if draft:
                    self.telegram.edit(chat, draft, preview(text))
                else:
                    self.store.draft(session, id, self.telegram.send(chat, preview(text), reply_to))
                turn.shown = text
            except Unreachable as e:
                log.warning("Telegram does not respond: %s", e)
            except Refused as e:
                log.warning("Telegram refused a preview: %s", e)
                self.quiet[session] = time.monotonic() + (e.retry_after or 30)
