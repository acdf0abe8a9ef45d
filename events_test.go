package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

var errEnough = errors.New("enough")

// eventsAfter returns the next n events after an ID, in seenAs's form, and their IDs.
func eventsAfter(b *actors.Bench, after string, n int) (seen, ids []string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, expect.Patience)
	defer cancel()
	err := actors.Events(ctx, b.Client.Session(actors.Key), after, func(e session.Event) error {
		seen, ids = append(seen, seenAs(e)), append(ids, e.ID)
		if len(seen) == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		b.Fatalf("%v; seen %q", err, seen)
	}
	return seen, ids
}

// readEvents reads events in a goroutine until the test's end.
func readEvents(b *actors.Bench, client *actors.Client, after string) <-chan session.Event {
	b.Helper()
	ctx, leave := context.WithCancel(b.Ctx)
	events, ended := make(chan session.Event), make(chan error, 1)
	go func() {
		ended <- actors.Events(ctx, client.Session(actors.Key), after, func(e session.Event) error {
			select {
			case events <- e:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	b.Cleanup(func() {
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.Errorf("events: %v", err)
		}
	})
	return events
}

func wantEvents(t *testing.T, events <-chan session.Event, want ...string) (last session.Event) {
	t.Helper()
	var seen []string
	for range want {
		last = expect.Received(t, "an event", events)
		seen = append(seen, seenAs(last))
	}
	expect.List(t, "seen", seen, want...)
	return last
}

// noteEvent writes one event of a turn, with its name as its text.
func noteEvent(b *actors.Bench, h *protocol.Claim, texts ...string) {
	b.Helper()
	var batch []session.Event
	for _, text := range texts {
		batch = append(batch, session.Event{Type: "thought", Turn: h.Turn().ID, Text: text})
	}
	expect.OK(b, h.Emit(b.Ctx, batch))
}

// A reader can continue after any event of any turn, also in the middle of an entry that has
// several, and sees the rest once.
func TestEventsAfterEachEvent(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	messageLife(b)
	all := []string{
		"turn_started", "text not of m", "turn_ended",
		"turn_started", "turn_requeued drain", "turn_started", "thought hm", "text first", "tool_start look", "tool_end", "text re: ", "turn_ended",
	}
	seen, ids := eventsAfter(b, "", len(all))
	expect.List(t, "all", seen, all...)
	entries, err := b.Redis.XLen(b.Ctx, b.Keys.Events()).Result()
	expect.OK(t, err)
	expect.Equal(t, "entries with more than one event", int64(len(all))-entries, 1)
	for i, id := range ids[:len(ids)-1] {
		rest, again := eventsAfter(b, id, len(all)-i-1)
		expect.List(t, "behind "+all[i], rest, all[i+1:]...)
		expect.List(t, "their ids", again, ids[i+1:]...)
	}
	// After the last event come only new ones.
	events := readEvents(b, b.Client, ids[len(ids)-1])
	b.Say("next") // it waits for a running turn
	wantEvents(t, events, "queued")
}

// A reply's last piece is stored in the turn's end only. It comes as a text event, also to a reader that
// begins in the middle of the turn, and then the texts of the turn are the reply.
func TestEventsHaveTheWholeReply(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	messageLife(b)
	_, ids := eventsAfter(b, "", 12)
	for i, id := range append([]string{""}, ids[:len(ids)-1]...) {
		text := ""
		for e, err := range b.Chat().Events(b.Ctx, turnstile.EventsAfter(id)) {
			expect.OK(t, err)
			if e.Type == "text" {
				text += e.Text
			}
			if e.Type == session.EventTurnEnded && e.Reply == "re: m" {
				break
			}
		}
		if want := "re: m"; i < len(ids)-1 && !strings.HasSuffix(text, want) || i == len(ids)-1 && text != "m" {
			t.Errorf("behind event %d the texts are %q", i, text)
		}
	}
}

// A receipt has a time before the message's events.
func TestEventsSinceAReceipt(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for range 2 { // there is no event before the first one's
		sent, err := b.Chat().Send(b.Ctx, turnstile.Message{Text: "a"})
		expect.OK(t, err)
		b.Drain()
		for e, err := range b.Chat().Events(b.Ctx, turnstile.EventsSince(sent.EventsSince)) {
			expect.OK(t, err)
			expect.List(t, "the first event's messages", e.Messages, sent.ID)
			break
		}
		b.Pass(20 * time.Millisecond)
	}
}

// The stream belongs to the session key: a new transcript does not end it.
func TestEventsThroughNew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	events := readEvents(b, b.Client, "")
	b.Say("a")
	b.Drain()
	first := wantEvents(t, events, "turn_started", "turn_ended")
	b.Command("/new")
	b.Say("b")
	b.Drain()
	if second := wantEvents(t, events, "turn_started", "turn_ended"); second.TranscriptID == first.TranscriptID {
		t.Error("both turns have the same session id")
	}
}

// Events that were trimmed after a reader's place are a gap. The transcript has the entries of
// their turns.
func TestEventsOfATrimmedStream(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	_, ids := eventsAfter(b, "", 2)
	b.SayAll("b", "c")
	b.Drain()
	seen, more := eventsAfter(b, ids[1], 4)
	expect.List(t, "nothing is lost", seen, "turn_started", "turn_ended", "turn_started", "turn_ended")
	expect.OK(t, b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), 1).Err())

	events := readEvents(b, b.Client, ids[1])
	gap := wantEvents(t, events, "gap")
	expect.Equal(t, "session id", gap.TranscriptID, b.Info().TranscriptID)
	expect.Equal(t, "entries", gap.Entries, 6)
	expect.Equal(t, "id", gap.ID, "")
	wantEvents(t, events, "turn_started", "turn_ended")
	seen, _ = eventsAfter(b, "", 2)
	expect.List(t, "without a place there is no gap", seen, "turn_started", "turn_ended")
	seen, _ = eventsAfter(b, more[2], 1)
	expect.List(t, "in the middle of the first entry", seen, "turn_ended")
	expect.OK(t, b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), 0).Err())
	seen, _ = eventsAfter(b, more[3], 1)
	expect.List(t, "empty", seen, "gap")
}

