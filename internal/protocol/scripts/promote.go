// Code generated from ../lua/promote.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed promote.lua
var promoteLua string

// Promote is the script of promote.lua.
var Promote = newMove[PromoteArgs]("promote", promoteLua, readPromote)

// PromoteKeys are the KEYS of Promote.
func PromoteKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run()}
}

// PromoteArgs are the arguments of Promote.
type PromoteArgs struct {
	Owner
	TTL int64 // the sentinel's, ms
}

// Words are the arguments as ARGV has them.
func (a PromoteArgs) Words() []any {
	return []any{a.Token, a.Fence, a.TTL}
}

// PromoteResult is the result of Promote.
type PromoteResult struct {
	Status Status
	Steer  bool
	By     string
}

func readPromote(l script.Result) (r PromoteResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case OK:
		r.Steer = l.Bool(1)
	case Refused:
		r.By = l.Text(1)
	}
	return r
}
