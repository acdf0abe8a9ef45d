package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// replies measures the replies to a client's connections, in bytes. A pipeline's replies count as
// one.
type replies struct {
	mu      sync.Mutex
	largest int
}

type measured struct {
	net.Conn
	of *replies
	n  int // since the last request
}

func (m *measured) Write(b []byte) (int, error) {
	m.n = 0
	return m.Conn.Write(b)
}

func (m *measured) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.n += n
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.of.largest = max(m.of.largest, m.n)
	return n, err
}

// measuredClient makes a client with that many connections to the test's database.
func measuredClient(t *testing.T, connections int, hooks ...redis.Hook) (*actors.Client, *replies) {
	t.Helper()
	options, err := redis.ParseURL(redistest.URL(t))
	expect.OK(t, err)
	r := &replies{}
	options.PoolSize = connections
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &measured{Conn: conn, of: r}, err
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	for _, hook := range hooks {
		rdb.AddHook(hook)
	}
	return actors.NewClient(rdb), r
}

// atMost checks the largest reply: a page of 2 MiB, its last event, and a little overhead for each.
func (r *replies) atMost(t *testing.T, bytes int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.largest > bytes {
		t.Errorf("a reply had %d bytes", r.largest)
	}
	r.largest = 0
}

const (
	longText  = 100_000
	longPage  = 2<<20 + 2*longText
	longCount = 120
)

func longEvent(i int) string { return fmt.Sprintf("%04d ", i) + strings.Repeat("x", longText-5) }

// longTurn emits longCount events of longText bytes, then many short ones.
func longTurn(b *actors.Bench, h *protocol.Claim) (all []string) {
	b.Helper()
	turn := h.Turn().ID
	for i := 0; i < longCount; i += 20 {
		var batch []session.Event
		for j := range 20 {
			text := longEvent(i + j)
			batch, all = append(batch, session.Event{Type: "thought", Turn: turn, Text: text}), append(all, text)
		}
		expect.OK(b, h.Emit(b.Ctx, batch))
	}
	var short []session.Event
	for i := range 3000 {
		text := fmt.Sprint("short ", i)
		short, all = append(short, session.Event{Type: "thought", Turn: turn, Text: text}), append(all, text)
	}
	expect.OK(b, h.Emit(b.Ctx, short))
	return all
}

// A reply has a bounded part of the stream, however long that is. A follower sees each event once
// and in order.
func TestFollowReadsInPages(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprint("result kept ", kept), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) {
				c.EventsCap, c.EventsBytes = 10_000, 1<<30
				if !kept {
					c.Retention = 0
				}
			})
			b.Say("m")
			h := b.Start()
			live, ends := make(chan []string, 1), make(chan error, 1)
			client, sizes := measuredClient(t, 10)
			began := make(chan struct{}, 1)
			go func() {
				var texts []string
				_, err := actors.Follow(b.Ctx, client.Session(actors.Key), "m", func(e session.Event) {
					if e.Type == "thought" {
						texts = append(texts, e.Text)
						select {
						case began <- struct{}{}:
						default:
						}
					}
				})
				live <- texts
				ends <- err
			}()
			all := longTurn(b, h)
			<-began
			b.Finish(h)
			equalTexts(t, "live", <-live, all)
			expect.OK(t, <-ends)
			sizes.atMost(t, longPage)

			var texts, ids []string
			o, err := actors.Follow(b.Ctx, client.Session(actors.Key), "m", func(e session.Event) {
				if e.Type == "thought" {
					texts, ids = append(texts, e.Text), append(ids, e.ID)
				}
			})
			expect.OK(t, err)
			expect.Equal(t, "reply", o.Reply, "re: m")
			equalTexts(t, "afterwards", texts, all)
			sizes.atMost(t, longPage)

			var rest []string
			_, err = actors.FollowFrom(b.Ctx, client.Session(actors.Key), "m", ids[49], func(e session.Event) {
				if e.Type == "thought" {
					rest = append(rest, e.Text)
				}
			})
			expect.OK(t, err)
			equalTexts(t, "behind the 50th", rest, all[50:])
			sizes.atMost(t, longPage)

			// Without a result, Wait searches the whole stream for the end.
			if _, err = client.Session(actors.Key).Wait(b.Ctx, "m"); err != nil {
				t.Error(err)
			}
			if _, err = client.Session(actors.Key).Wait(b.Ctx, "other"); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("of a message that never was: %v", err)
			}
			sizes.atMost(t, longPage)
		})
	}
}

func equalTexts(t *testing.T, what string, got, want []string) {
	t.Helper()
	expect.Equal(t, what+": how many", len(got), len(want))
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s: event %d is %.20q, not %.20q", what, i, got[i], want[i])
		}
	}
}

