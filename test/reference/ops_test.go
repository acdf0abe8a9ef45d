package reference_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/testredis"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
	"turnstile/test/reference"
)

// messages is how many ids senders use, again and again.
const messages = 12

func id(n int) string { return fmt.Sprint("m", n%messages) }

// kind makes a step of an operation's three bytes.
type kind func(l *life, a, b, c int) step

// The operations, each as often as it is likely. Those of owners need a hold: where there
// is none, they are a claim. What would do nothing is mostly a message or a claim.
var (
	ofOwners = []kind{
		finish, finish, finish, finish, finish, promote, promote, promote, renew, renew, steer, steer, steer, checkpoint, checkpoint,
		emit, keep, ask, withdraw, proposeTitle, dismiss, retryTurn, retryTurn, requeue, requeue, mark, mark, past,
	}
	ofOthers = []kind{
		submit, submit, submit, submit, submit, submit, submit, submit, submit, submit, plain, plain, plain, plain, claim, claim, claim, claim, claim,
		die, die, die, die, configure, configure, stop, rotate, title, undo, undo, undo, rerun, dropDead, erase, answer,
		pause, unpause, unpause, archive, archive, remove, remove, runTask, runTask, deleteQueue,
		markOutside, suspendOutside, clearOutside, timers, timers, maintain, minutes, minutes, days,
	}
)

// opOf encodes an operation.
func opOf(k kind, args ...byte) operation {
	var o operation
	copy(o[1:], args)
	o[0] = codeOf(k)
	return o
}

// codes are the kinds' bytes, the last of each.
var codes = func() map[uintptr]byte {
	codes := map[uintptr]byte{}
	for code := range 256 {
		codes[reflect.ValueOf(kindOf(byte(code))).Pointer()] = byte(code)
	}
	return codes
}()

func codeOf(k kind) byte { return codes[reflect.ValueOf(k).Pointer()] }

func kindOf(code byte) kind {
	if code < 112 {
		return ofOwners[int(code)%len(ofOwners)]
	}
	return ofOthers[int(code)%len(ofOthers)]
}

// resolve says what an operation is in a life's present situation.
func (l *life) resolve(o operation) step {
	a, b, c := int(o[1]), int(o[2]), int(o[3])
	switch h := l.holder(c); { // what would else be too rare
	case b%8 == 7 && l.model.Run.Question > 0:
		return answer(l, a, b/8, c)
	case b%8 == 5 && l.model.Owner == 0 && len(l.archived()) > 0 && len(l.archived()) == len(l.model.Messages):
		return days(l, a, b, c) // a session of nothing but dead letters
	case b%8 == 6 && h != nil && len(h.model.Steered()) > 0:
		return submit(l, a, 8+b/8%2, c) // an interrupt or a rollback
	}
	if o[0] < 112 && l.holder(c) == nil {
		return l.instead(a, b, c)
	}
	return kindOf(o[0])(l, a, b, c)
}

// instead is what happens where an operation would do nothing.
func (l *life) instead(a, b, c int) step {
	if len(l.model.Line) > 0 && l.model.Owner == 0 && !l.model.Paused {
		return claim(l, a, b, c)
	}
	return submit(l, a, b, c)
}

// holder is whose hold an operation is about: mostly the owner's, and now and then that
// of a worker which only believes that it is.
func (l *life) holder(c int) *pair {
	var owner, former *pair
	for _, p := range l.holds {
		switch {
		case p == nil:
		case l.model.Owns(p.model):
			owner = p
		default:
			former = p
		}
	}
	if owner == nil || former != nil && c%4 == 3 {
		return former
	}
	return owner
}

// move is a step of an owner. What finds itself lost, or gives up, holds no more.
func (l *life) move(c int, name string, model func(h *reference.Hold) string, real func(h *sq.Hold) string) step {
	return l.moveOf(owner, c, name, model, real)
}

func (l *life) moveOf(whose caller, c int, name string, model func(h *reference.Hold) string, real func(h *sq.Hold) string) step {
	p := l.holder(c)
	h := p.model
	name = fmt.Sprintf("worker %d (T%d): %s", h.Worker, h.Turn.Number, name)
	over := func(answer string) string {
		if answer == reference.Lost || answer == "released" {
			l.holds[h.Worker] = nil
		}
		return answer
	}
	return l.faulty(c, whose, step{name, func() string { return over(model(p.model)) }, func() string { return real(p.real) }})
}

