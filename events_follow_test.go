package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// A follower of a turn with trimmed first events gets the rest, and the whole reply at the turn's
// end.
func TestFollowOfAStreamThatHasLostBytes(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.EventsBytes(100_000))
	b.Say("a")
	h := b.Start()
	var reply strings.Builder
	for i := range 20 {
		text := fmt.Sprintf("%04d %s", i, strings.Repeat("x", 10_000))
		reply.WriteString(text)
		expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: h.Turn().ID, Text: text}}))
	}
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: reply.String(), Entries: []session.Entry{{Role: session.RoleUser, Text: "a"}}})
	expect.OK(t, err)
	var seen strings.Builder
	o, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "a", func(e session.Event) {
		if e.Type == "text" {
			seen.WriteString(e.Text)
		}
	})
	expect.OK(t, err)
	expect.Equal(t, "reply", o.Reply == reply.String(), true)
	if !strings.HasSuffix(reply.String(), seen.String()) || seen.Len() == 0 {
		t.Errorf("%d bytes were seen that are not the reply's end", seen.Len())
	}
}

// The end of a reply that is longer than the stream is seen too, although only the turn's event has
// it.
func TestFollowALongReply(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprint("ended ", ended), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("m")
			h := b.Start()
			turn := h.Turn().ID
			for _, text := range []string{"one ", "two ", "three "} {
				expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: turn, Text: text}}))
			}
			finish := func() {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: "one two three four"})
				expect.OK(t, err)
			}
			kept := int64(2)
			if ended {
				finish()
				kept++
			}
			expect.OK(t, b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), kept).Err())
			var seen []string
			_, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "m", func(e session.Event) {
				if seen = append(seen, seenAs(e)); e.Text == "three " && !ended {
					finish()
				}
			})
			expect.OK(t, err)
			expect.List(t, "seen", seen, "text two ", "text three ", "text four")
		})
	}
}

// A message is deleted in mid-turn: its follower sees nothing twice.
func TestFollowADeletedMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("m")
	h := b.Start()
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: h.Turn().ID, Text: "re"}}))
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	var seen []string
	_, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "m", func(e session.Event) {
		if seen = append(seen, seenAs(e)); e.Type == "text" {
			// After an error the follower reads the task at once.
			faults.FailBefore(redistest.Named("xread"), 1, redistest.ReplyError("LOADING Redis is loading the dataset in memory"))
			expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Task(b.Task("m"))).Err())
		}
	})
	if !errors.Is(err, session.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	expect.List(t, "seen", seen, "turn_started", "text re")
}

// A message without a stored result ends while its follower cannot reach Redis, and its texts are
// trimmed by then. The follower sees nothing twice.
func TestFollowAResultThatIsNotKept(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
	b.Say("m")
	h := b.Start()
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: h.Turn().ID, Text: "re"}}))
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	var seen []string
	o, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "m", func(e session.Event) {
		if seen = append(seen, seenAs(e)); e.Text == "re" {
			// After an error the follower reads the task at once.
			faults.FailBefore(redistest.Named("xread"), 1, redistest.ReplyError("LOADING Redis is loading the dataset in memory"))
			b.Finish(h)
			expect.OK(t, b.Redis.XTrimMaxLen(b.Ctx, b.Keys.Events(), 1).Err())
		}
	})
	expect.OK(t, err)
	expect.List(t, "seen", seen, "turn_started", "text re", "text : m")
	expect.Equal(t, "reply", o.Reply, "re: m")
}

// As above, and Redis fails again while the follower rereads the events.
func TestFollowThroughAnOutageWhileEventsAreReadAnew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
	b.Say("m")
	h := b.Start()
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: h.Turn().ID, Text: "re"}}))
	loading := redistest.ReplyError("LOADING Redis is loading the dataset in memory")
	faults := &redistest.Faults{}
	reads := 0 // of the task
	b.Redis.AddHook(faults)
	var seen []string
	o, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "m", func(e session.Event) {
		if seen = append(seen, seenAs(e)); e.Text == "re" {
			b.Finish(h)
			faults.FailBefore(redistest.Named("xread"), 1, loading)
			faults.FailBefore(redistest.Named("evalsha"), 1, loading) // the first page
			faults.FailBefore(func(cmd redis.Cmder) bool {
				if cmd.Name() == "hmget" {
					reads++
				}
				return reads == 2
			}, 1, loading)
		}
	})
	expect.OK(t, err)
	expect.List(t, "seen", seen, "turn_started", "text re", "text : m")
	expect.Equal(t, "reply", o.Reply, "re: m")
	expect.Equal(t, "reads of the task", reads, 6)
}

