package explore_test

import (
	"errors"
	"slices"
	"time"

	"turnstile"

	"github.com/hibiken/asynq"

	"turnstile/internal/chat/receipt"
	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/tenants"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/explore"
)

// main is the session of most configurations, other the second one of those with two.
const (
	main  = "s"
	other = "r"
)

// sweepInterval is short, so that the clock reaches it in a few steps.
const sweepInterval = time.Minute

var config = sq.Config{Worker: "w", Retention: time.Hour}

func named(name string) sq.Config {
	c := config
	c.Worker = name
	return c
}

// sender sends messages, one after the other, with one client.
func sender(name string, messages ...turnstile.Message) explore.Process {
	return explore.Process{Name: name, Crashes: true, Run: func(l *explore.Life) {
		c := actors.NewClient(l.Redis)
		for _, m := range messages {
			send(l, c, main, m)
		}
	}}
}

func send(l *explore.Life, c *actors.Client, key string, m turnstile.Message, opts ...actors.Option) {
	r, err := receipt.Input(l.Context, c.Session(key), actors.With(m, opts...))
	switch {
	case err != nil:
		l.Report("failed", key, m.ID)
	case r.Status == receipt.Refused:
		l.Report("refused", key, m.ID)
	case r.Status != receipt.Duplicate:
		l.Report("accepted", key, m.ID)
	}
}

// following sends a message that must follow another one.
func following(name, id, after string) explore.Process {
	return explore.Process{Name: name, Crashes: true, Run: func(l *explore.Life) {
		send(l, actors.NewClient(l.Redis), main, text(id), actors.After(after))
	}}
}

// forked finds two messages that have followed the same one.
func forked(v explore.View) string {
	k := rediskey.For(main)
	if v.Has(k.Task(rediskey.TaskID(main, "m2"))) && v.Has(k.Task(rediskey.TaskID(main, "m3"))) {
		return "forked: m2 and m3 both follow m1"
	}
	return ""
}

func text(id string) turnstile.Message { return turnstile.Message{ID: id, Text: "say " + id} }

func mode(id string, m session.Mode) turnstile.Message {
	return turnstile.Message{ID: id, Text: "say " + id, Mode: m}
}

// plainSender is a program with only asynq. An empty id is a pause.
func plainSender(name string, ids ...string) explore.Process {
	return explore.Process{Name: name, Crashes: true, Run: func(l *explore.Life) {
		c := asynq.NewClientFromRedisClient(l.Redis)
		for _, id := range ids {
			if id == "" {
				l.Pause()
				continue
			}
			payload, err := wire.Message{Text: text(id).Text}.Payload()
			if err != nil {
				panic(err)
			}
			_, err = c.EnqueueContext(l.Context, asynq.NewTask(wire.TaskType, payload),
				asynq.Queue(rediskey.Queue(main)), asynq.TaskID(rediskey.TaskID(main, id)))
			if err == nil {
				l.Report("accepted", main, id)
			}
		}
	}}
}

// behaviour is a worker's work on its turns between promotion and end.
type behaviour struct {
	renews      bool // it renews the turn once, and learns of requests
	checkpoints bool
	steers      bool
	ignores     bool // it takes none of the steers
	drains      bool // it marks and parks the turn, as in a drain
	fails       int  // this many attempts fail, and are retried
	immediate   bool
	twice       bool // it pops two sessions at once
	makesWay    bool // it releases the session after each turn
	tells       bool // it reports its turns' starts and notes
	asks        bool // its agent asks a question, and does not wait for the decision
	waits       bool // asks before its second step, and is parked meanwhile
	value       bool // waits for a program's value instead
	survives    bool // it reports that it lives after it lost its lease
	limit       int  // interruptions that suspend; 0: the default
	steps       int  // of each turn: see stepping
	sorts       bool // it sorts sessions, and their agent has a limit of one
	late        bool // each write of a journal comes a second time after the next one, the last one after the turn's end

	ttl  time.Duration // of its sentinels; 0: the default
	kept time.Duration // its turns' results; 0: an hour, unkept: not at all
}