// caller says what becomes of a call whose reply is lost.
type caller int

const (
	owner   caller = iota // repeats it while its lease lasts
	sender                // is told, and leaves it at that
	retrier               // makes another call of it, which is another operation here
)

// faulty has some steps suffer: all that they send is carried out twice, as if a first
// reply was lost and the request sent again; or the first reply is lost, which an owner
// repeats and a sender is told of.
func (l *life) faulty(c int, whose caller, s step) step {
	real, model := s.real, s.model
	switch {
	case c/4%4 == 3:
		s.name += " (sent twice)"
		s.real = func() string {
			l.real.faults.RunTwice(ours, -1)
			return real()
		}
	case c/4 == 2 && whose != retrier:
		s.name += " (reply lost)"
		s.real = func() string {
			l.real.faults.LoseReply(ours, 1)
			return real()
		}
		if whose == sender {
			s.model = func() string {
				model()
				return "reply lost"
			}
		}
	}
	return s
}

// quiet is a step that answers nothing but that it went well.
func ok(do func()) func() string {
	return func() string {
		do()
		return reference.OK
	}
}

func submit(l *life, a, b, c int) step {
	modes := []string{"", "", "", reference.Queue, reference.Collect, reference.Collect, reference.Steer, reference.Steer, reference.Interrupt,
		reference.Rollback, reference.Reject}
	m, mode, due, lost := l.idFor(a), modes[b%len(modes)], int64(0), c/4 == 2
	if c%8 == 1 {
		due = l.dueIn(b)
	}
	s := step{name: fmt.Sprintf("submit %s %q", m, mode)}
	if due > 0 {
		s.name += fmt.Sprintf(" due %s", reference.At(due, l.real.start))
	}
	s.model = func() string {
		r := l.model.Submit(m, mode, due, lost)
		if lost {
			return "reply lost"
		}
		return receipt(r.Status, r.State, r.Reason, r.Position, r.At, l.real.start)
	}
	s.real = func() string { return l.real.submit(m, mode, due) }
	switch {
	case lost:
		s.name += " (reply lost)"
		s.real = func() string {
			l.real.faults.LoseReply(named("ring"), 1)
			return l.real.submit(m, mode, due)
		}
	case c/4%4 == 3:
		s.name += " (sent twice)"
		s.real = func() string {
			l.real.faults.RunTwice(testredis.Named("evalsha"), -1)
			return l.real.submit(m, mode, due)
		}
	}
	return s
}

// idFor is mostly an id of which there is no message.
func (l *life) idFor(a int) string {
	for n := range messages {
		if m := id(a + n); a < 180 && l.model.Messages[m] == nil {
			return m
		}
	}
	return id(a)
}

// dueIn is a time to come, in whole seconds.
func (l *life) dueIn(b int) int64 { return l.model.Now/1000*1000 + int64(30+b%200)*1000 }

func plain(l *life, a, b, c int) step {
	m, due := l.idFor(a), int64(0)
	if c%4 == 1 {
		due = l.dueIn(b)
	}
	return step{
		fmt.Sprintf("plain enqueue %s due %s", m, reference.At(due, l.real.start)),
		func() string { return fmt.Sprint(l.model.Plain(m, due)) },
		func() string { return l.real.enqueue(m, due) },
	}
}

func claim(l *life, a, b, c int) step {
	if l.model.Owner != 0 && l.holder(0) != nil && c%4 > 0 {
		return ofOwners[b%len(ofOwners)](l, a, b, c)
	}
	w, p := a%2, &pair{}
	pop := c%2 == 0
	return l.faulty(c, retrier, step{
		fmt.Sprintf("worker %d claims (pops %v)", w, pop),
		func() string {
			if pop {
				l.model.Pop()
			}
			if p.model = l.model.Claim(w); p.model == nil {
				return reference.OK
			}
			if p.real != nil {
				l.holds[w] = p
			}
			return told(p.model.Turn)
		},
		func() string {
			if pop {
				_, err := l.real.workers[w].Pop(l.real.ctx, 1)
				l.real.must(err)
			}
			var answer string
			p.real, answer = l.real.claim(w)
			return answer
		},
	})
}

