package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// A gateway dies at every step of a stream: before it, after it, and in the middle of each write. Or
// it is stopped there for longer than its client waits, and continued later. The client continues at
// another gateway from its last ID, and gets every event once, in order. Without
// TURNSTILE_PROOF=true only the first step of each name is tried, at one of its moments, and it is
// stopped at few.
func TestGatewayDeathAtEveryStep(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	redistest.Real(t)
	for _, c := range []struct {
		begins session.EventType // "": with the first event
		steps  []string
	}{
		{"", []string{
			"accept", "request", "getdel", "ping", "events_after", "write header", "write events", "xread",
			"write heartbeat", "write retry", "close",
		}},
		{session.EventGap, []string{"write gap"}},
		{session.EventReset, []string{"write reset"}},
	} {
		var all []string
		t.Run("nothing happens "+string(c.begins), func(t *testing.T) { all = followPast(t, c.begins, job{}) })
		t.Logf("%q", slices.Compact(slices.Clone(all)))
		count := map[string]int{}
		for _, step := range all {
			count[step]++
			if !slices.Contains(c.steps, step) && (c.begins == "" || !expect.Proof()) || count[step] > most(step) {
				continue
			}
			for _, moment := range moments(step, len(count)) {
				j := job{Step: step, Nth: count[step], Moment: moment, Signal: syscall.SIGKILL}
				t.Run(fmt.Sprintf("killed %s %s %d", moment, step, j.Nth), func(t *testing.T) {
					t.Parallel()
					followPast(t, c.begins, j)
				})
			}
			stops := step != "close" && expect.Proof() || slices.Contains([]string{"getdel", "write events", "write retry"}, step)
			if j := (job{Step: step, Nth: count[step], Moment: "before", Signal: syscall.SIGSTOP}); stops {
				t.Run(fmt.Sprintf("stopped before %s %d", step, j.Nth), func(t *testing.T) {
					t.Parallel()
					followPast(t, c.begins, j)
				})
			}
		}
		for _, step := range c.steps {
			if count[step] == 0 {
				t.Errorf("there is no step %s in %q", step, all)
			}
		}
	}
}

// most is how many steps of a name are tried. The number of some depends on timing.
func most(step string) int {
	if step == "write events" { // of the stored turn, and of the next one
		return 2
	}
	if !expect.Proof() || slices.Contains([]string{"write heartbeat", "xread", "events_after"}, step) {
		return 1
	}
	return 2
}

// moments are the moments of a step at which the gateway is struck. Each step's number is its place in
// names.
func moments(step string, number int) (tried []string) {
	all := []string{"before", "after"}
	if strings.HasPrefix(step, "write ") {
		all = []string{"before", "half", "after"}
	}
	for i, moment := range all {
		if expect.Sampled(number+i, len(all)) {
			tried = append(tried, moment)
		}
	}
	return tried
}

// silence is how long a client waits for a heartbeat before it gives a stream up.
const silence = 3 * time.Second

var serving = regexp.MustCompile(`serving (\S+)\n`)

// followPast follows a session through a gateway that gets a signal at a step, and then through
// another one. It returns the steps that were reached.
func followPast(t *testing.T, begins session.EventType, j job) []string {
	t.Helper()
	tokens := tokensFile(t, threeTokens)
	f := &follower{rig: newRig(t, withTokens(t, threeTokens)).as("root")}
	f.gateway.SetHeartbeat(20 * time.Millisecond)
	f.worker()
	f.say("s", "tool=look stream=2 one")
	f.begin(begins)
	j.URL, j.Tokens, j.Steps = redistest.URL(t), tokens, filepath.Join(t.TempDir(), "steps")
	child, in := startChild(t, j)
	child.Output.Until(t, "the address", serving.MatchString)
	f.child, f.drain = serving.FindStringSubmatch(child.Output.String())[1], func() { fmt.Fprintln(in, "drain") }
	f.follow()
	switch j.Signal {
	case syscall.SIGKILL:
		child.ExitCode() // it is dead
	case syscall.SIGSTOP:
		child.Signal(syscall.SIGCONT) // it writes to nobody, and finds that out
		expect.Soon(t, "the stopped gateway to free its stream", func() bool { return openAt(t, f.child) == "0" })
	default:
		expect.Soon(t, "the end of the stream", func() bool { return openAt(t, f.child) == "0" })
	}
	text, err := os.ReadFile(j.Steps)
	expect.OK(t, err)
	steps := strings.Split(strings.TrimSpace(string(text)), "\n")
	expect.Equal(t, "the step was reached", slices.Contains(steps, reached), j.Step != "")
	f.check()
	return steps
}

