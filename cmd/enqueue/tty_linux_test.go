package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"

	"turnstile/internal/chat/terminal"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/hostile"
	"turnstile/test/watched"
)

// eraseLine removes a line of progress.
const eraseLine = "\r\x1b[K"

// A line on the terminal counts the sent messages, and with --wait the results. It disappears
// at the end, and never goes to stdout.
func TestProgressOnATerminalOnly(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	file := manyLines(20, 20)
	for _, name := range []string{writeFile(t, file), "-"} {
		for _, wait := range []bool{false, true} {
			args, shown := []string{"--file", name}, " sent"
			if wait {
				args, shown = append(args, "--wait"), " results"
			}
			s := watched.NewTerminal(t)
			var out bytes.Buffer
			code := run(bg(t), args, strings.NewReader(file), &out, s.TTY, []string{"REDIS_URL=" + url})
			if code != exitOK {
				t.Errorf("%v: exit code %d", args, code)
			}
			seen := s.Close()
			if !strings.Contains(seen, eraseLine) || !strings.Contains(seen, shown) {
				t.Errorf("%v: no progress on the terminal: %q", args, seen)
			}
			if name != "-" && !wait && !strings.Contains(seen, "%") {
				t.Errorf("%v: no part of the whole: %q", args, seen)
			}
			if !strings.HasSuffix(seen, eraseLine) {
				t.Errorf("%v: left on the terminal: %q", args, seen)
			}
			if strings.Contains(out.String(), "\r") || !strings.Contains(out.String(), "400 sent (") && !strings.Contains(out.String(), "0 sent, 400 duplicates") {
				t.Errorf("%v: stdout %q", args, out.String())
			}
		}
	}
}

// Awaited results are counted, and the count reappears after every line that is printed meanwhile.
func TestProgressCountsResults(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	goOn := make(chan struct{})
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		if h.Turn().Message.Text == "late" {
			<-goOn
		}
		return echo(h)
	})
	name := writeFile(t, `{"session":"a","text":"soon"}`+"\n"+`{"session":"b","text":"late"}`+"\n")
	s := watched.NewTerminal(t)
	ended := make(chan int)
	go func() {
		ended <- run(bg(t), []string{"--file", name, "--wait", "--timeout", "1h"}, nil, io.Discard, s.TTY, []string{"REDIS_URL=" + url, "NO_COLOR=1"})
	}()
	s.Await(t, "[===============               ]  50% 1 of 2 results")
	close(goOn)
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	seen := s.Close()
	if strings.Contains(seen, "% 1 sent") || strings.Contains(seen, "% 2 sent") {
		t.Errorf("a bar of the bytes, before the one of the results: %q", seen)
	}
	if !strings.HasSuffix(seen, eraseLine) {
		t.Errorf("left on the terminal: %q", seen)
	}
}

func TestATerminalIsToldWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	s := watched.NewTerminal(t)
	var out bytes.Buffer
	code := run(bg(t), []string{"-s", "a", "--id", "m", "--wait", "hello"}, nil, &out, s.TTY, []string{"REDIS_URL=" + url})
	if seen := s.Close(); code != exitOK || out.String() != "echo: hello\n" || seen != "accepted as m\r\n" {
		t.Errorf("exit code %d, stdout %q, terminal %q", code, out.String(), seen)
	}
}

// With both streams on one screen, a note never continues an incomplete line of text.
func TestFollowOnATerminal(t *testing.T) {
	t.Parallel()
	s := watched.NewTerminal(t)
	out := newOutput(s.TTY, s.TTY, nil)
	out.text("half a line")
	out.note("tool grep")
	out.text("another")
	out.endLine()
	out.endLine()
	if seen := s.Close(); seen != "half a line\r\ntool grep\r\nanother\r\n" {
		t.Errorf("%q", seen)
	}
}

