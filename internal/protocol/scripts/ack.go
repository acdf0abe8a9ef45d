// Code generated from ../lua/ack.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed ack.lua
var ackLua string

// Ack is the script of ack.lua.
var Ack = newMove[AckArgs]("ack", ackLua, readAck)

// AckKeys are the KEYS of Ack.
func AckKeys(k Keys) []string {
	return []string{k.Owed(), k.Outbox(), k.Deliveries(), k.Undelivered()}
}

// AckArgs are the arguments of Ack.
type AckArgs struct {
	To       string
	Token    string // of the lease
	Sequence int64  // of the record
	Verdict  string // 'delivered', 'again', 'dead', or 'release': it was not tried
	Wait     int64  // until the next attempt, ms
	Unsure   bool   // again, dead: it may have been delivered
	Refused  bool   // again: the receiver refused this record
	Why      string // the error of the attempt
}

// Words are the arguments as ARGV has them.
func (a AckArgs) Words() []any {
	return []any{a.To, a.Token, a.Sequence, a.Verdict, a.Wait, Flag(a.Unsure), Flag(a.Refused), a.Why}
}

// AckResult is the result of Ack.
type AckResult struct {
	OK   bool
	Left bool
}

func readAck(l script.Result) (r AckResult) {
	r.OK, r.Left = l.Bool(0), l.Bool(1)
	return r
}