// An idle session's events are purged. Who has read the last one misses nothing, others learn that events are gone.
func TestEventsAfterAPurge(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	b.AgeEvents(2 * time.Hour)
	_, ids := eventsAfter(b, "", 2)
	live := readEvents(b, b.Client, ids[0])
	wantEvents(t, live, "turn_ended")
	_, err := b.Worker.Purge(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "streams", b.Redis.Exists(b.Ctx, b.Keys.Events()).Val(), 0)
	seen, _ := eventsAfter(b, ids[0], 1)
	expect.List(t, "an event is lost, and nothing came since", seen, "gap")
	waits := readEvents(b, b.Client, ids[1])
	last, err := stream.LastEventID(b.Ctx, b.Redis, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "the place after all events", last, ids[1])
	before, err := stream.LastEventIDAt(b.Ctx, b.Redis, actors.Key, time.Now().Add(-3*time.Hour).UnixMilli())
	expect.OK(t, err)
	expect.Equal(t, "the place before all", before, "")
	newest := fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli())
	seen, _ = eventsAfter(b, newest, 1)
	expect.List(t, "an event that this stream never had", seen, "reset")

	b.Say("b")
	b.Drain()
	wantEvents(t, live, "turn_started", "turn_ended")
	wantEvents(t, waits, "turn_started", "turn_ended")
	seen, _ = eventsAfter(b, ids[1], 2)
	expect.List(t, "nothing is lost", seen, "turn_started", "turn_ended")
	seen, _ = eventsAfter(b, ids[0], 3)
	expect.List(t, "an event is lost", seen, "gap", "turn_started", "turn_ended")
	seen, _ = eventsAfter(b, "", 2)
	expect.List(t, "without a place there is no gap", seen, "turn_started", "turn_ended")
}

