"""Turnstile's HTTP API: docs/http.md."""

import http.client
import json
from urllib.parse import quote

from calls import Unreachable, fetch, open_url

QUIET = 45  # seconds without a byte after which a stream is dead: a comment comes each 15 s


class Turnstile:
    def __init__(self, url, token):
        self.base = url.rstrip("/") + "/v1/sessions/"
        self.headers = {"Authorization": "Bearer " + token} if token else {}

    def path(self, session, rest=""):
        return self.base + quote(session, safe="") + rest

    def send(self, session, key, body):
        """Sends a message or a command. Repeated with the same key it is carried out once."""
        return fetch(self.path(session, "/messages"), body, {**self.headers, "Idempotency-Key": key})

    def session(self, session):
        return fetch(self.path(session), headers=self.headers)[0]

    def decide(self, session, verb, question, user):
        """Approves or denies a question, TURN.NUMBER."""
        return fetch(self.path(session, "/" + verb), {"question": question, "as": user}, self.headers)[0]

    def events(self, session, after):
        """Yields (id, event) behind the event with the id after, for as long as the stream lasts. A
        gap and a reset have no id. A comment yields (None, None)."""
        headers = {**self.headers, "Accept": "text/event-stream"}
        if after:
            headers["Last-Event-ID"] = after
        id = data = None
        try:
            with open_url(self.path(session, "/events"), headers=headers, timeout=QUIET) as stream:
                for line in stream:
                    name, _, value = line.decode().rstrip("\r\n").partition(":")
                    value = value.removeprefix(" ")
                    if name == "id":
                        id = value
                    elif name == "data":
                        data = value
                    elif name == "" and value == "" and not line.startswith(b":"):
                        if data is not None:
                            yield id, json.loads(data)
                        id = data = None
                    elif name == "":
                        yield None, None
        except (OSError, ValueError, http.client.HTTPException) as e:
            raise Unreachable(str(e) or type(e).__name__) from None
