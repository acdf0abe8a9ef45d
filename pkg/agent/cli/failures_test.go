package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

func TestFailures(t *testing.T) {
	t.Parallel()
	const state, done = `{"type":"init","session_id":"s-1"}` + "\n", `{"type":"result","status":"success"}` + "\n"
	for name, c := range map[string]struct {
		kind  Kind
		play  play
		want  string // the whole error
		retry bool
	}{
		"exit":             {Codex, play{Err: "one\ntwo\n\x1b[31mthree\x1b[0m\n", Exit: 3}, "codex: exit status 3: one\ntwo\nthree", false},
		"no result":        {Gemini, play{Out: state}, "gemini: it exited without saying how the turn ended", false},
		"nothing at all":   {Gemini, play{}, "gemini: it exited without saying how the turn ended", false},
		"no JSON":          {Claude, play{Out: "\x1b[31musage: claude\x1b[0m\n", Exit: 2}, "claude: exit status 2: usage: claude", false},
		"signal":           {Claude, play{Signal: true}, "claude: killed by signal: terminated", false},
		"try again":        {Claude, play{Err: "busy", Exit: 75}, "claude: exit status 75: busy", true},
		"login":            {Gemini, play{Err: "Invalid auth method selected.\n", Exit: 41}, "gemini: could not log in: set GEMINI_API_KEY, and the way to log in with it in its settings (exit status 41): Invalid auth method selected.", false},
		"input":            {Gemini, play{Exit: 42}, "gemini: did not take the input (exit status 42)", false},
		"turns":            {Gemini, play{Out: state, Exit: 53}, "gemini: reached its limit of turns (exit status 53)", false},
		"trust":            {Gemini, play{Exit: 55}, "gemini: does not trust the directory: set TURNSTILE_WORKSPACE_DIR, or GEMINI_CLI_TRUST_WORKSPACE=true (exit status 55)", false},
		"cancelled":        {Gemini, play{Exit: 130}, "gemini: was cancelled (exit status 130)", false},
		"without a word":   {Gemini, play{Out: state + done}, "gemini: the agent ended without a reply", false},
		"without, and why": {Gemini, play{Out: state + `{"type":"error","message":"Loop detected"}` + "\n" + done}, "gemini: the agent ended without a reply: Loop detected", false},
		"turn failed":      {Codex, play{Out: `{"type":"turn.failed","error":{"message":"stream disconnected"}}`, Exit: 1}, "codex: stream disconnected", false},
		"no reason":        {Codex, play{Out: `{"type":"turn.failed"}`, Exit: 1}, "codex: it gave no reason", false},
		"trouble only":     {Codex, play{Out: `{"type":"error","message":"no network"}`, Exit: 1}, "codex: exit status 1: no network", false},
		"empty error":      {Claude, play{Out: `{"type":"result","subtype":"error_during_execution","is_error":true}`, Exit: 1}, "claude: it ended early: during execution", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command, listen := fakeProgram(t, c.play)
			got := playTurn(t, newAgent(t, c.kind, Config{Command: command}), turn("hi"))
			if got.err == nil || got.err.Error() != c.want || errors.Is(got.err, agent.ErrRetryable) != c.retry {
				t.Errorf("retryable %v: %v\nwant %s", errors.Is(got.err, agent.ErrRetryable), got.err, c.want)
			}
			if len(listen()) != 1 {
				t.Error("started again")
			}
		})
	}
}

// The result counts, whatever the program's exit status is.
func TestExitAfterTheResult(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		for _, p := range []play{{Exit: 1}, {Exit: 75}, {Signal: true}} {
			p.Out = sayings[kind]
			command, _ := fakeProgram(t, p)
			playTurn(t, newAgent(t, kind, Config{Command: command}), turn("hi")).wantReply(t, "ok")
		}
	}
}