// Events that were trimmed from the stream after a purge are a gap, too.
func TestEventsTrimmedAfterAPurge(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*protocol.Config){
		"by their number": func(c *protocol.Config) { c.EventsCap = 10 }, "by their bytes": func(c *protocol.Config) { c.EventsBytes = 64 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, limit)
			b.Say("a")
			b.Drain()
			b.AgeEvents(2 * time.Hour)
			_, ids := eventsAfter(b, "", 2)
			_, err := b.Worker.Purge(b.Ctx)
			expect.OK(t, err)
			b.Say("b")
			h := b.Start()
			noteEvent(b, h, "first")
			seen, _ := eventsAfter(b, ids[1], 2)
			expect.List(t, "nothing is trimmed yet", seen, "turn_started", "thought first")
			for range 600 {
				noteEvent(b, h, strings.Repeat("x", 3000))
			}
			seen, _ = eventsAfter(b, ids[1], 1)
			expect.List(t, "trimmed", seen, "gap")
		})
	}
}

// A stream that is trimmed faster than a reader reads has a gap, too.
func TestEventsTrimmedUnderAReader(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{10, 1} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			reads := &redistest.Faults{}
			client := clientOf(t, redistest.URL(t), connections, reads)
			b.Say("a")
			h := b.Start()
			noteEvent(b, h, "1")
			events := readEvents(b, client, "")
			wantEvents(t, events, "turn_started", "thought 1")
			gate := reads.Gate(actors.Script("events_after"))
			noteEvent(b, h, "2")
			<-gate.Arrived()
			noteEvent(b, h, "3", "4")
			expect.OK(t, b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), 1).Err())
			gate.Release()
			wantEvents(t, events, "gap", "thought 4")
			noteEvent(b, h, "5")
			wantEvents(t, events, "thought 5")
		})
	}
}

// After an erase, and after a failover that has lost the last writes, the stream is another one.
// A reader gets it from its beginning, whether it reads now or comes back later.
func TestEventsOfAnotherStream(t *testing.T) {
	t.Parallel()
	t.Run("erased", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		b.Drain()
		_, ids := eventsAfter(b, "", 2)
		live := readEvents(b, b.Client, ids[0])
		wantEvents(t, live, "turn_ended")
		expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx))
		seen, _ := eventsAfter(b, ids[1], 1)
		expect.List(t, "nothing there", seen, "reset")
		b.Pass(0)
		b.Say("b")
		b.Drain()
		wantEvents(t, live, "reset", "turn_started", "turn_ended")
		seen, _ = eventsAfter(b, ids[1], 3)
		expect.List(t, "another one there", seen, "reset", "turn_started", "turn_ended")
		expect.OK(t, b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), 0).Err())
		seen, _ = eventsAfter(b, ids[1], 1)
		expect.List(t, "trimmed since", seen, "reset")
	})
	t.Run("failed over", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		h := b.Start()
		noteEvent(b, h, "1", "2")
		_, ids := eventsAfter(b, "", 3)
		noteEvent(b, h, "lost")
		_, lost := eventsAfter(b, ids[2], 1)
		live := readEvents(b, b.Client, ids[2])
		wantEvents(t, live, "thought lost")
		// The new master does not have the last entry, and continues with an ID before or after it.
		entry, err := stream.ParseEventID(lost[0])
		expect.OK(t, err)
		expect.OK(t, b.Redis.XDel(b.Ctx, b.Keys.Events(), entry.Entry()).Err())
		wantEvents(t, live, "reset", "turn_started", "thought 1", "thought 2")
		noteEvent(b, h, "3")
		wantEvents(t, live, "thought 3")
		seen, _ := eventsAfter(b, lost[0], 5)
		expect.List(t, "later", seen, "reset", "turn_started", "thought 1", "thought 2", "thought 3")
		seen, _ = eventsAfter(b, "99999999999999-0.0", 1)
		expect.List(t, "an id to come", seen, "reset")
	})
}

