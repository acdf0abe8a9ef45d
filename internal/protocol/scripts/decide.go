// Code generated from ../lua/decide.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed decide.lua
var decideLua string

// Decide is the script of decide.lua.
var Decide = newMove[DecideArgs]("decide", decideLua, readDecide)

// DecideKeys are the KEYS of Decide.
func DecideKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Journal(), k.Outbox(), k.Deliveries(), k.Audit()}
}

// DecideArgs are the arguments of Decide.
type DecideArgs struct {
	Prefixes
	Number   string // of the question, or '' for the one that the user sees. A turn's fence and a blank before it mean that turn only
	Decision string // 'allow', 'always', 'deny', or 'value'
	Key      string // of the wait that gets the value
	Value    string // JSON
	Proof    string // what the wait must have as its proof; '': it is not checked
	Name     string // of this call, to recognize its repetition
	By       string // who decides, or '': unknown
	Only     string // the question that was checked: no other is decided; '': none was
	Settle   int64  // for how long a user may still see the question before it, ms
}

// Words are the arguments as ARGV has them.
func (a DecideArgs) Words() []any {
	return []any{a.Task, a.Prefix, a.Number, a.Decision, a.Key, a.Value, a.Proof, a.Name, a.By, a.Only, a.Settle}
}

// DecideResult is the result of Decide.
type DecideResult struct {
	Status   Status
	Number   int64
	Question string
	Fence    string
	Wake     bool
}

func readDecide(l script.Result) (r DecideResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case New:
		r.Number, r.Question, r.Fence = l.Int(1), l.Text(2), l.Text(3)
	case OK:
		r.Number, r.Question, r.Fence, r.Wake = l.Int(1), l.Text(2), l.Text(3), l.Bool(4)
	case Other:
		r.Number, r.Question, r.Fence = l.Int(1), l.Text(2), l.Text(3)
	}
	return r
}
