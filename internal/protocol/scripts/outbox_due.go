// Code generated from ../lua/outbox_due.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed outbox_due.lua
var outboxDueLua string

// OutboxDue is the script of outbox_due.lua.
var OutboxDue = newMove[OutboxDueArgs]("outbox_due", outboxDueLua, readOutboxDue)

// OutboxDueArgs are the arguments of OutboxDue.
type OutboxDueArgs struct {
	Batch  int64 // how many at most
	Hidden int64 // how long no other call takes them, ms
}

// Words are the arguments as ARGV has them.
func (a OutboxDueArgs) Words() []any {
	return []any{a.Batch, a.Hidden}
}

// OutboxDueResult is the result of OutboxDue.
type OutboxDueResult struct {
	Now      int64
	At       int64
	Sessions script.Result
}

func readOutboxDue(l script.Result) (r OutboxDueResult) {
	r.Now, r.At, r.Sessions = l.Int(0), l.Int(1), l.List(2)
	return r
}
