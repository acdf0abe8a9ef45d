// Package exec runs any command as an agent, once per turn.
//
// In the format Text the command finds the message on its stdin and writes the
// reply to its stdout. In the format JSONL it finds the turn as one JSON object
// on its stdin and writes one event a line; docs/events.md specifies both. What
// it writes is passed on while it runs. docs/agents/exec.md has examples.
//
// A JSONL command that announces it is also given the turn's steers, by the
// line, and acknowledges each; only that counts as agent.Steer's Accept. What
// it never reads or acknowledges holds nothing up and is not lost.
//
// How the turn ends:
//
//   - exit code 0: done, if there was a word: text that is not blank, with JSONL also a
//     tool or a result. Without one a final error;
//   - exit code 75 (EX_TEMPFAIL), or the command could not be started: an error
//     marked agent.Retryable;
//   - any other exit code, a signal, a line that is no event, output that is too much
//     or not UTF-8: a final error;
//   - stdout closed: the command has five seconds, or Config.Grace if that is longer, to
//     end in one of these ways. Then it is interrupted, and unless it had said something
//     and exits with code 0 that is a final error.
//
// The text of every error ends with the last lines of the command's stderr.
//
// When the turn's context is cancelled, the command's process group gets SIGINT,
// after Config.Grace SIGKILL. A guardian process watches over the command: Run
// returns only when the command and what it started are gone, and they also go
// when this program is killed or its lease on the session runs out. For that,
// main must call Init first thing.
//
// The environment of the command is PATH, HOME, USER, LOGNAME, SHELL, LANG,
// LC_*, TZ, TERM and TMPDIR of this program, what Config.Env names, and about
// the turn:
//
//	TURNSTILE_SESSION     the session key
//	TURNSTILE_SESSION_ID  the transcript's id
//	TURNSTILE_MESSAGE_ID  the message's id; of several in one turn, the first
//	TURNSTILE_TURN_ID     the turn's id
//	TURNSTILE_FENCE       a number that rises with every turn of the session
package exec
