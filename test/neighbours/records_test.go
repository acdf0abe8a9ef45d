package neighbours

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A worker of the version before continues with this version's records. This version prepares each
// situation, then its worker dies or releases the session, and the old one runs the waiting messages,
// in order.
func TestOldWorkerWithNewRecords(t *testing.T) {
	t.Parallel()
	before, _ := versions(t)
	for _, c := range situations() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRecords(newStage(t), c.change)
			c.prepare(r)
			r.die()
			for _, args := range [][]string{{"ps", "--json"}, {"show", r.key, "--json"}, {"show", r.key}} {
				if said := r.launch(before, "worker", "", nil, args...)(); said.code != 0 {
					t.Errorf("the old worker %q: %+v", args, said)
				}
			}
			old := r.worker(before)
			done, set := slices.Clone(c.before), slices.Clone(c.kept)
			for _, turn := range c.runs {
				ids := strings.Fields(turn)
				reply := "echo: " + strings.Join(ids, "\n\n")
				for _, id := range ids {
					if o := r.ends(r.key, id); o.Status != session.StatusDone || o.Reply != reply {
						t.Errorf("message %s: %+v", id, o)
					}
				}
				done, set = append(done, ids...), append(set, entries(reply, ids...)...)
			}
			old.drain()
			expect.List(t, "run", r.done(), done...)
			if c.whole != nil {
				set = c.whole
			}
			r.oneSet(r.key, set)
			if info := r.info(r.key); info.Waiting > 0 || info.LeaseLeft > 0 {
				t.Errorf("left: %+v", info)
			}
			if c.after != nil {
				c.after(r)
			}
		})
	}
}

type situation struct {
	name    string
	change  func(*sq.Config) // of this version's worker
	prepare func(r *records)
	runs    []string // the old worker's turns: their messages
	before  []string // messages that this version's worker ran
	kept    []string // the transcript before the old worker's turns
	whole   []string // the whole transcript, unless it is kept followed by these turns
	after   func(r *records)
}

