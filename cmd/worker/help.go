package main

const helpText = `worker runs an AI agent for the messages of chat sessions: one turn at a time per
session, in the order of their arrival, across any number of workers. enqueue puts
the messages in. They meet in one Redis (7.0 or newer).

  worker --dev    needs nothing else: a Redis of its own, the agent echo, asynqmon
                  at http://127.0.0.1:8080/asynqmon; what is set below still counts
  worker          needs TURNSTILE_AGENT and a Redis at REDIS_URL

Signals
  SIGTERM, SIGINT (Ctrl-C), or SIGHUP if it is to be started again: it takes
  nothing new, lets running turns end for TURNSTILE_DRAIN_TIMEOUT, then interrupts
  them and puts their messages back in line, for another worker. A second signal
  cuts the wait short. A third ends the worker at once; the messages of its turns
  are taken up again after TURNSTILE_SENTINEL_TTL, as after a crash. The first
  decides on the exit code. With --dev a SIGHUP is the end of the terminal, and
  does what SIGTERM does.

  How far it is: the log tells it, /readyz does, and a line on a terminal.

Errors are lines on stderr, in plain text with --json, too.

Exit codes
  0    it was told to end, and all is given back
  1    Redis cannot be reached or is unfit, an address is taken, or a third signal
  2    wrong settings, flags or arguments; each problem is a line on stderr
  3    forget: a turn is running in the session
  130  show --follow: Ctrl-C
  75   as 0, and SIGHUP asked for another start, which is the supervisor's to do`

const settingsHeading = `Settings
  Each is an environment variable. An empty one counts as not set. Each can also be
  given as a flag, which wins: --concurrency 3 for TURNSTILE_CONCURRENCY=3, --redis
  URL for REDIS_URL. Other users of the machine can read flags: passwords and tokens
  belong into the environment or, where a setting says so, into a file. A duration is
  written as 500ms, 90s, 1h30m or 30d.

`

const psHelp = `ps lists the sessions in which a turn runs or messages wait. If no worker is running, it
says so on stderr.

Those with a turn come first, the oldest turn at the top. STATE is one of
  starting              claimed by a worker, the agent is not running yet
  running               a turn runs
  waits for a decision  a turn runs, and its agent asks a question: /approve or /deny
  waits for a slot      messages wait until a worker has a free slot
  waits for its time    messages wait: for a delay, a retry or a quiet window
  paused                an operator has paused the session: nothing of it is run
with ", paused" behind a turn that still runs, and ", suspended" where the last turns were
interrupted too often: the next message begins a new transcript.
FENCE is that of the running turn, or of the last one. SINCE is how long the turn has
been running. FOLLOW-UPS are the messages that came while it ran; PENDING are all that
wait in line, those included; SCHEDULED wait for a later time.

With --json it prints one array, and errors as plain text on stderr:
  {"session","session_id","phase":"idle|starting|running",
   "state":"starting|running|asking|waiting|delayed|paused","paused","suspended",
   "worker","fence","turn","since","followups","pending","scheduled"}
where since is when the turn began (RFC 3339, by Redis' clock), and followups and
the others are numbers. Nothing runs and nothing waits: [].

--workers lists the workers that are running instead: name, host, process id, slots
(TURNSTILE_CONCURRENCY), turns that run, since when, and whether it drains. Slots and
turns are a few seconds old; a worker that was killed stays for 10 s. A program's own
worker without maintenance is listed by its name only, and not always. With --json it
prints one array:
  {"worker","host","pid","slots","turns","draining","since"}`

const showHelp = `show prints what is known of one session: its state, what waits, why messages were
archived (the last ten), its transcript, and of a running turn its messages and what it has
done so far.

--follow goes on with the running turn as it comes, or with the next one if one waits, as
enqueue --follow does. It ends when the turn's message has ended, and says how, or with
Ctrl-C (exit code 130): the turn goes on then. Where nothing runs or waits it ends at once.

With --json it prints one object, and errors as plain text on stderr:
  {"session","session_id","phase":"idle|starting|running","state","paused","worker",
   "fence","pending",
   "followups":[{"id","text","mode","state":"queued|steered|collected"}],
   "resume":{"pending","reason","interruptions","suspended","marked_at"},
   "transcript":[{"role","text","tool":{"name","call_id","input","output","error"},
     "message","meta","attachments","usage","turn","at","interrupted"}],
   "turn","messages":[ids of the running turn's],"since","scheduled","archived",
   "title","title_by":"user|agent","queue":{"mode","debounce_ms","cap","drop"},"dropped",
   "question":{"number","name","text"},
   "turn_messages":[{"id","text"}],"reply","dead":[{"id","status","error","at"}]}
state is as in ps, or suspended or idle. turn_messages and reply are the running turn's:
reply is the text so far, since its last tool. With --follow an object for each event
comes behind, and one for the end, as with enqueue --follow --json. queue is what /queue
has set, dropped how many messages a full line has lost that the next turn is told of,
question what the agent asks the user, or null. since and marked_at are times (RFC
3339) or null. An entry has only those fields that it needs: message, meta and
attachments are a message's, usage is the turn's, in its last entry; at is in ms since
1970.

A session that no message was ever put into, or that was forgotten after
TURNSTILE_SESSION_TTL, is an error with exit code 1.`

const dashboardHelp = `dashboard serves asynqmon at /asynqmon, and /healthz, /readyz and /metrics, on
TURNSTILE_HTTP_ADDR, by default 127.0.0.1:8080. It runs no turns. SIGTERM, SIGINT
and SIGHUP end it with exit code 0.

Agents that run on this machine reach it too. So it asks for a token: without
TURNSTILE_HTTP_TOKEN it makes one, and prints the address with it. Only where
TURNSTILE_AGENT is set as for the worker, and that agent runs no programs (echo, or
openai without TURNSTILE_TOOLS_FILE), it asks for none on loopback.`

const healthHelp = `health asks the worker or dashboard on TURNSTILE_HTTP_ADDR for /healthz. Without
TURNSTILE_HTTP_ADDR it asks all that serve on 127.0.0.1:8080 or one of the 99 ports after
it, where worker --dev serves, and prints their addresses. Exit code 0: they are well; 1:
one is not, or nobody answers. A worker that drains, or waits for Redis to come back, is
well; one that has got stuck is not.`
