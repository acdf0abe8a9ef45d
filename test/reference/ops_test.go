package reference_test

import (
	"fmt"
	"reflect"

	sq "turnstile/internal/protocol"
	"turnstile/test/reference"
)

// messages is how many ids senders use, again and again.
const messages = 12

func id(n int) string { return fmt.Sprint("m", n%messages) }

// kind makes a step from an operation's three bytes.
type kind func(l *life, a, b, c int) step

// The operations, each repeated by its likelihood. Those of owners need a claim: without one they
// become a claim. An operation without an effect mostly becomes a message or a claim.
var (
	ofOwners = []kind{
		finish, finish, finish, finish, finish, promote, promote, promote, renew, renew, steer, steer, steer, checkpoint, checkpoint,
		emit, keep, ask, withdraw, proposeTitle, dismiss, retryTurn, retryTurn, requeue, requeue, mark, mark, past,
	}
	ofOthers = []kind{
		cancel, send, send, send, send, send, send, send, send, send, plain, plain, plain, plain, claim, claim, claim, claim, claim,
		die, die, die, die, configure, configure, stop, rotate, title, undo, undo, undo, rerun, dropDead, erase, decide,
		pause, unpause, unpause, archive, archive, remove, remove, runTask, runTask, deleteQueue,
		markOutside, suspendOutside, clearOutside, timers, timers, find, find, maintain, minutes, minutes, days,
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
	switch { // the corpus' lives keep their meaning
	case code < 5:
		return askFor
	case code >= 112 && code < 115:
		return give
	case code < 112:
		return ofOwners[int(code)%len(ofOwners)]
	}
	return ofOthers[int(code)%len(ofOthers)]
}

// resolve decodes an operation in a life's present state.
func (l *life) resolve(o operation) step {
	a, b, c := int(o[1]), int(o[2]), int(o[3])
	switch h := l.holder(c); { // operations that would otherwise be too rare
	case l.routed && (b%8 == 1 || b%8 == 2):
		return ofDeliverers[int(o[0])%len(ofDeliverers)](l, a, b, c)
	case b%8 == 7 && l.model.Run.Question > 0:
		if l.model.Run.Waits() {
			return give(l, a, b/8, c)
		}
		return decide(l, a, b/8, c)
	case b%8 == 5 && l.model.Owner == 0 && len(l.archived()) > 0 && len(l.archived()) == len(l.model.Messages):
		return days(l, a, b, c) // a session with only dead letters
	case b%8 == 3 && l.holder(3) != nil && !l.model.Owns(l.holder(3).model):
		return survive(l, a, b, c|3)
	case b%8 == 6 && h != nil && len(h.model.Steered()) > 0:
		return send(l, a, 8+b/8%2, c) // an interrupt or a rollback
	}
	if o[0] < 112 && l.holder(c) == nil {
		return l.instead(a, b, c)
	}
	return kindOf(o[0])(l, a, b, c)
}

// instead replaces an operation without an effect.
func (l *life) instead(a, b, c int) step {
	if len(l.model.Line) > 0 && l.model.Owner == 0 && !l.model.Paused {
		return claim(l, a, b, c)
	}
	return send(l, a, b, c)
}

// holder returns the worker of an operation's claim: mostly the owner, and sometimes a worker that only
// believes that it is the owner.
func (l *life) holder(c int) *pair {
	var owner, former *pair
	for _, p := range l.claims {
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

// move is a step of an owner. A worker that has lost or released the session has no claim any more.
func (l *life) move(c int, name string, model func(h *reference.Claim) string, actual func(h *sq.Claim) string) step {
	return l.moveOf(owner, c, name, model, actual)
}

func (l *life) moveOf(whose caller, c int, name string, model func(h *reference.Claim) string, actual func(h *sq.Claim) string) step {
	p := l.holder(c)
	h := p.model
	name = fmt.Sprintf("worker %d (T%d): %s", h.Worker, h.Turn.Number, name)
	over := func(result string) string {
		if result == reference.Lost || result == "released" {
			l.claims[h.Worker] = nil
		}
		return result
	}
	return l.faulty(c, whose, step{name, func() string { return over(model(p.model)) }, func() string { return actual(p.actual) }})
}

// caller is a caller's reaction to a lost reply.
type caller int

const (
	owner   caller = iota // repeats the call while its lease lasts
	sender                // gets an error, and does nothing
	retrier               // makes another call, which is another operation here
)

// faulty puts faults into some steps: all commands are carried out twice, as if a first reply was
// lost and the request sent again; or the first reply is lost, after which an owner repeats the
// call and a sender gets an error.
func (l *life) faulty(c int, whose caller, s step) step {
	actual, model := s.actual, s.model
	switch {
	case c/4%4 == 3:
		s.name += " (sent twice)"
		s.actual = func() string {
			l.actual.faults.RunTwice(ours, -1)
			return actual()
		}
	case c/4 == 2 && whose != retrier:
		s.name += " (reply lost)"
		s.actual = func() string {
			l.actual.faults.LoseReply(lossy, 1)
			return actual()
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

// ok is a step that returns only that it succeeded.
func ok(do func()) func() string {
	return func() string {
		do()
		return reference.OK
	}
}
