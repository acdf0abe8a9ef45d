// Package protocol is the session protocol: sessions have asynq queues, and the owner of a session
// runs its messages one turn at a time.
//
// Each move is one Lua script (lua/*.lua) and a Go function that calls it. Package scripts has the
// script as Redis gets it, with types of its arguments and its result. The senders' moves (Notify, Stop, Undo, ...) need no ownership. A
// [Consumer] claims sessions, and a [Claim] makes the owner's moves: each of their scripts checks
// the claim's token and fencing token, and writes nothing for a claim that was lost
// (lease.ErrLost). Every move may be sent again after a lost reply.
//
// The package also holds what all moves share: the KEYS of a session, the indexes that wake
// workers, and the walk over all sessions. docs/design.md describes the protocol, docs/keys.md
// the keys and states.
package protocol
