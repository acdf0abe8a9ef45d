package exec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

var _ agent.Describer = (*Agent)(nil)

func TestSteerable(t *testing.T) {
	t.Parallel()
	for format, want := range map[Format]bool{"": false, Text: false, JSONL: true} {
		if got := newAgent(t, Config{Command: []string{"cat"}, Format: format}).Traits(); got != (agent.Traits{Steerable: want}) {
			t.Errorf("format %q: %+v", format, got)
		}
	}
}

// drive plays the worker for a turn of the role "steers": it offers steers in their order and
// records the result.
type drive struct {
	t      *testing.T
	config Config
	offer  []session.Message
	onText func(text string) // called during the turn
	fifo   string            // the role's "wait" waits for it
	before <-chan struct{}   // nothing is offered before it is closed; nil: at once

	mu       sync.Mutex
	log      []string // texts, titles and accepted IDs, in their order
	received chan string
}

func newDrive(t *testing.T, offer []session.Message, does ...string) *drive {
	t.Helper()
	d := &drive{
		t: t, offer: offer, onText: func(string) {}, fifo: filepath.Join(t.TempDir(), "fifo"),
		config:   Config{Format: JSONL, Command: roleCommand("steers", does...)},
		received: make(chan string, len(offer)),
	}
	if err := syscall.Mkfifo(d.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *drive) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, what)
}

// release ends the role's "wait".
func (d *drive) release() {
	f, err := os.OpenFile(d.fifo, os.O_WRONLY, 0)
	if err != nil {
		d.t.Error(err)
	}
	_ = f.Close()
}

// run runs the turn. It returns the IDs of the steers that the agent received, once none can be
// offered any more.
func (d *drive) run(ctx context.Context) (tn *agent.Turn, result agent.Result, received []string, err error) {
	steers := make(chan agent.Steer)
	over := make(chan struct{})
	var offering sync.WaitGroup
	offering.Go(func() {
		defer close(d.received)
		if d.before != nil {
			<-d.before
		}
		for _, m := range d.offer {
			select {
			case steers <- agent.NewSteer(m, func() { d.note("+" + m.ID) }):
				d.received <- m.ID
			case <-over:
				return
			}
		}
	})
	tn = turn(d.t, d.fifo)
	tn.Host.Steers = steers
	result, err = newAgent(d.t, d.config).Run(ctx, emitting(tn, func(e agent.Event) {
		d.note(e.Text)
		d.onText(e.Text)
	}))
	close(over)
	offering.Wait()
	for id := range d.received {
		received = append(received, id)
	}
	return tn, result, received, err
}

func message(id, text string) session.Message { return session.Message{ID: id, Text: text} }

const say = `{"type":"text","text":"bye"}`

func TestSteerInMidTurn(t *testing.T) {
	t.Parallel()
	rich := session.Message{
		ID: "s2", Text: "second <b>\nline", Meta: map[string]string{"from": "ann"},
		Attachments: []session.Attachment{{Name: "build.log", Mime: "text/plain", Path: "/srv/build.log"}},
	}
	d := newDrive(t, []session.Message{message("s1", "first"), rich},
		"announce", "read", "ack", "read", "ack", "ack", say, "rest")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("seen enough")
	d.onText = func(text string) {
		if text == "bye" {
			cancel(cause) // accepted steers stay accepted
		}
	}
	d.config.Grace = time.Hour
	_, _, received, err := d.run(ctx)
	if !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	// The text before the acknowledgement is the agent's "read": an accepted steer's place is where
	// it was acknowledged.
	if want := []string{"first", "+s1", rich.Text, "+s2", "bye"}; !reflect.DeepEqual(d.log, want) {
		t.Errorf("got %q, want %q", d.log, want)
	}
	if !slices.Equal(received, []string{"s1", "s2"}) {
		t.Errorf("received %q", received)
	}
}

