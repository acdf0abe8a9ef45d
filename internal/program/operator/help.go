package operator

const settingsHeading = `Settings
  Each is an environment variable. An empty one counts as not set. A flag overrides it:
  --concurrency 3 for TURNSTILE_CONCURRENCY=3, --redis URL for REDIS_URL. Other users of
  the machine can read flags: passwords and tokens belong in the environment or, where a
  setting says so, in a file. A duration is written as 500ms, 90s, 1h30m or 30d.

`

const psHelp = `ps lists the sessions in which a turn runs or messages wait. If no worker is running, or
one cannot start an agent, it says so on stderr.

Sessions with a turn come first, the oldest turn at the top. STATE is one of
  starting              claimed by a worker, the agent is not running yet
  running               a turn runs
  waits for a decision  its agent asks a question: /approve or /deny
  waits for a slot      messages wait until a worker has a free slot
  waits for a worker    the same, and no worker is running
  waits for a worker with the agent NAME  no running worker runs the session's agent
  waits for its time    messages wait: for a delay, a retry or a quiet window
  paused                an operator has paused the session: it runs no turns
  broken: KEY           the key has a wrong type (docs/runbook.md)
A turn that waits for its decision or its retry without a worker has ", parked" after it,
and how long until it is denied or goes on. A turn that still runs in a paused session has
", paused" after it. ", suspended" means that the last turns were interrupted too often:
the next message begins a new transcript. FENCE is the running turn's, or the last one's.
SINCE is how long the turn has been running. FOLLOW-UPS are the messages that arrived
since; PENDING are all messages in the queue, with these; DELAYED wait for a later time.

With --json it prints one array, and errors as plain text on stderr:
  {"session","session_id","phase":"idle|starting|running|parked",
   "state":"starting|running|asking|waiting|delayed|paused|broken","paused","suspended",
   "worker","fence","turn","since","until","followups","pending","scheduled",
   "agent","needs","broken"?}
since is when the turn began (RFC 3339, by Redis's clock), until when its open question
counts as denied or a parked turn goes on, or null; followups and the fields after it are
numbers. If nothing runs and nothing waits it prints [].

--workers lists the running workers instead: name, host, process id, slots
(TURNSTILE_CONCURRENCY), running turns with a slot, since when, whether it drains, version
and agents. Gateways follow, with name and version. DIFFERS has the settings that must be the
same everywhere, and of which another process has another value.
Turns and state come from the worker's heartbeat and are up to 5 s old, so /readyz may report a
drain earlier; a worker that was killed stays for 10 s. A program's own worker without
maintenance is listed only by its name, and not always. A killed gateway stays for up
to 3 minutes. With --json it prints one array:
  {"worker","host","pid","slots","turns","draining","since","agents":[],"gateway","version",
   "differs":{SETTING: value}}`

const showHelp = `show prints one session: its state, the waiting messages, the last ten dead letters with the
reasons, its transcript, and a running turn's messages and output so far.

--follow then prints the running turn as it runs, or the next one if one waits, as
enqueue --follow does. It ends with the turn's message, and says how that ended, or with
Ctrl-C (exit code 130), after which the turn continues. If nothing runs or waits it ends
at once.

With --json it prints one object, and errors as plain text on stderr:
  {"session","session_id","phase":"idle|starting|running|parked","state","paused","worker",
   "fence","pending",
   "followups":[{"id","text","mode","state":"queued|steered|collected"}],
   "resume":{"pending","reason","interruptions","suspended","marked_at"},
   "transcript":[{"role","text","tool":{"name","call_id","input","output","error"},
     "message","meta","attachments","usage","turn","at","interrupted"}],
   "turn","messages":[ids of the running turn's],"since","until","scheduled","archived",
   "title","title_by":"user|agent","queue":{"mode","debounce_ms","cap","drop"},"dropped",
   "agent","needs","reply_to","outbox":{"owed","stored","undelivered"},
   "question":{"number","name","text","approvers","asked_at","senders"},"waits_for",
   "turn_messages":[{"id","text","sender"?,"name"?,"at"?}],"reply",
   "dead":[{"id","status","error","at"}]}
state and until are as in ps; state may be suspended or idle, too. turn_messages and
reply are the running turn's: reply is the text so far, since its last tool. With
--follow an object for each event follows, and one for the end, as with enqueue --follow
--json. queue has the settings of /queue, dropped the number of messages that a full
queue dropped and the next turn's note will have, question the agent's open question, or
null, waits_for the key of the program's value or the time for which the turn waits.
agent is the name of the session's agent, needs that of an agent that its messages wait
for, because no running worker has it. reply_to is the destination of the outcomes of
later messages. outbox counts undelivered outcomes: of messages that have not ended
(owed), stored, and given up (undelivered). since, until, asked_at and marked_at are
times (RFC 3339) or null. An entry has only the fields that it needs: message, meta and
attachments belong to a message, usage to the turn, in its last entry; at is in ms since
1970.

A session that never had a message, or that was forgotten after TURNSTILE_SESSION_TTL, is
an error with exit code 1.`

const dashboardHelp = `dashboard serves asynqmon at /asynqmon, and /healthz, /readyz and /metrics, on
TURNSTILE_HTTP_ADDR, by default 127.0.0.1:8080. It runs no turns. SIGTERM, SIGINT
and SIGHUP end it with exit code 0.

Agents that run on this machine can reach it, so it requires a token: without
TURNSTILE_HTTP_TOKEN it makes one, and prints the address with it. That of the
program worker requires none on loopback if TURNSTILE_AGENT is set as for the worker and
that agent runs no programs (echo, or model without TURNSTILE_TOOLS_FILE and
TURNSTILE_MCP_FILE).`

const healthHelp = `health requests /healthz of the worker or dashboard on TURNSTILE_HTTP_ADDR. Without
TURNSTILE_HTTP_ADDR it asks all servers on 127.0.0.1:8080 and the 99 ports after it, where
--dev serves, and prints their addresses. Exit code 0: all are healthy; 1: one is
not, or none responds. A worker that drains, or waits for Redis to come back, is healthy;
one that is stuck is not.`