func situations() []situation {
	return []situation{
		{
			name: "settings, title and dropped ones",
			prepare: func(r *records) {
				expect.OK(r, r.client.Session(r.key).SetTitle(r.ctx, "A title"))
				expect.OK(r, r.client.Session(r.key).SetQueue(r.ctx, session.QueueSettings{Mode: session.ModeQueue, Cap: 1, Drop: session.DropSummarize}))
				r.says("now")
				r.claim()
				r.says("lost", "next")
			},
			runs: []string{"now", "next"},
			after: func(r *records) {
				if o := r.ends(r.key, "lost"); o.Status != session.StatusDropped {
					r.Errorf("the dropped message: %+v", o)
				}
				info := r.info(r.key)
				if info.Title != "A title" || info.Queue.Mode != session.ModeQueue || info.Dropped != 0 {
					r.Errorf("the record, when the old worker's turn had the note of the dropped message: %+v", info)
				}
			},
		},
		{
			name: "a parked turn, whose steps the old worker does not know",
			prepare: func(r *records) {
				r.says("now", "next")
				h := r.start()
				_, err := h.Journal(r.ctx, sq.JournalWrite{
					Entries: map[int]session.Entry{0: {Role: session.RoleUser, Text: "now"}}, Count: 1, HasSteps: true, Closed: 1, Progress: true,
					Messages: []string{"now"}, Steps: map[string]string{"charge": `{"state":"ended"}`},
				})
				expect.OK(r, err)
				expect.OK(r, h.Retry(r.ctx, errors.New("no"), time.Second, -1))
				expect.Equal(r, "phase", r.info(r.key).Phase, session.PhaseParked)
			},
			runs: []string{"now", "next"},
		},
		{
			name: "a turn that somebody asked to give way, with a steer in it",
			prepare: func(r *records) {
				r.says("now")
				h := r.start()
				r.say(r.key, "steered", "steered", session.ModeSteer)
				steered, err := h.Steer(r.ctx)
				expect.OK(r, err)
				if len(steered) != 1 {
					r.Fatalf("%d messages were steered in", len(steered))
				}
				r.say(r.key, "untaken", "untaken", session.ModeSteer)
				r.say(r.key, "first", "first", session.ModeRollback)
			},
			runs: []string{"first", "untaken"},
			after: func(r *records) {
				for _, id := range []string{"now", "steered"} {
					if o := r.ends(r.key, id); o.Status != session.StatusInterrupted {
						r.Errorf("message %s of the turn that gave way: %+v", id, o)
					}
				}
			},
		},
		{
			name: "a turn that a drain kept from starting",
			prepare: func(r *records) {
				r.says("now")
				h := r.claim()
				if m := r.consumer.Mark(r.ctx, []*sq.Claim{h}, resume.ReasonShutdown); m[0].Err != nil || !m[0].Starting {
					r.Fatalf("marked: %+v", m)
				}
			},
			runs: []string{"now"},
		},
		{
			name: "a turn that was interrupted, with a mark and a partial",
			prepare: func(r *records) {
				r.says("now")
				h := r.start()
				expect.OK(r, actors.CheckpointBeside(r.ctx, h, []session.Entry{
					{Role: session.RoleUser, Text: "now", Message: "now"}, {Role: session.RoleAssistant, Text: "half", Interrupted: true},
				}))
				if m := r.consumer.Mark(r.ctx, []*sq.Claim{h}, resume.ReasonRestart); m[0].Err != nil {
					r.Fatal(m[0].Err)
				}
			},
			runs:  []string{"now"},
			whole: []string{"user: now", "assistant: half", "assistant: echo: now"},
			after: func(r *records) {
				if n := r.rdb.Exists(r.ctx, rediskey.For(r.key).Partial(), rediskey.For(r.key).Resume()).Val(); n != 0 {
					r.Error("a partial or a mark is left")
				}
			},
		},
		{
			name: "what an agent keeps, and asks",
			prepare: func(r *records) {
				r.says("one", "two")
				h := r.start()
				expect.OK(r, h.StoreState(r.ctx, []byte(`{"agent":"x"}`), 2))
				r.asks(h, "run make")
				if _, err := r.client.Session(r.key).Decide(r.ctx, "1", session.Allow); err != nil {
					r.Fatal(err)
				}
				r.asks(h, "run rm")
			},
			runs: []string{"one", "two"},
			after: func(r *records) {
				if _, err := r.client.Session(r.key).Decide(r.ctx, "", session.Allow); !errors.Is(err, session.ErrNoQuestion) {
					r.Errorf("the question of a turn that is over: %v", err)
				}
				// The old worker has written as many entries as the dead turn would have.
				r.says("three")
				past, err := r.start().History(r.ctx)
				expect.OK(r, err)
				if past.State != nil || len(past.Entries) != 4 {
					r.Errorf("%d entries, and of an agent that knows none of them: %s", len(past.Entries), past.State)
				}
			},
		},
		{
			name: "what an agent keeps, of which the old worker runs the first turn only",
			prepare: func(r *records) {
				r.says("one")
				expect.OK(r, r.start().StoreState(r.ctx, []byte(`{"agent":"x"}`), 2))
			},
			runs: []string{"one"},
			after: func(r *records) {
				r.says("two")
				past, err := r.start().History(r.ctx)
				expect.OK(r, err)
				if past.State != nil || len(past.Entries) != 2 {
					r.Errorf("%d entries, and of an agent that knows none of them: %s", len(past.Entries), past.State)
				}
			},
		},
		{
			name:   "a turn of several messages",
			change: func(c *sq.Config) { c.Line.Debounce = session.Millis(time.Millisecond) },
			prepare: func(r *records) {
				r.says("first")
				h := r.start()
				for _, id := range []string{"one", "two", "three"} {
					r.say(r.key, id, id, session.ModeCollect)
				}
				r.passes(2 * time.Millisecond)
				if !r.finish(h) || len(h.Turn().Collected) != 2 {
					r.Fatalf("the next turn is of %+v", h.Turn())
				}
				expect.OK(r, h.Promote(r.ctx))
				expect.OK(r, actors.CheckpointBeside(r.ctx, h, []session.Entry{{Role: session.RoleUser, Text: "one", Message: "one"}}))
			},
			before: []string{"first"},
			kept:   entries("echo: first", "first"),
			runs:   []string{"one", "two", "three"}, // separate turns after a death
		},
		{
			name:   "messages that wait for more",
			change: func(c *sq.Config) { c.Line.Debounce = session.Millis(2 * time.Second) },
			prepare: func(r *records) {
				r.says("first")
				h := r.start()
				r.say(r.key, "one", "one", session.ModeCollect)
				r.say(r.key, "two", "two", session.ModeCollect)
				r.finish(h)
			},
			before: []string{"first"},
			kept:   entries("echo: first", "first"),
			runs:   []string{"one two"},
		},
		{
			name:   "a session that begins anew",
			change: func(c *sq.Config) { c.StuckLimit = 1 },
			prepare: func(r *records) {
				r.says("first")
				r.finish(r.start())
				r.says("now")
				h := r.start()
				if m := r.consumer.Mark(r.ctx, []*sq.Claim{h}, resume.ReasonRestart); m[0].Err != nil {
					r.Fatal(m[0].Err)
				}
				expect.OK(r, h.Requeue(r.ctx, resume.ReasonRestart, session.Entry{Role: session.RoleUser, Text: "now", Message: "now"}))
			},
			before: []string{"first"},
			runs:   []string{"now"},
		},
	}
}