// told is a turn as the real side tells it.
func told(t reference.Turn) string {
	return turnText(fmt.Sprint("T", t.Number), t.SessionID, t.Reset, t.Resume, t.Messages, t.Dropped, t.Attempt, t.Entries, t.Again)
}

func promote(l *life, _, _, c int) step {
	return l.move(c, "promotes", l.model.Promote, func(h *sq.Hold) string {
		answer := word(h.Promote(l.real.ctx))
		if answer == reference.OK && h.SteerWaits() && !l.model.Config.Immediate {
			answer += ", steer"
		}
		return answer
	})
}

func renew(l *life, _, _, c int) step {
	return l.moveOf(retrier, c, "renews", l.model.Renew, func(h *sq.Hold) string {
		r := l.real.workers[0].Renew(l.real.ctx, []*sq.Hold{h})[0]
		if r.Err != nil {
			return word(r.Err)
		}
		asked := ""
		if r.Asked != nil {
			asked = word(r.Asked)
		}
		answer := fmt.Sprintf("asked %q, %d wait, steer %v", asked, r.Waiting, r.Steer)
		if r.Reply.Question > 0 {
			answer += fmt.Sprintf(", answered %d %s", r.Reply.Question, r.Reply.Decision)
		}
		return answer
	})
}

func steer(l *life, _, _, c int) step {
	return l.move(c, "steers", l.model.Steer, func(h *sq.Hold) string {
		taken, err := h.Steer(l.real.ctx)
		if err != nil {
			return word(err)
		}
		var ids []string
		for _, m := range taken {
			ids = append(ids, l.real.names.message(m.Message.ID))
		}
		return fmt.Sprint("steered ", ids)
	})
}

// entries are what a turn writes: of each kind some.
func (l *life) entries(h *reference.Hold, b int) (entries []reference.Entry) {
	if b%4 == 3 {
		return nil
	}
	for _, id := range h.Turn.Messages {
		if m := l.model.Messages[id]; m != nil && b%4 < 2 { // a former owner's may be gone
			entries = append(entries, reference.Entry{Role: "user", Text: m.Text, Turn: h.Turn.Number})
		}
	}
	l.said++
	return append(entries, reference.Entry{Role: "assistant", Text: fmt.Sprint("re ", l.said), Turn: h.Turn.Number})
}

func (l *life) some(h *reference.Hold) []reference.Entry {
	l.said++
	return []reference.Entry{{Role: "assistant", Text: fmt.Sprint("part ", l.said), Turn: h.Turn.Number}}
}

func checkpoint(l *life, _, _, c int) step {
	entries := l.some(l.holder(c).model)
	return l.move(c, "checkpoints", func(h *reference.Hold) string { return l.model.Checkpoint(h, entries) },
		func(h *sq.Hold) string { return word(h.Checkpoint(l.real.ctx, entriesOf(entries, h.Turn().ID))) })
}

func emit(l *life, _, _, c int) step {
	l.said++
	text := fmt.Sprint("event ", l.said)
	return l.move(c, "emits "+text, func(h *reference.Hold) string { return l.model.Emit(h, text) },
		func(h *sq.Hold) string { return word(h.Emit(l.real.ctx, []sq.Event{{Type: "text", Text: text}})) })
}

func keep(l *life, a, _, c int) step {
	data := fmt.Sprintf(`"state %d"`, a)
	if a%4 == 0 {
		data = ""
	}
	return l.move(c, "keeps "+data, func(h *reference.Hold) string { return l.model.Keep(h, data) }, func(h *sq.Hold) string {
		var raw []byte
		if data != "" {
			raw = []byte(data)
		}
		return word(h.Keep(l.real.ctx, raw, 1))
	})
}

func ask(l *life, a, _, c int) step {
	n := 1 + a%3
	return l.move(c, fmt.Sprint("asks ", n), func(h *reference.Hold) string { return l.model.Ask(h, n) },
		func(h *sq.Hold) string { return word(h.Ask(l.real.ctx, sq.Question{Number: n, Name: "may I"})) })
}

func withdraw(l *life, a, _, c int) step {
	n := 1 + a%3
	return l.move(c, fmt.Sprint("withdraws ", n), func(h *reference.Hold) string { return l.model.Withdraw(h, n) }, func(h *sq.Hold) string {
		said, err := h.Withdraw(l.real.ctx, n)
		if err != nil {
			return word(err)
		}
		return "ok " + string(said)
	})
}

