package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// given is how a wait ended.
type given struct {
	value json.RawMessage
	err   error
}

// waits waits for a payment, as every run of its turn does, and returns its secret and its end.
func (a *act) waits(w agent.Wait) (secret string, end <-chan given) {
	begun, ended := make(chan string, 1), make(chan given, 1)
	w.Key, w.Begin = "payment", func(_ context.Context, secret string) error { begun <- secret; return nil }
	go func() {
		value, err := a.Wait(a.ctx, w)
		ended <- given{value, err}
		close(begun)
	}()
	return <-begun, ended
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func (r *rig) give(v turnstile.Value) error {
	r.Helper()
	v.Key = "payment"
	return turnstile.NewClient(r.rdb).Session(r.key).Give(r.ctx, v)
}

// A program gives the value while the turn runs: with the wait's secret, once.
func TestProgramGivesAValue(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Hour))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	wantErr(t, "before the wait", r.give(turnstile.Value{JSON: []byte(`1`)}), session.ErrNoWait)
	secret, end := a.waits(agent.Wait{})
	info := r.info()
	expect.Equal(t, "waits for", info.WaitsFor, "payment")
	if info.Question != nil {
		t.Errorf("a person is asked: %+v", info.Question)
	}
	r.command("/approve", "There is no open question.")
	wantErr(t, "a wrong secret", r.give(turnstile.Value{JSON: []byte(`1`), Secret: secret[1:]}), session.ErrWrongSecret)
	wantErr(t, "no JSON", r.give(turnstile.Value{JSON: []byte(`{`), Secret: secret}), session.ErrInvalid)
	expect.OK(t, r.give(turnstile.Value{JSON: []byte(`{"paid": true}`), Secret: secret}))
	got := expect.Received(t, "the value", end)
	expect.OK(t, got.err)
	expect.Equal(t, "value", string(got.value), `{"paid":true}`)
	expect.OK(t, r.give(turnstile.Value{JSON: []byte(`{"paid":true}`), Secret: secret})) // its receiver's reply was lost
	wantErr(t, "another value", r.give(turnstile.Value{JSON: []byte(`2`), Secret: secret}), session.ErrGiven)
	a.reply("paid")
	r.ends("m1", session.StatusDone)
	wantErr(t, "after the turn", r.give(turnstile.Value{JSON: []byte(`2`)}), session.ErrNoWait)
}

// A secret gives the value of one wait of one turn, in each run of it, and of no other one: neither of a wait with almost
// the same key, nor in another turn or session.
func TestSecretIsOfOneWait(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Millisecond))
	keys := []string{"payment"}
	for _, near := range expect.Near("payment") {
		if !strings.Contains(near, "\u200b") { // else it is no key
			keys = append(keys, near)
		}
	}
	seen := map[string]string{} // by the secret
	for _, place := range []string{r.key, r.key + "2"} {
		chat := turnstile.NewClient(r.rdb).Session(place)
		for _, id := range []string{"m1", "m2"} {
			r.send(place, turnstile.Message{ID: id, Text: "hello"})
			for i, key := range keys { // each run has one wait more
				a := s.next(t, id)
				for _, before := range keys[:i] {
					_, err := a.Wait(a.ctx, agent.Wait{Key: before})
					expect.OK(t, err)
				}
				var secret string
				begin := func(_ context.Context, told string) error { secret = told; return nil }
				_, err := a.Wait(a.ctx, agent.Wait{Key: key, Begin: begin})
				wantErr(t, "the wait", err, agent.ErrParked)
				what := fmt.Sprintf("%s of %s in %s", key, id, place)
				if other, ok := seen[secret]; ok || secret == "" {
					t.Errorf("%s has the secret of %s", what, other)
				}
				for other := range seen {
					wantErr(t, what+" with another wait's secret", chat.Give(r.ctx, turnstile.Value{Key: key, Secret: other, JSON: []byte("1")}), session.ErrWrongSecret)
				}
				for _, near := range expect.Near(secret) {
					if near != secret {
						wantErr(t, what+" with almost its secret", chat.Give(r.ctx, turnstile.Value{Key: key, Secret: near, JSON: []byte("1")}), session.ErrWrongSecret)
					}
				}
				seen[secret] = what
				a.fail(err)
				expect.OK(t, chat.Give(r.ctx, turnstile.Value{Key: key, Secret: secret, JSON: []byte("1")}))
			}
			s.next(t, id).reply("paid")
			expect.Equal(t, id, r.outcomeIn(place, id).Status, session.StatusDone)
		}
	}
}

