#!/usr/bin/env python3
"""An agent for Turnstile that sends an invoice, waits until it is paid, for days if need be,
and holds nothing meanwhile. It has nothing but the standard library.

From the root of the repository, with a redis-server on its usual port:

    TURNSTILE_AGENT=exec TURNSTILE_AGENT_FORMAT=jsonl TURNSTILE_PARK_AFTER=5s \\
    TURNSTILE_AGENT_COMMAND='python3 examples/invoice-agent/agent.py' go run ./cmd/worker

    go run ./cmd/enqueue -s demo --id 42 --follow 1250                    (in another terminal)
    go run ./cmd/enqueue -s demo --answer invoice:42 '{"paid": true}'     (in a third one)

Kill the worker in between, and start it again: the invoice is sent once. docs/agents/exec.md
specifies the lines about steps and waits.
"""

import json
import os
import sys
import urllib.request

SHOP = os.environ.get("SHOP_URL", "")  # gets the invoices; empty: one is named on stderr, which the worker logs
WEEK = 7 * 24 * 3600 * 1000


def emit(type, **fields):
    print(json.dumps({"type": type, **fields}), flush=True)


def read():
    """The next line from the worker."""
    for line in sys.stdin:
        return json.loads(line)
    sys.exit("stdin has ended")


def send(invoice, idempotency_key):
    """Sends an invoice. Who pays it needs its key and its secret."""
    if not SHOP:
        print("the invoice", invoice["key"], "is sent", file=sys.stderr)  # never the secret
        return
    headers = {"Idempotency-Key": idempotency_key, "Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(SHOP, json.dumps(invoice).encode(), headers)).close()


def main():
    message = json.loads(sys.stdin.readline())["messages"][0]
    key = "invoice:" + message["id"]  # the same in every run
    emit("wait", key=key, timeout_ms=WEEK)
    while True:
        line = read()
        if line["type"] == "waiting":  # it can be paid now: send the invoice, once
            invoice = {"key": key, "secret": line["secret"], "cents": message["text"]}
            emit("tool_start", key=key, name="invoice", input={"cents": message["text"]}, run_again=True, hidden=True)
        elif line["type"] == "step" and line["state"] in ("new", "unknown"):
            send(invoice, line["idempotency_key"])
            emit("tool_end", key=key)
        elif line["type"] == "parked":  # it goes on in a later run
            return
        elif line["type"] == "value":
            paid = line.get("value") == {"paid": True}
            emit("result", text="Paid, thank you." if paid else "It was not paid.")
            return


if __name__ == "__main__":
    main()
