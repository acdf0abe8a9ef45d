// Package cli runs the command line agents Claude Code, Codex and Gemini CLI, once per turn, with
// their own streams of JSON.
//
// Each keeps its sessions on disk. The adapter stores the session's ID (session.EventState) and
// resumes that session with the next turn. If there is none, or the program no longer knows it, the
// adapter begins a new one and gives it a Recap of the history.
//
// The text goes to stdin, because it may be long, should not appear in the list of processes, and
// must not be taken for an option.
//
// The program's last event says how the turn ended: done, or a final failure with the program's own
// sentence. These programs retry by themselves. So a turn fails retryably only if the program could
// not be started, was killed by its guardian or exits with code 75. A program that exits without a
// last event has failed, whatever its exit code. So has a turn that ends without text and without a
// tool.
//
// Processes run under a guardian, see package exec: main must call exec.Init first.
package cli