func answer(l *life, a, b, c int) step {
	if l.model.Run.Question == 0 && c%4 > 0 {
		return l.instead(a, b, c)
	}
	n, d := a%3, []sq.Decision{sq.Allow, sq.Always, sq.Deny}[b%3]
	return l.faulty(c, sender, step{
		fmt.Sprintf("answer %d: %s", n, d),
		func() string { return l.model.Answer(n, string(d)) },
		func() string {
			q, err := l.real.client.Answer(l.real.ctx, key, n, d)
			switch {
			case err == nil:
				return fmt.Sprint("ok ", q.Number)
			case errors.Is(err, sq.ErrOtherAsked):
				return fmt.Sprint(err, ": ", q.Number)
			}
			return word(err)
		},
	})
}

func proposeTitle(l *life, a, _, c int) step {
	title := fmt.Sprint("proposed ", a%3)
	return l.moveOf(sender, c, "proposes a title", func(h *reference.Hold) string { // a courtesy: it is not repeated
		l.model.ProposeTitle(h, title)
		return reference.OK
	}, func(h *sq.Hold) string { return word(h.Title(l.real.ctx, title)) })
}

func dismiss(l *life, a, b, c int) step {
	p := l.holder(c)
	if len(p.model.Turn.Messages) < 2 {
		return finish(l, a, b, c)
	}
	n := a % len(p.model.Turn.Messages)
	m := p.model.Turn.Messages[n]
	return l.move(c, "dismisses "+m, func(h *reference.Hold) string { return l.model.Dismiss(h, m, "too old") }, func(h *sq.Hold) string {
		return word(h.Dismiss(l.real.ctx, h.Turn().Messages()[n], sq.StatusExpired, "too old"))
	})
}

func finish(l *life, a, b, c int) step {
	p := l.holder(c)
	e := reference.End{Status: "done", Release: a%8 == 5, Untaken: b/4%2 == 1}
	switch a / 8 % 8 {
	case 1:
		e.Status, e.Error = "failed", "why"
	case 2:
		e.Status = "interrupted"
	case 3:
		e.Status, e.Rollback = "interrupted", true
	case 4:
		e.Status, e.Error = []string{"stopped", "expired"}[a/64%2], ""
	}
	if e.Status == "done" || e.Status == "interrupted" && !e.Rollback {
		e.Entries = l.entries(p.model, b)
	}
	e.Told = e.Status == "done" // as the worker does
	return l.move(c, fmt.Sprintf("finishes: %+v", e), func(h *reference.Hold) string {
		answer := l.model.Finish(h, e)
		if answer == "next" {
			answer += ": " + told(h.Turn)
		}
		return answer
	}, func(h *sq.Hold) string { return l.real.finish(h, e, p.model.Steered()) })
}

func retryTurn(l *life, a, b, c int) step {
	wait, inherited := time.Duration(a%3)*40*time.Second, []reference.Entry(nil)
	if b%4 == 0 {
		inherited = l.some(l.holder(c).model)
	}
	return l.move(c, fmt.Sprintf("retries in %s, inherits %v", wait, inherited),
		func(h *reference.Hold) string { return l.model.Retry(h, "flaky", wait.Milliseconds(), inherited) },
		func(h *sq.Hold) string {
			return released(h.Retry(l.real.ctx, errors.New("flaky"), wait, entriesOf(inherited, h.Turn().ID)...))
		})
}

func requeue(l *life, _, b, c int) step {
	var done []reference.Entry
	if b%2 == 0 {
		done = l.some(l.holder(c).model)
	}
	return l.move(c, fmt.Sprintf("requeues with %v", done),
		func(h *reference.Hold) string { return l.model.Requeue(h, "shutdown_timeout", done) },
		func(h *sq.Hold) string {
			return released(h.Requeue(l.real.ctx, "shutdown_timeout", entriesOf(done, h.Turn().ID)...))
		})
}

func mark(l *life, _, _, c int) step {
	return l.moveOf(retrier, c, "is marked", func(h *reference.Hold) string { return l.model.Mark(h, "shutdown_timeout") }, func(h *sq.Hold) string {
		m := l.real.workers[0].Mark(l.real.ctx, []*sq.Hold{h}, "shutdown_timeout")[0]
		if m.Starting {
			return "starting"
		}
		return word(m.Err)
	})
}

