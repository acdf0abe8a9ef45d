package protocol

import (
	"context"
	"strconv"
	"time"

	"turnstile/internal/rediskey"
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
	a, err := answerScript.Run(ctx, rdb, Keys(d.Session, "", time.Now())[:keysToEvents],
		rediskey.For(d.Session).TaskPrefix(), which, string(d.Decision), d.Call, d.Fresh.Milliseconds())
	q = readQuestion(a.Text(2))
	q.Number = int(a.Int(1))
	return a.Text(0), q, err
}
