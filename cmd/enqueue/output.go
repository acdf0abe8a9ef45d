package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"turnstile/internal/console"
	"turnstile/pkg/sessionqueue"
)

// output writes results to stdout and errors to stderr. It may be used from
// several goroutines.
type output struct {
	json             bool
	stdout, stderr   io.Writer
	stdoutTTY, onTTY bool // stdout, stderr is a terminal
	style            console.Style

	mu       sync.Mutex
	progress *progress // nil: none is shown
	midLine  bool      // stdout stands behind a text without a line break
	err      error     // the first of stdout
}

func newOutput(stdout, stderr io.Writer, environ []string) *output {
	o := &output{stdout: stdout, stderr: stderr, stdoutTTY: terminal(stdout), onTTY: terminal(stderr)}
	o.style = console.StyleFor(o.onTTY, environ)
	return o
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// text writes to stdout as it is.
func (o *output) text(s string) {
	if s == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.write(s)
	o.midLine = !strings.HasSuffix(s, "\n")
}

// endLine ends a line that text left open.
func (o *output) endLine() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.midLine {
		o.write("\n")
		o.midLine = false
	}
}

func (o *output) write(s string) {
	o.progress.hide()
	if _, err := io.WriteString(o.stdout, s); err != nil && o.err == nil {
		o.err = err
		fmt.Fprintf(o.stderr, "enqueue: stdout: %v\n", err)
	}
}

// object writes one JSON object to stdout.
func (o *output) object(v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		o.note("enqueue: " + err.Error()) // of no type that is written here
		return
	}
	o.text(b.String())
}

// note writes one line to stderr.
func (o *output) note(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.progress.hide()
	if o.midLine && o.stdoutTTY && o.onTTY {
		line = "\n" + line // both are on one screen
		o.midLine = false
	}
	fmt.Fprintln(o.stderr, line)
}

// remark writes what happens beside a reply to stderr.
func (o *output) remark(text string, alert bool) {
	if alert {
		o.note(o.style.Alert(text))
	} else {
		o.note(o.style.Faint(text))
	}
}

// fail tells of an error, on stderr always and as an object if asked for.
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

// receipt writes what became of a message at once, as an object.
func (o *output) receipt(r sessionqueue.Receipt, line int) {
	if r.Status == sessionqueue.Answered {
		o.object(struct {
			Session string                     `json:"session"`
			Status  sessionqueue.ReceiptStatus `json:"status"`
			Reply   string                     `json:"reply"`
			Line    int                        `json:"line,omitempty"`
		}{r.Session, r.Status, r.Reply, line})
		return
	}
	o.object(struct {
		Session  string                     `json:"session"`
		ID       string                     `json:"id"`
		Status   sessionqueue.ReceiptStatus `json:"status"`
		Position int                        `json:"position"`
		At       time.Time                  `json:"at,omitzero"`
		State    string                     `json:"state,omitempty"`
		Reason   string                     `json:"reason,omitempty"`
		Line     int                        `json:"line,omitempty"`
	}{r.Session, r.ID, r.Status, r.Position, r.At.UTC(), r.State, r.Reason, line})
}

// outcome writes how a message ended, as an object.
func (o *output) outcome(end sessionqueue.Outcome, line int) {
	o.object(struct {
		sessionqueue.Outcome
		Line int `json:"line,omitempty"`
	}{end, line})
}

// event writes one event of a message's turn, as an object.
func (o *output) event(session, id string, e sessionqueue.Event, line int) {
	o.object(struct {
		Session string `json:"session"`
		ID      string `json:"id"`
		sessionqueue.Event
		Line int `json:"line,omitempty"`
	}{session, id, e, line})
}

// receiptText is a receipt in one line for people.
func receiptText(r sessionqueue.Receipt) string {
	switch r.Status {
	case sessionqueue.Queued:
		return fmt.Sprintf("queued as %s, position %d", r.ID, r.Position)
	case sessionqueue.Scheduled:
		return fmt.Sprintf("scheduled as %s, for %s", r.ID, r.At.Local().Format("2006-01-02 15:04:05 MST"))
	case sessionqueue.Duplicate:
		return fmt.Sprintf("duplicate: %s is there already, %s", r.ID, r.State)
	}
	return fmt.Sprintf("%s as %s", r.Status, r.ID)
}

// refusal says why a message was not taken.
func refusal(r sessionqueue.Receipt) string {
	switch r.Reason {
	case "busy":
		return "refused: session " + r.Session + " is running a turn; nothing was stored"
	case "full":
		return "refused: the line of session " + r.Session + " is full; nothing was stored"
	}
	return "refused: " + r.Reason
}

// endText says why a message did not end well, on one line.
func endText(end sessionqueue.Outcome) string {
	return "message " + end.ID + " " + console.Ending(end)
}
