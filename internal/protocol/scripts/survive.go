// Code generated from ../lua/survive.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed survive.lua
var surviveLua string

// Survive is the script of survive.lua.
var Survive = newMove[SurviveArgs]("survive", surviveLua, readSurvive)

// SurviveKeys are the KEYS of Survive.
func SurviveKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Resume()}
}

// SurviveArgs are the arguments of Survive.
type SurviveArgs struct {
	Owner
	Task string   // prefix of the session's task hashes
	IDs  []string // of the turn's tasks
}

// Words are the arguments as ARGV has them.
func (a SurviveArgs) Words() []any {
	return words([]any{a.Task, a.Token, a.Fence}, a.IDs)
}

// SurviveResult is the result of Survive.
type SurviveResult struct {
	Now  int64
	Free bool
}

func readSurvive(l script.Result) (r SurviveResult) {
	r.Now, r.Free = l.Int(0), l.Bool(1)
	return r
}
