package history

import (
	"fmt"
	"strings"
)

// The kinds of sessions, which begin their keys. The kind limits how a session's messages may end, and so
// decides which rules the checker applies.
const (
	Plain     = "plain"    // mode queue only, duplicates, delays, and no commands: the strictest checks
	Modes     = "modes"    // every mode
	Commands  = "commands" // every mode, and slash commands
	Operators = "operator" // mode queue, and the buttons of asynqmon
	OpenAI    = "openai"   // OpenAI's API
	Bursts    = "bursts"   // mode collect only: many short messages at once, which share turns. As strict as Plain
)

// KindOf is a session's kind.
func KindOf(session string) string {
	kind, _, _ := strings.Cut(session, ":")
	return kind
}

// Inside is the agent of simulate, as Via.
const Inside = "inside"

// How an agent must end.
const (
	EndOK    = "ok"
	EndRetry = "retry" // fails in a way that is retried
	EndFail  = "fail"  // fails for good
	EndDie   = "die"   // kills itself
	EndAsk   = "ask"   // asks for a permission first

	// EndPoison kills the worker. A model's server cannot, and ends well.
	EndPoison = "poison"
)

// The errors of agents that fail by their plan.
const (
	ToldToFail  = "told to fail"
	ToldToRetry = "told to try again"
)

// Parked is the Status of an agent that ended because its turn waits without a worker.
const Parked = "parked"

// ValueOf is the value, JSON, that a program gives for a wait with this secret.
func ValueOf(secret string) []byte { return fmt.Appendf(nil, "%q", secret) }

// WorkerKilled is the fault of an agent that kills its worker. Other turns of that worker die too.
const WorkerKilled = "worker killed by its agent"

// PrimaryReplaced is a failover by Redis Sentinel, from when all servers were last in their roles until they were again.
const PrimaryReplaced = "primary replaced by Sentinel"

// Piece is a piece of an agent's text while it works on a message. A turn has each piece once.
func Piece(id string, n int) string { return fmt.Sprintf("%s.%d ", id, n) }

// Reply is the text of a turn that ended well. It names the messages that the agent was given.
func Reply(ids []string) string { return "saw " + strings.Join(ids, ",") + "." }

// Names reports whether a reply names a message.
func Names(reply, id string) bool {
	for _, part := range strings.Split(reply, "saw ")[1:] {
		list, _, _ := strings.Cut(part, ".")
		for named := range strings.SplitSeq(list, ",") {
			if named == id {
				return true
			}
		}
	}
	return false
}
