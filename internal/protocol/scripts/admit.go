// Code generated from ../lua/admit.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed admit.lua
var admitLua string

// Admit is the script of admit.lua.
var Admit = newMove[AdmitArgs]("admit", admitLua, readAdmit)

// AdmitArgs are the arguments of Admit.
type AdmitArgs struct {
	Most int64 // how many may wait
}

// Words are the arguments as ARGV has them.
func (a AdmitArgs) Words() []any {
	return []any{a.Most}
}

// AdmitResult is the result of Admit.
type AdmitResult struct {
	May bool
}

func readAdmit(l script.Result) (r AdmitResult) {
	r.May = l.Bool(0)
	return r
}
