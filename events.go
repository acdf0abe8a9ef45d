package turnstile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// eventsRecheck is how often Events reads a stream that has no new events: an erase or a failover
// may have replaced it.
const eventsRecheck = 30 * time.Second

// EventsOption says which events Events visits.
type EventsOption func(*eventsOptions)

type eventsOptions struct {
	after, message string
	since          time.Time
	stored         bool
}

// EventsAfter continues after the event with this ID (session.Event.ID). "" begins with the oldest
// event that is kept.
func EventsAfter(id string) EventsOption { return func(o *eventsOptions) { o.after = id } }

// EventsSince begins with the first event after a time, by Redis' clock in ms: Receipt.EventsSince,
// for example. The zero time begins with the oldest event that is kept.
func EventsSince(t time.Time) EventsOption { return func(o *eventsOptions) { o.since = t } }

// EventsOf visits the events of one message's turns only, and ends after the last
// session.EventTurnEnded. If that event is no longer kept, it is made from the message's outcome,
// without an ID. If the message is not stored, the last error wraps session.ErrNotFound.
func EventsOf(messageID string) EventsOption { return func(o *eventsOptions) { o.message = messageID } }

// EventsStored visits the events of a session as they are stored: the last piece of a reply may be in its
// turn's end only. Every event but a session.EventGap or EventReset has an ID. It does not change
// EventsOf.
func EventsStored() EventsOption { return func(o *eventsOptions) { o.stored = true } }

// Events visits the stored events and then new ones, each once and in order, until ctx ends. Then
// the last error is ctx's cause. It continues after lost connections. A new transcript changes
// nothing. Each range starts a new read.
//
// If the stream's cap has removed events after the place, the first event is a session.EventGap. If
// the stream does not have that place, because the session was erased or Redis lost its last
// writes, the first event is a session.EventReset, and the stream follows from its beginning.
//
// The text events of a turn add up to its whole reply: the last piece, which is stored in the
// turn's end only, comes before it as a text event without an ID.
//
// The error wraps session.ErrInvalid if the session's key or the place is wrong.
func (s *Session) Events(ctx context.Context, opts ...EventsOption) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		var o eventsOptions
		for _, option := range opts {
			option(&o)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		left := false
		see := func(e session.Event) {
			if !left && !yield(e, nil) {
				left = true
				cancel(errLeft) // ends the reads when the loop is left
			}
		}
		if err := s.visit(ctx, o, see); err != nil && !left {
			yield(session.Event{}, err)
		}
	}
}

// EventPages visits the events of a session as Events does with EventsAfter and EventsStored, a page at a time: at most 256
// KiB of them, or a longer event alone.
func (s *Session) EventPages(ctx context.Context, after string) iter.Seq2[[]session.Event, error] {
	return func(yield func([]session.Event, error) bool) {
		err := session.ValidateKey(s.key)
		var place stream.EventID
		if err == nil {
			place, err = s.placeOf(ctx, eventsOptions{after: after})
		}
		if err == nil {
			err = s.visitPages(ctx, place, func(page []session.Event) error {
				if !yield(page, nil) {
					return errLeft
				}
				return nil
			})
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(nil, err)
		}
	}
}

// errLeft is the cause of a range's context after the loop was left.
var errLeft = errors.New("the loop was left")

func (s *Session) visit(ctx context.Context, o eventsOptions, see func(session.Event)) error {
	if err := session.ValidateKey(s.key); err != nil {
		return err
	}
	place, err := s.placeOf(ctx, o)
	if err != nil {
		return err
	}
	if o.message != "" {
		return s.visitMessage(ctx, o.message, place, see)
	}
	return s.visitAll(ctx, place, o.stored, see)
}

// placeOf returns the place of EventsAfter, or else that of EventsSince: the last event of that time.
func (s *Session) placeOf(ctx context.Context, o eventsOptions) (place stream.EventID, err error) {
	if o.after == "" && !o.since.IsZero() {
		err = persist(ctx, func() (ended bool, err error) {
			o.after, err = stream.LastEventIDAt(ctx, s.c.rdb, s.key, o.since.UnixMilli())
			return err == nil, err
		})
	}
	if o.after == "" || err != nil {
		return place, err
	}
	return stream.ParseEventID(o.after)
}

// visitAll visits the events of all turns after a place.
func (s *Session) visitAll(ctx context.Context, place stream.EventID, stored bool, see func(session.Event)) error {
	replies := replies{s: s}
	return s.visitPages(ctx, place, func(page []session.Event) error {
		for _, e := range page {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !stored {
				replies.complete(ctx, e, see)
			}
			see(e)
		}
		return nil
	})
}

// visitPages visits them page by page, until see returns an error.
func (s *Session) visitPages(ctx context.Context, place stream.EventID, see func([]session.Event) error) error {
	key := rediskey.For(s.key).Events()
	return persist(ctx, func() (ended bool, err error) {
		events, behind, more, err := s.readPage(ctx, place)
		if err != nil {
			return false, fmt.Errorf("read events of %s: %w", s.key, err)
		}
		if len(events) > 0 {
			if err := see(events); err != nil {
				return true, err
			}
		}
		if place = behind; more {
			return false, nil
		}
		if err := s.c.waits.await(ctx, key, place.Entry(), eventsRecheck); err != nil {
			return false, fmt.Errorf("wait for events of %s: %w", s.key, err)
		}
		return false, nil
	})
}

// readPage reads a page, when few others are being read.
func (s *Session) readPage(ctx context.Context, place stream.EventID) (events []session.Event, behind stream.EventID, more bool, err error) {
	select {
	case s.c.waits.pages <- struct{}{}:
		defer func() { <-s.c.waits.pages }()
	case <-ctx.Done():
		return nil, place, false, context.Cause(ctx)
	}
	return stream.EventsAfter(ctx, s.c.rdb, s.key, place, eventsPage)
}

// clockSlack is how far a failover may set Redis' clock back before events are missed.
const clockSlack = time.Minute

// visitMessage visits the events of a message after a place. It reads from the message's acceptance
// on: the earlier events show the message's turns, and how much of the reply was seen.
func (s *Session) visitMessage(ctx context.Context, id string, place stream.EventID, see func(session.Event)) error {
	from := "0"
	err := script.Repeat(ctx, func() error {
		read := s.c.rdb.HMGet(ctx, rediskey.For(s.key).Task(rediskey.TaskID(s.key, id)), "seen", "arrived")
		if at := acceptedAt(script.HashFields(read)).Add(-clockSlack); at.UnixMilli() > 0 {
			from = strconv.FormatInt(at.UnixMilli(), 10)
		}
		return read.Err()
	})
	if err != nil {
		return fmt.Errorf("read message %s of %s: %w", id, s.key, err)
	}
	w := &watch{id: id, turns: map[string]bool{}, show: see, shown: place}
	o, err := s.follow(ctx, from, w)
	if err != nil {
		return err
	}
	if w.end.Type == "" || w.end.Turn != o.Turn {
		see(endOf(o))
	}
	return nil
}

// endOf makes the event of a turn's end that the stream has lost.
func endOf(o session.Outcome) session.Event {
	return session.Event{
		Type: session.EventTurnEnded, TranscriptID: o.TranscriptID, Turn: o.Turn, Continues: o.Continues, Messages: []string{o.ID}, Status: o.Status,
		Reply: o.Reply, Error: o.Error, Code: o.Code, Detail: o.Detail, Duration: o.Duration, Usage: o.Usage,
	}
}
