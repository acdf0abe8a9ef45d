package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// maxCompletion limits one reply of a model, in bytes of text, thoughts and arguments.
const maxCompletion = 16 << 20 // tests set less

// fragmentSize is the least size that a piece of a tool call counts: an empty piece can begin a call.
const fragmentSize = 32

// mostSilence is how long a stream may bring no data; comments are none. mostAfterEnd is how long more is waited for once a reply
// has ended: usage may follow.
const (
	mostSilence  = 5 * time.Minute
	mostAfterEnd = 5 * time.Second
)

// completion is one reply of the model, complete or not.
type completion struct {
	text   strings.Builder // with refusals
	calls  []toolCall
	fields fields // what else the server has sent with it
	finish string
	done   bool // the response says that it is over
	usage  *session.Usage
	size   int

	reader
	alarm   *time.Timer
	silence context.CancelCauseFunc
}

// message is the reply as later requests repeat it.
func (r *run) message(a *completion) message {
	return message{role: roleAssistant, text: a.text.String(), calls: a.calls, fields: a.fields, from: r.origin()}
}

// empty reports whether a reply has nothing, and could have had something.
func (a *completion) empty() bool {
	return a.text.Len() == 0 && len(a.calls) == 0 && a.finish != finishLength
}

// stream requests one completion and emits it while it comes. With an error it returns the part that came before.
func (r *run) stream(ctx context.Context) (*completion, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &completion{reader: reader{open: map[[2]string]int{}}, silence: cancel}
	defer a.hush()
	err := r.provider.ask(ctx, r, r.next(), a)
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	if a.usage != nil {
		r.turn.Emit(agent.Event{Type: session.EventUsage, Usage: a.usage})
	}
	switch {
	case errors.Is(err, errTooMuch), errors.Is(err, errShape), errors.As(err, new(*statusError)):
		return a, err
	case a.finish != "": // the reply is complete: that the connection broke changes nothing
	case err != nil:
		return a, err
	case !a.done:
		return a, errEnded
	}
	a.finish = cmp.Or(a.finish, "stop")
	return a, a.end()
}

// heard notes that the server has sent data.
func (a *completion) heard(r *run) {
	wait := r.silence
	if a.finish != "" {
		wait = r.afterEnd
	}
	a.hush()
	a.alarm = time.AfterFunc(wait, func() { a.silence(errSilent) })
}

func (a *completion) hush() {
	if a.alarm != nil {
		a.alarm.Stop()
	}
}

var (
	errEnded   = errors.New("the reply ended in the middle") // without a finish_reason
	errSilent  = errors.New("the server has sent no data for too long")
	errTooMuch = fmt.Errorf("the model's reply is too long: it has more than %d MiB", maxCompletion>>20)
)

// say adds a piece of text.
func (r *run) say(a *completion, text string) {
	if text == "" {
		return
	}
	a.size += len(text)
	a.text.WriteString(text)
	r.output = true
	r.turn.Emit(agent.Event{Type: session.EventText, Text: text})
}

// think shows a piece of thoughts.
func (r *run) think(a *completion, text string) {
	if text == "" {
		return
	}
	a.size += len(text)
	r.turn.Emit(agent.Event{Type: session.EventThought, Text: text})
}