// A follower sees its own message's turns from their start, and no others.
func TestFollow(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			t.Parallel()
			follow(t, late)
		})
	}
}

func follow(t *testing.T, late bool) {
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	run := func() {
		h := b.Start()
		for _, id := range []string{"a", "b"} {
			expect.OK(t, h.Emit(b.Ctx, []session.Event{
				{Type: "tool_start", Turn: h.Turn().ID, Name: "look " + id},
				{Type: "text", Turn: h.Turn().ID, Text: "re: " + id},
			}))
			b.Finish(h)
			if id == "a" {
				expect.OK(t, h.Promote(b.Ctx))
			}
		}
	}
	if late {
		run()
	}
	var types []string
	seen := make(chan error, 1)
	var o session.Outcome
	go func() {
		var err error
		o, err = actors.Follow(b.Ctx, b.Client.Session(actors.Key), "b", func(e session.Event) {
			types = append(types, string(e.Type)+" "+e.Name+e.Text)
			if e.At.IsZero() {
				t.Error("an event without a time")
			}
		})
		seen <- err
	}()
	if !late {
		run()
	}
	expect.OK(t, <-seen)
	expect.Equal(t, "reply", o.Reply, "re: b")
	expect.List(t, "seen", types, "turn_started ", "tool_start look b", "text re: b")
}

// A follower sees each piece of the reply once, also if a message was steered in between. That
// message's reply is the text after it, or all.
func TestFollowASteeredTurn(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{"the reply is the rest": "and after it.", "the reply is all": "Before, and after it."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			b.Say("b", session.ModeSteer)
			_, err := h.Steer(b.Ctx)
			expect.OK(t, err)
			turn := h.Turn().ID
			expect.OK(t, h.Emit(b.Ctx, []session.Event{
				{Type: "text", Turn: turn, Text: "Before, "}, {Type: session.EventSteered, Turn: turn, Messages: []string{"b"}},
				{Type: "text", Turn: turn, Text: "and after"},
			}))
			_, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: reply})
			expect.OK(t, err)
			for id, want := range map[string]string{"a": "Before, and after it.", "b": "and after it."} {
				said := ""
				_, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), id, func(e session.Event) { said += e.Text })
				expect.OK(t, err)
				// The steered message was not there at the beginning.
				if id == "b" && reply != "and after it." {
					want = "and after"
				}
				expect.Equal(t, "seen by "+id, said, want)
			}
		})
	}
}

// A turn ends while a follower cannot read. The follower then finds the end in the task first. It
// shows the rest of the reply once.
func TestFollowOfATurnThatEndsInAnOutage(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", "again "} {
		t.Run("then "+more, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("m")
			h := b.Start()
			say := func(text string) {
				expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: "text", Turn: h.Turn().ID, Text: text}}))
			}
			say("again ")
			faults := &redistest.Faults{}
			b.Redis.AddHook(faults)
			var seen strings.Builder
			first := true
			_, err := actors.Follow(b.Ctx, b.Client.Session(actors.Key), "m", func(e session.Event) {
				seen.WriteString(e.Text)
				if e.Type != "text" || !first {
					return
				}
				first = false
				if more != "" {
					say(more)
				}
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: "again " + more + "and again"})
				expect.OK(t, err)
				faults.FailBefore(redistest.Named("xread"), 1, redistest.ReplyError("LOADING Redis is loading the dataset in memory"))
				faults.FailBefore(redistest.Named("evalsha", "evalsha_ro"), 1, redistest.ReplyError("LOADING Redis is loading the dataset in memory"))
			})
			expect.OK(t, err)
			expect.Equal(t, "seen", seen.String(), "again "+more+"and again")
		})
	}
}

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
	expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"})) // one entry with two events
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
