// Code generated from ../lua/trim.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed trim.lua
var trimLua string

// Trim is the script of trim.lua.
var Trim = newMove[TrimArgs]("trim", trimLua, readTrim)

// TrimKeys are the KEYS of Trim.
func TrimKeys(k Keys) []string {
	return []string{k.Run(), k.Followups(), k.Events(), k.Pending(), k.Scheduled(), k.Processed(), k.ProcessedDay(), k.Archived(), k.Failed(), k.FailedDay(), k.Owed(), k.Outbox(), k.Deliveries()}
}

// TrimArgs are the arguments of Trim.
type TrimArgs struct {
	Prefixes
	Stream
	Longest int64 // how many bytes a task's msg may have
	LineCap int64 // how many may wait
}

// Words are the arguments as ARGV has them.
func (a TrimArgs) Words() []any {
	return []any{a.Task, a.Prefix, a.EventsCap, a.Short, a.LargeBytes, a.Longest, a.LineCap}
}

// TrimResult is the result of Trim.
type TrimResult struct {
	Left int64
	More bool
}

func readTrim(l script.Result) (r TrimResult) {
	r.Left, r.More = l.Int(0), l.Bool(1)
	return r
}