// A value wakes a turn that is parked, and every later run gets it. The secret is the same in all runs.
func TestValueWakesAParkedTurn(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	w := r.worker(s, parkAfter(time.Millisecond), drainTimeout(time.Minute))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	secret, end := a.waits(agent.Wait{Timeout: time.Hour})
	got := expect.Received(t, "the park", end)
	wantErr(t, "the wait ends", got.err, agent.ErrParked)
	a.fail(got.err)
	r.parked("m1")
	expect.Equal(t, "waits for", r.info().WaitsFor, "payment")
	r.free("while it waits")
	expect.Received(t, "the end of the drain", drain(w))
	expect.OK(t, r.give(turnstile.Value{JSON: []byte(`"paid"`), Secret: secret}))
	expect.OK(t, r.give(turnstile.Value{JSON: []byte(`"paid"`), Secret: secret}))
	next := newStage()
	r.worker(next)
	b := next.next(t, "m1")
	value, err := b.Wait(b.ctx, agent.Wait{Key: "payment"})
	expect.OK(t, err)
	expect.Equal(t, "value", string(value), `"paid"`)
	expect.OK(t, r.give(turnstile.Value{JSON: []byte(`"paid"`), Secret: secret}))
	b.reply("paid")
	r.ends("m1", session.StatusDone)
}

// A turn is not parked before the secret is sent, and its time does not begin anew then.
func TestWaitIsParkedOnceItsSecretIsSent(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]bool{"sent": true, "not sent": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newRig(t), newStage()
			w := r.worker(s, parkAfter(time.Millisecond), drainTimeout(time.Minute))
			r.say("m1", "hello")
			a, sent := s.next(t, "m1"), make(chan struct{})
			secret, end := a.waits(agent.Wait{Timeout: time.Hour, Sent: sent})
			if send {
				close(sent)
				wantErr(t, "the wait ends", expect.Received(t, "the park", end).err, agent.ErrParked)
				a.fail(agent.ErrParked)
				r.parked("m1")
				return
			}
			drain(w) // it parks what may be parked at once
			expect.Soon(t, "the drain", func() bool { return w.Status().Draining })
			expect.OK(t, r.give(turnstile.Value{JSON: []byte(`1`), Secret: secret}))
			expect.OK(t, expect.Received(t, "the value", end).err)
			a.reply("paid")
			r.ends("m1", session.StatusDone)
		})
	}
}

// Without a value in time the wait fails, in later runs, too, and a late value is refused. A timer just ends.
func TestNobodyGivesTheValue(t *testing.T) {
	t.Parallel()
	for name, timer := range map[string]bool{"value": false, "timer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newRig(t), newStage()
			r.worker(s, parkAfter(time.Millisecond))
			r.say("m1", "hello")
			a := s.next(t, "m1")
			_, end := a.waits(agent.Wait{Timeout: time.Hour, Timer: timer})
			a.fail(expect.Received(t, "the park", end).err)
			r.parked("m1")
			if timer {
				wantErr(t, "a value for a timer", r.give(turnstile.Value{JSON: []byte(`1`)}), session.ErrNoWait)
			}
			expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "hold", "1 "+r.rdb.LIndex(r.ctx, r.k.Active(), 0).Val(), "questions", "1 1 1 1").Err())
			r.wake()
			b := s.next(t, "m1")
			for range 2 {
				value, err := b.Wait(b.ctx, agent.Wait{Key: "payment", Timeout: time.Hour, Timer: timer})
				if timer != (err == nil) || err != nil && !errors.Is(err, agent.ErrNoValue) || value != nil {
					t.Errorf("the wait ends with %s, %v", value, err)
				}
			}
			wantErr(t, "a late value", r.give(turnstile.Value{JSON: []byte(`1`)}), map[bool]error{false: session.ErrGiven, true: session.ErrNoWait}[timer])
			b.reply("not paid")
			r.ends("m1", session.StatusDone)
		})
	}
}

