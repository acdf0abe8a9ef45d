package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"os/user"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/watched"
)

func TestReceipts(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	ctx := bg(t)
	if r := enqueue(t, ctx, url, "", "-s", "a", "--id", "m1", "hello", "there").want(t, exitOK); r.out != "accepted as m1\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
	finish := occupy(t, url, "a", hour)
	if r := enqueue(t, ctx, url, "", "-s", "a", "--id", "m2", "x").want(t, exitOK); r.out != "queued as m2, position 2\n" {
		t.Errorf("%+v", r)
	}
	r := enqueue(t, ctx, url, "", "-s", "a", "--id", "m3", "--json", "x").want(t, exitOK)
	if r.out != `{"session":"a","id":"m3","status":"queued","position":3}`+"\n" {
		t.Errorf("%+v", r)
	}
	if r := enqueue(t, ctx, url, "", "-s", "a", "--id", "m1", "hello", "there").want(t, exitOK); r.out != "duplicate: m1 is there already, running\n" {
		t.Errorf("%+v", r)
	}
	r = enqueue(t, ctx, url, "", "-s", "a", "--id", "m2", "--json", "x").want(t, exitOK)
	if o := r.objects(t)[0]; text(o, "status") != "duplicate" || text(o, "state") != "pending" {
		t.Errorf("%+v", r)
	}
	if r := enqueue(t, ctx, url, "", "-s", "b", "--id", "m4", "--in", "1h", "x").want(t, exitOK); !strings.HasPrefix(r.out, "delayed as m4, until ") {
		t.Errorf("%+v", r)
	}
	if r := enqueue(t, ctx, url, "", "-s", "b", "--id", "m4", "x").want(t, exitOK); r.out != "duplicate: m4 is there already, delayed\n" {
		t.Errorf("%+v", r)
	}
	r = enqueue(t, ctx, url, "", "-s", "b", "--in", "1h", "--json", "x").want(t, exitOK)
	o := r.objects(t)[0]
	if at, err := time.Parse(time.RFC3339, text(o, "at")); text(o, "status") != "scheduled" || err != nil || time.Until(at) < 50*time.Minute {
		t.Errorf("%+v", r)
	}
	finish()
}

// The ID of another message is bad input. That of a message with an expired result is refused.
func TestUsedID(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	ctx := bg(t)
	enqueue(t, ctx, url, "", "-s", "a", "--id", "m1", "hello").want(t, exitOK)
	r := enqueue(t, ctx, url, "", "-s", "a", "--id", "m1", "goodbye").want(t, exitUsage)
	r.oneLine(t, "the id m1 belongs to another message of session a", "use another id")
	r = enqueue(t, ctx, url, "", "-s", "a", "--id", "m1", "--json", "--wait", "goodbye").want(t, exitUsage)
	if o := r.objects(t); len(o) != 1 || text(o[0], "status") != "refused" || text(o[0], "reason") != "conflict" {
		t.Errorf("%+v", r)
	}
	enqueue(t, ctx, url, "", "-s", "b", "--id", "m1", "goodbye").want(t, exitOK) // an ID belongs to its session

	occupy(t, url, "a", protocol.Config{})() // a turn without a stored result
	r = enqueue(t, ctx, url, "", "-s", "a", "--id", "m1", "--wait", "hello").want(t, exitRefused)
	r.oneLine(t, "message m1 was accepted before", "TURNSTILE_RETENTION", "not carried out again")
	enqueue(t, ctx, url, "", "-s", "a", "--id", "m1", "goodbye").want(t, exitUsage)

	r = enqueue(t, ctx, url, `{"session":"b","id":"m1","text":"goodbye"}
{"session":"b","id":"m1","text":"another"}
{"session":"a","id":"m1","text":"hello"}
{"session":"c","id":"m1","text":"new"}
`, "--file", "-").want(t, exitRefused)
	for _, want := range []string{
		"1 sent (1 accepted), 1 duplicate, 2 refused\n",
		"line 2: the id m1 belongs to another message of session b",
		"line 3: refused: message m1 was accepted before",
	} {
		if !strings.Contains(r.out+r.err, want) {
			t.Errorf("lacks %q: %+v", want, r)
		}
	}
	if n := rdb.LLen(ctx, "asynq:{session:b}:pending").Val(); n != 1 {
		t.Errorf("%d messages are stored", n)
	}
}

