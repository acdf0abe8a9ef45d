"""HTTP calls with JSON, for both APIs that the bot uses."""

import http.client
import json
import urllib.error
import urllib.request


class Unreachable(Exception):
    """No response came: the request may have been carried out."""


class Refused(Exception):
    """The API responded with an error."""

    def __init__(self, status, body, retry_after):
        super().__init__(f"{status} {body.get('description') or body.get('title') or ''}".strip())
        self.status = status
        self.body = body
        self.retry_after = retry_after  # seconds, or None
        self.temporary = status in (408, 425, 429) or status >= 500


def open_url(url, body=None, headers=None, timeout=10):
    """Sends a GET, or a POST if there is a body, and returns the response. Neither error has the
    URL in it: Telegram's has the token."""
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})})
        return urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as e:
        raise refused(e) from None
    except (http.client.InvalidURL, ValueError):  # their text has the URL
        raise Unreachable("the API's address or its token is malformed") from None
    except (OSError, http.client.HTTPException) as e:
        raise Unreachable(str(getattr(e, "reason", e)) or type(e).__name__) from None


def refused(response):
    """The error that a response stands for. Telegram has retry_after in the body, Turnstile in a header."""
    try:
        with response:
            body = json.loads(response.read(1 << 16))
    except (OSError, ValueError, http.client.HTTPException):
        body = {}
    if not isinstance(body, dict):
        body = {}
    wait = body.get("parameters", {}).get("retry_after") or response.headers.get("Retry-After", "")
    return Refused(response.code, body, int(wait) if str(wait).isdigit() else None)


def fetch(url, body=None, headers=None, timeout=10):
    """Returns the JSON of a response, and its status."""
    try:
        with open_url(url, body, headers, timeout) as response:
            return json.loads(response.read()), response.status
    except (OSError, ValueError, http.client.HTTPException) as e:
        raise Unreachable(str(e) or type(e).__name__) from None
