package turnstile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
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