func TestTheMessageArrivesAsItWasGiven(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	got := make(chan wire.Message, 1)
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		got <- h.Turn().Message
		return echo(h)
	})
	for _, c := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{[]string{"two", "words  kept"}, "", "two words  kept"},
		{[]string{"--", "-n", "dash"}, "", "-n dash"},
		{[]string{"a", "-", "b"}, "", "a - b"},
		{[]string{"-"}, "one line\n", "one line"},
		{[]string{"-"}, "first\nsecond\n\n", "first\nsecond\n"},
		{[]string{"-"}, "a\r\nb\r\n", "a\r\nb"},
		{[]string{"-"}, "no break\r", "no break\r"},
		{[]string{"//etc is a message"}, "", "/etc is a message"},
		{[]string{"-"}, "/stop\nis not a command here", "/stop\nis not a command here"},
		{[]string{"<&>\u2028"}, "", "<&>\u2028"},
		{[]string{strings.Repeat("x", 1<<20)}, "", strings.Repeat("x", 1<<20)},
	} {
		args := append([]string{"-s", "a", "--wait", "--mode", "reject", "--expires-in", "1h", "--meta", "k=v=w", "--meta", "l="}, c.args...)
		enqueue(t, bg(t), url, c.stdin, args...).want(t, exitOK)
		m := <-got
		if m.Text != c.want {
			t.Errorf("%.40q arrived as %.40q", c.want, m.Text)
		}
		if m.Mode != session.ModeReject || m.ExpiresIn != wire.Duration(time.Hour) || len(m.Meta) != 2 || m.Meta["k"] != "v=w" {
			t.Errorf("%q arrived with %+v", c.want, m)
		}
	}
}

func TestWaitPrintsTheReplyAlone(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	r := enqueue(t, bg(t), url, "", "-s", "a", "--wait", "hello").want(t, exitOK)
	if r.out != "echo: hello\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
	r = enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--wait", "--json", "hello").want(t, exitOK)
	list := r.objects(t)
	if len(list) != 2 || text(list[0], "status") != "accepted" {
		t.Fatalf("%+v", r)
	}
	end := list[1]
	if text(end, "session") != "a" || text(end, "id") != "m" || text(end, "status") != "done" || text(end, "reply") != "echo: hello" ||
		text(end, "session_id") == "" || text(end, "turn") == "" || end["error"] != nil {
		t.Errorf("%v", end)
	}
	if _, ok := end["duration_ms"].(float64); !ok {
		t.Errorf("%v", end)
	}
}

func TestADelayedMessageIsWaitedFor(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	r := enqueue(t, bg(t), url, "", "-s", "a", "--wait", "--in", "1s", "later").want(t, exitOK)
	if r.out != "echo: later\n" {
		t.Errorf("%+v", r)
	}
}

// streaming emits a reply in pieces, with a tool between them.
func streaming(t *testing.T, go1 <-chan struct{}) func(*protocol.Claim) *protocol.End {
	return func(h *protocol.Claim) *protocol.End {
		turn := h.Turn()
		emit := func(events ...session.Event) {
			for i := range events {
				events[i].Turn = turn.ID
			}
			if err := h.Emit(context.Background(), events); err != nil {
				t.Errorf("emit: %v", err)
			}
		}
		emit(session.Event{Type: session.EventText, Text: "Let me "}, session.Event{Type: session.EventText, Text: "look.\n"})
		emit(session.Event{Type: session.EventThought, Text: "hm"}, session.Event{Type: session.EventToolStart, Name: "grep", CallID: "1"})
		emit(session.Event{Type: session.EventToolEnd, CallID: "1", Error: "no match"})
		<-go1
		// A worker does not emit the last piece as text as well.
		return &protocol.End{Status: session.StatusDone, Reply: "Nothing there."}
	}
}

