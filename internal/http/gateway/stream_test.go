package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// stream is an open event stream.
type stream struct {
	t      *testing.T
	header http.Header
	events chan event
	done   chan struct{}
	close  context.CancelFunc
}

// event is an event with the other fields of the stream.
type event struct {
	session.Event
	named
	id, retry, comment string
}

// named has the further fields of events in a stream of all sessions.
type named struct {
	Session string `json:"session"`
	EventID string `json:"event_id"`
}

// stream opens a session's stream after an event.
func (r *rig) stream(sessionKey, after string, edits ...edit) *stream {
	r.Helper()
	s, a := r.open(r.url+"/v1/sessions/"+sessionKey+"/events", append(edits, header("Last-Event-ID", after))...)
	if s == nil {
		r.Fatalf("stream: %s", a.Status)
	}
	return s
}

// open opens a stream, or returns the response of the refusal.
func (r *rig) open(url string, edits ...edit) (*stream, *http.Response) {
	r.Helper()
	s, response, err := r.tryOpen(expect.Patience, url, edits...)
	expect.OK(r, err)
	return s, response
}

// tryOpen opens a stream. It returns the response of a refusal, or an error if none arrived within
// patience.
func (r *rig) tryOpen(patience time.Duration, url string, edits ...edit) (*stream, *http.Response, error) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	expect.OK(r, err)
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	for _, e := range edits {
		e(request)
	}
	late := time.AfterFunc(patience, cancel)
	response, err := http.DefaultClient.Do(request)
	late.Stop()
	if err != nil {
		cancel()
		return nil, nil, err
	}
	if response.StatusCode != http.StatusOK {
		cancel()
		response.Body.Close()
		return nil, response, nil
	}
	s := &stream{t: r.T, header: response.Header, events: make(chan event, 10_000), done: make(chan struct{}), close: cancel}
	go func() {
		defer close(s.done)
		defer close(s.events)
		defer response.Body.Close()
		s.read(bufio.NewScanner(response.Body))
	}()
	r.Cleanup(func() {
		cancel()
		<-s.done
	})
	return s, response, nil
}

// read reads events. Only an empty line ends an event.
func (s *stream) read(lines *bufio.Scanner) {
	lines.Buffer(nil, 16<<20)
	var e event
	var data string
	var other []string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "":
			if data != "" {
				for _, part := range []any{&e.Event, &e.named} {
					if err := json.Unmarshal([]byte(data), part); err != nil {
						s.t.Errorf("data %q: %v", data, err)
					}
				}
			}
			for _, line := range other {
				s.t.Errorf("line %q", line)
			}
			s.events <- e
			e, data, other = event{}, "", nil
		case name == "":
			e.comment = value
		case name == "id":
			e.id = value
		case name == "retry":
			e.retry = value
		case name == "data":
			data = value
		default:
			other = append(other, lines.Text())
		}
	}
}

// next waits for the next event, without comments.
func (s *stream) next() event {
	s.t.Helper()
	for {
		if e := expect.Received(s.t, "event", s.events); e.Type != "" || e.retry != "" {
			return e
		}
	}
}

// until waits for the next event of a type.
func (s *stream) until(kind session.EventType) event {
	s.t.Helper()
	for {
		if e := s.next(); e.Type == kind {
			return e
		}
	}
}

func TestStreamGoesOnBehindItsLastEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.say("s", "tool=look stream=5 hello")
	s := r.stream("s", "")
	expect.Equal(t, "type", s.header.Get("Content-Type"), "text/event-stream")
	expect.Equal(t, "caching", s.header.Get("Cache-Control"), "no-store, no-transform")
	expect.Equal(t, "buffering", s.header.Get("X-Accel-Buffering"), "no")
	var all []event
	for len(all) == 0 || all[len(all)-1].Type != session.EventTurnEnded {
		e := s.next()
		if e.id == "" {
			t.Errorf("%s has no id", e.Type)
		}
		all = append(all, e)
	}
	if len(all) < 5 {
		t.Fatalf("%d events", len(all))
	}
	for i, e := range all[:len(all)-1] {
		expect.Equal(t, "behind "+e.id, r.stream("s", e.id).next().id, all[i+1].id)
	}
	q, _ := r.open(r.url + "/v1/sessions/s/events?after=" + all[0].id)
	expect.Equal(t, "by the query", q.next().id, all[1].id)
	both, _ := r.open(r.url+"/v1/sessions/s/events?after="+all[0].id, header("Last-Event-ID", all[2].id))
	expect.Equal(t, "the header counts", both.next().id, all[3].id)
	r.say("s", "more") // the stream is still open, and another turn's events come
	expect.Equal(t, "later", s.until(session.EventTurnEnded).Reply, "echo: more")
	r.call("GET", "/v1/sessions/s/events?after=x", nil).problem(400, gateway.InvalidRequest)
	r.call("GET", "/v1/sessions/s/events?from=1-1", nil).problem(400, gateway.InvalidRequest)
}

