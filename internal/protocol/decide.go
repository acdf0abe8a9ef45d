package protocol

import (
	"context"
	"strconv"
	"time"

	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Decide answers the question of the turn that runs. lua/answer.lua.
type Decide struct {
	Session  string
	Question int // its number; 0: the one that the user sees
	Decision session.Decision
	Call     string // names this call, so that a repetition is known

	// Fresh is for how long after a question the user may still see the one before it.
	Fresh time.Duration
}

// Do returns ok, none, other, new or answered, and the question that is open.
func (d Decide) Do(ctx context.Context, rdb script.Client) (state string, q session.Question, err error) {
	which := ""
	if d.Question != 0 {
		which = strconv.Itoa(d.Question)
	}
	r, err := answerMove.run(ctx, rdb, answerMove.keys(Keys(d.Session, "", time.Now())), answerMove.args(
		"number", which, "decision", string(d.Decision), "name", d.Call, "settle", d.Fresh.Milliseconds(),
	))
	q = readQuestion(r.text("question"))
	q.Number = int(r.int("number"))
	return r.status(), q, err
}