// A complete turn on a terminal. The agent's text cannot control it, and a tool's line is rewritten
// in place.
func TestATurnOnATerminal(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, func(h *protocol.Claim) *protocol.End {
		turn := h.Turn().ID
		for _, events := range [][]session.Event{
			{{Type: session.EventThought, Text: "hm\x1b[2J"}},
			{{Type: session.EventText, Text: "Let me \x1b]0;x\x07look"}},
			{{Type: session.EventToolStart, Name: "grep", CallID: "1", Input: json.RawMessage(`{"pattern":"x"}`)}},
			{{Type: session.EventNotice, Text: "slow"}},
			{{Type: session.EventToolEnd, CallID: "1", Error: "no match"}},
			{{Type: session.EventRaw, Name: "x"}, {Type: session.EventUsage, Usage: &session.Usage{InputTokens: 3}}},
		} {
			for i := range events {
				events[i].Turn = turn
			}
			if err := h.Emit(context.Background(), events); err != nil {
				t.Error(err)
			}
		}
		ask := []session.Event{
			{Type: session.EventQuestionAsked, Turn: turn, CallID: "1", Name: "rm"},
			{Type: session.EventQuestionAnswered, Turn: turn, CallID: "1", Decision: session.Deny, By: "web/alice"},
		}
		if err := h.Emit(context.Background(), ask); err != nil {
			t.Error(err)
		}
		return &protocol.End{Status: session.StatusDone, Reply: "Nothing\r there.\u009b2J"}
	})
	const (
		erase  = "\r\x1b[K"
		golden = "accepted as m\n" +
			"{faint}| hm\uFFFD[2J{off}\n" +
			"Let me \uFFFD]0;x\uFFFDlook\n" +
			"{faint}tool grep: x ...{off}" + erase +
			"{faint}slow{off}\n" +
			"{faint}tool grep: x ...{off}" + erase +
			"{yellow}tool grep: x (<0.1s) failed: no match{off}\n" +
			"{strong}permission asked (1): rm{off}\n" +
			"{strong}decide with: enqueue -s 'a~b' /approve 1   or: enqueue -s 'a~b' /deny 1{off}\n" +
			"{faint}permission 1: denied by web/alice{off}\n" +
			"Nothing there.\uFFFD2J\n" +
			"{faint}used: 3 tokens in{off}\n"
	)
	colours := strings.NewReplacer("{faint}", "\x1b[2m", "{yellow}", "\x1b[33m", "{strong}", "\x1b[1;33m", "{off}", "\x1b[0m")
	none := strings.NewReplacer("{faint}", "", "{yellow}", "", "{strong}", "", "{off}", "")
	for term, want := range map[string]string{
		"TERM=xterm": colours.Replace(golden),
		"NO_COLOR=1": none.Replace(golden),
		"TERM=dumb":  none.Replace(strings.ReplaceAll(golden, "{faint}tool grep: x ...{off}"+erase, "")),
	} {
		s := watched.NewTerminal(t)
		id := "m" + term[len(term)-1:]
		code := run(bg(t), []string{"-s", "a~b", "--id", id, "--follow", "hello"}, nil, s.TTY, s.TTY, []string{"REDIS_URL=" + url, term})
		seen := durations.ReplaceAllString(strings.ReplaceAll(s.Close(), "\r\n", "\n"), "(<0.1s)")
		want = strings.Replace(want, "as m", "as "+id, 1)
		if code != exitOK || seen != want {
			t.Errorf("%s: exit code %d\ngot  %q\nwant %q", term, code, seen, want)
		}
	}
}

// JSON leaves some control characters as they are. Here they are escaped, too.
func TestObjectsDoNotSteer(t *testing.T) {
	t.Parallel()
	s := watched.NewTerminal(t)
	out := newOutput(s.TTY, s.TTY, nil)
	const said = "\x1b[2J\u009b2J\x7f\u2028é"
	raw, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	out.event("a", "m", session.Event{Type: "raw", Text: said, Data: append(raw[:len(raw)-1], "\x9b\""...)}, 0)
	seen := strings.TrimSuffix(s.Close(), "\r\n")
	if i := strings.IndexFunc(seen, unicode.IsControl); i >= 0 || strings.Contains(seen, "\x9b") {
		t.Errorf("%q", seen)
	}
	var e session.Event
	if err := json.Unmarshal([]byte(seen), &e); err != nil || e.Text != said {
		t.Errorf("%q: %v", seen, err)
	}
}

// Output on a terminal may have colours. Elsewhere, and with NO_COLOR, it has none.
func TestColoursAreForTerminals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{[]string{"TERM=xterm"}, "\x1b[2mtool grep\x1b[0m\n\x1b[1;33mthe worker drains\x1b[0m\n"},
		{[]string{"TERM=xterm", "NO_COLOR=1"}, "tool grep\nthe worker drains\n"},
		{[]string{"TERM=dumb"}, "tool grep\nthe worker drains\n"},
	} {
		s := watched.NewTerminal(t)
		out := newOutput(io.Discard, s.TTY, c.environ)
		out.remark(terminal.Line{Text: "tool grep"})
		out.remark(terminal.Line{Text: "the worker drains", Tone: terminal.Alert})
		if seen := strings.ReplaceAll(s.Close(), "\r\n", "\n"); seen != c.want {
			t.Errorf("%v: %q", c.environ, seen)
		}
	}
}

// No control characters reach a terminal.
func TestNothingSteersATerminal(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	hostileWorker(t, url)
	for _, args := range [][]string{
		{"--wait", hostile.Text}, {"--follow", "hello"}, {"--follow", "please fail"}, {"--follow", "please ask"}, {"/history"}, {"/status"},
	} {
		s := watched.NewTerminal(t)
		code := run(bg(t), append([]string{"-s", "a"}, args...), nil, s.TTY, s.TTY, []string{"REDIS_URL=" + url, "TERM=xterm"})
		hostile.CheckTerminal(t, fmt.Sprintf("%q (exit code %d)", args, code), s.Close())
	}
}