func TestFollowStreams(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	ready := make(chan struct{})
	close(ready)
	turns(t, url, hour, streaming(t, ready))
	r := enqueue(t, bg(t), url, "", "-s", "a", "--follow", "hello").want(t, exitOK)
	if r.out != "Let me look.\nNothing there.\n" {
		t.Errorf("stdout %q", r.out)
	}
	if r.err != "tool grep (<0.1s) failed: no match\n" {
		t.Errorf("stderr %q", r.err)
	}
	r = enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--follow", "--json", "hello").want(t, exitOK)
	var types []string
	for _, o := range r.objects(t) {
		if text(o, "session") != "a" || text(o, "id") != "m" {
			t.Errorf("%v", o)
		}
		types = append(types, text(o, "type")+text(o, "status"))
	}
	if got := strings.Join(types, " "); got != "accepted turn_started text text thought tool_start tool_end text done" {
		t.Errorf("objects %s", got)
	}
}

// Text is shown before the turn ends.
func TestFollowShowsTextAsItComes(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	goOn := make(chan struct{})
	turns(t, url, hour, streaming(t, goOn))
	stdout := watched.NewOutput()
	code := make(chan int)
	go func() {
		code <- run(bg(t), []string{"-s", "a", "--follow", "hello"}, nil, stdout, io.Discard, []string{"REDIS_URL=" + url})
	}()
	stdout.Await(t, "Let me ")
	close(goOn)
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d", c)
	}
}

func TestWaitGoesOnThroughARetryAndARequeue(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		turn := h.Turn()
		switch {
		case turn.Attempt == 1:
			if err := h.Park(context.Background(), protocol.Parking{Failed: context.DeadlineExceeded, Wait: 10 * time.Millisecond}); err != nil {
				t.Error(err)
			}
			return nil
		case turn.Redelivered == 0:
			if err := h.Park(context.Background(), protocol.Parking{Interrupted: "drain"}); err != nil {
				t.Error(err)
			}
			return nil
		}
		return echo(h)
	})
	r := enqueue(t, bg(t), url, "", "-s", "a", "--follow", "hello").want(t, exitOK)
	if r.out != "echo: hello\n" || !strings.Contains(r.err, "attempt 1 failed: context deadline exceeded; again in 10ms") ||
		!strings.Contains(r.err, "the turn was interrupted by an interruption (drain); its message stays") {
		t.Errorf("%+v", r)
	}
}

func TestB82_ADuplicateAnswersTheStoredResult(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	ran := make(chan struct{}, 10)
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		ran <- struct{}{}
		return echo(h)
	})
	for range 3 {
		r := enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--wait", "once").want(t, exitOK)
		if r.out != "echo: once\n" {
			t.Errorf("%+v", r)
		}
	}
	r := enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--follow", "--json", "once").want(t, exitOK)
	list := r.objects(t)
	if o := list[0]; text(o, "status") != "duplicate" || text(o, "state") != "completed" {
		t.Errorf("%v", o)
	}
	if o := list[len(list)-1]; text(o, "status") != "done" || text(o, "reply") != "echo: once" {
		t.Errorf("%v", o)
	}
	if len(ran) != 1 {
		t.Errorf("%d turns", len(ran))
	}
}

