package reference_test

import (
	"errors"
	"fmt"
	"strconv"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/redistest"
	"turnstile/test/reference"
)

func send(l *life, a, b, c int) step {
	modes := []string{"", "", "", reference.Queue, reference.Collect, reference.Collect, reference.Steer, reference.Steer, reference.Interrupt,
		reference.Rollback, reference.Reject}
	m, mode, due, lost := l.idFor(a), modes[b%len(modes)], int64(0), c/4 == 2
	if c%8 == 1 {
		due = l.dueIn(b)
	}
	to, fallback := l.route(a, b)
	after := ""
	if due == 0 && c >= 208 {
		after = l.before(a, b)
	}
	agent := ""
	if c >= 192 && c < 208 {
		agent = []string{"coder", "support"}[b%2]
	}
	s := step{name: fmt.Sprintf("send %s %q", m, mode)}
	if agent != "" {
		s.name += " for " + agent
	}
	if l.routed {
		s.name += fmt.Sprintf(" to %v, else %q", to, fallback)
	}
	if after != "" {
		s.name += " after " + after
	}
	if due > 0 {
		s.name += fmt.Sprintf(" due %s", reference.At(due, l.actual.start))
	}
	s.model = func() string {
		r := l.model.Send(m, mode, due, to, fallback, after, agent, lost)
		if lost {
			return "reply lost"
		}
		return receiptOf(r.Status, r.State, r.Reason, r.Position, r.At, l.actual.start)
	}
	send := func() string {
		l.actual.fallback = fallback
		options := []actors.Option{routeOption(to)}
		if after != "" {
			options = append(options, actors.After(l.actual.names.id(after)))
		}
		options = append(options, func(m *turnstile.Message) { m.Agent = agent })
		return l.actual.send(m, mode, due, options...)
	}
	s.actual = send
	switch {
	case lost:
		s.name += " (reply lost)"
		s.actual = func() string {
			l.actual.faults.LoseReply(named("accept"), 1)
			return send()
		}
	case c/4%4 == 3:
		s.name += " (sent twice)"
		s.actual = func() string {
			l.actual.faults.RunTwice(redistest.Named("evalsha"), -1)
			return send()
		}
	}
	return s
}

// before is a message that a new one must follow: of the last turn, the newest that waits, or any.
func (l *life) before(a, b int) string {
	line, ids := l.model.Line, l.model.Run.IDs
	switch {
	case b%4 == 0:
	case len(line) > 0 && b%4 < 3:
		return line[len(line)-1]
	case len(ids) > 0:
		return ids[a%len(ids)]
	}
	return id(a + b)
}

// idFor is mostly an ID without a message.
func (l *life) idFor(a int) string {
	for n := range messages {
		if m := id(a + n); a < 180 && l.model.Messages[m] == nil {
			return m
		}
	}
	return id(a)
}

// dueIn is a future time, in whole seconds.
func (l *life) dueIn(b int) int64 { return l.model.Now/1000*1000 + int64(30+b%200)*1000 }

func plain(l *life, a, b, c int) step {
	m, due, long := l.idFor(a), int64(0), b%8 == 4
	if c%4 == 1 {
		due = l.dueIn(b)
	}
	return step{
		fmt.Sprintf("plain enqueue %s due %s, too long: %v", m, reference.At(due, l.actual.start), long),
		func() string { return fmt.Sprint(l.model.Plain(m, due, long)) },
		func() string { return l.actual.enqueue(m, due, long) },
	}
}

