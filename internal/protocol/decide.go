package protocol

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Decide is the user's decision about a question of the running turn. lua/decide.lua.
type Decide struct {
	Session  string
	Question int    // its number; 0: the open one
	Turn     string // the id of the question's turn, also if Question is 0; "": whichever
	Decision session.Decision
	Call     string // names this call, so that the script recognizes a repetition
	User     string // who decides; "": unknown

	// Fresh is for how long after a question the user may still see the one before it. For so long
	// a decision without a number is refused.
	Fresh time.Duration
}

// Do returns ok, none, other, new or answered, and the open question.
func (d Decide) Do(ctx context.Context, rdb script.Client) (state string, q session.Question, err error) {
	which := ""
	if d.Question != 0 {
		which = strconv.Itoa(d.Question)
	}
	prefix := rediskey.IDPrefix(d.Session)
	if d.Turn != "" {
		fence, ours := strings.CutPrefix(d.Turn, prefix)
		if !ours {
			fence = "0" // no turn's
		}
		which = fence + " " + which
	}
	r, err := decideMove.run(ctx, rdb, decideMove.keys(Keys(d.Session, "", time.Now())), decideMove.args(
		"task", rediskey.For(d.Session).TaskPrefix(), "prefix", rediskey.IDPrefix(d.Session),
		"number", which, "decision", string(d.Decision), "name", d.Call, "user", d.User, "settle", d.Fresh.Milliseconds(),
	))
	if err == nil && r.unsure && r.status() != "ok" {
		return "", q, fmt.Errorf("%w; the last one found %q", redisconn.ErrUnsure, r.status())
	}
	q = readQuestion(r.text("question"))
	if q.Number = int(r.int("number")); q.Number != 0 {
		q.Turn = prefix + r.text("fence")
	}
	return r.status(), q, err
}