// A value counts as long as its turn has not ended: also while its worker is dead, and while the turn waits for
// its retry. Its journal lives at least as long as its park.
func TestValueBetweenTwoRuns(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Hour), with(func(o *worker.Config) { o.RetryBackoff = time.Hour }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	secret, end := a.waits(agent.Wait{})
	expect.OK(t, r.rdb.PExpire(r.ctx, r.k.Journal(), time.Minute).Err())
	a.fail(agent.Retryable(errors.New("503")))
	expect.Received(t, "the end of the wait", end)
	r.awaitEvent("the retry", func(e session.Event) bool { return e.Type == session.EventTurnRetry })
	expect.Soon(t, "the park", func() bool { return r.info().Phase == session.PhaseParked })
	if left := r.rdb.PTTL(r.ctx, r.k.Journal()).Val(); left < time.Hour {
		t.Errorf("the journal of a parked turn expires in %s", left)
	}
	wantErr(t, "a wrong secret", r.give(turnstile.Value{JSON: []byte(`1`), Secret: "x"}), session.ErrWrongSecret)
	expect.OK(t, r.give(turnstile.Value{JSON: []byte(`1`), Secret: secret}))
	wantErr(t, "another value with a wrong secret", r.give(turnstile.Value{JSON: []byte(`2`), Secret: "x"}), session.ErrWrongSecret)
	expect.OK(t, r.rdb.HSet(r.ctx, r.k.Run(), "hold", "1 "+r.rdb.LIndex(r.ctx, r.k.Active(), 0).Val()).Err())
	r.wake()
	b := s.next(t, "m1")
	value, err := b.Wait(b.ctx, agent.Wait{Key: "payment"})
	expect.OK(t, err)
	expect.Equal(t, "value", string(value), "1")
	b.reply("paid")
	r.ends("m1", session.StatusDone)
}

// A program's wait is over with its turn, and a question of a person can follow it.
func TestWaitAndQuestionOfOneTurn(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, parkAfter(time.Hour))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	secret, end := a.waits(agent.Wait{})
	expect.OK(t, r.give(turnstile.Value{JSON: []byte(`1`), Secret: secret}))
	expect.OK(t, expect.Received(t, "the value", end).err)
	decided := make(chan session.Decision, 1)
	go func() { d, _ := a.asks(); decided <- d }()
	r.asked("2")
	r.command("/approve 2", "Approved question 2: pay.")
	expect.Equal(t, "decision", expect.Received(t, "the decision", decided), session.Allow)
	_, err := a.Ask(a.ctx, agent.Question{Key: "payment", Name: "pay"})
	wantErr(t, "a question with a wait's key", err, agent.ErrStep)
	_, err = a.Wait(a.ctx, agent.Wait{Key: "pay"})
	wantErr(t, "a wait with a question's key", err, agent.ErrStep)
	_, err = a.Wait(a.ctx, agent.Wait{Key: "passed", Timer: true, Timeout: -time.Hour})
	expect.OK(t, err)
	_, err = a.Wait(a.ctx, agent.Wait{Key: "asks", Begin: func(ctx context.Context, _ string) error {
		_, err := a.Ask(ctx, agent.Question{Name: "pay"})
		return err
	}})
	wantErr(t, "a question in Begin", err, agent.ErrStep)
	failed := errors.New("no network")
	_, err = a.Wait(a.ctx, agent.Wait{Key: "other", Begin: func(context.Context, string) error { return failed }})
	wantErr(t, "a wait that cannot begin", err, failed)
	expect.Equal(t, "waits for", r.info().WaitsFor, "")
	a.reply("done")
	r.ends("m1", session.StatusDone)
}
