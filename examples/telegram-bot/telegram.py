"""Telegram's Bot API: https://core.telegram.org/bots/api.

No call has a parse_mode, so HTML and Markdown in texts are shown as they are.
"""

import re

from calls import Refused, fetch

LONGEST = 4096  # of a message's text, in UTF-16 code units


class Telegram:
    def __init__(self, api, token):
        self.base = f"{api.rstrip('/')}/bot{token}/"

    def call(self, method, patience=10, **parameters):
        return fetch(self.base + method, parameters, timeout=patience)[0]["result"]

    def send(self, chat, text, reply_to=None, buttons=None):
        """Sends a message and returns its id. buttons are a row of (label, data)."""
        more = {}
        if reply_to is not None:
            more["reply_parameters"] = {"message_id": reply_to, "allow_sending_without_reply": True}
        if buttons:
            more["reply_markup"] = {"inline_keyboard": [[{"text": label, "callback_data": data} for label, data in buttons]]}
        return self.call("sendMessage", chat_id=chat, text=text, **more)["message_id"]

    def edit(self, chat, message, text):
        """Replaces a message's text and removes its buttons. Repeating it does no harm."""
        try:
            self.call("editMessageText", chat_id=chat, message_id=message, text=text)
        except Refused as e:
            if "not modified" not in str(e):
                raise


def units(text):
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text, most=LONGEST):
    """Returns how many characters of a text fit into a message."""
    if units(text) <= most:
        return len(text)
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if units(text[:middle]) <= most else (low, middle - 1)
    return low


def parts(text):
    """Splits a text into messages: at the end of a line if one ends in the second half, else at a
    blank, else anywhere. Telegram refuses messages of blanks only, so none is made."""
    found = []
    while text:
        end = cut(text)
        if end < len(text):
            for space in ("\n", r"\s"):
                places = [m.end() for m in re.finditer(space, text[:end]) if m.end() > end // 2]
                if places:
                    end = places[-1]
                    break
        part, text = text[:end].rstrip(), text[end:]
        if part.strip():
            found.append(part)
    return found


def preview(text):
    """The beginning of a text that fits into a message."""
    end = cut(text)
    return text if end == len(text) else text[: cut(text, LONGEST - 1)] + "…"