// This version recovers a turn after the death of the old version's worker.
func TestNewWorkerWithOldRecords(t *testing.T) {
	t.Parallel()
	before, _ := versions(t)
	for name, c := range map[string]struct {
		ask  func(r *records) // while the old worker hangs
		runs []string
		long session.Status // the outcome of the turn that died
		kept []string       // its entries
	}{
		"redelivered": {func(*records) {}, []string{"long", "next"}, session.StatusDone, nil},
		"interrupted": {func(r *records) {
			r.enqueue(before, "-s", r.key, "--id", "urgent", "--mode", "interrupt", "urgent")
		}, []string{"urgent", "next"}, session.StatusInterrupted, []string{"user: long"}},
		"stopped": {func(r *records) {
			r.enqueue(before, "-s", r.key, "/stop")
			r.enqueue(before, "-s", r.key, "--id", "after", "after")
		}, []string{"after"}, session.StatusStopped, nil},
		"rolled back by this version": {func(r *records) {
			r.say(r.key, "urgent", "urgent", session.ModeRollback)
		}, []string{"urgent", "next"}, session.StatusInterrupted, nil},
		"with a steer of this version": {func(r *records) {
			r.say(r.key, "steer", "steer", session.ModeSteer)
		}, []string{"long", "next", "steer"}, session.StatusDone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			p := s.worker(before)
			r := newRecords(s, nil)
			s.enqueue(before, "-s", r.key, "--id", "long", "tool=search", "sleep=1m", "long")
			expect.Soon(r, "the turn of the old worker", func() bool { return r.info(r.key).Phase == "running" })
			s.enqueue(before, "-s", r.key, "--id", "next", "next")
			// Its death counts only if the turn has emitted something.
			expect.Soon(r, "its first events", func() bool {
				return strings.HasPrefix(r.rdb.HGet(r.ctx, rediskey.For(r.key).Run(), "seq").Val(), fmt.Sprint(r.info(r.key).Fence, " "))
			})
			// It is suspended, so that it cannot carry out the request.
			p.Signal(syscall.SIGSTOP)
			c.ask(r)
			fence := r.info(r.key).Fence
			p.Kill()
			r.die()

			var got []string
			h := r.start()
			for more := true; more; more = r.finish(h) {
				turn := h.Turn()
				if len(got) == 0 {
					if crashed := turn.Message.ID == "long"; crashed != (turn.Resume == resume.ReasonCrash) || crashed != (turn.Redelivered == 1) || turn.Fence <= fence {
						t.Errorf("the first turn is %+v", turn)
					}
				} else {
					expect.OK(r, h.Promote(r.ctx))
				}
				got = append(got, turn.Message.ID)
			}
			if !slices.Equal(got, c.runs) {
				t.Errorf("run: %q, want %q", got, c.runs)
			}
			if o := r.ends(r.key, "long"); o.Status != c.long {
				t.Errorf("the message of the dead turn: %+v", o)
			}
			if n := r.rdb.Exists(r.ctx, rediskey.For(r.key).Resume(), rediskey.For(r.key).Active()).Val(); n != 0 {
				t.Error("a mark or an active message is left")
			}
			for _, id := range c.runs {
				c.kept = append(c.kept, entries("echo: "+id, id)...)
			}
			r.oneSet(r.key, c.kept)
		})
	}
}