// numbered names a question by its number; 0: the open one.
func numbered(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// unheard is a sender's move that wakes the session only if its reply arrives. Otherwise the sweep does.
func (l *life) unheard(c int, move func() string) func() string {
	return func() string {
		ready := l.model.Index.Ready
		result := move()
		if c/4 == 2 {
			l.model.Index.Ready = ready
		}
		return result
	}
}

// give gives a program's value.
func give(l *life, a, b, c int) step {
	if l.model.Journal == nil && c%4 > 0 {
		return l.instead(a, b, c)
	}
	wait, value := fmt.Sprint("key", a%2), fmt.Sprint(b%2)
	return l.faulty(c, sender, step{
		"gives " + value + " for " + wait,
		l.unheard(c, func() string { return l.model.Give(wait, value) }),
		func() string {
			return word(l.actual.client.Session(key).Give(l.actual.ctx, turnstile.Value{Key: wait, Secret: "secret", JSON: []byte(value)}))
		},
	})
}

func decide(l *life, a, b, c int) step {
	if l.model.Run.Question == 0 && c%4 > 0 {
		return l.instead(a, b, c)
	}
	n, d := 0, []session.Decision{session.Allow, session.Always, session.Deny}[b%3]
	if a%3 > 0 { // the open question, or the one before it
		n = max(l.model.Run.Question+1-a%3, 0)
	}
	name, model := fmt.Sprintf("answer %d: %s", n, d), func() string { return l.model.Decide(n, string(d)) }
	call := func() (session.Question, error) {
		return l.actual.client.Session(key).Decide(l.actual.ctx, numbered(n), d)
	}
	if b%2 == 1 && n > 0 { // by its ID, or by that of a question of another turn
		turn := l.model.Run.Fence - a/4%2
		name += fmt.Sprint(" of T", turn)
		model = func() string { return l.model.DecideOf(turn, n, string(d)) }
		call = func() (session.Question, error) {
			fence, _ := l.actual.rdb.HGet(l.actual.ctx, l.actual.k.Run(), "fence").Int64()
			q := session.Question{Turn: rediskey.IDPrefix(key) + fmt.Sprint(fence-int64(a/4%2)), Number: n}
			return l.actual.client.Session(key).Decide(l.actual.ctx, q.ID(), d)
		}
	}
	return l.faulty(c, sender, step{
		name, l.unheard(c, model),
		func() string {
			q, err := call()
			switch {
			case err == nil:
				return fmt.Sprint("ok ", q.Number)
			case errors.Is(err, session.ErrOtherQuestion), errors.Is(err, session.ErrJustAsked):
				return fmt.Sprint(err, ": ", q.Number)
			}
			return word(err)
		},
	})
}

func configure(l *life, a, b, c int) step {
	modes := []string{"", reference.Queue, reference.Collect, reference.Steer, reference.Interrupt, reference.Reject}
	set := reference.Settings{Mode: modes[b%len(modes)], Cap: a % 4, Drop: []string{"", reference.DropNew, reference.DropOld, reference.Summarize}[a/4%4]}
	set.Debounce = int64(a/16%3) * 60_000
	if c%4 == 0 {
		set = reference.Settings{}
	}
	return l.faulty(c, sender, step{
		"/queue " + set.String(),
		ok(func() { l.model.Configure(set) }),
		func() string { return word(l.actual.client.Session(key).SetQueue(l.actual.ctx, settingsOf(set))) },
	})
}

func stop(l *life, _, _, c int) step {
	s := l.faulty(c, sender, step{"/stop", l.model.Stop, func() string {
		s, err := l.actual.client.Session(key).Stop(l.actual.ctx)
		if err != nil {
			return word(err)
		}
		fence := "T0"
		if s.Fence > 0 {
			fence = l.actual.names.turn(s.Fence)
		}
		return fmt.Sprintf("%s %s, %d archived", s.Phase, fence, s.Dropped)
	}})
	return replied(s, l.model.StopReplied)
}

// replied adds to a step what its sender does after the reply.
func replied(s step, do func()) step {
	model := s.model
	s.model = func() string {
		result := model()
		if result != "reply lost" {
			do()
		}
		return result
	}
	return s
}

func cancel(l *life, a, b, c int) step {
	m, running := l.one(a), b%2 == 0
	return l.faulty(c, retrier, step{
		fmt.Sprintf("cancel %s, running: %v", m, running),
		func() string { return l.model.Cancel(m, running) },
		func() string {
			o, ended, err := actors.Cancel(l.actual.ctx, l.actual.client.Session(key), l.actual.names.ids([]string{m})[0], running)
			switch {
			case errors.Is(err, session.ErrRunning):
				return "running"
			case errors.Is(err, session.ErrNotFound):
				return "unknown"
			case err != nil:
				return word(err)
			case ended:
				return fmt.Sprint("ended: ", o.Status)
			}
			return "ending"
		},
	})
}

func rotate(l *life, a, b, c int) step {
	agent := []string{"", "", "", "coder", "support"}[b%5]
	old := ""
	if a%3 == 0 {
		old = l.model.TranscriptID
	}
	wrong := a%9 == 1
	if wrong {
		old = "another"
	}
	before := ""
	return replied(l.faulty(c, sender, step{
		fmt.Sprintf("/new in place of %q, with %q", old, agent),
		func() string {
			before = l.model.TranscriptID
			return l.model.Rotate(old, agent)
		},
		func() string {
			var current string
			if old != "" && !wrong {
				current = l.actual.rdb.HGet(l.actual.ctx, l.actual.k.Record(), "session_id").Val()
			} else {
				current = old
			}
			sid, err := l.actual.client.Session(key).NewTranscript(l.actual.ctx, turnstile.TranscriptConfig{Replaces: current, Agent: agent})
			if err != nil {
				return word(err)
			}
			return l.actual.names.session(sid)
		},
	}), func() {
		if l.model.TranscriptID != before {
			l.model.RotateReplied()
		}
	})
}

func title(l *life, a, _, c int) step {
	text := []string{"", "mine", "ours"}[a%3]
	return l.faulty(c, sender, step{
		fmt.Sprintf("/title %q", text), ok(func() { l.model.SetTitle(text) }),
		func() string { return word(l.actual.client.Session(key).SetTitle(l.actual.ctx, text)) },
	})
}

func undo(l *life, a, b, c int) step {
	if (l.model.Owner != 0 || len(l.model.Transcripts[l.model.TranscriptID]) == 0) && c%4 > 0 {
		return l.instead(a, b, c)
	}
	again := a%2 == 0
	name := map[bool]string{true: "/retry", false: "/undo"}[again]
	return l.faulty(c, retrier, step{name, func() string { return l.model.Undo(again) }, func() string {
		if again {
			return l.actual.undo(l.actual.client.Session(key).Retry(l.actual.ctx))
		}
		return l.actual.undo(l.actual.client.Session(key).Undo(l.actual.ctx))
	}})
}

func rerun(l *life, a, b, c int) step {
	if len(l.archived()) == 0 && c%4 > 0 {
		return l.instead(a, b, c)
	}
	return step{"/resume", func() string { return fmt.Sprint(l.model.Rerun()) }, func() string {
		n, err := l.actual.client.Operate(key).Rerun(l.actual.ctx, admin.All)
		l.actual.must(err)
		return fmt.Sprint(n)
	}}
}

func dropDead(l *life, a, _, c int) step {
	which := ""
	if c%2 == 0 {
		which = l.one(a)
	}
	return step{fmt.Sprintf("drop dead letters %q", which), func() string { return fmt.Sprint(l.model.DropDead(which)) }, func() string {
		ids := []string{admin.All}
		if which != "" {
			ids = l.actual.names.ids([]string{which})
		}
		n, err := l.actual.client.Operate(key).DeleteDeadLetters(l.actual.ctx, ids...)
		l.actual.must(err)
		return fmt.Sprint(n)
	}}
}

func erase(l *life, a, b, c int) step {
	if a%4 > 0 {
		return rerun(l, a, 0, c)
	}
	drop := b%2 == 0
	return step{fmt.Sprint("erase, drop ", drop), func() string { return l.model.Erase(drop) }, func() string {
		return owing(l.actual.client.Operate(key).Erase(l.actual.ctx, eraseOptions(drop)...))
	}}
}
