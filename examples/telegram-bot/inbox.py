"""Updates of Telegram in: messages, commands and pressed buttons."""

import logging
import time

from calls import Refused, Unreachable

log = logging.getLogger("inbox")

POLL = 50  # seconds that getUpdates waits
COMMANDS = {"/stop": "End the running turn", "/new": "Begin a new conversation", "/status": "Tell what the session does"}
LONGEST_WAIT = 30  # seconds between two attempts at most, and while a token is wrong. A server may ask for more
NOT_YET = (401, 403, 404, 409)  # the bot's token is wrong, or another program polls with it


def session_of(chat):
    """The session of a chat."""
    return f"telegram:{'dm' if chat['type'] == 'private' else 'group'}:{chat['id']}"


def name_of(user):
    """How Turnstile knows a user, or the group that an anonymous administrator speaks for."""
    return str(user["id"]).replace("-", "g")


class Inbox:
    def __init__(self, telegram, turnstile, store, live, destination, chats):
        self.telegram, self.turnstile, self.store, self.live = telegram, turnstile, store, live
        self.destination = destination
        self.chats = chats  # the ids that are served, or None for all
        self.name = ""

    def start(self):
        self.name = self.insist(lambda: self.telegram.call("getMe"), NOT_YET)["username"]
        commands = [{"command": name[1:], "description": text} for name, text in COMMANDS.items()]
        self.insist(lambda: self.telegram.call("setMyCommands", commands=commands), NOT_YET)

    def poll(self):
        """Takes updates for ever. Telegram keeps an update until a later call has an offset above it,
        so those of a bot that died come again. An offset is sent only until Telegram has it: ids may
        begin anew after a quiet week."""
        offset = None
        while True:
            confirm = {} if offset is None else {"offset": offset}
            updates = self.insist(lambda: self.telegram.call(
                "getUpdates", POLL + 10, timeout=POLL, allowed_updates=["message", "callback_query"], **confirm), NOT_YET)  # fmt: skip
            if offset is not None:
                self.store.confirmed(offset)
            offset = None
            for update in updates:
                if not self.store.taken(update["update_id"]):
                    try:
                        self.take(update)
                    except (KeyError, TypeError, ValueError):  # a kind that is unknown here: it must not stop the others
                        log.exception("update %s is skipped", update["update_id"])
                    self.store.take(update["update_id"])
                offset = update["update_id"] + 1

    def insist(self, call, also=()):
        """Repeats a call until it succeeds, or is refused with a status that is neither temporary
        nor one of also."""
        wait = 1
        while True:
            try:
                return call()
            except Unreachable as e:
                log.warning("no response: %s", e)
            except Refused as e:
                if not e.temporary and e.status not in also:
                    raise
                log.warning("refused: %s", e)
                wait = e.retry_after or (wait if e.temporary else LONGEST_WAIT)
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def take(self, update):
        if "callback_query" in update:
            return self.press(update["callback_query"])
        message = update.get("message")
        if not message:
            return None
        chat, user = message["chat"], message.get("from") or message["chat"]
        text = message.get("text") or message.get("caption")
        words = (text or "").split()
        command, _, bot = words[0].partition("@") if words else ("", "", "")
        if command.startswith("/") and bot and bot.lower() != self.name.lower():
            return None  # for another bot of the group
        if not self.serves(chat):
            return self.say(chat, f"This bot does not serve this chat. Its id is {chat['id']}.")
        if command == "/start":
            return self.say(chat, "Hello. Send me a message.")
        if command in COMMANDS and len(words) == 1:
            return self.command(chat, user, command, update["update_id"])
        try:
            picture, problem = self.insist(lambda: self.telegram.picture(message))
        except Refused as e:
            log.warning("picture of update %s: %s", update["update_id"], e)
            problem = "Telegram does not give me this picture."
        if problem:
            return self.say(chat, problem, message["message_id"])
        if not picture and "text" not in message:  # such as a voice message: its caption alone would mislead
            return self.say(chat, "I read text and pictures only.", message["message_id"])
        return self.message(chat, user, message, text or "A picture.", picture, update["update_id"])

    def serves(self, chat):
        return self.chats is None or str(chat["id"]) in self.chats

    def message(self, chat, user, message, text, picture, update):
        session, sender, key = session_of(chat), name_of(user), str(update)
        new = self.store.add(session, key, chat["id"], sender, message["message_id"])
        context = {"chat": chat["id"], "reply_to_message": message["message_id"]}
        body = {"text": text, "as": sender, "reply_to": self.destination, "context": context}
        if picture:
            body["attachments"] = [picture]
        status, problem = self.post(session, key, body)
        if status == 202:
            self.live.follow(session)
        elif new:
            self.store.remove(session, key)
        if problem:
            self.say(chat, f"Your message was not accepted: {problem}", message["message_id"])

    def command(self, chat, user, command, update):
        result, problem = self.post(session_of(chat), str(update), {"text": command, "as": name_of(user), "commands": True}, read=True)
        self.say(chat, problem or result["reply"])

    def post(self, session, key, body, read=False):
        """Returns the status, or the result, and why the gateway refused the message for good."""
        wait = 1
        while True:
            try:
                result, status = self.turnstile.send(session, key, body)
                return (result if read else status), None
            except Unreachable as e:
                log.warning("Turnstile does not respond: %s", e)
            except Refused as e:
                code = e.body.get("code")
                if code == "result_expired":  # this is a repetition: a message ran, a command has begun
                    return e.status, "This may have been carried out before. Send /status to see." if read else None
                if code in ("followups_full", "line_full", "messages_full", "outbox_full"):
                    return e.status, e.body["title"] + ". Try again later."
                if not e.temporary and e.status not in (401, 403, 404):
                    return e.status, e.body.get("detail") or str(e)
                log.warning("Turnstile refused: %s", e)
                wait = max(wait, e.retry_after or (wait if e.temporary else LONGEST_WAIT))
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def press(self, query):
        """Decides a question. The button has the question's name, so an old one decides no other."""
        chat, user = query["message"]["chat"], query["from"]
        verb, _, question = query.get("data", "").partition(" ")
        if not self.serves(chat) or verb not in ("approve", "deny"):
            return self.acknowledge(query, "This button does nothing.")
        session, number = session_of(chat), int(question.rpartition(".")[2])
        with self.store.session(session):
            asked = self.store.question(session, number)
            if asked and asked[3] and name_of(user) not in asked[3].split():
                return self.acknowledge(query, "Only the sender of the message may decide.")
            try:
                self.insist(lambda: self.turnstile.decide(session, verb, question, name_of(user)))
                said = ("Approved" if verb == "approve" else "Denied") + " by " + user["first_name"]
            except Refused as e:
                said = "Not open any more" if e.status == 409 else str(e)
            if asked:
                self.store.close(session, number)
                self.tell(lambda: self.telegram.edit(chat["id"], query["message"]["message_id"], f"{asked[2]}\n\n{said}."))
        return self.acknowledge(query, said)

    def acknowledge(self, query, text):
        self.tell(lambda: self.telegram.call("answerCallbackQuery", callback_query_id=query["id"], text=text))

    def say(self, chat, text, reply_to=None):
        self.tell(lambda: self.telegram.send(chat["id"], text, reply_to))

    def tell(self, call):
        """Makes a call that is not worth more than a line in the log if Telegram refuses it."""
        try:
            self.insist(call)
        except Refused as e:
            log.warning("Telegram refused: %s", e)
