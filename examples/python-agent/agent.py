#!/usr/bin/env python3
"""An agent for Turnstile in Python, with nothing but the standard library.

From the root of the repository, with a redis-server on its usual port:

    TURNSTILE_AGENT=exec TURNSTILE_AGENT_FORMAT=jsonl \\
    TURNSTILE_AGENT_COMMAND='python3 examples/python-agent/agent.py' go run ./cmd/worker

    go run ./cmd/enqueue -s demo --follow 'hello there'        (in another terminal)

The worker starts it once per turn. It counts the words of the message and repeats
them one at a time, so that there is time to interrupt it or to steer it:
go run ./cmd/enqueue -s demo --mode steer 'and this'. docs/agents/jsonl.md specifies every
line that it reads and writes.
"""

import json
import os
import select
import signal
import sys

NAME = "python-example"
PACE = 0.05  # seconds a word


def emit(type, **fields):
    """Writes one event and flushes it, so that it is seen at once."""
    print(json.dumps({"type": type, **fields}), flush=True)


def log(text):
    """Writes to stderr, which is for the operator: the worker logs it at debug, and
    adds its last lines to the detail of a failed turn. stdout has only events."""
    print(text, file=sys.stderr)


class Stdin:
    """The lines of stdin. They are read with os.read and select, because the buffer
    of sys.stdin would hide from select what has arrived."""

    def __init__(self):
        self.buffer = b""
        self.open = True

    def line(self, timeout=None):
        """The next line, or None if none came in time or stdin has ended."""
        while b"\n" not in self.buffer:
            if not self.open:
                if timeout:
                    select.select([], [], [], timeout)
                return None
            if not select.select([0], [], [], timeout)[0]:
                return None
            data = os.read(0, 65536)
            self.open = bool(data)
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()


def remembered(turn):
    """How many turns of this conversation came before.

    The next turn receives the data of a `state` event, on any worker. It is missing in
    the first turn, and when anybody else has changed the transcript since. Then the
    history, which is always there, has the number.
    """
    state = turn.get("state") or {}
    if state.get("agent") == NAME:
        return state["turns"]
    return len({e["turn"] for e in turn.get("history") or [] if e["role"] == "assistant"})


def main():
    # An interrupt (/stop, a timeout, a worker that drains) is SIGINT, and SIGKILL after
    # TURNSTILE_INTERRUPT_GRACE. This only sets a flag, so that no line is incomplete.
    interrupted = []
    signal.signal(signal.SIGINT, lambda *_: interrupted.append(True))

    stdin = Stdin()
    first = stdin.line()
    if first is None:
        sys.exit("there was no turn on stdin: run me as TURNSTILE_AGENT_COMMAND")
    turn = json.loads(first)
    number = remembered(turn) + 1

    emit("ready", steers=True)  # from here on steers may come, a line each
    emit("state", data={"agent": NAME, "turns": number})  # early: an interrupted turn counts, too

    # messages has one element, unless several were collected into the turn. The note is
    # Turnstile's text for the agent. Mostly there is none.
    text = "\n\n".join(message["text"] for message in turn["messages"])
    if turn.get("note"):
        log(turn["note"])

    emit("tool_start", name="count_words", call_id="1", input={"text": text})
    heard = len(text.split())
    emit("tool_end", call_id="1", output={"words": heard})

    said = 0
    words = f"Turn {number}, {heard} words: {text}".split()
    while words and not interrupted:
        emit("text", text=(" " if said else "") + words.pop(0))
        said += 1
        # A steer can join the turn between two words. line waits as long as a word
        # takes, unless a steer comes sooner.
        line = stdin.line(PACE)
        steer = json.loads(line) if line else {}
        if steer.get("type") == "steer":
            message = steer["message"]
            emit("steered", id=message["id"])  # first, because from here on it belongs to this turn
            words += ["...and", "you", "added:"] + message["text"].split()

    emit("usage", usage={"model": NAME, "input_tokens": heard, "output_tokens": said})
    if interrupted:
        log("interrupted")
        return  # the emitted text is kept; there is no result
    # Without a text the reply is the text emitted after the last tool or steer.
    emit("result")


if __name__ == "__main__":
    main()