// past has the worker read what came before its turn.
func past(l *life, _, _, c int) step {
	return l.move(c, "reads the past", l.model.Past, func(h *sq.Hold) string {
		p, err := h.Past(l.real.ctx)
		if err != nil {
			return word(err)
		}
		partial := ""
		if p.Partial != nil {
			partial = fmt.Sprintf(", partial of %s", l.real.names.turn(p.Partial.Fence))
		}
		return fmt.Sprintf("%d entries%s, dropped %v", len(p.Entries), partial, p.Dropped)
	})
}

func die(l *life, a, b, c int) step {
	if l.model.Owner == 0 {
		return l.instead(a, b, c)
	}
	return step{"the owner's sentinel ends", ok(l.model.Die), ok(l.die)}
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
		func() string { return word(l.real.client.Configure(l.real.ctx, key, settingsOf(set))) },
	})
}

func stop(l *life, _, _, c int) step {
	return l.faulty(c, sender, step{"/stop", l.model.Stop, func() string {
		s, err := l.real.client.Stop(l.real.ctx, key)
		if err != nil {
			return word(err)
		}
		fence := "T0"
		if s.Fence > 0 {
			fence = l.real.names.turn(s.Fence)
		}
		return fmt.Sprintf("%s %s, %d archived", s.Phase, fence, s.Dropped)
	}})
}

func rotate(l *life, a, _, c int) step {
	old := ""
	if a%3 == 0 {
		old = l.model.SessionID
	}
	wrong := a%9 == 1
	if wrong {
		old = "another"
	}
	return l.faulty(c, sender, step{
		fmt.Sprintf("/new in place of %q", old),
		func() string { return l.model.Rotate(old) },
		func() string {
			var current string
			if old != "" && !wrong {
				current = l.real.rdb.HGet(l.real.ctx, l.real.k.Record(), "session_id").Val()
			} else {
				current = old
			}
			sid, err := l.real.client.Rotate(l.real.ctx, key, current)
			if err != nil {
				return word(err)
			}
			return l.real.names.session(sid)
		},
	})
}

func title(l *life, a, _, c int) step {
	text := []string{"", "mine", "ours"}[a%3]
	return l.faulty(c, sender, step{
		fmt.Sprintf("/title %q", text), ok(func() { l.model.SetTitle(text) }),
		func() string { return word(l.real.client.SetTitle(l.real.ctx, key, text)) },
	})
}

func undo(l *life, a, b, c int) step {
	if (l.model.Owner != 0 || len(l.model.Transcripts[l.model.SessionID]) == 0) && c%4 > 0 {
		return l.instead(a, b, c)
	}
	again := a%2 == 0
	name := map[bool]string{true: "/retry", false: "/undo"}[again]
	return l.faulty(c, retrier, step{name, func() string { return l.model.Undo(again) }, func() string {
		if again {
			return l.real.undo(l.real.client.Retry(l.real.ctx, key))
		}
		return l.real.undo(l.real.client.Undo(l.real.ctx, key))
	}})
}

func rerun(l *life, a, b, c int) step {
	if len(l.archived()) == 0 && c%4 > 0 {
		return l.instead(a, b, c)
	}
	return step{"/resume", func() string { return fmt.Sprint(l.model.Rerun()) }, func() string {
		n, err := l.real.client.Rerun(l.real.ctx, key)
		l.real.must(err)
		return fmt.Sprint(n)
	}}
}

func dropDead(l *life, a, _, c int) step {
	which := ""
	if c%2 == 0 {
		which = l.one(a)
	}
	return step{fmt.Sprintf("drop dead letters %q", which), func() string { return fmt.Sprint(l.model.DropDead(which)) }, func() string {
		var ids []string
		if which != "" {
			ids = l.real.names.ids([]string{which})
		}
		n, err := l.real.client.DropDeadLetters(l.real.ctx, key, ids...)
		l.real.must(err)
		return fmt.Sprint(n)
	}}
}

// one is a message that there is, or was.
func (l *life) one(a int) string {
	if all := l.existing(); len(all) > 0 {
		return all[a%len(all)]
	}
	return id(a)
}

func erase(l *life, a, _, c int) step {
	if a%4 > 0 {
		return rerun(l, a, 0, c)
	}
	return step{"erase", l.model.Erase, func() string { return word(l.real.client.Erase(l.real.ctx, key)) }}
}

