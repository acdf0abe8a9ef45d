package main

const helpText = `worker runs an AI agent for the messages of chat sessions: one turn at a time per
session, in the order of their arrival, across any number of workers. enqueue sends
the messages. All of them use one Redis (7.0 or newer).

  worker --dev    needs nothing else: it starts a Redis, the agent echo, and
                  asynqmon at http://127.0.0.1:8080/asynqmon; settings still count
  worker          needs TURNSTILE_AGENT and a Redis at REDIS_URL

Signals
  SIGTERM, SIGINT (Ctrl-C), or SIGHUP for a restart: the worker drains. It takes no
  new turns, waits TURNSTILE_DRAIN_TIMEOUT for the running ones, then interrupts
  them and leaves them to another worker. A second signal interrupts
  them at once. A third ends the worker at once; other workers recover its turns
  after TURNSTILE_SENTINEL_TTL, as after a crash. The first signal sets the exit
  code. With --dev SIGHUP means that the terminal was closed, and acts as SIGTERM.

  The log, /readyz and a line on a terminal show the progress of a drain.

Errors are lines on stderr, in plain text with --json, too.

Exit codes
  0    a signal ended it, and all turns are finished or requeued
  1    Redis cannot be reached or is unfit, an address is taken, or a third signal
  2    invalid settings, flags or arguments; each problem is a line on stderr
  3    forget: a turn is running in a session, or outcomes are undelivered
  130  show --follow, forget --sender: Ctrl-C
  75   as 0, after SIGHUP: the supervisor should restart it`
