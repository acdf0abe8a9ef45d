// Code generated from ../lua/emit.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed emit.lua
var emitLua string

// Emit is the script of emit.lua.
var Emit = newMove[EmitArgs]("emit", emitLua, readEmit)

// EmitKeys are the KEYS of Emit.
func EmitKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Events()}
}

// EmitArgs are the arguments of Emit.
type EmitArgs struct {
	Owner
	Stream
	TTL    int64    // the sentinel's, ms
	Number string   // of this batch within the turn, from 1
	Batch  []string // events, JSON
}

// Words are the arguments as ARGV has them.
func (a EmitArgs) Words() []any {
	return words([]any{a.Token, a.Fence, a.EventsCap, a.Short, a.LargeBytes, a.TTL, a.Number}, a.Batch)
}

// EmitResult is the result of Emit.
type EmitResult struct {
	Status Status
}

func readEmit(l script.Result) (r EmitResult) {
	r.Status = Status(l.Text(0))
	return r
}