func TestEventsRefusesWhatIsInvalid(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for _, call := range [][2]string{{actors.Key, "x"}, {actors.Key, "$"}, {actors.Key, "1-0."}, {actors.Key, "1-0.x"}, {actors.Key, "1-0.10"}, {"", ""}, {"a b", "1-0"}} {
		err := actors.Events(b.Ctx, b.Client.Session(call[0]), call[1], func(session.Event) error { return nil })
		if !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v", call, err)
		}
	}
	expect.OK(t, b.Redis.Set(b.Ctx, b.Keys.Events(), "no stream", 0).Err())
	if err := actors.Events(b.Ctx, b.Client.Session(actors.Key), "", func(session.Event) error { return nil }); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("of a key of a wrong type: %v", err)
	}
}

// An error of the reader's function ends the call, even if it looks like a lost connection.
func TestEventsReturnsTheReadersError(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	n := 0
	err := actors.Events(b.Ctx, b.Client.Session(actors.Key), "", func(session.Event) error { n++; return redis.ErrPoolTimeout })
	if n != 1 || !errors.Is(err, redis.ErrPoolTimeout) {
		t.Errorf("%d calls, %v", n, err)
	}
}

// A reader sees each event once through lost connections and restarts.
func TestEventsThroughOutages(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{10, 1} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			t.Parallel()
			eventsThroughOutages(t, connections)
		})
	}
}

func eventsThroughOutages(t *testing.T, connections int) {
	server := acl.Server(t)
	b := actors.BenchOn(t, server.Client())
	b.Say("m")
	h := b.Start()
	faults := &redistest.Faults{}
	events := readEvents(b, clientOf(t, server.URL(), connections, faults), "")
	number := 0
	say := func() {
		number++
		noteEvent(b, h, fmt.Sprint(number))
	}
	say()
	wantEvents(t, events, "turn_started", "thought 1")
	read := actors.Script("events_after")
	for _, outage := range []func(){
		func() {},
		func() { expect.OK(t, b.Redis.Do(b.Ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()) },
		func() { faults.LoseReply(read, 3) },
		func() { faults.RunTwice(read, 3) },
		func() {
			faults.FailBefore(redistest.Any, 3, redistest.ReplyError("LOADING Redis is loading the dataset in memory"))
		},
		func() { server.Kill(); server.Start() },
		func() { server.Stop(); server.Start() },
	} {
		say() // it may be in flight when the outage begins
		outage()
		say()
		wantEvents(t, events, fmt.Sprintf("thought %d", number-1), fmt.Sprintf("thought %d", number))
	}
}

// 200 readers share a client's connections: half of them block, the rest are polled.
func TestManyReadersOfEvents(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t)
	hook := &reads{}
	const n, connections = 200, 10
	client := clientOf(t, redistest.URL(t), connections, hook)
	b.Say("a")
	h := b.Start()
	ctx, leave := context.WithCancel(b.Ctx)
	defer leave()
	var began, done sync.WaitGroup
	began.Add(n)
	for range n {
		done.Go(func() {
			last, seen := "", 0
			err := actors.Events(ctx, client.Session(actors.Key), "", func(e session.Event) error {
				if seen++; seen == 2 {
					began.Done()
				}
				if last = e.Text; last == "end" {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) || seen != 4 {
				t.Errorf("%d events, the last is %q: %v", seen, last, err)
			}
		})
	}
	noteEvent(b, h, "begin")
	began.Wait()
	noteEvent(b, h, "middle", "end")
	done.Wait()
	expect.Equal(t, "connections that block", hook.most, connections/2)
}

// A sender does not know how many events the owner keeps, so it trims none.
func TestSendersLeaveTheOwnersEvents(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.EventsCap = 10_000 })
	b.Say("a")
	b.Start()
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		for range 3000 {
			p.XAdd(b.Ctx, &redis.XAddArgs{Stream: b.Keys.Events(), Values: []any{"e", `{"type":"notice"}`}})
		}
		return nil
	})
	expect.OK(t, err)
	for _, text := range []string{"b", "/status", "/stop"} {
		before := b.Redis.XLen(b.Ctx, b.Keys.Events()).Val()
		b.Say(text)
		if after := b.Redis.XLen(b.Ctx, b.Keys.Events()).Val(); after < before {
			t.Errorf("%s: %d events became %d", text, before, after)
		}
	}
}
