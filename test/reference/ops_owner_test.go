package reference_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/reference"
)

func claim(l *life, a, b, c int) step {
	if l.model.Owner != 0 && l.holder(0) != nil && c%4 > 0 {
		return ofOwners[b%len(ofOwners)](l, a, b, c)
	}
	w, p := a%2, &pair{}
	pop := c%2 == 0
	serves := allAgents
	if b%7 == 6 {
		serves = allAgents[:1]
	}
	return l.faulty(c, retrier, step{
		fmt.Sprintf("worker %d, which runs %v, claims (pops %v)", w, serves, pop),
		func() string {
			if pop {
				l.model.Pop()
			}
			var again int64
			if p.model, again = l.model.Claim(w, serves); again > 0 && c/4%4 == 3 { // sent twice
				p.model, again = l.model.Claim(w, serves)
			}
			if again > 0 {
				l.model.Again(again)
			}
			if p.model == nil {
				return reference.OK
			}
			if p.actual != nil {
				l.claims[w] = p
			}
			return told(p.model.Turn)
		},
		func() string {
			l.actual.serves[w] = serves
			if pop {
				_, err := l.actual.workers[w].Pop(l.actual.ctx, 1)
				l.actual.must(err)
			}
			var result string
			p.actual, result = l.actual.claim(w)
			return result
		},
	})
}

// told is a turn of the real side, in the model's form.
func told(t reference.ClaimedTurn) string {
	return turnText(fmt.Sprint("T", t.Number), t.TranscriptID, t.Agent, t.Reset, t.Resume, t.Messages, t.Dropped, t.Attempt, t.Entries, t.Again, t.Throttled, t.Ends)
}

func promote(l *life, _, _, c int) step {
	return l.move(c, "promotes", l.model.Promote, func(h *sq.Claim) string {
		result := word(h.Promote(l.actual.ctx))
		if result == reference.OK && h.SteerWaits() && !l.model.Config.Immediate {
			result += ", steer"
		}
		return result
	})
}

func renew(l *life, _, _, c int) step {
	return l.moveOf(retrier, c, "renews", l.model.Renew, func(h *sq.Claim) string {
		r := l.actual.workers[0].Renew(l.actual.ctx, []*sq.Claim{h})[0]
		if r.Err != nil {
			return word(r.Err)
		}
		asked := ""
		if r.Requested != nil {
			asked = word(r.Requested)
		}
		result := fmt.Sprintf("asked %q, %d wait, steer %v", asked, r.Waiting, r.Steer)
		if r.Decided.Question > 0 {
			result += fmt.Sprintf(", answered %d %s", r.Decided.Question, r.Decided.Decision)
		}
		return result
	})
}

func steer(l *life, _, _, c int) step {
	return l.move(c, "steers", l.model.Steer, func(h *sq.Claim) string {
		taken, err := h.Steer(l.actual.ctx)
		if err != nil {
			return word(err)
		}
		var ids []string
		for _, m := range taken {
			ids = append(ids, l.actual.names.message(m.Message.ID))
		}
		return fmt.Sprint("steered ", ids)
	})
}

// entries are the entries of a turn: some of each kind.
func (l *life) entries(h *reference.Claim, b int) (entries []reference.Entry) {
	if b%4 == 3 {
		return nil
	}
	for _, id := range h.Turn.Messages {
		if m := l.model.Messages[id]; m != nil && b%4 < 2 { // a former owner's may be gone
			entries = append(entries, reference.Entry{Role: "user", Text: m.Text, Message: id, Turn: h.Turn.Number})
		}
	}
	l.said++
	large := b/32%4 == 1
	return append(entries, reference.Entry{Role: "assistant", Text: fmt.Sprint("re ", l.said), Turn: h.Turn.Number, Large: large})
}

func (l *life) some(h *reference.Claim) []reference.Entry {
	l.said++
	return []reference.Entry{{Role: "assistant", Text: fmt.Sprint("part ", l.said), Turn: h.Turn.Number}}
}

func checkpoint(l *life, a, _, c int) step {
	entries, model, step := l.some(l.holder(c).model), l.holder(c).model, a%3 == 0
	return l.move(c, fmt.Sprintf("checkpoints (a step %v)", step), func(h *reference.Claim) string { return l.model.Checkpoint(h, entries, step) },
		func(h *sq.Claim) string {
			return word(l.actual.checkpoint(h, model, entries, step))
		})
}