// Waits that share a connection read no more at once: the poller of many streams learns only which
// of them have something.
func TestManyWaitsReadInPages(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t)
	hook := &reads{}
	client, sizes := measuredClient(t, 1, hook)
	const n = 50
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("s", i)
		_, err := receipt.Input(b.Ctx, client.Session(keys[i]), turnstile.Message{ID: "m", Text: "x"})
		expect.OK(t, err)
	}
	claims, err := b.Worker.Claim(b.Ctx, keys)
	expect.OK(t, err)
	expect.Equal(t, "claims", len(claims), n)
	for _, h := range claims {
		expect.OK(t, h.Promote(b.Ctx))
		expect.OK(t, h.Emit(b.Ctx, nil)) // the turn's start
	}
	var waits sync.WaitGroup
	shown := make([]int, n)
	for i, s := range keys {
		waits.Go(func() {
			_, err := actors.Follow(b.Ctx, client.Session(s), "m", func(e session.Event) { shown[i] += len(e.Text) })
			if err != nil {
				t.Errorf("%s: %v", s, err)
			}
		})
	}
	expect.Soon(t, "the waits", func() bool { return hook.waiting() == n })
	_, err = b.Redis.TxPipelined(b.Ctx, func(p redis.Pipeliner) error { // all at once
		for _, h := range claims {
			text := fmt.Sprintf(`{"type":"thought","turn":%q,"text":%q}`, h.Turn().ID, strings.Repeat("x", longText))
			p.XAdd(b.Ctx, &redis.XAddArgs{Stream: rediskey.For(h.Session()).Events(), Values: []string{"e", text}})
		}
		return nil
	})
	expect.OK(t, err)
	for _, h := range claims {
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone})
		expect.OK(t, err)
	}
	waits.Wait()
	for i, n := range shown {
		expect.Equal(t, keys[i], n, longText)
	}
	sizes.atMost(t, 10*longText)
}

// A Follow copies each piece of a long reply a few times. It does not copy the whole reply with
// each piece.
func TestFollowCopiesLittle(t *testing.T) { //nolint:paralleltest // it counts what is allocated
	const pieces, size = 2000, 1000
	piece := strings.Repeat("x", size)
	events := make([]redis.XMessage, pieces)
	for i := range events {
		events[i] = redis.XMessage{ID: fmt.Sprintf("%d-0", i+1), Values: map[string]any{"e": `{"type":"text","turn":"t","text":"` + piece + `"}`}}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := turnstile.Watched("t", events)
	runtime.ReadMemStats(&after)
	if n != pieces*size {
		t.Errorf("%d bytes of text, want %d", n, pieces*size)
	}
	if copied := (after.TotalAlloc - before.TotalAlloc) / (pieces * size); copied > 50 {
		t.Errorf("the reply was copied %d times", copied)
	}
}

// A stream is read in small pages, also by a client that follows one message.
func TestEventsAreReadInSmallPages(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t)
	b.Say("m")
	h := b.Start()
	for range 40 {
		var events []session.Event
		for range 20 {
			events = append(events, session.Event{Type: session.EventText, Turn: h.Turn().ID, Text: strings.Repeat("x", 2000)})
		}
		expect.OK(t, h.Emit(b.Ctx, events))
	}
	end := b.Done(h)
	_, err := h.Finish(b.Ctx, end)
	expect.OK(t, err)
	replies := &redistest.Replies{}
	rdb := b.BareRedis()
	rdb.AddHook(replies)
	chat := turnstile.NewClient(rdb).Session(actors.Key)
	read := func(what string, most int, visit func() int) {
		t.Helper()
		if n := visit(); n < 800 {
			t.Errorf("%s: %d events", what, n)
		}
		if total, largest := replies.Take(); total < 1600_000 || largest > most {
			t.Errorf("%s: %d bytes were read, at most %d at a time", what, total, largest)
		}
	}
	read("pages", 300<<10, func() (n int) {
		for page, err := range chat.EventPages(b.Ctx, "") {
			expect.OK(t, err)
			n += len(page)
			if page[len(page)-1].Type == session.EventTurnEnded {
				break
			}
		}
		return n
	})
	read("of a message", 100<<10, func() (n int) {
		for _, err := range chat.Events(b.Ctx, turnstile.EventsOf("m")) {
			expect.OK(t, err)
			n++
		}
		return n
	})
	for _, err := range chat.EventPages(b.Ctx, "x") {
		expect.Equal(t, "a wrong place", errors.Is(err, session.ErrInvalid), true)
	}
}