// button is what an operator does about a message.
func button(l *life, a int, name string, model func(id string) bool, real func(queue, id string) error) step {
	if len(l.model.Messages) == 0 {
		return submit(l, a, 0, 0)
	}
	which := l.one(a)
	return step{"operator " + name + " " + which, func() string { return fmt.Sprint(model(which)) }, func() string {
		return allowed(real(rediskey.Queue(key), session.TaskID(key, l.real.names.ids([]string{which})[0])))
	}}
}

func archive(l *life, a, _, _ int) step {
	return button(l, a, "archives", l.model.OperatorArchives, l.real.inspector.ArchiveTask)
}

func remove(l *life, a, _, _ int) step {
	return button(l, a, "deletes", l.model.OperatorDeletes, l.real.inspector.DeleteTask)
}

func runTask(l *life, a, _, _ int) step {
	return button(l, a, "runs", l.model.OperatorRuns, l.real.inspector.RunTask)
}

func pause(l *life, _, _, _ int) step {
	return step{"operator pauses", func() string { return fmt.Sprint(l.model.Pause()) },
		func() string { return allowed(l.real.inspector.PauseQueue(rediskey.Queue(key))) }}
}

func unpause(l *life, a, b, c int) step {
	if !l.model.Paused {
		return l.instead(a, b, c)
	}
	return step{"operator resumes", func() string { return fmt.Sprint(l.model.Unpause()) },
		func() string { return allowed(l.real.inspector.UnpauseQueue(rediskey.Queue(key))) }}
}

func deleteQueue(l *life, a, _, c int) step {
	if a%3 > 0 {
		return rerun(l, a, 0, c)
	}

	return step{"operator deletes the queue", func() string { return fmt.Sprint(l.model.OperatorDeletesQueue()) },
		func() string { return allowed(l.real.inspector.DeleteQueue(rediskey.Queue(key), true)) }}
}

// outside is a call of pkg/resume.
func outside(l *life, name string, model func() bool, real func(context.Context, redis.Scripter, string) (bool, error)) step {
	return step{name + " from outside", func() string { return fmt.Sprint(model()) }, func() string {
		done, err := real(l.real.ctx, l.real.rdb, key)
		l.real.must(err)
		return fmt.Sprint(done)
	}}
}

func markOutside(l *life, a, _, _ int) step {
	reason := []string{"", "lease_lost"}[a%2]
	return outside(l, fmt.Sprintf("mark %q", reason), func() bool { return l.model.MarkOutside(reason) },
		func(ctx context.Context, rdb redis.Scripter, key string) (bool, error) {
			return resume.Mark(ctx, rdb, key, reason)
		})
}

func suspendOutside(l *life, _, _, _ int) step {
	return outside(l, "suspend", l.model.SuspendOutside, resume.Suspend)
}

func clearOutside(l *life, _, _, _ int) step {
	return outside(l, "clear", l.model.ClearOutside, resume.Clear)
}

func timers(l *life, a, _, _ int) step {
	job := []string{"reap", "due", "sweep"}[a%3]
	return step{job, func() string {
		switch job {
		case "reap":
			l.model.Reap()
		case "due":
			l.model.DueTimer()
		default:
			return fmt.Sprint(l.model.Sweep(), " found ok")
		}
		return reference.OK
	}, func() string { return l.real.timer(job) }}
}

func maintain(l *life, _, _, _ int) step {
	return step{"purge, unregister, forget", func() string { return fmt.Sprint(l.model.Maintain()) }, l.real.maintain}
}

func minutes(l *life, a, _, _ int) step {
	return l.wait(time.Duration(1+a%6) * 30 * time.Second)
}

// days pass while nobody owns the session, and what is too old then is removed.
func days(l *life, a, b, c int) step {
	if l.model.Owner != 0 {
		return minutes(l, a, b, c)
	}
	d := []time.Duration{72, 72, 1000}[a%3] * time.Hour
	s := maintain(l, a, b, c)
	return step{d.String() + " pass, " + s.name, s.model, func() string {
		l.pass(d)
		return s.real()
	}}
}

func (l *life) wait(d time.Duration) step {
	return step{d.String() + " pass", func() string { return "" }, func() string {
		l.pass(d)
		return ""
	}}
}
