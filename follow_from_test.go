package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// seenAs describes an event for the comparisons below.
func seenAs(e session.Event) string {
	if what := e.Text + e.Name + e.Reason; what != "" {
		return string(e.Type) + " " + what
	}
	return string(e.Type)
}

// followed returns the events of a message after a place, with their IDs.
func followed(b *actors.Bench, id, after string) (seen, ids []string, o session.Outcome) {
	b.Helper()
	o, err := actors.FollowFrom(b.Ctx, b.Client.Session(actors.Key), id, after, func(e session.Event) {
		seen, ids = append(seen, seenAs(e)), append(ids, e.ID)
	})
	if err != nil {
		b.Error(err)
	}
	return seen, ids, o
}

// messageLife runs message m through a drain, between other messages. Its end has a piece of the
// reply that no text event has.
func messageLife(b *actors.Bench) {
	b.Helper()
	b.SayAll("before", "m", "behind")
	h := b.Start()
	expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: h.Turn().ID, Text: "not of m"}}))
	b.Finish(h)
	expect.OK(b, h.Promote(b.Ctx))
	expect.OK(b, h.Requeue(b.Ctx, "drain")) // one entry with two events
	h = b.Start()
	turn := h.Turn().ID
	expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: "thought", Turn: turn, Text: "hm"}, {Type: "text", Turn: turn, Text: "first"}}))
	expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: "tool_start", Turn: turn, Name: "look", CallID: "1"}, {Type: "tool_end", Turn: turn, CallID: "1"}}))
	expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: turn, Text: "re: "}}))
	b.Finish(h)
	b.Drain()
}

// A follower can continue after any event: the two followers together see each event once.
func TestFollowFrom(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprint("result kept ", kept), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) {
				if !kept {
					c.Retention = 0
				}
			})
			messageLife(b)
			all, ids, end := followed(b, "m", "")
			expect.List(t, "all", all, "turn_started", "turn_requeued drain", "turn_started", "thought hm", "text first",
				"tool_start look", "tool_end", "text re: ", "text m")
			for i, id := range ids {
				_, err := stream.ParseEventID(id)
				expect.OK(t, err)
				rest, _, again := followed(b, "m", id)
				expect.List(t, "behind "+all[i], rest, all[i+1:]...)
				expect.Equal(t, "outcome behind "+all[i], again, end)
			}
			rest, _, _ := followed(b, "m", "99999999999999-0")
			expect.List(t, "behind what is to come", rest)
		})
	}
}

// The second follower begins while the turn runs.
func TestFollowFromInMidTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("m")
	h := b.Start()
	turn := h.Turn().ID
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: turn, Text: "re"}}))
	ctx, leave := context.WithCancel(b.Ctx)
	after := ""
	_, err := actors.Follow(ctx, b.Client.Session(actors.Key), "m", func(e session.Event) {
		if after = e.ID; e.Text == "re" {
			leave()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: turn, Text: ": "}}))
	var seen []string
	o, err := actors.FollowFrom(b.Ctx, b.Client.Session(actors.Key), "m", after, func(e session.Event) {
		if seen = append(seen, seenAs(e)); e.Text == ": " {
			b.Finish(h)
		}
	})
	expect.OK(t, err)
	expect.List(t, "seen", seen, "text : ", "text m")
	expect.Equal(t, "reply", o.Reply, "re: m")
}

func TestFollowFromBadID(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("m")
	for _, id := range []string{"x", "1", "-", "1-", "-1", "1-2-3", "1-x", "1-0.", "1-0.x", "1-0.10", "+1-0", " 1-0", "$", "0x1-0", "99999999999999999999-0"} {
		if _, err := actors.FollowFrom(b.Ctx, b.Client.Session(actors.Key), "m", id, func(session.Event) {}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := stream.ParseEventID(id); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A turn has more events than are kept. A follower that comes late, or again, sees the events that
// are left, and the whole reply.
func TestFollowWhatIsTrimmed(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]int64{"but the last two": 2, "all": 0} {
		for _, ended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, ended %v", name, ended), func(t *testing.T) {
				t.Parallel()
				followTrimmed(t, kept, ended)
			})
		}
	}
}