// Several steers may be sent before one is acknowledged. The acknowledgements may come in any order
// and late, as long as the turn has not ended.
func TestSteersAcknowledgedLate(t *testing.T) {
	t.Parallel()
	d := newDrive(t, []session.Message{message("s1", "a"), message("s2", "b"), message("s3", "c")},
		"announce", "read", "read", "read", `{"type":"steered","id":"s3"}`, `{"type":"steered","id":"s1"}`,
		`{"type":"result","text":"done"}`, `{"type":"steered","id":"s2"}`, "rest")
	_, result, received, err := d.run(t.Context())
	if err != nil || result.Text != "done" {
		t.Errorf("result %+v, error %v", result, err)
	}
	if got := strings.Join(d.log, ""); got != "abc+s3+s1" || len(received) != 3 {
		t.Errorf("got %q, received %q", d.log, received)
	}
}

func TestSteerReadAndNotAcknowledged(t *testing.T) {
	t.Parallel()
	for name, end := range map[string][]string{
		"exit":   {},
		"result": {`{"type":"result","text":"done"}`, "rest"},
		"error":  {`{"type":"error","message":"enough"}`, "rest"},
		"broken": {`hello`, "hang"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDrive(t, []session.Message{message("s1", "a")}, append([]string{"announce", "read"}, end...)...)
			_, _, received, err := d.run(t.Context())
			if fails := name == "error" || name == "broken"; (err != nil) != fails {
				t.Error(err)
			}
			if !slices.Equal(d.log, []string{"a"}) || len(received) != 1 {
				t.Errorf("got %q, received %q", d.log, received)
			}
		})
	}
}

// A command that does not announce steers receives none, and its stdin is as without any: one line,
// then nothing until the turn ends.
func TestSteersNotAnnounced(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"silent": `{"type":"text","text":"bye"}`,
		"ready":  `{"type":"ready"}`,
		"not":    `{"type":"ready","steers":false}`,
	} {
		d := newDrive(t, []session.Message{message("s1", "a")}, first, "wait", `{"type":"result"}`, "rest")
		d.offer[0].Text = strings.Repeat("x", 1<<20)
		var released sync.WaitGroup
		released.Go(d.release)
		_, _, received, err := d.run(t.Context())
		released.Wait()
		if err != nil || len(received) > 0 {
			t.Errorf("%s: error %v, received %q", name, err, received)
		}
	}
}

// The agent announces steers, and the worker has none.
func TestAnnouncedForNothing(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Format: JSONL, Command: roleCommand("steers", "announce", "announce", say)})
	if text, err := runText(t.Context(), a, turn(t, "hi")); err != nil || text != "bye" {
		t.Errorf("text %q, error %v", text, err)
	}
}

// The first steer does not fit into the pipe, so its write blocks. The second stays in the line.
// The turn does not wait for either.
func TestSteersToACommandThatStopsReading(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does []string
		err  string
	}{
		"exit":      {[]string{"announce", "wait", say}, ""},
		"result":    {[]string{"announce", "wait", `{"type":"result","text":"bye"}`, "drain"}, ""},
		"lingering": {[]string{"announce", "wait", `{"type":"result","text":"bye"}`, "hang"}, ""},
		"bad line":  {[]string{"announce", "wait", "bye", "hang"}, "line 2 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDrive(t, []session.Message{message("s1", strings.Repeat("x", 1<<20)), message("s2", "b")}, c.does...)
			d.config.Grace = 20 * time.Millisecond
			var released sync.WaitGroup
			released.Go(func() {
				<-d.received // its write has begun, or is about to
				d.release()
			})
			_, _, received, err := d.run(t.Context())
			released.Wait()
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			// A command that reads after its result may get the first steer before the result is
			// seen.
			if len(received) > 0 && name != "result" {
				t.Errorf("received %q too", received)
			}
			if slices.Contains(d.log, "+s1") {
				t.Error("nobody acknowledged it")
			}
		})
	}
}

