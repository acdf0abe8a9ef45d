// Code generated from ../lua/ask.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed ask.lua
var askLua string

// Ask is the script of ask.lua.
var Ask = newMove[AskArgs]("ask", askLua, readAsk)

// AskKeys are the KEYS of Ask.
func AskKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Journal(), k.Owed(), k.Outbox(), k.Deliveries()}
}

// AskArgs are the arguments of Ask.
type AskArgs struct {
	Prefixes
	Owner
	TTL      int64  // the sentinel's, ms
	Nth      int64  // which of the turn's questions, from 1
	Question string // JSON; '': it is withdrawn. A wait's begins with its kind
	Key      string // its name in all runs of the turn, or ''. To withdraw with it is to deny it
}

// Words are the arguments as ARGV has them.
func (a AskArgs) Words() []any {
	return []any{a.Task, a.Prefix, a.Token, a.Fence, a.TTL, a.Nth, a.Question, a.Key}
}

// AskResult is the result of Ask.
type AskResult struct {
	Status   Status
	Decision string
	Number   int64
	By       string
	At       int64
}

func readAsk(l script.Result) (r AskResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case OK:
		r.Decision, r.Number, r.By, r.At = l.Text(1), l.Int(2), l.Text(3), l.Int(4)
	}
	return r
}