// records is a session and a worker of this version, in this process.
type records struct {
	*stage
	key      string
	consumer *actors.Consumer
}

func newRecords(s *stage, change func(*sq.Config)) *records {
	s.Helper()
	// All databases of a server share their channels, hence the test's name.
	cfg := sq.Config{Worker: s.Name(), Retention: time.Hour, SentinelTTL: time.Minute}
	if change != nil {
		change(&cfg)
	}
	c, err := actors.NewConsumer(s.rdb, cfg)
	expect.OK(s, err)
	return &records{s, "agent:records", c}
}

// says sends messages with their texts as IDs.
func (r *records) says(ids ...string) {
	r.Helper()
	for _, id := range ids {
		r.say(r.key, id, id)
	}
}

// claim claims the session, which must be ready.
func (r *records) claim() *sq.Claim {
	r.Helper()
	holds, err := r.consumer.Claim(r.ctx, []string{r.key})
	expect.OK(r, err)
	if len(holds) != 1 {
		r.Fatalf("the session was not claimed: %+v", r.info(r.key))
	}
	more, err := actors.EndInterrupted(r.ctx, holds[0])
	expect.OK(r, err)
	if !more {
		r.Fatal("nothing to run: the turn was to be interrupted")
	}
	return holds[0]
}

func (r *records) start() *sq.Claim {
	r.Helper()
	h := r.claim()
	expect.OK(r, h.Promote(r.ctx))
	return h
}

// asks makes h's turn ask the user.
func (r *records) asks(h *sq.Claim, name string) {
	r.Helper()
	_, err := h.Ask(r.ctx, session.Question{Name: name})
	expect.OK(r, err)
}

// finish ends the turn as the agent echo does.
func (r *records) finish(h *sq.Claim) (more bool) {
	r.Helper()
	turn := h.Turn()
	reply := "echo: " + turn.Message.ID
	more, err := h.Finish(r.ctx, sq.End{Status: session.StatusDone, Reply: reply, Entries: []session.Entry{
		{Role: session.RoleUser, Text: turn.Message.Text, Message: turn.Message.ID, Turn: turn.ID},
		{Role: session.RoleAssistant, Text: reply, Turn: turn.ID},
	}})
	expect.OK(r, err)
	return more
}

// die is the death of this version's worker, with the end of its TTL. The session waits for a
// worker.
func (r *records) die() {
	r.Helper()
	// The sentinel expires, and asynq's lease with it.
	k := rediskey.For(r.key)
	expect.OK(r, r.rdb.Del(r.ctx, k.Sentinel(), k.Lease()).Err())
	expect.OK(r, r.rdb.ZAddNX(r.ctx, rediskey.Ready, redis.Z{Score: 1, Member: r.key}).Err())
}

// passes waits until Redis's time has passed.
func (r *records) passes(d time.Duration) {
	r.Helper()
	begin, err := r.rdb.Time(r.ctx).Result()
	expect.OK(r, err)
	expect.Soon(r, "Redis' clock", func() bool { return r.rdb.Time(r.ctx).Val().Sub(begin) > d })
}

// done are the messages of successful turns, in order.
func (r *records) done() []string {
	r.Helper()
	return slices.DeleteFunc(r.ended(r.key), func(id string) bool {
		o, over, err := actors.Result(r.ctx, r.client.Session(r.key), id)
		expect.OK(r, err)
		return !over || o.Status != session.StatusDone
	})
}
