package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// talk is a session of several turns, with the transcript and the agent's state as a worker keeps them.
type talk struct {
	run     func(*agent.Turn) error
	turns   int
	history []session.Entry
	state   json.RawMessage
	told    []agent.Event // but texts and states
}

func newTalk(r *rig) *talk {
	return &talk{run: func(tn *agent.Turn) error { _, err := r.agent.Run(r.Context(), tn); return err }}
}

// said are turns of before.
func (c *talk) said(turns int, text, reply string) {
	for range turns {
		c.turns++
		c.add(session.Entry{Role: session.RoleUser, Text: text}, assistant(reply))
	}
}

func (c *talk) add(entries ...session.Entry) {
	for _, e := range entries {
		e.Turn = fmt.Sprintf("t%d", c.turns)
		c.history = append(c.history, e)
	}
}

// say runs a turn.
func (c *talk) say(tb testing.TB, text string, files ...session.Attachment) {
	tb.Helper()
	reply, err := c.try(text, files...)
	expect.OK(tb, err)
	c.add(session.Entry{Role: session.RoleUser, Text: text, Attachments: files}, assistant(reply))
}

// try runs a turn that may fail.
func (c *talk) try(text string, files ...session.Attachment) (said string, err error) {
	c.turns++
	tn := turn(text)
	tn.Messages[0].ID = fmt.Sprintf("m%d", c.turns)
	tn.ID, tn.Messages[0].Attachments, tn.History, tn.State = fmt.Sprintf("t%d", c.turns), files, c.history, c.state
	var reply strings.Builder
	err = c.run(emitting(tn, func(e agent.Event) {
		switch e.Type {
		case session.EventText:
			reply.WriteString(e.Text)
		case session.EventState:
			c.state = e.Data
		default:
			c.told = append(c.told, e)
		}
	}))
	return reply.String(), err
}

// recorder is a model's server that gives every request the same reply.
type recorder struct {
	reply  canned
	bodies []string
}

func (s *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.bodies = append(s.bodies, string(body))
	return s.reply.RoundTrip(req)
}

