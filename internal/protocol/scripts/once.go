// Code generated from ../lua/once.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed once.lua
var onceLua string

// Once is the script of once.lua.
var Once = newMove[OnceArgs]("once", onceLua, readOnce)

// OnceArgs are the arguments of Once.
type OnceArgs struct {
	Step    string // 'begin': store the mark, unless the id has a record; 'end': add the result; 'free': forget the id. The last two do nothing unless the record is the mark
	Mark    string // "hash nonce" of this call
	Outcome string // the result, for end
	Life    int64  // of the record, ms
}

// Words are the arguments as ARGV has them.
func (a OnceArgs) Words() []any {
	return []any{a.Step, a.Mark, a.Outcome, a.Life}
}

// OnceResult is the result of Once.
type OnceResult struct {
	Stored string
}

func readOnce(l script.Result) (r OnceResult) {
	r.Stored = l.Text(0)
	return r
}
