// Package protocol is the session protocol: each session has an asynq queue, and its owner runs the
// messages one turn at a time.
//
// Each move is one Lua script (lua/*.lua) and a Go function that calls it. Package scripts has the
// script as Redis gets it, with types of its arguments and its result. The senders' moves (Notify, Stop, Undo, ...) need no ownership. A
// [Consumer] claims sessions, and a [Claim] makes the owner's moves: each of their scripts checks
// the claim's token and fencing token, and writes nothing for a claim that was lost
// (lease.ErrLost). Every move may be sent again after a lost reply.
//
// Packages index and stream have the indexes that wake workers, and the events. docs/internals/design.md
// describes the protocol, docs/internals/keys.md the keys and states.
package protocol