// Claude Code may lose its last line, or the end of it, if it is not read at once. Everything
// before it has arrived, and the exit code shows the outcome.
func TestClaudesResultIsCutOff(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/claude/tool.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	all := string(data)
	at := func(part string) int {
		i := strings.LastIndex(all, part)
		if i < 0 {
			t.Fatalf("no %s in the stream", part)
		}
		return i
	}
	result := at(`{"type":"result"`)
	for _, c := range []struct {
		out  string
		exit int
		ok   bool
	}{
		{all[:result], 0, true},
		{all[:result+200], 0, true},
		{all[:result], 1, false},
		{all[:result-100], 0, true},  // in its message_stop
		{all[:result-300], 0, false}, // in its message_delta
		{all[:at(`"The tool h"`)], 0, false},
		{all[:at(`"tool_result"`)], 0, false},
	} {
		command, _ := fakeProgram(t, play{Out: c.out, Exit: c.exit})
		got := playTurn(t, newAgent(t, Claude, Config{Command: command}), turn("hi"))
		if (got.err == nil) != c.ok {
			t.Errorf("%d bytes, exit %d: %v", len(c.out), c.exit, got.err)
		}
		if c.ok && got.reply != "The tool has spoken." {
			t.Errorf("%d bytes: %q", len(c.out), got.reply)
		}
	}
}