// startChild starts a gateway.
func startChild(t *testing.T, j job) (*program.Process, io.Writer) {
	t.Helper()
	text, err := json.Marshal(j)
	expect.OK(t, err)
	self, err := os.Executable()
	expect.OK(t, err)
	cmd := program.Command(t, self, []string{childVariable + "=" + string(text)})
	in, err := cmd.StdinPipe()
	expect.OK(t, err)
	return program.Start(t, cmd), in
}

// openAt is how many streams a child has open.
func openAt(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	expect.OK(t, err)
	request.Header.Set("Authorization", "Bearer root")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	expect.OK(t, err)
	return string(text)
}

// follower is a client as docs/http.md describes it.
type follower struct {
	*rig          // the gateway that lives
	child  string // the address of the gateway that must not die
	drain  func()
	last   string            // the ID of the last event
	begins session.EventType // the type of the first event, if it has no ID
	first  session.EventType // the first event's type
	ids    []string
	ended  int // turns
	sent   int // messages
}

// begin has the stream begin with an event of this type.
func (f *follower) begin(kind session.EventType) {
	f.Helper()
	f.sent, f.begins = 1, kind
	switch kind {
	case session.EventGap:
		f.last = f.stream("s", "").next().id
		expect.OK(f, f.redis.XTrimMaxLen(f.Context(), "turnstile:{session:s}:events", 2).Err())
	case session.EventReset:
		f.last = "9999999999999-0.0"
	}
}

// follow follows three turns: the first is stored, the second comes while the stream is open, the
// third after the gateway has drained or died.
func (f *follower) follow() {
	f.Helper()
	ticket := f.ticket()
	f.read(f.child, ticket)
	for tries := 0; f.ended < 3; tries++ {
		if tries == 10 {
			f.Fatalf("%d turns after %d tries, %q", f.ended, tries, f.ids)
		}
		if !f.read(f.url, ticket) {
			ticket = f.ticket() // it was spent
		}
	}
}

func (f *follower) ticket() string {
	f.Helper()
	var got struct{ Ticket string }
	f.call("POST", "/v1/tickets", object{"session": "s"}).want(201, &got)
	return got.Ticket
}

// read reads a stream until it breaks, is silent, or has all. It returns false if the ticket is spent.
func (f *follower) read(at, ticket string) bool {
	f.Helper()
	s, response, err := f.as("").tryOpen(silence, at+"/v1/sessions/s/events?ticket="+ticket+"&after="+f.last, func(r *http.Request) { r.Close = true })
	switch {
	case err != nil:
		return true // perhaps it is
	case s == nil:
		expect.Equal(f, "status", response.StatusCode, http.StatusUnauthorized)
		return false
	}
	defer s.close()
	silent := time.NewTimer(silence)
	defer silent.Stop()
	for f.ended < 3 {
		select {
		case e, more := <-s.events:
			if !more {
				return false
			}
			f.see(e, at == f.child)
			silent.Reset(silence)
		case <-silent.C:
			return false
		}
	}
	return true
}

// see handles bytes of a stream, and sends the next message when it is due.
func (f *follower) see(e event, mortal bool) {
	f.Helper()
	if e.Type != "" && f.first == "" {
		f.first = e.Type
	}
	if e.id != "" {
		f.ids, f.last = append(f.ids, e.id), e.id
	}
	if e.Type == session.EventTurnEnded {
		f.ended++
	}
	switch {
	case f.ended < f.sent:
	case f.sent == 2 && mortal:
		if e.Type == "" && f.drain != nil { // a heartbeat
			f.drain()
			f.drain = nil
		}
	case f.sent < 3:
		f.sent++
		f.call("POST", "/v1/sessions/s/messages", object{"text": fmt.Sprint("tool=look stream=2 ", f.sent)}).want(202)
	}
}

// check compares the received events with those of one uninterrupted stream.
func (f *follower) check() {
	f.Helper()
	if f.begins != "" {
		expect.Equal(f, "the first event", f.first, f.begins)
	}
	for i, id := range f.ids {
		if slices.Contains(f.ids[:i], id) {
			f.Fatalf("%s came twice: %q", id, f.ids)
		}
	}
	whole := f.stream("s", "")
	var want []string
	for range f.ids {
		want = append(want, whole.next().id)
	}
	expect.List(f, "events", f.ids, want...)
}
