package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
)

const (
	// allEvery is the shortest pause between two rounds of AllEvents. allCost is the least time for
	// each session of a round: 5,000 reads a second cost Redis a few hundredths of its time.
	allEvery = 250 * time.Millisecond
	allCost  = 200 * time.Microsecond

	// allBehind is how late a session may enter the indexes after an event of a sender.
	allBehind = 5 * time.Second

	// allBefore is how much older than an event a session's last noted activity may be: a session that
	// runs or waits is noted once in a SENTINEL_TTL.
	allBefore = time.Minute

	// allPlace is how often see gets the resume time without an event.
	allPlace = 10 * time.Second

	// catchUpsMost is how many readers catch up at a time.
	catchUpsMost = 2

	allBatch = 500
	allPage  = 256 << 10 // bytes
)

// AnyEvent is an event with its session.
type AnyEvent struct {
	Session string // "" for an EventPlace
	session.Event

	// Resume is the time from which AllEvents continues without missing an event, by Redis' clock in ms.
	Resume int64
}

// AllEvents calls see for each event later than after. It covers the sessions for which sees returns
// true, also those that begin later. It returns ctx's cause or see's error, and continues after lost
// connections. after is in ms by Redis' clock; 0 means from now on.
//
// The events of one session come in order, each once in a call. A call that continues from an earlier
// one's Resume repeats the events of the last seconds: skip those with an ID that is not later than
// the last one of their session. EventGap and EventReset are as for turnstile.Session.Events, with
// their session. A session's first events after a time in the past may follow a gap although none was
// lost. EventPlace, an event without a session, has Resume at the beginning and every 10 s.
//
// All calls share one reader. It reads the sessions that run, wait or were recently active every 250 ms. With over 1,250 of
// them it reads 5,000 a second. A call that begins in the past, or whose see is too slow, first reads by itself until it
// has caught up; two do so at a time. A session enters an index after the script of its sender. If a sender dies
// or hangs for over 5 s between the two, in a stop or cancel of an idle session, nobody sees that
// event.
func (s *Store) AllEvents(ctx context.Context, after int64, sees func(sessionKey string) bool, see func(AnyEvent) error) error {
	r := s.join(sees)
	defer s.leave(r)
	f := &allFollower{rdb: s.rdb, store: s, sees: sees, see: see, resume: after, past: after > 0, places: map[string]stream.EventID{}, gate: s.catchUps}
	for {
		if err := r.toEnd(ctx); err != nil {
			return err
		}
		if err := f.catchUp(ctx, r.from); err != nil {
			return err
		}
		if err := f.follow(ctx, r); err != nil {
			return err
		}
	}
}

