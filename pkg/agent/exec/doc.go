// Package exec runs any command as an agent, once per turn.
//
// In the format Text the command reads the message from its stdin and writes the reply to its
// stdout. In the format JSONL it reads the turn as one JSON object and writes one event a line;
// docs/agents/jsonl.md specifies both. Its output is passed on while it runs. docs/agents/exec.md has
// examples.
//
// A JSONL command that announces it can also receive the turn's steers, one a line. It acknowledges
// each, and only then is the steer accepted. A steer that it does not read or acknowledge blocks
// nothing and is not lost.
//
// How the turn ends:
//
//   - exit code 0: done, if the output has text that is not blank, or with JSONL a tool or a
//     result. Otherwise a final error;
//   - exit code 75 (EX_TEMPFAIL), or the command could not be started: an error marked
//     agent.Retryable;
//   - any other exit code, a signal, a line that is not an event, output that is too long or not
//     UTF-8: a final error;
//   - stdout closed: the command has five seconds, or Config.Grace if that is longer, to end in one
//     of these ways. Then it is interrupted. That is a final error, unless there was output and the
//     command exits with code 0.
//
// The text of every error ends with the last lines of the command's stderr.
//
// When the turn's context is cancelled, the command's process group receives SIGINT, and SIGKILL
// after Config.Grace. A guardian process watches over the command: Run returns only when the
// command and all its processes are gone. They also end when this program is killed or its lease on
// the session runs out. For that, main must call Init first.
//
// The command's environment is PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_*, TZ, TERM and TMPDIR of
// this program, the variables that Config.Env names, and these about the turn:
//
//	TURNSTILE_SESSION     the session key
//	TURNSTILE_SESSION_ID  the transcript's ID
//	TURNSTILE_MESSAGE_ID  the message's ID; of several in one turn, the first
//	TURNSTILE_TURN_ID     the turn's ID
//	TURNSTILE_FENCE       a number that rises with every turn of the session
//	TRACEPARENT           the W3C trace context of the message, if it has one
package exec
