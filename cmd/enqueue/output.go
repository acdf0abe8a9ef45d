package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/chat/terminal"
	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// output writes results to stdout and errors to stderr. It may be used from several goroutines.
type output struct {
	json   bool
	onTTY  bool // stderr is a terminal
	screen *terminal.Screen
	unread func() // called when nobody reads stdout any more; nil: nothing to do

	mu   sync.Mutex
	err  error    // the first error of stdout
	done []string // lines of stderr if stdout fails
}

func newOutput(stdout, stderr io.Writer, environ []string) *output {
	o := &output{onTTY: terminal.IsTerminal(stderr), screen: terminal.NewSplitScreen(stdout, stderr, environ)}
	o.screen.Failed = func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err != nil {
			return
		}
		o.err = err
		for _, line := range append([]string{fmt.Sprintf("enqueue: stdout: %v", err)}, o.done...) {
			fmt.Fprintln(stderr, printable.Line(line))
		}
		if errors.Is(err, syscall.EPIPE) && o.unread != nil {
			o.unread()
		}
	}
	return o
}

// did says on stderr what a call has done, if stdout fails or has failed: it must not be done again. A receipt
// that was written for a line of a file has said it.
func (o *output) did(r receipt.Receipt, line int) {
	text, again := "enqueue: ", "--id "+r.ID
	if line > 0 {
		text, again = fmt.Sprintf("enqueue: line %d: ", line), fmt.Sprintf(`"id": %q`, r.ID)
	}
	if r.Status == receipt.Answered {
		text += "the command was carried out"
	} else {
		text += "stored as " + r.ID + "; repeat it only with " + again
	}
	o.mu.Lock()
	failed := o.err != nil
	if !failed && (line == 0 || !o.json) {
		o.done = append(o.done, text)
	}
	o.mu.Unlock()
	if failed {
		o.note(text)
	}
}

// text writes to stdout.
func (o *output) text(s string) { o.screen.Text(s) }

// endLine ends a line that text left open.
func (o *output) endLine() { o.screen.EndText() }

// object writes one JSON object to stdout.
func (o *output) object(v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		o.note("enqueue: " + err.Error()) // no value that is written here can fail
		return
	}
	o.screen.JSON(b.String())
}

// note writes one line to stderr.
func (o *output) note(line string) { o.screen.Line(printable.Line(line)) }

// remark writes an event that is not part of a reply to stderr.
func (o *output) remark(l terminal.Line) { o.screen.Tell(l) }

// fail reports an error on stderr, and with --json as an object, too.
func (o *output) fail(f failure) {
	text := strings.ReplaceAll(strings.TrimSpace(f.text), "\n", "; ")
	where := "enqueue: "
	if f.line > 0 {
		where = fmt.Sprintf("enqueue: line %d: ", f.line)
	}
	o.note(where + text)
	if o.json && !f.said {
		o.object(struct {
			Error   string `json:"error"`
			Code    int    `json:"code"`
			Session string `json:"session,omitempty"`
			ID      string `json:"id,omitempty"`
			Line    int    `json:"line,omitempty"`
		}{text, f.code, f.session, f.id, f.line})
	}
}

// receipt writes the receipt of a message as an object.
func (o *output) receipt(r receipt.Receipt, line int) {
	if r.Status == receipt.Answered {
		o.object(struct {
			Session string         `json:"session"`
			Status  receipt.Status `json:"status"`
			Reply   string         `json:"reply"`
			Line    int            `json:"line,omitempty"`
		}{r.Session, r.Status, r.Reply, line})
		return
	}
	o.object(struct {
		Session  string               `json:"session"`
		ID       string               `json:"id"`
		Status   receipt.Status       `json:"status"`
		Position int                  `json:"position"`
		At       time.Time            `json:"at,omitzero"`
		State    session.MessageState `json:"state,omitempty"`
		Reason   string               `json:"reason,omitempty"`
		Line     int                  `json:"line,omitempty"`
	}{r.Session, r.ID, r.Status, r.Position, r.At.UTC(), r.State, r.Reason, line})
}