// Steers that come after the result, while the command lingers, are not received.
func TestSteerAfterTheResult(t *testing.T) {
	t.Parallel()
	d := newDrive(t, []session.Message{message("s1", "a")},
		"announce", `{"type":"result","text":"done"}`, "drain", "wait", "hang")
	d.config.Grace = 20 * time.Millisecond
	late := make(chan struct{})
	d.before = late
	var released sync.WaitGroup
	released.Go(func() {
		d.release() // it has seen the end of its stdin
		close(late)
	})
	_, result, received, err := d.run(t.Context())
	released.Wait()
	if err != nil || result.Text != "done" || len(received) > 0 {
		t.Errorf("result %+v, received %q, error %v", result, received, err)
	}
}

// A command may close its stdin. Later steers stay in the line.
func TestSteersToACommandThatClosedItsStdin(t *testing.T) {
	t.Parallel()
	d := newDrive(t, []session.Message{message("s1", "a"), message("s2", "b")})
	d.config.Command = append(shell(`read -r turn; exec <&-; echo '{"type":"ready","steers":true}'; cat "$0"; echo '`+say+`'`), d.fifo)
	var released sync.WaitGroup
	released.Go(func() {
		<-d.received
		d.release()
	})
	_, _, _, err := d.run(t.Context())
	released.Wait()
	if err != nil || !slices.Equal(d.log, []string{"bye"}) {
		t.Errorf("got %q, error %v", d.log, err)
	}
}

func TestB86_KillWithASteerInFlight(t *testing.T) {
	t.Parallel()
	needLinux(t)
	for name, c := range map[string]struct {
		cause error
		text  string
		does  []string
		log   []string
	}{
		"being written":  {errors.New("stop"), strings.Repeat("x", 1<<20), []string{"deaf", "announce", "hang"}, nil},
		"lost session":   {agent.ErrLeaseLost, strings.Repeat("x", 1<<20), []string{"deaf", "announce", "hang"}, nil},
		"in the pipe":    {errors.New("stop"), "a", []string{"deaf", "announce", "hang"}, nil},
		"read":           {errors.New("stop"), "a", []string{"deaf", "announce", "read", "hang"}, []string{"a"}},
		"read and acked": {errors.New("stop"), "a", []string{"deaf", "announce", "read", "ack", say, "hang"}, []string{"a", "+s1", "bye"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDrive(t, []session.Message{message("s1", c.text)}, c.does...)
			d.config.Grace = 20 * time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			var killing sync.WaitGroup
			if c.log == nil {
				killing.Go(func() {
					<-d.received
					cancel(c.cause)
				})
			}
			d.onText = func(text string) {
				if text == c.log[len(c.log)-1] {
					cancel(c.cause)
				}
			}
			tn, _, _, err := d.run(ctx)
			killing.Wait()
			if !errors.Is(err, c.cause) || !slices.Equal(d.log, c.log) {
				t.Errorf("got %q, error %v", d.log, err)
			}
			assertGone(t, tn.ID, nil)
		})
	}
}

func TestSteeredOfAnUnknownID(t *testing.T) {
	t.Parallel()
	for bad, want := range map[string]string{
		`{"type":"steered","id":"m1"}`:                                   `no steer with the id "m1"`,
		`{"type":"steered"}`:                                             "needs the id",
		`{"type":"steered","id":5}`:                                      "not a JSON object with an event",
		`{"type":"ready","steers":"yes"}`:                                "not a JSON object with an event",
		`{"type":"steered","id":"` + strings.Repeat("x", 100_000) + `"}`: "xxx",
	} {
		d := newDrive(t, nil, bad, "hang")
		_, _, _, err := d.run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "line 1 ") || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%.60s: %.600v, want %q", bad, err, want)
		}
	}
}

func TestJSONLTitle(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Format: JSONL, Command: printing(strings.Join([]string{
		`{"type":"title","text":"The build"}`,
		`{"type":"title"}`,
		`{"type":"result"}`, ``,
	}, "\n"))})
	var got []agent.Event
	if _, err := a.Run(t.Context(), emitting(turn(t, ""), func(e agent.Event) { got = append(got, e) })); err != nil {
		t.Error(err)
	}
	want := []agent.Event{
		{Type: session.EventTitle, Text: "The build"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
