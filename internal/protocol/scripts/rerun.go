// Code generated from ../lua/rerun.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed rerun.lua
var rerunLua string

// Rerun is the script of rerun.lua.
var Rerun = newMove[RerunArgs]("rerun", rerunLua, readRerun)

// RerunKeys are the KEYS of Rerun.
func RerunKeys(k Keys, call string) []string {
	return []string{k.Pending(), k.Archived(), k.Owed(), k.Outbox(), k.Deliveries(), k.Audit(), call}
}

// RerunArgs are the arguments of Rerun.
type RerunArgs struct {
	Prefixes
	By       string   // who does it, '' if unknown: see audit
	Statuses string   // the outcomes that are meant, separated by blanks
	LineCap  int64    // how many messages may wait: those without room stay dead letters
	IDs      []string // of the tasks
	Arrived  []string // of each, '' if it has none. Another one shows that the message has been run and has failed since
}

// Words are the arguments as ARGV has them.
func (a RerunArgs) Words() []any {
	return words([]any{a.Task, a.Prefix, a.By, a.Statuses, a.LineCap}, a.IDs, a.Arrived)
}

// RerunResult is the result of Rerun.
type RerunResult struct {
	Moved int64
	Now   int64
}

func readRerun(l script.Result) (r RerunResult) {
	r.Moved, r.Now = l.Int(0), l.Int(1)
	return r
}
