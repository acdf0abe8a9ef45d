package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/history"
)

// parkAfter is after how long a wait gives its slot up.
const parkAfter = 2 * time.Second

// wait waits for a program's value in one of five turns, whatever happens to the workers meanwhile. Some
// programs are late, and some give none.
func (a recorder) wait(ctx context.Context, t *agent.Turn) error {
	id := t.Messages[0].ID
	r, calm := newRandom(a.life.seed, fmt.Sprint("wait ", t.Session, id)), a.life.isCalm.Load()
	if !r.chance(5) {
		return nil
	}
	after, silent := r.about(10*time.Second), r.chance(5) && !calm
	if calm {
		after = r.upTo(2 * parkAfter)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		select {
		case <-a.proc.dead:
			end(errDied)
		case <-ctx.Done():
		}
	}()
	rec := history.Record{Session: t.Session, ID: id, Turn: t.ID, Via: history.Inside}
	value, err := t.Wait(ctx, agent.Wait{Key: waitKey(id), Timeout: 20 * time.Second, Begin: func(_ context.Context, secret string) error {
		rec.Sum = secret
		if a.life.begins(rec) && !silent {
			a.life.programs.Go(func() { a.life.give(rec, after) })
		}
		return nil
	}})
	if err == nil || errors.Is(err, agent.ErrNoValue) {
		rec.Kind, rec.Sum, rec.Done, rec.Text = history.Waited, a.life.secret(rec), err == nil, string(value)
		a.life.log.Add(rec)
		return nil
	}
	return err
}

func waitKey(message string) string { return "paid-" + message }

// begins reports whether a program gets its secret for the first time. /retry makes another wait for a message.
func (l *life) begins(wait history.Record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.secrets[wait.Session+wait.ID]
	l.secrets[wait.Session+wait.ID] = wait.Sum
	return before != wait.Sum
}

// secret is the secret of a message's last wait: an agent that gets a value that was given before does not begin.
func (l *life) secret(wait history.Record) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.secrets[wait.Session+wait.ID]
}

// give gives a wait's value after a while, and repeats that until Redis replies.
func (l *life) give(wait history.Record, after time.Duration) {
	value := turnstile.Value{Key: waitKey(wait.ID), JSON: history.ValueOf(wait.Sum), Secret: wait.Sum}
	sleep(l.ctx, after)
	for l.ctx.Err() == nil {
		call, cancel := context.WithTimeout(l.ctx, 10*time.Second)
		err := l.client.Session(wait.Session).Give(call, value)
		cancel()
		switch {
		case err == nil:
			wait.Kind = history.Given
			l.log.Add(wait)
			return
		case errors.Is(err, session.ErrRefused), errors.Is(err, session.ErrNoWait), errors.Is(err, session.ErrGiven):
			l.log.Note("the value for %s of %s: %v", wait.ID, wait.Session, err)
			return
		}
		sleep(l.ctx, time.Second)
	}
}