// unkept is RETENTION 0, for behaviour.kept.
const unkept = -1

// working is a worker: it pops sessions, claims them and runs their turns until there is none left.
func working(name string, a behaviour) explore.Process {
	return explore.Process{Name: name, Loops: true, Crashes: true, Run: func(l *explore.Life) { work(l, name, a) },
		When: func(v explore.View) bool {
			return v.Has(rediskey.Ready) || a.sorts && (v.Has(rediskey.Queues+"default") || v.Due(rediskey.Ends) || v.Due(rediskey.Waits))
		}}
}

func work(l *explore.Life, name string, a behaviour) {
	cfg := named(name)
	cfg.Immediate, cfg.SentinelTTL, cfg.StuckLimit = a.immediate, a.ttl, a.limit
	if a.kept != 0 {
		cfg.Retention = max(a.kept, 0)
	}
	if a.sorts {
		cfg.Tenants = func() *tenants.Table { return oneAtATime }
	}
	c, err := actors.NewConsumer(l.Redis, cfg)
	if err != nil {
		panic(err)
	}
	n := 1
	if a.twice {
		n = 2
	}
	sessions, err := c.Pop(l.Context, n)
	if err != nil || len(sessions) == 0 {
		return
	}
	holds, failed := c.Claim(l.Context, sessions)
	if failed != nil {
		_ = c.Unclaim(l.Context)
	}
	for _, s := range sessions {
		if !slices.ContainsFunc(holds, func(h *sq.Claim) bool { return h.Session() == s }) {
			_ = c.Leave(l.Context, s)
		}
	}
	for _, h := range holds {
		for more := true; more && err == nil; {
			more, err = turn(l, c, h, a)
		}
		if a.survives && errors.Is(err, lease.ErrLost) {
			_ = h.Survive(l.Context)
		}
		_ = h.Leave(l.Context)
	}
}

// turn is one turn, with the calls that pkg/worker makes; see TestTrace.
func turn(l *explore.Life, c *actors.Consumer, h *sq.Claim, a behaviour) (more bool, err error) {
	t, ctx := h.Turn(), h.Lease().Context()
	if t.Redelivered > 0 {
		c.Renew(ctx, []*sq.Claim{h})
	}
	if t.Ends != nil {
		return actors.EndUnrun(ctx, h)
	}
	if a.tells && t.Resume != "" {
		l.Report("note", t.ID, t.TranscriptID)
	}
	var before []session.Entry
	var kept *sq.Journal
	if !a.immediate || t.Resume != "" || t.Redelivered > 0 || t.Carries != "" || len(t.Dropped) > 0 {
		past, err := h.History(ctx)
		if err != nil {
			return false, h.Park(ctx, sq.Parking{Failed: err})
		}
		if past.Earlier != nil {
			before, kept = past.Earlier.Entries, past.Earlier
		}
	}
	if err := h.Promote(ctx); err != nil {
		return endRequested(h, err, nil)
	}
	if a.steps > 0 {
		return newStepping(l, h, a, kept).run(c)
	}
	if a.tells {
		l.Report("started", t.ID, t.TranscriptID)
	}
	entries, untaken := entriesOf(t, before), []string(nil)
	if a.checkpoints {
		if err := actors.Checkpoint(ctx, h, entries); err != nil {
			return false, err
		}
	}
	if a.asks {
		if _, err := h.Ask(ctx, session.Question{Name: "may I"}); err != nil {
			return false, err
		}
	}
	if a.drains {
		c.Mark(l.Context, []*sq.Claim{h}, "shutdown_timeout")
		return endRequested(h, h.Park(ctx, sq.Parking{Interrupted: "shutdown_timeout"}), entries)
	}
	if a.renews {
		for _, r := range c.Renew(l.Context, []*sq.Claim{h}) {
			if r.Requested != nil && r.Fence == t.Fence {
				return endRequested(h, r.Requested, entries)
			}
			if r.Steer && a.steers {
				steered, err := h.Steer(ctx)
				if err != nil {
					return false, err
				}
				for _, m := range steered {
					if a.ignores {
						untaken = append(untaken, m.Message.ID)
						continue
					}
					entries = append(entries, entriesOf(sq.ClaimedTurn{ID: t.ID, Taken: m}, nil)...)
				}
			}
		}
	}
	if t.Attempt <= a.fails {
		return endRequested(h, h.Park(ctx, sq.Parking{Failed: errors.New("it did not work"), Wait: time.Second}), entries)
	}
	end := sq.End{Status: session.StatusDone, Reply: "done", Entries: entries, Told: len(t.Dropped), Untaken: untaken, Release: a.makesWay}
	return h.Finish(ctx, end)
}

