package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Sender accepts messages. While the maximum number of requests is in flight, further messages wait
// and are sent as one batch, in order. It is safe for concurrent use.
//
// On a Cluster only the steps on the indexes are sent in batches: all messages need the same few nodes for them,
// and one key each of those. A batch of scripts would wait for the slowest node.
type Sender struct {
	rdb    redis.UniversalClient
	single bool
	full   deliveries.FullDestinations
	gate   *script.Gate[*acceptance]
	moves  *script.Batcher

	lists, wakes *script.Gate[*acceptance] // the steps on the indexes, on a Cluster

	mu    sync.Mutex
	clock clock
}

// NewSender returns a sender that shares rdb.
func NewSender(rdb redis.UniversalClient) *Sender {
	_, single := rdb.(*redis.Client)
	s := &Sender{rdb: rdb, single: single, moves: script.NewBatcher(rdb, inFlight)}
	s.gate, s.lists, s.wakes = script.NewGate(inFlight, s.send), script.NewGate(inFlight, s.list), script.NewGate(inFlight, s.wake)
	return s
}

// Now returns Redis' clock in ms. It asks Redis only if no result had the time yet.
func (s *Sender) Now(ctx context.Context) (int64, error) {
	s.mu.Lock()
	last := s.clock
	s.mu.Unlock()
	if last.ms > 0 {
		return last.now(), nil
	}
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	s.set(now.UnixMilli())
	return now.UnixMilli(), nil
}

func (s *Sender) set(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = clock{now, time.Now()}
}

// Accept accepts a message, and wakes its session if it has no owner. It lists the session in the
// indexes before the script, because the sender may die right after the script: in the same round
// trip, except on a Cluster. The error wraps session.ErrUnchanged if nothing was stored.
func (s *Sender) Accept(ctx context.Context, a Accept) (Accepted, error) {
	named := a.Route.To != "" && a.Route.To != session.NoReply || a.Route.To == "" && a.Fallback != ""
	m, err := a.encode(s.full.Over(ctx, s.rdb, named, a.Limits.Destination))
	if err != nil {
		return Accepted{}, err
	}
	before, err := s.Now(ctx)
	if err != nil {
		return Accepted{}, Unchanged(err, true)
	}
	first := s.gate
	if !s.single {
		first = s.lists
	}
	if err := first.Do(ctx, m); err != nil {
		return Accepted{}, Unchanged(err, !errors.Is(err, script.ErrPanicked))
	}
	if !s.single && m.call.Err == nil {
		s.sendListed(ctx, m)
	}
	if err := m.call.Err; err != nil {
		return Accepted{}, Unchanged(err, false)
	}
	m.result.Before = min(before, m.result.Now)
	return m.result, nil
}

// send stores messages and wakes their sessions, in two round trips, or in three if one of them
// needs the full path after the fast one.
func (s *Sender) send(ctx context.Context, messages []*acceptance) {
	s.store(ctx, s.listing(ctx, messages), messages)
	s.wake(ctx, messages)
}

// sendListed does the rest on a Cluster, where no round trip reaches two nodes: the message's session is listed.
func (s *Sender) sendListed(ctx context.Context, m *acceptance) {
	s.store(ctx, nil, []*acceptance{m})
	if !m.woken() {
		return
	}
	if err := s.wakes.Do(ctx, m); err != nil {
		m.result.Unnotified = err
	}
}

// list lists the messages' sessions in the indexes.
func (s *Sender) list(ctx context.Context, messages []*acceptance) {
	err := script.Pipeline(ctx, s.rdb, nil, s.listing(ctx, messages))
	for _, m := range messages {
		m.call.Err = err
	}
}

// listing returns the commands that list the messages' sessions.
func (s *Sender) listing(ctx context.Context, messages []*acceptance) func(redis.Pipeliner) {
	sessions := make([]string, len(messages))
	for i, m := range messages {
		sessions[i] = m.session
	}
	now, _ := s.Now(ctx) // known, see Accept
	return func(p redis.Pipeliner) { index.List(ctx, p, now, sessions...) }
}

// store stores messages, by the full path those that need it after the fast one. A session that is stored and not listed
// is found by Find, so only the scripts' errors count.
func (s *Sender) store(ctx context.Context, ahead func(redis.Pipeliner), messages []*acceptance) {
	special := s.call(ctx, ahead, messages)
	for _, m := range special {
		unsure := m.call.Unsure
		m.call = m.full()
		m.call.Unsure = unsure
	}
	if len(special) > 0 {
		s.call(ctx, nil, special)
	}
}

// call carries out the messages' calls, and returns the messages that need the full path.
func (s *Sender) call(ctx context.Context, ahead func(redis.Pipeliner), messages []*acceptance) (special []*acceptance) {
	var fast, full []*script.Call
	for _, m := range messages {
		if m.call.Script == scripts.AcceptFast.Script {
			fast = append(fast, m.call)
		} else {
			full = append(full, m.call)
		}
	}
	s.moves.DoBehind(ctx, ahead, full, fast)
	for _, m := range messages {
		if m.call.Err != nil {
			continue
		}
		r := scripts.Accept.Result(m.call) // both paths have this result
		if r.Status == scripts.Special {
			special = append(special, m)
			continue
		}
		m.result = Accepted{Now: r.Now, State: r.State, N: r.N, Duplicate: r.Duplicate}
		if m.call.Unsure && !m.named && m.result.refused() {
			// An earlier attempt may have stored it, and its task may be deleted by now: the ID of
			// an unnamed message is not remembered.
			m.call.Err = fmt.Errorf("%w; the last one was refused: %s", redisconn.ErrUnsure, m.result.State)
		}
		s.set(m.result.Now)
	}
	return special
}

// wake wakes the sessions without an owner.
func (s *Sender) wake(ctx context.Context, messages []*acceptance) {
	var now int64
	var ups []index.WakeUp
	for _, m := range messages {
		if now = max(now, m.result.Now); m.woken() {
			at := m.result.N
			if m.result.State == ends {
				at = m.result.Now
			}
			ups = append(ups, index.WakeUp{Session: m.session, At: at})
		}
	}
	if len(ups) == 0 {
		return
	}
	if err := index.Wake(ctx, s.rdb, now, index.ClaimGrace, ups...); err != nil {
		for _, m := range messages {
			if m.woken() {
				m.result.Unnotified = err
			}
		}
	}
}

// refused reports whether the message was not stored for a reason that may pass.
func (a Accepted) refused() bool {
	return slices.Contains([]string{"busy", "full", "line", "outbox", "not_last"}, a.State)
}

// ends is the state of a message behind a turn without an owner that is to be claimed, most often to be ended.
const ends = "ends"

// woken reports whether the message's session is to be woken, now or when a delay is over.
func (m *acceptance) woken() bool {
	return slices.Contains([]string{"idle", "scheduled", ends}, m.result.State)
}
