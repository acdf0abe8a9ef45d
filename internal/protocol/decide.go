package protocol

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Decide is the user's decision about a question of the running turn, or a program's value. lua/decide.lua.
type Decide struct {
	Session  string
	Question int    // its number; 0: the open one
	Turn     string // the ID of the question's turn, also if Question is 0; "": any
	Decision session.Decision
	Call     string // identifies this call, so that the script recognizes a repetition
	User     string // who decides; "": unknown
	Key      string // with Given: the wait's
	Value    string // with Given: JSON
	Secret   string // with Given: the wait's; "": no check
	Only     int    // the question that was checked: no other is decided; -1: none was open; 0: no check

	// Fresh is how long after a new question the user may still see the one before it. During that
	// time a decision without a number is refused.
	Fresh time.Duration
}

// Do returns ok, parked, none, other, new, answered or wrong, and the open question. parked is ok for a turn that was
// parked for it: the session is to be claimed.
func (d Decide) Do(ctx context.Context, rdb script.Client) (state string, q session.Question, err error) {
	which := ""
	if d.Question != 0 {
		which = strconv.Itoa(d.Question)
	}
	only := ""
	if d.Only != 0 {
		only = strconv.Itoa(d.Only)
	}
	prefix := rediskey.IDPrefix(d.Session)
	if d.Turn != "" {
		fence, ours := strings.CutPrefix(d.Turn, prefix)
		if !ours {
			fence = "0" // no turn's
		}
		which = fence + " " + which
	}
	proven := ""
	if d.Secret != "" {
		proven = proof(d.Secret)
	}
	call := scripts.Decide.Call(scripts.DecideKeys(scripts.KeysOf(d.Session, "", time.Now())), scripts.DecideArgs{
		Prefixes: scripts.PrefixesOf(d.Session), Number: which, Decision: string(d.Decision), Key: d.Key, Value: d.Value, Proof: proven,
		Name: d.Call, By: d.User, Only: only, Settle: d.Fresh.Milliseconds(),
	})
	call.Run(ctx, rdb)
	r := scripts.Decide.Result(call)
	if call.Err == nil && call.Unsure && r.Status != scripts.OK {
		return "", q, fmt.Errorf("%w; the last one found %q", redisconn.ErrUnsure, r.Status)
	}
	q = readQuestion(r.Question)
	if q.Number = int(r.Number); q.Number != 0 {
		q.Turn = prefix + r.Fence
	}
	if r.Wake {
		return "parked", q, call.Err
	}
	return string(r.Status), q, call.Err
}
