package turnstile

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/script"
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
		if e.Continues == "" || e.Continues == r.text.output.First && r.whole == r.text.turn {
			r.whole = e.Turn
		} else {
			r.whole = ""
		}
		r.text.seen(e)
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
	events, started, _ := stream.Back(end.Turn, time.Time{}, place.Entry(), func(to string) (page []redis.XMessage, err error) {
		err = script.Repeat(ctx, func() (err error) {
			page, err = s.c.rdb.XRevRangeN(ctx, rediskey.For(s.key).Events(), to, "-", backPage).Result()
			return err
		})
		return page, err
	}) // after an error the rest is not shown as text; the turn's end has it
	if len(events) > 0 {
		text.turn, text.cut = events[0].Turn, !started
	}
	for _, e := range events {
		if e.Type != session.EventTurnEnded {
			text.seen(e)
		}
	}
	return text
}
