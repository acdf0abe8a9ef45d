// Code generated from ../lua/forget.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed forget.lua
var forgetLua string

// Forget is the script of forget.lua.
var Forget = newMove[ForgetArgs]("forget", forgetLua, readForget)

// ForgetKeys are the KEYS of Forget.
func ForgetKeys(k Keys) []string {
	return []string{k.Sentinel(), k.Run(), k.Record(), k.Followups(), k.Resume(), k.Events(), k.Transcript(), k.Partial(), k.Journal(), k.Pending(), k.Active(), k.Lease(), k.Scheduled(), k.Retry(), k.Completed(), k.Processed(), k.Archived(), k.Failed(), k.Stopped(), k.State(), k.Owed(), k.Outbox(), k.Deliveries(), k.Undelivered(), k.Audit()}
}

// ForgetArgs are the arguments of Forget.
type ForgetArgs struct {
	Age int64 // at which it goes, ms
}

// Words are the arguments as ARGV has them.
func (a ForgetArgs) Words() []any {
	return []any{a.Age}
}

// ForgetResult is the result of Forget.
type ForgetResult struct {
	Gone bool
}

func readForget(l script.Result) (r ForgetResult) {
	r.Gone = l.Bool(0)
	return r
}
