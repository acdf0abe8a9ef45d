// Code generated from ../lua/discard.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed discard.lua
var discardLua string

// Discard is the script of discard.lua.
var Discard = newMove[DiscardArgs]("discard", discardLua, readDiscard)

// DiscardArgs are the arguments of Discard.
type DiscardArgs struct {
	Task string // prefix of the session's task hashes
	IDs  []string
}

// Words are the arguments as ARGV has them.
func (a DiscardArgs) Words() []any {
	return words([]any{a.Task}, a.IDs)
}

// DiscardResult is the result of Discard.
type DiscardResult struct {
	Discarded int64
}

func readDiscard(l script.Result) (r DiscardResult) {
	r.Discarded = l.Int(0)
	return r
}