// A stream may be opened before its session exists.
func TestStreamOfANewSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.stream("s", "")
	r.worker()
	r.say("s", "hi")
	expect.Equal(t, "reply", s.until(session.EventTurnEnded).Reply, "echo: hi")
}

func TestGapAndReset(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.say("s", "one")
	first := r.stream("s", "").next()
	r.say("s", "two")
	expect.OK(t, r.redis.XTrimMaxLen(t.Context(), "turnstile:{session:s}:events", 1).Err())
	s := r.stream("s", first.id)
	gap := s.next()
	expect.Equal(t, "gap", string(gap.Type)+" "+gap.id, string(session.EventGap)+" ")
	if gap.Entries != 4 {
		t.Errorf("place %+v", gap.Event)
	}
	last := s.next()
	if last.id == "" {
		t.Error("the event behind the gap has no id")
	}
	r.call("DELETE", "/v1/sessions/s", nil).want(204)
	s = r.stream("s", last.id)
	expect.Equal(t, "reset", s.next().Type, session.EventReset)
	r.say("s", "three")
	expect.Equal(t, "from the beginning", s.until(session.EventTurnEnded).Reply, "echo: three")
}

func TestDrainEndsStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.stream("s", "")
	r.gateway.Drain()
	if e := s.next(); e.retry == "" {
		t.Errorf("%+v", e)
	}
	<-s.done
	p := r.call("GET", "/v1/sessions/s/events", nil)
	p.problem(503, gateway.Draining)
	// A wait ends, too, and the message stays.
	r.call("POST", "/v1/sessions/s/messages", object{"text": "x"}, header("Prefer", "wait=60")).want(202)
}

// A stream may begin after the newest event, or with the events of a message that was just
// accepted. It sends its place, so a client without any event misses none when it reopens the
// stream.
func TestStreamBeginsNowOrWithAMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := func(after string) (*stream, string) {
		s, a := r.open(r.url + "/v1/sessions/s/events?after=" + after)
		if s == nil {
			t.Fatalf("after=%s: %s", after, a.Status)
		}
		e := s.next()
		expect.Equal(t, "first event of after="+after, e.Type, session.EventPlace)
		return s, e.id
	}
	post := func(text string) (got struct {
		ID          string `json:"id"`
		Status      string `json:"status"`
		EventsAfter string `json:"events_after"`
	}) {
		r.call("POST", "/v1/sessions/s/messages", object{"text": text}, header("Idempotency-Key", text)).want(202, &got)
		return got
	}
	none, before := place("now")
	expect.Equal(t, "before every event", before, "0-0")
	first := post("one")
	again := post("one")
	expect.Equal(t, "a duplicate, whose events may be older", again.Status+again.EventsAfter, "duplicate")
	r.worker()
	expect.Equal(t, "of a new session", none.until(session.EventTurnEnded).Reply, "echo: one")

	now, behind := place("now")
	second := post("two")
	for _, s := range []*stream{now, r.stream("s", behind)} {
		started := s.until(session.EventTurnStarted)
		expect.List(t, "its first turn", started.Messages, second.ID)
		expect.Equal(t, "reply", s.until(session.EventTurnEnded).Reply, "echo: two")
	}

	// A stream that is opened after the end has the message's events too, perhaps after those of the
	// turn before.
	turnOf := func(s *stream, id string) event {
		for {
			if e := s.until(session.EventTurnStarted); strings.Join(e.Messages, " ") == id {
				return e
			}
		}
	}
	for _, m := range []struct{ id, after, reply string }{{first.ID, first.EventsAfter, "echo: one"}, {second.ID, second.EventsAfter, "echo: two"}} {
		s, place := place(m.after)
		started := turnOf(s, m.id)
		expect.Equal(t, "its end", s.until(session.EventTurnEnded).Reply, m.reply)
		expect.Equal(t, "from its place", turnOf(r.stream("s", place), m.id).id, started.id)
		if m.after < first.EventsAfter || m.after > started.id {
			t.Errorf("the event %s of %s is behind %s", started.id, m.id, m.after)
		}
	}
	for _, odd := range []string{"NOW", "-1", "12345678901234567890", "1.5"} {
		r.call("GET", "/v1/sessions/s/events?after="+odd, nil).problem(400, gateway.InvalidRequest)
	}
}
