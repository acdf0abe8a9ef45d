package exec

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"turnstile/pkg/agent"
)

// The lines of a command's stdin about its waits.
type (
	// beganLine: the value can be given with this secret.
	beganLine struct {
		Type   string `json:"type"` // waiting
		Key    string `json:"key"`
		Secret string `json:"secret"`
	}

	// valueLine is how a wait ended. A timer's has neither value nor error.
	valueLine struct {
		Type  string          `json:"type"` // value
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value,omitempty"`
		Error string          `json:"error,omitempty"`
	}

	// parkedLine: the turn goes on in a later run, so this one ends.
	parkedLine struct {
		Type string `json:"type"` // parked
	}
)

// sendsWithin is how long a command may take to begin the step that sends the secret, until its turn is parked.
const sendsWithin = 10 * time.Second

// wait waits for a program's value or for a time. Its error says why the line is no wait.
func (a *asking) wait(l line) error {
	if l.Key == "" {
		return errors.New("a wait needs a key")
	}
	w := agent.Wait{Key: l.Key, Timeout: time.Duration(l.Timeout), Timer: l.Timer}
	if !l.Timer {
		sent := make(chan struct{})
		done := sync.OnceFunc(func() { close(sent) })
		w.Sent = sent
		w.Begin = func(_ context.Context, secret string) error {
			a.steps.whenOneBegins(done)
			time.AfterFunc(sendsWithin, done)
			a.write(beganLine{"waiting", l.Key, secret})
			return nil
		}
	}
	return a.another(func() {
		value, err := a.turn.Wait(a.ctx, w)
		end := valueLine{Type: "value", Key: l.Key, Value: value}
		if errors.Is(err, agent.ErrNoValue) {
			end.Error, err = err.Error(), nil
		}
		a.end(end, err)
	})
}

// end writes how a question or a wait ended. An error ends the run: the turn is parked, or has failed. The command
// may stop reading. If the turn is over, nothing is written.
func (a *asking) end(response any, err error) {
	switch {
	case err == nil:
		a.write(response)
		return
	case a.ctx.Err() != nil && !errors.Is(err, agent.ErrParked):
		return
	}
	a.mu.Lock()
	first := a.err == nil
	if first {
		a.err = err
	}
	a.mu.Unlock()
	if first {
		a.onEnd(func() {
			if errors.Is(err, agent.ErrParked) {
				a.write(parkedLine{"parked"})
			}
		})
	}
}

// failed returns the error that has ended the run, or nil.
func (a *asking) failed() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *asking) write(response any) {
	if data, err := json.Marshal(response); err == nil {
		_, _ = a.w.Write(append(data, '\n')) // a command that has closed its stdin does not need it
	}
}