// endRequested ends a turn as it was requested, and returns other errors.
func endRequested(h *sq.Claim, err error, entries []session.Entry) (more bool, _ error) {
	ctx := h.Lease().Context()
	switch {
	case errors.Is(err, sq.ErrStopRequested):
		return h.Finish(ctx, sq.End{Status: session.StatusStopped, Error: "stopped by user"})
	case errors.Is(err, sq.ErrInterruptRequested):
		return h.Finish(ctx, sq.End{Status: session.StatusInterrupted, Error: "interrupted by a newer message", Entries: entries})
	case errors.Is(err, sq.ErrRollbackRequested):
		return h.Finish(ctx, sq.End{Status: session.StatusInterrupted, Error: "rolled back by a newer message", Rollback: true})
	case errors.Is(err, sq.ErrDraining):
		return endRequested(h, h.Park(ctx, sq.Parking{Interrupted: "shutdown_timeout"}), nil)
	}
	return false, err
}

// entriesOf are a turn's entries in the transcript.
func entriesOf(t sq.ClaimedTurn, before []session.Entry) (all []session.Entry) {
	for _, m := range t.Messages() {
		all = append(all, session.Entry{Role: session.RoleUser, Text: m.Message.Text, Message: m.Message.ID, Turn: t.ID})
	}
	for _, e := range before {
		if e.Role != session.RoleUser {
			e.Turn = t.ID
			all = append(all, e)
		}
	}
	return append(all, session.Entry{Role: session.RoleAssistant, Text: "done", Turn: t.ID})
}

// job is one of a worker's timers.
func job(name string, run func(l *explore.Life, c *actors.Consumer), when func(explore.View) bool) explore.Process {
	return explore.Process{Name: name, Loops: true, Crashes: true, When: when, Run: func(l *explore.Life) {
		cfg := named(name)
		cfg.SessionTTL, cfg.ArchiveTTL = time.Hour, time.Hour
		c, err := actors.NewConsumer(l.Redis, cfg)
		if err != nil {
			panic(err)
		}
		run(l, c)
	}}
}

func free(v explore.View, timer string) bool { return !v.Has(rediskey.Timer(timer)) }

func reaper() explore.Process {
	return job("reap", func(l *explore.Life, c *actors.Consumer) { _, _, _ = c.Reap(l.Context) },
		func(v explore.View) bool { return v.Due(rediskey.Owned) && free(v, "reap") })
}

func duer() explore.Process {
	return job("due", func(l *explore.Life, c *actors.Consumer) { _, _ = c.Due(l.Context) },
		func(v explore.View) bool { return v.Due(rediskey.Due) && free(v, "due") })
}

func sweeper() explore.Process {
	return job("sweep", func(l *explore.Life, c *actors.Consumer) { _, _, _ = c.Sweep(l.Context, sweepInterval) },
		func(v explore.View) bool {
			return free(v, "sweep") && (waits(v, main) || waits(v, other) || owes(v, main))
		})
}