// sameBeginning returns how many bytes 30 requests have, one a turn of a session that is at its limit, and how many of
// them are the same from the beginning as in the request before.
func sameBeginning(tb testing.TB) (same, all int) {
	tb.Helper()
	a, err := New(Config{URL: "http://model.test/v1", Model: "m", SystemPrompt: strings.Repeat("Be kind. ", 100)})
	expect.OK(tb, err)
	words := strings.Repeat("word ", 120)
	server := &recorder{reply: canned(`data: {"choices":[{"index":0,"delta":{"content":"` + words + `"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")}
	a.http.Transport = server
	c := &talk{run: func(tn *agent.Turn) error { _, err := a.Run(tb.Context(), tn); return err }}
	c.said(92, words, words)
	for i := range 31 {
		c.say(tb, fmt.Sprintf("%d %s", i, words))
	}
	for i, body := range server.bodies[1:] {
		n := 0
		for before := server.bodies[i]; n < min(len(body), len(before)) && body[n] == before[n]; {
			n++
		}
		same, all = same+n, all+len(body)
	}
	return same, all
}

// A session at its limit begins its requests for many turns as the request before.
func TestBeginningStaysTheSame(t *testing.T) {
	t.Parallel()
	same, all := sameBeginning(t)
	if all < 30*32_000*bytesPerToken*6/10 || same*100 < all*90 {
		t.Errorf("of %d bytes %d are as in the request before", all, same)
	}
}

func BenchmarkSameBeginning(b *testing.B) {
	var same, all int
	for b.Loop() {
		same, all = sameBeginning(b)
	}
	b.ReportMetric(100*float64(same)/float64(all), "%same")
}

func TestCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sizes             []int
		from, most, least int
		want              int
	}{
		{nil, 0, 0, 0, 0},
		{[]int{1, 2, 3}, 0, 6, 4, 0},
		{[]int{1, 2, 3}, 0, 5, 3, 2},
		{[]int{1, 2, 3}, 1, 5, 3, 1}, // it fits from there
		{[]int{1, 2, 3}, 0, -9, -6, 3},
		{[]int{1, 9, 3}, 0, 5, 3, 2}, // no gaps
	} {
		var all []block
		for _, n := range c.sizes {
			all = append(all, block{tokens: n})
		}
		if got := cut(all, c.from, block.size, c.most, c.least); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// The place is found by its turn, also after older turns have expired, and stays where it is while there is room.
func TestPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{ContextTokens: 250}, text("1"), text("2"), text("3"), text("4"))
	c := newTalk(r)
	c.said(10, strings.Repeat("q", 60), strings.Repeat("a", 60))
	first := func(n int) string {
		lines := strings.Split(r.asked(n), "\n")
		return fmt.Sprintf("%d %s", len(lines), lines[0][:7])
	}
	c.say(t, "now") // of 20 blocks of 23 tokens 7 have room in 70 %
	expect.Equal(t, "the first request", first(1), "9 user: [")
	c.say(t, "now")
	expect.Equal(t, "the second one", first(2), "11 user: [")
	c.history = c.history[4:] // too long ago for the worker
	c.say(t, "now")
	expect.Equal(t, "the third one", first(3), "13 user: [")
	c.state = json.RawMessage(`{"agent":"acp","id":"x"}`)
	c.say(t, "now")
	expect.Equal(t, "the state of another agent", first(4), "11 user: q")
}

// Later turns begin where an overflow has made the history begin, so they are not refused first.
func TestOverflowIsRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.model.Otherwise(func(q modelserver.Request) modelserver.Response {
		if len(q.Messages) > 8 {
			return modelserver.ContextTooLong()
		}
		return text("ok")
	})
	c := newTalk(r)
	c.said(4, "q", "a")
	c.say(t, "first")
	c.say(t, "second")
	r.requests(3)
	r.wasAsked(2, "user: q\nassistant: a\nuser: q\nassistant: a\nuser: first")
	r.wasAsked(3, r.asked(2)+"\nassistant: ok\nuser: second")
}

// A message that is too long by itself costs the session nothing.
func TestRefusedMessageLeavesTheHistory(t *testing.T) {
	t.Parallel()
	for _, compact := range []bool{false, true} {
		r := newRig(t, Config{Compact: compact})
		r.model.Otherwise(func(q modelserver.Request) modelserver.Response {
			if strings.Contains(q.Last(), "long") {
				return modelserver.ContextTooLong()
			}
			return text("ok")
		})
		c := newTalk(r)
		c.said(4, "q", "a")
		_, err := c.try("long")
		r.says(err, false, "too long")
		c.say(t, "short")
		r.requests(3)
		r.wasAsked(3, strings.Repeat("user: q\nassistant: a\n", 4)+"user: short")
	}
}

// Wherever a worker dies, an overflow shortens the history once, and what the server accepts is the same, byte for byte,
// whether or not the agent's state was stored before.
func TestOverflowSurvivesEveryDeath(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	tell := func(t *testing.T, provider string, most int, compact, forgets bool, die func(int, string) bool) (accepted, points []string) {
		t.Helper()
		j := newJournal(t)
		j.die, j.forgets = die, forgets
		look := shell("look", "echo 1")
		look.Safe = true
		r := newRig(t, Config{Provider: provider, Compact: compact, Tools: []Tool{look}})
		r.model.Otherwise(func(q modelserver.Request) modelserver.Response {
			if len(q.Messages) > most {
				return modelserver.ContextTooLong()
			}
			accepted = append(accepted, string(q.Body))
			in := j.reach(fmt.Sprintf("in a response to %d messages", len(q.Messages)))
			if q.Messages[len(q.Messages)-1].Role == roleTool {
				return modelserver.Stream(modelserver.Text("do"), in, modelserver.Text("ne"))
			}
			return modelserver.Stream(in, modelserver.Call("c1", "look"))
		})
		c := newTalk(r)
		c.said(4, "q", "a")
		tn := turn("go")
		tn.History = c.history
		_, err := j.finish(r, tn)
		expect.OK(t, err)
		return slices.Compact(accepted), j.points
	}
	for _, provider := range []string{providerOpenAI, providerAnthropic} {
		for _, most := range []int{8, 10} { // the first request is too long, or the one after the tool
			compact := provider == providerOpenAI // the turn's own overflow is not its to sum up
			whole, points := tell(t, provider, most, compact, false, nil)
			expect.Equal(t, "requests", len(whole), 2)
			for i, point := range points {
				for _, forgets := range []bool{false, true} {
					t.Run(fmt.Sprint(provider, most, point, forgets), func(t *testing.T) {
						t.Parallel()
						died := false
						got, _ := tell(t, provider, most, compact, forgets, func(n int, _ string) bool {
							dies := !died && n == i+1
							died = died || dies
							return dies
						})
						expect.List(t, "requests", got, whole...)
					})
				}
			}
		}
	}
}

// Half of what fits beside a long message stays.
func TestLongMessageLeavesSomeHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{ContextTokens: 1000}, text("ok"))
	c := newTalk(r)
	c.said(20, strings.Repeat("q", 60), strings.Repeat("a", 60))
	c.say(t, strings.Repeat("long", 800))
	if n := strings.Count(r.asked(1), "\n"); n < 3 || n > 5 {
		t.Errorf("%d messages:\n%s", n, r.asked(1))
	}
}

// The newest images are shown, up to the budget. The older ones are named, and which they are stays the same.
func TestImageBytes(t *testing.T) {
	t.Parallel()
	picture := func(name string) session.Attachment {
		return session.Attachment{Name: name, Mime: "image/png", URL: "data:image/png;base64," + strings.Repeat("A", 978)}
	}
	r := newRig(t, Config{ImageBytes: 4000}, text("ok"), text("ok"), text("ok"), text("ok"), text("ok"), text("ok"), text("ok"))
	c := newTalk(r)
	for n := 1; n <= 7; n++ {
		c.say(t, "see", picture(fmt.Sprint(n)))
	}
	var shown []string
	for n := 1; n <= 7; n++ {
		shown = append(shown, fmt.Sprintf("%d shown, %d named", strings.Count(r.asked(n), "<data:"), strings.Count(r.asked(n), "[Attachment:")))
	}
	expect.List(t, "images of the requests", shown, "1 shown, 0 named", "2 shown, 0 named", "3 shown, 0 named", "4 shown, 0 named", "5 shown, 0 named",
		"3 shown, 3 named", "4 shown, 3 named")
	if before := r.asked(6); !strings.HasPrefix(r.asked(7), before) || !strings.Contains(before, "[Attachment: 3 (image/png)]\n") {
		t.Error(r.asked(7))
	}
}