func emit(l *life, _, _, c int) step {
	l.said++
	text := fmt.Sprint("event ", l.said)
	return l.move(c, "emits "+text, func(h *reference.Claim) string { return l.model.Emit(h, text) },
		func(h *sq.Claim) string {
			return word(h.Emit(l.actual.ctx, []session.Event{{Type: "text", Text: text}}))
		})
}

func keep(l *life, a, _, c int) step {
	data := fmt.Sprintf(`"state %d"`, a)
	if a%4 == 0 {
		data = ""
	}
	return l.move(c, "keeps "+data, func(h *reference.Claim) string { return l.model.StoreState(h, data) }, func(h *sq.Claim) string {
		var raw []byte
		if data != "" {
			raw = []byte(data)
		}
		return word(h.StoreState(l.actual.ctx, raw, 1))
	})
}

func ask(l *life, _, _, c int) step {
	return l.move(c, "asks", l.model.Ask, func(h *sq.Claim) string {
		n, err := h.Ask(l.actual.ctx, session.Question{Name: "may I"})
		if err != nil {
			return word(err)
		}
		return fmt.Sprint("ok ", n)
	})
}

// askFor asks a question with a key, or waits for a program, and may then time out, or be parked.
func askFor(l *life, a, b, c int) step {
	key, value, then, wait := fmt.Sprint("key", a%2), b%2 == 1, b/2%4, time.Duration(1+a%3)*20*time.Second
	name := fmt.Sprintf("asks for %s, a value: %v, then %s in %s", key, value, []string{"waits", "times out", "parks", "parks"}[then], wait)
	undecided := func(result string) (number int, ok bool) {
		n, err := fmt.Sscanf(result+" .", "ok %d .", &number)
		return number, n == 1 && err == nil
	}
	return l.move(c, name, func(h *reference.Claim) string {
		result := l.model.AskFor(h, key, value)
		number, open := undecided(result)
		switch {
		case !open || then == 0:
			return result
		case then == 1:
			return l.model.Deny(h)
		}
		return l.model.Park(h, reference.Parking{Question: number, Wait: wait.Milliseconds()})
	}, func(h *sq.Claim) string {
		ctx := l.actual.ctx
		asked, err := putQuestion(ctx, h, key, value)
		switch {
		case err != nil:
			return word(err)
		case asked.Decision == sq.Given:
			return fmt.Sprint("ok ", asked.Question, " ", asked.By)
		case asked.Decision != "":
			return fmt.Sprint("ok ", asked.Question, " ", asked.Decision)
		case then == 0:
			return fmt.Sprint("ok ", asked.Question)
		case then == 1:
			said, err := h.Deny(ctx, key)
			if err != nil {
				return word(err)
			}
			return "ok " + string(said.Decision)
		}
		return released(h.Park(ctx, sq.Parking{Question: asked.Question, Wait: wait}))
	})
}

func putQuestion(ctx context.Context, h *sq.Claim, key string, value bool) (sq.Asked, error) {
	if value {
		return h.WaitFor(ctx, key, "secret", false, 0)
	}
	return h.AskFor(ctx, key, session.Question{Name: "may I"})
}

func withdraw(l *life, _, _, c int) step {
	return l.move(c, "withdraws", l.model.Withdraw, func(h *sq.Claim) string {
		said, err := h.Withdraw(l.actual.ctx)
		if err != nil {
			return word(err)
		}
		return "ok " + string(said.Decision)
	})
}

func proposeTitle(l *life, a, _, c int) step {
	title := fmt.Sprint("proposed ", a%3)
	return l.moveOf(sender, c, "proposes a title", func(h *reference.Claim) string { // a courtesy: it is not repeated
		l.model.ProposeTitle(h, title)
		return reference.OK
	}, func(h *sq.Claim) string { return word(h.Title(l.actual.ctx, title)) })
}

func dismiss(l *life, a, b, c int) step {
	p := l.holder(c)
	if len(p.model.Turn.Messages) < 2 {
		return finish(l, a, b, c)
	}
	n := a % len(p.model.Turn.Messages)
	m := p.model.Turn.Messages[n]
	return l.move(c, "dismisses "+m, func(h *reference.Claim) string { return l.model.Dismiss(h, m, "too old") }, func(h *sq.Claim) string {
		return word(h.Dismiss(l.actual.ctx, h.Turn().Messages()[n], sq.End{Status: session.StatusExpired, Error: "too old"}))
	})
}