// waits reports whether a session has a message that waits or runs.
func waits(v explore.View, key string) bool {
	k := rediskey.For(key)
	return v.Has(k.Pending()) || v.Has(k.Active()) || v.Has(k.Scheduled()) || v.Has(k.Retry())
}

func purger() explore.Process {
	k := rediskey.For(main)
	return job("purge", func(l *explore.Life, c *actors.Consumer) { _, _ = c.Purge(l.Context) },
		func(v explore.View) bool {
			return v.DueSeconds(k.Completed()) || len(v.Members(k.Archived())) > 0
		})
}

func unregisterer() explore.Process {
	return job("unregister", func(l *explore.Life, c *actors.Consumer) { _, _ = c.Unregister(l.Context) },
		func(v explore.View) bool {
			k := rediskey.For(main)
			idle := v.Has(rediskey.AllQueues) && !v.Has(k.Archived()) && !waits(v, main)
			return free(v, "unregister") && (idle || v.Due(rediskey.Unlisted))
		})
}

func forgetter() explore.Process {
	return job("forget", func(l *explore.Life, c *actors.Consumer) { _, _ = c.Forget(l.Context) },
		func(v explore.View) bool {
			at, ok := v.Score(rediskey.Sessions, main)
			return ok && at <= v.Now()-time.Hour.Milliseconds()
		})
}

// finder searches all keys if there is a message or a record in no index.
func finder() explore.Process {
	return job("find", func(l *explore.Life, c *actors.Consumer) { _, _ = c.Find(l.Context) },
		func(v explore.View) bool {
			k := rediskey.For(main)
			_, known := v.Score(rediskey.Sessions, main)
			listed := slices.Contains(v.Members(rediskey.AllQueues), rediskey.Queue(main))
			return waits(v, main) && (!known || !listed) || v.Has(k.Record()) && !known
		})
}

// lazily makes processes lazy and atomic.
func lazily(all ...explore.Process) []explore.Process {
	for i := range all {
		all[i].Lazy, all[i].Atomic, all[i].Crashes = true, true, false
	}
	return all
}

// timers are those of any worker, for configurations about something else.
func timers() []explore.Process { return lazily(reaper(), duer(), sweeper()) }

// once is a process that makes one call, and reports its error under its name.
func once(name string, run func(*explore.Life) error) explore.Process {
	return explore.Process{Name: name, Crashes: true, Run: func(l *explore.Life) {
		if err := run(l); err != nil {
			l.Report(name, "failed")
		} else {
			l.Report(name, "done")
		}
	}}
}

// canceller reports whether it ended the message, or requested the end of its turn.
func canceller(id string) explore.Process {
	return explore.Process{Name: "cancel", Crashes: true, Run: func(l *explore.Life) {
		switch o, ended, err := actors.Cancel(l.Context, actors.NewClient(l.Redis).Session(main), id, true); {
		case err != nil:
		case !ended:
			l.Report("cancelling", id)
		case o.Status == session.StatusStopped:
			l.Report("cancelled", id)
		}
	}}
}

func stopper(name string) explore.Process {
	return once(name, func(l *explore.Life) error {
		s, err := actors.NewClient(l.Redis).Session(main).Stop(l.Context)
		if s.Phase == session.PhaseParked {
			l.Report(name, "parked")
		}
		return err
	})
}

func rotator() explore.Process {
	return once("new", func(l *explore.Life) error {
		_, err := actors.NewClient(l.Redis).Session(main).NewTranscript(l.Context)
		return err
	})
}

// operator is one of asynqmon's buttons.
func operator(name string, press func(i *asynq.Inspector, queue string) error) explore.Process {
	return once(name, func(l *explore.Life) error {
		return press(asynq.NewInspectorFromRedisClient(l.Redis), rediskey.Queue(main))
	})
}

func with(lists ...[]explore.Process) (all []explore.Process) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func list(all ...explore.Process) []explore.Process { return all }
