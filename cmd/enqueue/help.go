package main

const helpText = `enqueue puts messages into sessions. Workers run an agent for them, one turn at a
time per session, in the order of their arrival.

The words of TEXT are joined with blanks; - reads the text from stdin, without its
last line break. A one-line text that begins with a command, such as /status or /stop,
is carried out at once and its reply printed; /help lists the commands. One with a
typing error, such as /stpo, or the beginning of one, such as /stat, is refused with a
suggestion (exit code 2), unless it has arguments that the command does not take. To send
a text that begins with a slash, write two.

--mode says how the message is handled if a turn runs in its session. The default is
the session's /queue setting, or else the worker's:
  queue      it waits in the queue
  collect    it waits in the queue, and shares one turn with others of this mode
  steer      it joins the running turn; it waits in the queue if the agent cannot take it
  interrupt  it ends the running turn, keeps its work, and goes next
  rollback   it ends the running turn, drops its work, and goes next
  reject     it is refused

--file reads a message from each line, as
  {"session":"s1","text":"hello","id":"m1","mode":"queue","meta":{"k":"v"},
   "attachments":[{"name":"a.png","url":"https://..."}],"in":"10s","expires_in":"1h",
   "reply_to":"bot","context":{"chat":42},"deliver_by":"10m",
   "agent":"support"}
where only text is required if -s names the session. Other fields are errors; the
values of meta are strings, context is any JSON. Flags are the defaults of the lines. The messages of one
session are sent in the order of the file, those of several sessions at the same
time. A bad line is reported with its number, and the others are still sent. With
--wait replies are printed as they arrive, each line after its session and id. --timeout
counts for each message from its submission. While 20,000 messages wait for a reply, the
file is read no further.

A message without an id gets one. If the outcome of a message is unknown, repeat it with
its id: it runs once.

--reply-to names the destination to which deliverers post the outcome, as described in
docs/webhooks.md. Every delivery repeats --context, at most 2048 bytes. Without
--reply-to the session's destination is used; with - there is none. Without a TEXT,
--reply-to sets the session's destination, or removes it with -. Redis does not know
which destinations exist: a wrong name is stored, and its deliveries wait. After
--deliver-by the outcome is no longer delivered, whatever its destination allows.

--answer gives a program's value, JSON of up to 256 KiB, to the turn that waits for it,
as described in docs/agents.md. The first value counts; the same again is no error.

If no worker is running, --wait and --follow say so on stderr after 3 seconds.

--follow prints the reply as it arrives. stderr has a line for each tool at its end,
notices, the agent's questions with the commands to decide them, and the turn's usage;
on a terminal also thoughts. If it ended before the message, continue with
  enqueue -s SESSION --id ID --follow --after EVENT_ID
after an event. EVENT_ID is its event_id with --json; 0-0 is the beginning. This sends
nothing, needs no TEXT, and prints no object about the message's acceptance.

A DUR is written as 500ms, 90s, 10m, 1h30m or 30d. --in counts from now, by this
machine's clock. --expires-in counts from the submission, with --in from when the message
is due.

Results go to stdout, errors to stderr, one line each. Text of agents and users cannot
control a terminal, in a pipe either: control characters are printed as U+FFFD, and
controls of text direction and carriage returns are removed. With --json stdout has one
object a line instead, for programs, with the text unchanged:
  {"session","id","status","position"}  the message was accepted, queued (after a
         turn, position counted from 1 with that turn; 0 if unknown),
         scheduled ("at"), a duplicate ("state") or refused ("reason")
  {"session","reply_to"}                the session's destination was set, or removed ("")
  {"session","answer"}                  a turn has the value of this key
  {"session","status":"answered","reply"}  it was a command; one with wrong arguments is
         an error with code 2
  {"session","id","event_id","type",...}   --follow: an event of its turn; the types are in
         docs/events.md
  {"session","session_id","id","turn","status","reply","error","duration_ms"}
         it ended: done, failed, interrupted, expired, stopped or dropped
  {"error","code"}                         also on stderr; code is the exit code
Objects about a line of a file also have its number as "line".

Exit codes
  0    success; also for a duplicate
  1    Redis cannot be reached or refuses, or anything not named here
  2    bad usage or input, also of a command; nothing was stored. With --file the bad
       lines were left out, the others stored
  3    refused: the session was busy (--mode reject), too many messages or outcomes
       wait, or no turn waits for the value of --answer
  4    no reply within --timeout; the message stays
  5    it did not succeed: failed, interrupted, expired, stopped, dropped
  130  Ctrl-C; sent messages stay
  With --file the lines may end with several codes: the exit code is the first of
  130, 1, 3, 2, 5, 4 that a line has.

Environment
  REDIS_URL  the workers' Redis (default redis://127.0.0.1:6379/0), as
             redis://[USER:PASSWORD@]HOST:PORT/DB, rediss://..., redis-socket:///PATH?db=DB,
             redis-sentinel://HOST:PORT,HOST:PORT/DB?master=NAME or
             redis-cluster://HOST:PORT,HOST:PORT
  REDIS_URL_FILE  the path of a file with it. Other users of the machine can read flags,
             so a password belongs in one of these two`

const helpExamples = `  enqueue -s agent:main:telegram:dm:42 What is new today?
  enqueue -s s1 --wait --timeout 5m Summarise the report
  git diff | enqueue -s review --follow -
  enqueue -s s1 --id order-17 --mode interrupt Stop that, do this first
  enqueue -s s1 --in 1h --expires-in 2h Remind me
  enqueue -s s1 --reply-to telegram-bot --context '{"chat":42}' What is new today?
  enqueue -s s1 --reply-to telegram-bot
  enqueue -s s1 --answer payment:42 '{"paid":true}'
  enqueue -s s1 /status
  enqueue --file messages.jsonl --json --wait`