func TestB08_CommandsAreAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	for _, args := range [][]string{{"/help"}, {"/status"}, {"/stop"}, {"/status", "--wait"}, {"/status", "--follow"}} {
		r := enqueue(t, bg(t), url, "", append([]string{"-s", "a"}, args...)...).want(t, exitOK)
		if len(r.out) < 5 || !strings.HasSuffix(r.out, "\n") || r.err != "" {
			t.Errorf("%v: %+v", args, r)
		}
	}
	r := enqueue(t, bg(t), url, "/status\n", "-s", "a", "--json", "--wait", "-").want(t, exitOK)
	list := r.objects(t)
	if len(list) != 1 || text(list[0], "status") != "answered" || text(list[0], "session") != "a" || !strings.Contains(text(list[0], "reply"), "Idle") {
		t.Errorf("%+v", r)
	}
	r = enqueue(t, bg(t), url, "", "-s", "a", "--wait", "/stp").want(t, exitUsage)
	if r.err != "enqueue: Unknown command /stp: did you mean /stop? To send it as a message, write //stp.\n" || r.out != "" {
		t.Errorf("%+v", r)
	}
	empty(t, rdb)
}

// Each mode reaches the session, by flag and by the line of a file: it decides about a follow-up
// during a turn.
func TestAllModes(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	running, over := make(chan struct{}), make(chan struct{})
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		if h.Turn().Message.ID == "first" {
			close(running)
			<-over
		}
		return echo(h)
	})
	defer close(over)
	enqueue(t, bg(t), url, "", "-s", "a", "--id", "first", "x").want(t, exitOK)
	<-running
	want := map[string]session.Mode{}
	for _, mode := range []session.Mode{"queue", "collect", "steer", "interrupt", "rollback", "reject"} {
		code := exitOK
		if mode == "reject" {
			code = exitRefused
		} else {
			want["flag-"+string(mode)], want["line-"+string(mode)] = mode, mode
		}
		enqueue(t, bg(t), url, "", "-s", "a", "--id", "flag-"+string(mode), "--mode", string(mode), "x").want(t, code)
		enqueue(t, bg(t), url, `{"session":"a","id":"line-`+string(mode)+`","text":"x","mode":"`+string(mode)+`"}`, "--file", "-").want(t, code)
	}
	waiting, err := actors.NewClient(rdb).Operate("a").FollowUps(bg(t))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]session.Mode{}
	for _, f := range waiting {
		got[f.ID] = f.Mode
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// The replies of commands are printed completely, in a file, too.
func TestAnswersOfSeveralLines(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	help := enqueue(t, bg(t), url, "", "-s", "a", "/help").want(t, exitOK).out
	if strings.Count(help, "\n") < 10 {
		t.Errorf("/help says %q", help)
	}
	for _, args := range [][]string{{"-s", "a", "--json", "/help"}, {"-s", "a", "--json", "--wait", "/help"}} {
		list := enqueue(t, bg(t), url, "", args...).want(t, exitOK).objects(t)
		if len(list) != 1 || len(list[0]) != 3 || text(list[0], "status") != "answered" || text(list[0], "session") != "a" || text(list[0], "reply")+"\n" != help {
			t.Errorf("%v: %v", args, list)
		}
	}
	lines := "a: " + strings.ReplaceAll(strings.TrimSuffix(help, "\n"), "\n", "\na: ") + "\n"
	r := enqueue(t, bg(t), url, `{"session":"a","text":"/help"}`, "--file", "-").want(t, exitOK)
	if r.out != lines+"0 sent, 1 command\n" {
		t.Errorf("%q", r.out)
	}
	for command, want := range map[string]string{
		"/title My talk": "The conversation's title is now: My talk\n", "/undo": "The conversation has no turn yet. /resume runs a message again that failed or was stopped.\n", "/deny": "There is no open question.\n",
	} {
		if r := enqueue(t, bg(t), url, "", "-s", "b", command).want(t, exitOK); r.out != want || r.err != "" {
			t.Errorf("%s: %+v", command, r)
		}
	}
}

// A command with wrong arguments is bad input.
func TestCommandsThatAreWrong(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	for command, want := range map[string]string{
		"/queue cap:0": "Nothing was changed: invalid cap \"0\": write a number from 1 to 10000.",
		"/steer":       "Write what to hand to the running turn: /steer TEXT.",
		"/help me":     "/help takes no arguments. To send it as a message, write //help.",
		"/history zz":  "Write how many entries, from 1 to 1000: /history 50.",
		"/deny x":      "Write it as /deny [NUMBER]. Nothing was decided.",
	} {
		if r := enqueue(t, bg(t), url, "", "-s", "b", command).want(t, exitUsage); r.out != "" || r.err != "enqueue: "+want+"\n" {
			t.Errorf("%s: %+v", command, r)
		}
		list := enqueue(t, bg(t), url, "", "-s", "b", "--json", "--wait", command).want(t, exitUsage).objects(t)
		if len(list) != 1 || text(list[0], "error") != want || list[0]["code"] != 2.0 || text(list[0], "session") != "b" || list[0]["id"] != nil {
			t.Errorf("%s: %v", command, list)
		}
	}
	r := enqueue(t, bg(t), url, `{"text":"/deny x"}`+"\n"+`{"text":"/deny"}`, "--file", "-", "-s", "b").want(t, exitUsage)
	if r.err != "enqueue: line 1: Write it as /deny [NUMBER]. Nothing was decided.\n" || r.out != "b: There is no open question.\n0 sent, 1 command, 1 bad line\n" {
		t.Errorf("%+v", r)
	}
	empty(t, rdb)
}

// A decision names the user of the operating system.
func TestDecisionNamesTheUser(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	who, err := user.Current()
	expect.OK(t, err)
	asked, decided := make(chan struct{}), make(chan struct{})
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		if _, err := h.Ask(context.Background(), session.Question{Name: "rm"}); err != nil {
			t.Error(err)
		}
		close(asked)
		<-decided
		return &protocol.End{Status: session.StatusDone}
	})
	enqueue(t, bg(t), url, "", "-s", "a", "hello").want(t, exitOK)
	<-asked
	defer close(decided)
	enqueue(t, bg(t), url, "", "-s", "a", "/deny").want(t, exitOK)
	answer := rdb.HGet(bg(t), rediskey.For("a").Run(), "answered").Val()
	expect.Equal(t, answer+" names the user", strings.HasSuffix(answer, " "+who.Username), true)
}

