// Package cli runs the command line agents Claude Code, Codex and Gemini CLI,
// once per turn, with their own streams of JSON.
//
// Each keeps sessions of its own on disk. The adapter remembers the id that it was
// told (agent.EventState) and resumes that session with the next turn. Where there
// is none, or the program does not know it any more, a new one is begun, and
// agent.Recap tells it what was said before.
//
// The text goes over stdin: it may be long, is not seen in the list of processes,
// and is never taken for an option.
//
// How the turn ends is what the program's last event says: done, or a final failure
// with the program's own sentence. These programs try again by themselves what can
// be tried again; so only one that could not be started, was killed by its guardian
// or exits with code 75 fails retryably. One that exits without a last event has
// failed, whatever its exit code. A turn that ends without a word or a tool has, too.
//
// Everything about processes is as in package exec, whose Init main must call.
package cli