// outcome writes how a message ended, as an object.
func (o *output) outcome(end session.Outcome, line int) {
	o.object(struct {
		session.Outcome
		Line int `json:"line,omitempty"`
	}{end, line})
}

// event writes one event of a message's turn, as an object.
func (o *output) event(key, id string, e session.Event, line int) {
	o.object(struct {
		Session string `json:"session"`
		ID      string `json:"id"`
		EventID string `json:"event_id,omitempty"`
		session.Event
		Line int `json:"line,omitempty"`
	}{key, id, e.ID, e, line})
}

// statusText is a receipt's status as text.
func statusText(status receipt.Status) string {
	if status == receipt.Scheduled {
		return "delayed"
	}
	return string(status)
}

// stateText is the state of a duplicate's message as text.
func stateText(state session.MessageState) string {
	switch state {
	case session.MessageScheduled:
		return "delayed"
	case session.MessageArchived:
		return "a dead letter"
	}
	return string(state)
}

// receiptText is a receipt as one line of text.
func receiptText(r receipt.Receipt) string {
	switch r.Status {
	case receipt.Queued:
		return fmt.Sprintf("queued as %s, position %d", r.ID, r.Position)
	case receipt.Scheduled:
		return fmt.Sprintf("%s as %s, until %s", statusText(r.Status), r.ID, r.At.Local().Format("2006-01-02 15:04:05 MST"))
	case receipt.Duplicate:
		return fmt.Sprintf("duplicate: %s is there already, %s", r.ID, stateText(r.State))
	}
	return fmt.Sprintf("%s as %s", statusText(r.Status), r.ID)
}

// refused is the failure of a refused message. A conflict is the caller's mistake, like bad input.
func refused(r receipt.Receipt) failure {
	f := failure{code: exitRefused, text: refusal(r), said: true}
	if errors.Is(r.Err, session.ErrConflict) {
		f.code = exitUsage
	}
	return f
}

// refusal is the reason why a message was refused, as text.
func refusal(r receipt.Receipt) string {
	switch err := r.Err; {
	case errors.Is(err, session.ErrBusy):
		if _, until, ok := strings.Cut(err.Error(), session.ErrBusy.Error()+", "); ok {
			return "refused: session " + r.Session + " has a turn, " + until + "; nothing was stored"
		}
		return "refused: session " + r.Session + " is running a turn; nothing was stored"
	case errors.Is(err, session.ErrFollowupsFull):
		return "refused: the queue of session " + r.Session + " is full; nothing was stored"
	case errors.Is(err, session.ErrQueueFull):
		return "refused: too many messages wait in session " + r.Session + " (TURNSTILE_LINE_CAP); nothing was stored"
	case errors.Is(err, session.ErrOutboxFull):
		return "refused: too many outcomes of session " + r.Session + ", or for its destination, are not delivered yet (TURNSTILE_OUTBOX_CAP, TURNSTILE_DESTINATION_CAP); nothing was stored"
	case errors.Is(err, session.ErrConflict):
		return "the id " + r.ID + " belongs to another message of session " + r.Session + "; use another id, nothing was stored"
	case errors.Is(err, session.ErrOtherAgent):
		return "refused: session " + r.Session + " has another agent; leave --agent out, or begin a new conversation with /agent NAME; nothing was stored"
	case errors.Is(err, session.ErrExpired):
		return "refused: message " + r.ID + " was accepted before, and its result is no longer kept (TURNSTILE_RETENTION); it is not carried out again"
	case errors.Is(err, session.ErrAllQueuesFull):
		return "refused: too many messages wait in all sessions (TURNSTILE_MESSAGES_CAP); nothing was stored"
	}
	return "refused: " + r.Reason
}

// endText is one line about why a message did not succeed.
func endText(end session.Outcome) string {
	return "message " + end.ID + " " + terminal.Ending(end)
}