// catchUp reads what is not in the log: everything up to a time, and what came before the reader had its place in the log.
func (f *allFollower) catchUp(ctx context.Context, from int64) error {
	for {
		select {
		case f.gate <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause, err := f.round(ctx)
		<-f.gate
		switch {
		case f.refused != nil:
			return f.refused
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			pause = time.Second // it continues at the same place
		case f.resume >= from:
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// follow shows the events of the log, until it returns an error, or nil if the reader has fallen behind.
func (f *allFollower) follow(ctx context.Context, r *logReader) error {
	gate := f.gate
	f.gate = nil
	defer func() { f.gate = gate }()
	for {
		events, resume, changed, lost := r.read()
		if lost {
			return nil
		}
		for _, e := range events {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := f.pass(e); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			continue
		}
		f.advance(resume)
		if err := f.place(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-time.After(allPlace):
		}
	}
}

// pass shows an event of the log, unless it was seen.
func (f *allFollower) pass(e AnyEvent) error {
	if !f.sees(e.Session) {
		return nil
	}
	if id, err := stream.ParseEventID(e.ID); e.ID != "" && err == nil {
		place, known := f.places[e.Session]
		if id.At() <= f.resume || known && !id.After(place) {
			return nil
		}
		f.places[e.Session] = id
	}
	return f.tell(e.Session, e.Event)
}

// advance notes that every event up to a time was seen.
func (f *allFollower) advance(resume int64) {
	if resume <= f.resume {
		return
	}
	f.resume = resume
	for s, p := range f.places {
		if p.At() <= resume {
			delete(f.places, s)
		}
	}
}

// allFollower reads the events of all sessions: for the log, or for a call of AllEvents that catches up.
type allFollower struct {
	rdb   redis.UniversalClient
	store *Store
	sees  func(string) bool
	see   func(AnyEvent) error

	resume  int64 // every event up to this time was seen
	past    bool  // resume is the caller's: streams may have been trimmed since
	looked  int64 // when the last complete round began; 0: there was none
	placed  time.Time
	places  map[string]stream.EventID // the last event read of each session, after resume
	refused error                     // of see
	gate    chan struct{}             // has an element of this reader while it reads, and not while see shows an event; nil: none is needed
}

// round reads the events since the last one.
func (f *allFollower) round(ctx context.Context) (pause time.Duration, err error) {
	redisNow, err := f.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	now := redisNow.UnixMilli()
	if f.resume == 0 {
		f.resume = now
	}
	if err := f.place(); err != nil {
		return 0, err
	}
	active, err := f.active(ctx, now)
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(active, allBatch) {
		if err := f.read(ctx, batch); err != nil {
			return 0, err
		}
	}
	f.looked, f.past = now, false
	f.advance(now - allBehind.Milliseconds())
	return max(allEvery, time.Duration(len(active))*allCost), nil
}

// place reports the place from time to time.
func (f *allFollower) place() error {
	if time.Since(f.placed) < allPlace {
		return nil
	}
	f.placed = time.Now()
	return f.tell("", session.Event{Type: session.EventPlace})
}

func (f *allFollower) tell(sessionKey string, e session.Event) error {
	if f.gate != nil {
		<-f.gate
		defer func() { f.gate <- struct{}{} }()
	}
	f.refused = f.see(AnyEvent{sessionKey, e, f.resume})
	return f.refused
}

// active returns the sessions that may have events after resume. Sessions with a worker's events were in
// the owned index before, and stay there for some seconds. Those with a sender's events have had their
// activity, or need of attention, noted since.
func (f *allFollower) active(ctx context.Context, now int64) (keys []string, err error) {
	found := map[string]bool{}
	add := func(some []string) error {
		for _, s := range some {
			if !found[s] && f.sees(s) {
				found[s] = true
				keys = append(keys, s)
			}
		}
		return nil
	}
	since := f.resume
	if now-f.looked > allBehind.Milliseconds() { // a session may have left the owned index meanwhile
		since -= allBefore.Milliseconds()
	}
	for _, index := range []string{rediskey.Sessions, rediskey.Attention} {
		if err := byTime(ctx, f.rdb, index, strconv.FormatInt(since, 10), add); err != nil {
			return nil, err
		}
	}
	for cursor := uint64(0); ; {
		pairs, next, err := f.rdb.ZScan(ctx, rediskey.Owned, cursor, "", allBatch).Result()
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			_ = add(index.Walker{}.ValidNames(pairs[i : i+1]))
		}
		if cursor = next; cursor == 0 {
			return keys, nil
		}
	}
}

// read reads the events of sessions that have new ones.
func (f *allFollower) read(ctx context.Context, sessions []string) error {
	places := make([]stream.Place, len(sessions))
	for i, s := range sessions {
		from := fmt.Sprintf("%d-0", f.resume)
		if p, ok := f.places[s]; ok {
			from = p.Entry()
		}
		places[i] = stream.Place{Stream: rediskey.For(s).Events(), From: from}
	}
	purged, err := f.purged(ctx, sessions)
	if err != nil {
		return err
	}
	for i, there := range stream.HaveEvents(ctx, f.rdb, places) {
		if !there && !purged[sessions[i]] {
			continue
		}
		err := f.readOne(ctx, sessions[i], purged[sessions[i]])
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			continue // a broken session must not stop the others
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// purged are the sessions that are read first, of which purge has deleted events after a place in the past: they have a gap.
func (f *allFollower) purged(ctx context.Context, sessions []string) (map[string]bool, error) {
	found, last := map[string]bool{}, map[string]*redis.StringCmd{}
	if !f.past {
		return found, nil
	}
	_, _ = f.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, s := range sessions {
			if _, known := f.places[s]; !known {
				last[s] = p.HGet(ctx, rediskey.For(s).Run(), "gone")
			}
		}
		return nil
	})
	for s, gone := range last {
		if err := gone.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, err
		}
		_, at := stream.Gone(gone.Val())
		found[s] = at > f.resume
	}
	return found, nil
}

func (f *allFollower) readOne(ctx context.Context, s string, purged bool) error {
	place, known := f.places[s]
	if !known {
		var err error
		if place, err = f.begin(ctx, s); err != nil {
			return err
		}
	}
	for more := true; more; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var events []session.Event
		var err error
		events, place, more, err = stream.EventsAfter(ctx, f.rdb, s, place, allPage)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Type == session.EventReset && !known { // it began after resume
				if !purged {
					continue
				}
				e.Type = session.EventGap
			}
			if err := f.tell(s, e); err != nil {
				return err
			}
		}
		f.places[s], known = place, true
	}
	return nil
}

// begin returns the place of a session's events up to resume.
func (f *allFollower) begin(ctx context.Context, s string) (stream.EventID, error) {
	id, err := f.store.LastEventIDAt(ctx, s, f.resume)
	if err != nil {
		return stream.EventID{}, err
	}
	if id == "" && f.past {
		id = fmt.Sprintf("%d-0", f.resume) // reported as a gap if the session is older
	}
	if id == "" {
		return stream.EventID{}, nil
	}
	return stream.ParseEventID(id)
}