func finish(l *life, a, b, c int) step {
	p := l.holder(c)
	e := reference.End{Status: "done", Release: a%8 == 5, Untaken: b/4%2 == 1}
	switch a / 8 % 8 {
	case 1:
		e.Status, e.Error = "failed", []string{"why", "rolled back: the disk is full"}[a/64%2]
	case 2:
		e.Status = "interrupted"
	case 3:
		e.Status, e.Error, e.Rollback = "interrupted", "rolled back by a newer message", true
	case 4:
		e.Status, e.Error = []string{"stopped", "expired"}[a/64%2], ""
	}
	if e.Status != "expired" && !e.Rollback {
		e.Entries = l.entries(p.model, b)
	}
	e.Told = e.Status == "done" // as the worker does
	return l.move(c, fmt.Sprintf("finishes: %+v", e), func(h *reference.Claim) string {
		result := l.model.Finish(h, e)
		if result == "next" {
			result += ": " + told(h.Turn)
		}
		return result
	}, func(h *sq.Claim) string { return l.actual.finish(h, e, p.model.Steered()) })
}

// park leaves the turn, maybe after it has stored what it has done.
func park(l *life, name string, done []reference.Entry, c int, model reference.Parking, actual sq.Parking) step {
	turn := l.holder(c).model
	return l.move(c, fmt.Sprintf("%s, with %v", name, done),
		func(h *reference.Claim) string {
			if len(done) > 0 && l.model.Checkpoint(h, done, false) == reference.Lost {
				return reference.Lost
			}
			return l.model.Park(h, model)
		},
		func(h *sq.Claim) string {
			if len(done) > 0 {
				if err := l.actual.checkpoint(h, turn, done, false); err != nil {
					return released(err)
				}
			}
			return released(h.Park(l.actual.ctx, actual))
		})
}

func retryTurn(l *life, a, b, c int) step {
	wait, done := time.Duration(a%3)*40*time.Second, []reference.Entry(nil)
	if b%4 == 0 {
		done = l.some(l.holder(c).model)
	}
	if b%4 == 1 {
		return park(l, fmt.Sprintf("waits %s for a provider", wait), done, c,
			reference.Parking{Throttled: true, Wait: wait.Milliseconds()}, sq.Parking{Throttled: true, Wait: wait})
	}
	return park(l, fmt.Sprintf("retries in %s", wait), done, c,
		reference.Parking{Failed: "flaky", Wait: wait.Milliseconds()}, sq.Parking{Failed: errors.New("flaky"), Wait: wait})
}

func requeue(l *life, _, b, c int) step {
	var done []reference.Entry
	if b%2 == 0 {
		done = l.some(l.holder(c).model)
	}
	reason := []string{"shutdown_timeout", "lease_lost"}[b/2%2]
	return park(l, "is interrupted for "+reason, done, c, reference.Parking{Interrupted: reason}, sq.Parking{Interrupted: reason})
}

func mark(l *life, _, _, c int) step {
	return l.moveOf(retrier, c, "is marked", func(h *reference.Claim) string { return l.model.Mark(h, "shutdown_timeout") }, func(h *sq.Claim) string {
		m := l.actual.workers[0].Mark(l.actual.ctx, []*sq.Claim{h}, "shutdown_timeout")[0]
		if m.Starting {
			return "starting"
		}
		return word(m.Err)
	})
}

func survive(l *life, _, _, c int) step {
	return l.moveOf(retrier, c, "says that it lives", l.model.Survive, func(h *sq.Claim) string {
		if err := h.Survive(l.actual.ctx); err != nil {
			return word(err)
		}
		return reference.Lost
	})
}

// past makes the worker read the history before its turn.
func past(l *life, _, _, c int) step {
	return l.move(c, "reads the past", l.model.Past, func(h *sq.Claim) string {
		p, err := h.History(l.actual.ctx)
		if err != nil {
			return word(err)
		}
		journal := ""
		if p.Earlier != nil {
			journal = fmt.Sprintf(", journal of %s", l.actual.names.turn(p.Earlier.Fence))
		}
		return fmt.Sprintf("%d entries%s, dropped %v", len(p.Entries), journal, p.Dropped)
	})
}
