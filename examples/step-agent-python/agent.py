#!/usr/bin/env python3
"""An agent for Turnstile that charges a card and sends a receipt, each once, even if its
worker is killed. It has nothing but the standard library.

From the root of the repository, with a redis-server on its usual port:

    go run ./examples/payments -delay 20s          (plays the payment service)

    TURNSTILE_AGENT=exec TURNSTILE_AGENT_FORMAT=jsonl TURNSTILE_SENTINEL_TTL=2s \\
    TURNSTILE_AGENT_COMMAND='python3 examples/step-agent-python/agent.py' go run ./cmd/worker

    go run ./cmd/enqueue -s demo --follow 1250     (in another terminal)

Kill the worker with SIGKILL within the 20 seconds, and start it again. docs/agents/exec.md
specifies the lines about steps.
"""

import json
import os
import signal
import sys
import urllib.error
import urllib.request

PAYMENTS = os.environ.get("PAYMENTS_URL", "http://127.0.0.1:8099")


class Failed(Exception):
    """A step failed for good."""


class Busy(Exception):
    """A step failed, and may run again."""


def emit(type, **fields):
    print(json.dumps({"type": type, **fields}), flush=True)


def answer(type, key):
    """The answer to a line about a step."""
    for line in sys.stdin:
        answer = json.loads(line)
        if answer["type"] == type and answer["key"] == key:
            return answer
    sys.exit("stdin has ended")


def step(key, name, input, do):
    """Returns what do returned, in this run of the turn or in an earlier one.

    run_again, because the service knows idempotency keys: do runs again if a worker died
    in the middle of it. Without it a notice asks the user to check, and a step in the
    state unknown should end with an error.
    """
    emit("tool_start", key=key, name=name, input=input, run_again=True)
    known = answer("step", key)
    if known["state"] == "refused":
        sys.exit(known["error"])
    if known["state"] == "done":
        if "error" in known:
            raise Failed(known["error"])
        return known["output"]
    try:
        end, raised = {"output": do(known["idempotency_key"])}, None
    except Failed as e:
        end, raised = {"error": str(e)}, e
    except Busy as e:
        end, raised = {"error": str(e), "again": True}, e
    emit("tool_end", key=key, **end)
    stored = answer("stored", key)
    if "error" in stored:
        sys.exit(stored["error"])
    if raised:
        raise raised
    return end["output"]


def post(path, key, body):
    """One request to the payment service."""
    request = urllib.request.Request(
        PAYMENTS + path, json.dumps(body).encode(), {"Idempotency-Key": key}, method="POST"
    )
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)["id"]
    except urllib.error.HTTPError as e:
        raise (Busy if e.code >= 500 else Failed)(f"{path}: {e}") from e
    except (OSError, ValueError) as e:
        raise Busy(f"{path}: {e}") from e


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt leaves the running step open
    turn = json.loads(sys.stdin.readline())
    replies = []
    for message in turn["messages"]:  # more than one if the worker collects
        try:
            price = {"cents": int(message["text"])}
        except ValueError:
            replies.append("Say a price in cents, such as 1250.")
            continue
        # The keys of the steps are the same in each run of the turn.
        ids = [
            step(f"{name}:{message['id']}", name, price, lambda key: post(f"/{name}s", key, price))
            for name in ("charge", "receipt")
        ]
        replies.append(f"Charged {price['cents']} cents: {', '.join(ids)}.")
    emit("result", text="\n".join(replies))


if __name__ == "__main__":
    try:
        main()
    except Failed as e:
        emit("error", message=str(e))
    except Busy as e:
        emit("error", message=str(e), retryable=True)
