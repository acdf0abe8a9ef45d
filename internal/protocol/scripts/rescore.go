// Code generated from ../lua/rescore.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed rescore.lua
var rescoreLua string

// Rescore is the script of rescore.lua.
var Rescore = newMove[RescoreArgs]("rescore", rescoreLua, readRescore)

// RescoreArgs are the arguments of Rescore.
type RescoreArgs struct {
	Members []string // at most 1,000
	Were    []string // the score that was read of each
	To      []string // the new score of each, or '' to remove it
}

// Words are the arguments as ARGV has them.
func (a RescoreArgs) Words() []any {
	return words([]any{}, a.Members, a.Were, a.To)
}

// RescoreResult is the result of Rescore.
type RescoreResult struct {
	Changed int64
}

func readRescore(l script.Result) (r RescoreResult) {
	r.Changed = l.Int(0)
	return r
}
