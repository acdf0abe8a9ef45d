package turnstile

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/internal/stream"
	"turnstile/pkg/session"
)

// replies completes the text events of a session's turns, one turn after the other.
type replies struct {
	s     *Session
	text  streamed
	whole string // the turn of text, if all of its events were seen
}

// complete shows the rest of a reply before its turn's end.
func (r *replies) complete(ctx context.Context, e session.Event, see func(session.Event)) {
	switch {
	case e.Turn == "":
	case e.Type == session.EventTurnStarted:
		r.text, r.whole = streamed{turn: e.Turn}, e.Turn
	case e.Type != session.EventTurnEnded:
		r.text.seen(e)
	case e.Reply != "":
		if r.whole != e.Turn {
			r.text = r.s.textBefore(ctx, e)
		}
		r.text.rest(e, see)
	}
}

// backPage is how many entries of a stream one read backwards returns.
const backPage = 100

// textBefore reads backwards the text of a turn that began before the reader's place.
func (s *Session) textBefore(ctx context.Context, end session.Event) streamed {
	text := streamed{turn: end.Turn}
	place, err := stream.ParseEventID(end.ID)
	if err != nil {
		return text
	}
	var events []session.Event // the latest first
	started := false
	for to := place.Entry(); !started; {
		var page []redis.XMessage
		err := script.Repeat(ctx, func() (err error) {
			page, err = s.c.rdb.XRevRangeN(ctx, rediskey.For(s.key).Events(), to, "-", backPage).Result()
			return err
		})
		if err != nil || len(page) == 0 {
			break // then the rest is not shown as text; the turn's end has it
		}
		for _, m := range page {
			some := stream.DecodeEvents(m)
			for i := len(some) - 1; i >= 0 && !started; i-- {
				if e := some[i]; e.Turn == end.Turn && e.Type != session.EventTurnEnded {
					events = append(events, e)
					started = e.Type == session.EventTurnStarted
				}
			}
		}
		to = "(" + page[len(page)-1].ID
	}
	text.cut = !started
	for i := len(events) - 1; i >= 0; i-- {
		text.seen(events[i])
	}
	return text
}