// Any error in the output ends the turn, with the last lines of the program's stderr.
func TestBadOutput(t *testing.T) {
	t.Parallel()
	begun := `{"type":"init","session_id":"s-1"}` + "\n" + `{"type":"message","role":"assistant","content":"ok"}` + "\n"
	said := func(text string) string {
		return `{"type":"message","role":"assistant","content":"` + text + `"}` + "\n"
	}
	for name, c := range map[string]struct {
		play play
		want string
	}{
		"a line without end":        {play{Yes: strings.Repeat("la ", 100_000)}, "the command wrote more than 64 MiB"},
		"without end, deaf":         {play{Yes: strings.Repeat("la ", 100_000), Ignore: true}, "the command wrote more than 64 MiB"},
		"invalid UTF-8":             {play{Out: begun + badByte + "\n", Hang: true}, "line 3 of the command's output: it is not UTF-8"},
		"endless text":              {play{Yes: said(strings.Repeat("la ", 1<<19)), Ignore: true}, "line 6 of the command's output: with it the turn has more than 8 MiB of text"},
		"endless noise":             {play{Yes: strings.Repeat("la ", 100_000) + "\n"}, "the command wrote more than 64 MiB"},
		"closes stdout":             {play{Out: begun, Close: true, Hang: true}, "gemini: it closed its output without saying how the turn ended, and kept running"},
		"closes stdout, deaf":       {play{Close: true, Hang: true, Ignore: true}, "gemini: it closed its output without saying how the turn ended, and kept running"},
		"cut off, closes stdout":    {play{Out: begun + `{"type":`, Close: true, Hang: true}, "gemini: it closed its output without saying how the turn ended, and kept running"},
		"says blanks":               {play{Out: strings.ReplaceAll(sayings[Gemini], "ok", " \\n")}, "gemini: the agent ended without a reply"},
		"says nothing":              {play{Out: strings.ReplaceAll(sayings[Gemini], "ok", "")}, "gemini: the agent ended without a reply"},
		"exits without a last line": {play{Out: begun, Exit: 3}, "gemini: exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.play.Err = "one\n\x1b[31mtwo\x1b[0m\n"
			command, listen := fakeProgram(t, c.play)
			a := newAgent(t, Gemini, Config{Command: command, Grace: 50 * time.Millisecond})
			if c.play.Close { // a program that ends may take a moment after its last byte
				a.patience = 50 * time.Millisecond
			}
			got := playTurn(t, a, turn("hi"))
			if want := c.want + ": one\ntwo"; got.err == nil || got.err.Error() != want || errors.Is(got.err, agent.ErrRetryable) || len(listen()) != 1 {
				t.Errorf("%.200s: %v\nwant %s", got.reply, got.err, want)
			}
		})
	}
}

// A line over 8 MiB, a tool's output for example, is cut, and does not cost the turn its work.
func TestLongLine(t *testing.T) {
	t.Parallel()
	command, _ := fakeProgram(t, play{Out: `{"type":"tool_use","tool_name":"cat","tool_id":"t1","parameters":{}}` + "\n" +
		`{"type":"tool_result","tool_id":"t1","output":"` + strings.Repeat("la ", 3<<20) + `","status":"success"}` + "\n" + sayings[Gemini]})
	got := playTurn(t, newAgent(t, Gemini, Config{Command: command}), turn("hi"))
	got.wantReply(t, "ok")
	if failure := got.wantTool(t, "cat"); failure != "" {
		t.Errorf("the tool failed: %.100s", failure)
	}
}

// An interrupted program's stderr may say why it took so long.
func TestInterruptedWithLastWords(t *testing.T) {
	t.Parallel()
	command, _ := fakeProgram(t, play{Out: strings.SplitAfter(sayings[Gemini], "\n")[1], Err: "waiting for the model\n", Hang: true, Ignore: true})
	cause := errors.New("took too long")
	ctx, cancel := context.WithCancelCause(t.Context())
	got := playWith(ctx, newAgent(t, Gemini, Config{Command: command, Grace: 50 * time.Millisecond}), emitting(turn("hi"), func(agent.Event) { cancel(cause) }))
	if want := "the agent was interrupted: took too long: waiting for the model"; !errors.Is(got.err, cause) || got.err.Error() != want {
		t.Errorf("%v, want %s", got.err, want)
	}
}

func TestNotStarted(t *testing.T) {
	t.Parallel()
	missing := newAgent(t, Claude, Config{Command: []string{filepath.Join(t.TempDir(), "claude")}})
	if err := missing.Check(); err == nil || !strings.Contains(err.Error(), "agent claude: ") {
		t.Error(err)
	}
	if got := playTurn(t, missing, turn("hi")); got.err == nil || !errors.Is(got.err, agent.ErrRetryable) {
		t.Error(got.err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	homeless := newAgent(t, Claude, Config{Command: []string{"true"}, Workspace: file})
	if err := homeless.Check(); err != nil {
		t.Error(err)
	}
	if got := playTurn(t, homeless, turn("hi")); got.err == nil || !errors.Is(got.err, agent.ErrRetryable) || !strings.Contains(got.err.Error(), "directory") {
		t.Error(got.err)
	}
}

// The agent of another session may have made the link.
func TestALinkForADirectory(t *testing.T) {
	t.Parallel()
	command, listen := fakeProgram(t, play{Out: sayings[Claude]})
	a := newAgent(t, Claude, Config{Command: command, Workspace: t.TempDir()})
	tn := turn("hi")
	dir, err := a.workspace(tn.Session)
	if err == nil {
		err = os.Remove(dir)
	}
	if err == nil {
		err = os.Symlink(t.TempDir(), dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := playTurn(t, a, tn); got.err == nil || errors.Is(got.err, agent.ErrRetryable) || !strings.Contains(got.err.Error(), "is no directory") || len(listen()) > 0 {
		t.Error(got.err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		kind   Kind
		config Config
	}{
		`there is no such preset`: {"clippy", Config{}},
		`the command is empty`:    {Claude, Config{Command: []string{" "}}},
		`a zero byte`:             {Codex, Config{Model: "a\x00"}},
		`"REDIS_URL"`:             {Gemini, Config{Env: []string{"REDIS_URL"}}},
	} {
		if _, err := New(c.kind, c.config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, kind := range kinds {
		a := newAgent(t, kind, Config{})
		if a.config.Command[0] != string(kind) || a.config.Grace != 5*time.Second || a.config.Logger == nil {
			t.Errorf("%+v", a.config)
		}
		var made agent.Agent = a
		if d, ok := made.(agent.Describer); ok && d.Traits() != (agent.Traits{}) {
			t.Error("it wants the history and takes no steers")
		}
	}
}

// A session whose turns fail each time is given up after the second failure. A failure of another kind does not count.
func TestASessionThatFailsEachTime(t *testing.T) {
	t.Parallel()
	poison := map[Kind]string{
		Claude: `{"type":"result","subtype":"success","is_error":true,"result":"API Error: WHY"}` + "\n",
		Codex:  `{"type":"turn.failed","error":{"message":"WHY"}}` + "\n",
		Gemini: `{"type":"result","status":"error","error":{"message":"WHY"}}` + "\n",
	}
	for _, kind := range kinds {
		for name, c := range map[string]struct {
			outs  []string // "": it succeeds
			fresh bool
		}{
			"twice":             {[]string{"400 invalid", "Prompt is too long"}, true},
			"once":              {[]string{"400 invalid"}, false},
			"a success between": {[]string{"400 invalid", "", "400 invalid"}, false},
			"of another kind":   {[]string{"429 slow down", "429 slow down", "Overloaded"}, false},
		} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				t.Parallel()
				tn := turn("hi")
				tn.History = []session.Entry{{Role: session.RoleUser, Text: "call me Ishmael"}}
				tn.State = json.RawMessage(fmt.Sprintf(`{"agent":%q,"session":"old"}`, kind))
				var plays []play
				for _, why := range c.outs {
					out := strings.ReplaceAll(poison[kind], "WHY", why)
					if why == "" {
						out = sayings[kind]
					}
					plays = append(plays, play{Out: out})
				}
				command, listen := fakeProgram(t, append(plays, play{Out: sayings[kind]})...)
				a := newAgent(t, kind, Config{Command: command})
				for range c.outs {
					for _, e := range playTurn(t, a, tn).events {
						if e.Type == session.EventState {
							tn.State = e.Data
						}
					}
				}
				last := playTurn(t, a, tn)
				last.wantReply(t, "ok")
				all := listen()
				words := strings.Join(all[len(all)-1].Args, " ")
				if resumed, told := strings.Contains(words, "resume"), strings.Contains(all[len(all)-1].Stdin, "Ishmael"); resumed == c.fresh || told != c.fresh {
					t.Errorf("%s, with a recap: %v", words, told)
				}
				notice := ""
				if c.fresh {
					notice = "The agent's own session failed several times. A new one begins, and is given what was said before."
				}
				last.want(t, session.EventNotice, notice)
			})
		}
	}
}

// An error after a success with a reply changes nothing, and a success without a word is neither a success nor the end.
func TestWhatCountsAfterAResult(t *testing.T) {
	t.Parallel()
	failed := map[Kind]string{
		Claude: `{"type":"result","subtype":"error_during_execution","is_error":true,"errors":[]}` + "\n",
		Codex:  `{"type":"turn.failed","error":{"message":"aborted"}}` + "\n",
		Gemini: `{"type":"result","status":"error","error":{"message":"aborted"}}` + "\n",
	}
	empty := map[Kind]string{
		Claude: `{"type":"result","subtype":"success","result":""}` + "\n",
		Codex:  `{"type":"turn.completed"}` + "\n",
		Gemini: `{"type":"result","status":"success"}` + "\n",
	}
	for _, kind := range kinds {
		for name, c := range map[string]struct {
			out     string
			fails   bool
			waiting bool // the program may have more to say
		}{
			"success, error":               {sayings[kind] + failed[kind], false, false},
			"success, success":             {sayings[kind] + sayings[kind], false, false},
			"error, success":               {failed[kind] + sayings[kind], false, false},
			"error":                        {failed[kind], true, false},
			"success without a word":       {empty[kind], true, true},
			"without a word, then error":   {empty[kind] + failed[kind], true, false},
			"without a word, then success": {empty[kind] + sayings[kind], false, false},
		} {
			s := &stream{emit: func(agent.Event) {}, logger: slog.New(slog.DiscardHandler)}
			s.decoder = programs[kind].decoder(s)
			for line := range strings.Lines(c.out) {
				if err := s.line([]byte(strings.TrimSpace(line))); err != nil {
					t.Errorf("%s, %s: %v", kind, name, err)
				}
			}
			if s.over() == c.waiting || (s.failure != "" || !s.hasReply) != c.fails {
				t.Errorf("%s, %s: over %v, failure %q, a reply %v", kind, name, s.over(), s.failure, s.hasReply)
			}
		}
	}
}
