"""Telegram's Bot API: https://core.telegram.org/bots/api.

No call has a parse_mode, so HTML in texts is shown as it is. Replies have entities, see markdown.py.
"""

import base64
import http.client
import re

from calls import Refused, Unreachable, fetch, open_url

LONGEST = 4096  # of a message's text, in UTF-16 code units
PICTURE_MOST = 1_000_000  # bytes of a picture: a gateway takes 2 MiB a message, and base64 adds a third


class Telegram:
    def __init__(self, api, token):
        self.base = f"{api.rstrip('/')}/bot{token}/"
        self.files = f"{api.rstrip('/')}/file/bot{token}/"

    def call(self, method, patience=10, **parameters):
        return fetch(self.base + method, parameters, timeout=patience)[0]["result"]

    def send(self, chat, text, reply_to=None, buttons=None, entities=()):
        """Sends a message and returns its id. buttons are a row of (label, data)."""
        more = {"entities": entities} if entities else {}
        if reply_to is not None:
            more["reply_parameters"] = {"message_id": reply_to, "allow_sending_without_reply": True}
        if buttons:
            more["reply_markup"] = {"inline_keyboard": [[{"text": label, "callback_data": data} for label, data in buttons]]}
        return self.call("sendMessage", chat_id=chat, text=text, **more)["message_id"]

    def edit(self, chat, message, text, entities=()):
        """Replaces a message's text and removes its buttons. Repeating it does no harm."""
        try:
            more = {"entities": entities} if entities else {}
            self.call("editMessageText", chat_id=chat, message_id=message, text=text, **more)
        except Refused as e:
            if "not modified" not in str(e):
                raise

    def picture(self, message):
        """Returns the picture of a message as an attachment, or None if it has none, and why the
        picture cannot be taken. The attachment has the picture itself: the URL of a file has the bot's
        token, so nobody else may get it."""
        document = message.get("document", {})
        if message.get("photo"):  # the same picture in several sizes
            sizes, mime = message["photo"], "image/jpeg"
        elif document.get("mime_type", "").startswith("image/"):
            sizes, mime = [document], document["mime_type"]
        else:
            return None, None
        fitting = [s for s in sizes if s.get("file_size", PICTURE_MOST) <= PICTURE_MOST]
        if not fitting:
            return None, f"A picture may have {PICTURE_MOST:,} bytes."
        largest = max(fitting, key=lambda s: s.get("width", 0) * s.get("height", 0))
        path = self.call("getFile", file_id=largest["file_id"])["file_path"]
        try:
            with open_url(self.files + path, timeout=30) as response:
                data = response.read(PICTURE_MOST + 1)
        except (OSError, http.client.HTTPException) as e:
            raise Unreachable(str(e) or type(e).__name__) from None
        if len(data) > PICTURE_MOST:
            return None, f"A picture may have {PICTURE_MOST:,} bytes."
        url = f"data:{mime};base64,{base64.b64encode(data).decode()}"
        return {"name": document.get("file_name") or path.rpartition("/")[2], "mime": mime, "url": url, "size": len(data)}, None


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