func followTrimmed(t *testing.T, kept int64, ended bool) {
	b := actors.NewBench(t)
	b.Say("m")
	h := b.Start()
	turn := h.Turn().ID
	expect.OK(t, h.Emit(b.Ctx, []session.Event{
		{Type: "text", Turn: turn, Text: "lost"}, {Type: "tool_start", Turn: turn, Name: "look", CallID: "1"}, {Type: "text", Turn: turn, Text: "re"},
	}))
	want := []string{"tool_start look", "text re", "text : m"}
	if ended {
		b.Finish(h)
		want = want[1:] // the end is an event too
	}
	if kept == 0 {
		want = []string{"text re: m"}
	}
	expect.OK(t, b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), kept).Err())
	reading := &redistest.Faults{}
	reads := reading.Gate(actors.Script("events_page"))
	b.Redis.AddHook(reading)
	got := make(chan []string, 1)
	go func() {
		seen, _, _ := followed(b, "m", "1-0")
		got <- seen
	}()
	<-reads.Arrived()
	reads.Release()
	if !ended {
		b.Finish(h)
	}
	expect.List(t, "seen", <-got, want...)
}

// A follower sees each event once, also when the connection is lost, a reply is lost, or Redis
// restarts, with or without a separate connection.
func TestFollowThroughOutages(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{10, 1} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			t.Parallel()
			followThroughOutages(t, connections)
		})
	}
}

func followThroughOutages(t *testing.T, connections int) {
	server := acl.Server(t)
	b := actors.BenchOn(t, server.Client())
	b.Say("m")
	h := b.Start()
	turn := h.Turn().ID

	options, err := redis.ParseURL(server.URL())
	expect.OK(t, err)
	options.PoolSize = connections
	rdb := redis.NewClient(options)
	defer rdb.Close()
	faults := &redistest.Faults{}
	rdb.AddHook(faults)
	seen := make(chan session.Event)
	ended := make(chan error, 1)
	var o session.Outcome
	go func() {
		var err error
		o, err = actors.Follow(b.Ctx, actors.NewClient(rdb).Session(actors.Key), "m", func(e session.Event) { seen <- e })
		ended <- err
		close(seen)
	}()
	expect.OK(t, h.Emit(b.Ctx, nil))
	expect.Equal(t, "first", (<-seen).Type, "turn_started")

	number := 0
	say := func() {
		t.Helper()
		number++
		expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: turn, Text: fmt.Sprintf("%d ", number)}}))
	}
	read := 0
	readMore := func() {
		t.Helper()
		for read < number {
			read++
			if e := <-seen; e.Text != fmt.Sprintf("%d ", read) {
				t.Fatalf("seen %q, want %d", e.Text, read)
			}
		}
	}
	for _, outage := range []func(){
		func() {},
		func() { expect.OK(t, b.Redis.Do(b.Ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()) },
		func() { faults.LoseReply(redistest.Named("xread"), 3) },
		func() { faults.RunTwice(redistest.Named("xread"), 3) },
		func() {
			faults.FailBefore(redistest.Any, 3, redistest.ReplyError("LOADING Redis is loading the dataset in memory"))
		},
		func() { server.Kill(); server.Start() },
		func() { server.Stop(); server.Start() },
	} {
		say()
		readMore()
		say() // it may be in flight when the outage begins
		outage()
		say()
		readMore()
	}
	_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 at last"})
	expect.OK(t, err)
	expect.Equal(t, "the rest of the reply", (<-seen).Text, "at last")
	expect.OK(t, <-ended)
	expect.Equal(t, "status", o.Status, session.StatusDone)
	if e, more := <-seen; more {
		t.Errorf("seen besides: %+v", e)
	}
}