func TestWhatIsWrongWithALine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"text":"x","meta":{"b":1,"c":"ok","a":[]}}`:     `invalid JSON: "meta.a" must be a string`,
		`{"text":"x","meta":{"k":1},"session":2}`:         `invalid JSON: "meta.k" must be a string`,
		`{"text":"x","meta":{"\n":true}}`:                 `invalid JSON: "meta.\n" must be a string`,
		`{"meta":{"` + strings.Repeat("k", 200) + `":1}}`: `invalid JSON: "meta.KEY" must be a string`,
		`{"text":"x","meta":"k=v"}`:                       `invalid JSON: "meta" must be an object`,
		`[]`:                                              `invalid JSON: the line must be a JSON object`,
		`"hello"`:                                         `invalid JSON: the line must be a JSON object`,
		"null\n":                                          `invalid JSON: the line must be a JSON object`,
		`7`:                                               `invalid JSON: the line must be a JSON object`,
		`{"text":"x","sesion":"s"}`:                       `invalid JSON: unknown field "sesion": did you mean "session"?`,
		`{"text":"x","expiresin":"1h"}`:                   `invalid JSON: unknown field "expiresin": did you mean "expires_in"?`,
		`{"text":"x","priority":1}`:                       `invalid JSON: unknown field "priority"`,
		`{"text":"x","attachments":[{"nam":"a"}]}`:        `invalid JSON: unknown field "nam": did you mean "name"?`,
		`{"text":"x","attachments":["a.png"]}`:            `invalid JSON: "attachments" must be a list of objects`,
		`{"text":7}`:                                      `invalid JSON: "text" must be a string`,
		`{"text":"x","attachments":{}}`:                   `invalid JSON: "attachments" must be a list`,
		`{"text":"x","expires_in":3600}`:                  `invalid JSON: "expires_in" must be a string, such as "10s"`,
	} {
		_, err := options{session: "s"}.item([]byte(line))
		if err == nil || err.Error() != want || !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
