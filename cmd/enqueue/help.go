package main

const helpText = `enqueue puts messages into sessions. Workers run an agent for them, one turn at a
time per session, in the order of their arrival.

The words of TEXT are joined with blanks; - reads the text from stdin, without
its last line break. A one-line text whose first word is a command, as /status or
/stop, is carried out at once and its answer printed; /help lists them. One with a
typing error, as /stpo, is refused with a suggestion (exit code 2). A text that is to
begin with a slash is written with two.

--mode says what the message does if a turn runs in its session; without it the
session's /queue says, or else the worker:
  queue      waits in line
  collect    waits in line, and is one turn with others that do
  steer      is handed to the running turn; waits in line if that cannot take it
  interrupt  ends the running turn, whose work is kept, and goes next
  rollback   ends the running turn, of which nothing is kept, and goes next
  reject     is refused

--file reads a message from each line, as
  {"session":"s1","text":"hello","id":"m1","mode":"queue","meta":{"k":"v"},
   "attachments":[{"name":"a.png","url":"https://..."}],"in":"10s","expires_in":"1h"}
where only text is required if -s names the session. Other fields are errors; the
values of meta are strings.
Flags are the defaults of lines that do not say otherwise. The messages of one
session go in in the order of the file, those of several at the same time. A bad
line is reported with its number, and the others still go in. With --wait answers
are printed as they come, each line behind its session and id, and --timeout counts
for each message from when it went in; with 20,000 unanswered ones the file is read
on as they are answered.

A message without an id is given one. To repeat a message whose fate is unknown,
repeat it with its id: it is run once.

Whoever waits is told on stderr after 3 seconds if no worker is running.

--follow prints the reply as it comes. On stderr are a line for each tool once it has
ended, notices, the agent's questions with how to answer them, and what the turn has
used; on a terminal thoughts, too. Where it ended before the message did, it goes on with
  enqueue -s SESSION --id ID --follow --after EVENT_ID
behind the event of which EVENT_ID is the event_id with --json; 0-0 is the beginning.
Nothing is put in then, a TEXT is not needed, and there is no object of the message's
acceptance.

A DUR is written as 500ms, 90s, 10m, 1h30m or 30d. That of --in is counted from now, by
this machine's clock; that of --expires-in from when the message has come in, with --in
from when it is due.

Results go to stdout, errors to stderr, one line each. What agents and users say is
printed so that it cannot steer a terminal, in a pipe too: control characters become
U+FFFD, and controls of text direction and carriage returns go. With --json stdout has
one object a line instead, for programs, which read in it what was said as it was:
  {"session","id","status","position"}  the message was accepted, queued (behind a
         turn, position counted from 1 with that turn; 0 where none is known),
         scheduled ("at"), a duplicate ("state") or refused ("reason")
  {"session","status":"answered","reply"}  it was a command; one whose words are wrong
         is an error with code 2
  {"session","id","event_id","type",...}   --follow: an event of its turn; the types are in
         docs/events.md. One without event_id comes with the next one that has it
  {"session","session_id","id","turn","status","reply","error","duration_ms"}
         it ended: done, failed, interrupted, expired, stopped or dropped
  {"error","code"}                         also on stderr; code is the exit code
Objects about a line of a file have its number as "line" besides.

Exit codes
  0    all well; a duplicate too
  1    Redis cannot be reached or refuses, or anything not named here
  2    bad usage or input, also of a command; nothing was stored. With --file the bad
       lines were left out, the others stored
  3    refused: the session was busy (--mode reject), or too many messages wait
  4    no answer within --timeout; the message goes on
  5    it ended otherwise than done: failed, interrupted, expired, stopped, dropped
  130  Ctrl-C; what was put in stays
  With --file the first of 130, 1, 3, 2, 5, 4 that any line had.

Environment
  REDIS_URL  the workers' Redis (default redis://127.0.0.1:6379/0), as
             redis://[USER:PASSWORD@]HOST:PORT/DB, rediss://..., redis-socket:///PATH?db=DB,
             redis-sentinel://HOST:PORT,HOST:PORT/DB?master=NAME or
             redis-cluster://HOST:PORT,HOST:PORT
  REDIS_URL_FILE  the path of a file with it instead; other users of the machine can
             read flags, so a password belongs into one of the two`

const helpExamples = `  enqueue -s agent:main:telegram:dm:42 What is new today?
  enqueue -s s1 --wait --timeout 5m Summarise the report
  git diff | enqueue -s review --follow -
  enqueue -s s1 --id order-17 --mode interrupt Stop that, do this first
  enqueue -s s1 --in 1h --expires-in 2h Remind me
  enqueue -s s1 /status
  enqueue --file messages.jsonl --json --wait`
