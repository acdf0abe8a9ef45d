package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
)

// Every failure ends with the last lines of the command's stderr.
func TestFailuresHaveTheLastWords(t *testing.T) {
	t.Parallel()
	const why = "; printf 'one\\ntwo\\n' >&2"
	for _, c := range []struct {
		name, script, want string
		format             Format
		retryable          bool
	}{
		{name: "exit code", script: "echo x" + why + "; exit 3", want: "exit status 3"},
		{name: "nothing", script: "true" + why, want: "the agent ended without a reply"},
		{name: "newlines", script: `printf '\n\r\n'` + why, want: "the agent ended without a reply"},
		{name: "blanks", script: `printf ' \n\t'` + why, want: "the agent ended without a reply"},
		{name: "no event", format: JSONL, script: "true" + why, want: "the agent ended without a reply"},
		{name: "no word", format: JSONL, want: "the agent ended without a reply", script: `printf '%s\n' \
			'{"type":"thought","text":"hm"}' '{"type":"notice","text":"slow"}' '{"type":"title","text":"t"}' '{"type":"ready"}' \
			'{"type":"usage","usage":{}}' '{"type":"state","data":1}' '{"type":"raw","data":1}' '{"type":"text","text":"\n"}'` + why},
		{name: "too much", script: "true" + why + "; yes", want: "the command wrote more than 8 MiB"},
		{name: "too much, by the line", format: JSONL, script: "true" + why + `; head -c 4194304 /dev/zero | tr '\0' x >"$0"; ` +
			`for i in 1 2 3; do printf '{"type":"text","text":"'; cat "$0"; echo '"}'; done; sleep 1000`,
			want: "line 3 of the command's output: with it the turn has more than 8 MiB of text"},
		{name: "long line", format: JSONL, script: "true" + why + "; head -c 10485760 /dev/zero; sleep 1000",
			want: "line 1 of the command's output is longer than 8 MiB"},
		{name: "no event, but text", format: JSONL, script: "true" + why + "; echo hello; sleep 1000",
			want: "line 1 of the command's output: it is not a JSON object with an event: invalid character 'h' looking for beginning of value"},
		{name: "cut", format: JSONL, script: `printf '{"type'` + why,
			want: "line 1 of the command's output: it is not a JSON object with an event: unexpected end of JSON input"},
		{name: "not UTF-8 by the line", format: JSONL, script: "true" + why + `; printf '\377\n'; sleep 1000`,
			want: "line 1 of the command's output: it is not UTF-8"},
		{name: "not UTF-8", script: "true" + why + `; printf 'ab\377'; sleep 1000`, want: "the command's output is not UTF-8 (byte 3)"},
		{name: "half a character", script: `printf 'ä\303'` + why, want: "the command's output is not UTF-8 (byte 3)"},
		{name: "half a character, then an exit code", script: `printf 'ä\303'` + why + "; exit 3", want: "exit status 3"},
		{name: "its own error", format: JSONL, script: `echo '{"type":"error","message":"no model","retryable":true}'` + why,
			want: "no model", retryable: true},
		{name: "closed", script: "true" + why + "; exec >&-; sleep 1000", want: "the command closed its output and kept running"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, Config{Command: append(shell(c.script), filepath.Join(t.TempDir(), "file")), Format: c.format})
			if c.name == "closed" {
				a.patience = 20 * time.Millisecond
			}
			_, err := a.Run(t.Context(), turn(t, ""))
			if want := c.want + ": one\ntwo"; err == nil || err.Error() != want || errors.Is(err, agent.ErrRetryable) != c.retryable {
				t.Errorf("%v, retryable %v; want %s", err, errors.Is(err, agent.ErrRetryable), want)
			}
		})
	}
}

func TestTimeoutHasTheLastWords(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Command: shell(`echo waiting for the model >&2; echo up; exec sleep 1000`)})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the agent took too long")
	_, err := a.Run(ctx, emitting(turn(t, ""), func(agent.Event) { cancel(cause) }))
	if want := "the agent was interrupted: the agent took too long: waiting for the model"; !errors.Is(err, cause) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// hearing is a log that calls a function for each line of a command's stderr.
type hearing func()

func (h hearing) Write(p []byte) (int, error) {
	h()
	return len(p), nil
}

// A turn that has succeeded does not run again because its worker drains while the command is about
// to exit. A command that ends because of the SIGINT was interrupted.
func TestAResultBeforeTheInterruptStands(t *testing.T) {
	t.Parallel()
	const interrupted = "the agent was interrupted: drain: over"
	for script, want := range map[string]string{
		`echo '{"type":"result","text":"done"}'; cat >/dev/null; echo over >&2; exec sleep 1000`:       "<nil>",
		`echo '{"type":"error","message":"none"}'; cat >/dev/null; echo over >&2; exec sleep 1000`:     "none: over",
		`trap 'echo "{\"type\":\"result\"}"; exit 0' INT; echo over >&2; while :; do sleep 0.01; done`: interrupted,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		log := slog.New(slog.NewTextHandler(hearing(func() { cancel(errors.New("drain")) }), &slog.HandlerOptions{Level: slog.LevelDebug}))
		a, err := New(Config{Format: JSONL, Grace: time.Minute, Command: shell(script), Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		result, err := a.Run(ctx, turn(t, ""))
		if fmt.Sprint(err) != want || err == nil && result.Text != "done" {
			t.Errorf("%s: %q, %v", script, result.Text, err)
		}
	}
}

// Each of these is enough output for a turn that succeeds.
func TestAWordIsEnough(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		`{"type":"result"}`, `{"type":"result","text":""}`, `{"type":"text","text":"."}`,
		`{"type":"tool_start","name":"mail","call_id":"1"}`, `{"type":"tool_end","call_id":"1"}`,
	} {
		a := newAgent(t, Config{Format: JSONL, Command: []string{"echo", script}})
		if _, err := runText(t.Context(), a, turn(t, "")); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// The text before a bad byte is emitted, however the pipe splits it.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, text, err string }{
		{"\xff", "", "(byte 1)"},
		{"aä\n\n\xffb", "aä", "(byte 6)"},
		{"a\xe2\x82b", "a", "(byte 2)"},
		{"a\n\xe2\x82", "a", "(byte 3)"},
		{"\xed\xa0\x80", "", "(byte 1)"}, // half of a UTF-16 pair
	} {
		for name, r := range map[string]func() (reply textReply, text string, err error){
			"whole": func() (reply textReply, text string, err error) {
				reply.emit = func(e agent.Event) { text += e.Text }
				err = reply.copyFrom(strings.NewReader(c.in))
				return
			},
			"bytes": func() (reply textReply, text string, err error) {
				reply.emit = func(e agent.Event) { text += e.Text }
				err = reply.copyFrom(iotest.OneByteReader(strings.NewReader(c.in)))
				return
			},
		} {
			reply, text, err := r()
			if err == nil || !strings.HasSuffix(err.Error(), c.err) || text != c.text || reply.hasOutput != (text != "") {
				t.Errorf("%q, %s: %q, said %v, %v; want %q, %s", c.in, name, text, reply.hasOutput, err, c.text, c.err)
			}
		}
	}
}

// A command that has closed its stdout has a while to end.
func TestClosedStdout(t *testing.T) {
	t.Parallel()
	const wentOn = "the command closed its output and kept running"
	const cleansUp = `trap 'exit 0' INT; exec >&-; while :; do sleep 0.01; done`
	for _, c := range []struct {
		name, script, text, err string
		format                  Format
		patience                time.Duration
	}{
		{name: "ends by itself", script: "echo a; exec >&-; sleep 0.1", text: "a", patience: time.Hour},
		{name: "fails by itself", script: "echo a; exec >&-; sleep 0.1; exit 3", text: "a", err: "exit status 3", patience: time.Hour},
		{name: "ends with stdin", format: JSONL, script: `echo '{"type":"text","text":"a"}'; exec >&-; cat >/dev/null`, text: "a", patience: time.Hour},
		{name: "ends well when told to", script: "echo a; " + cleansUp, text: "a"},
		{name: "the same, but silent", script: cleansUp, err: wentOn},
		{name: "dies when told to", script: "echo a; exec >&-; exec sleep 1000", text: "a", err: wentOn},
		{name: "is deaf", script: `trap "" INT; echo a; exec >&-; sleep 1000`, text: "a", err: wentOn},
		{name: "after its result", format: JSONL, script: `trap "" INT; echo '{"type":"result","text":"a"}'; exec >&-; sleep 1000`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, Config{Command: shell(c.script), Format: c.format, Grace: 500 * time.Millisecond})
			a.patience = max(c.patience, 20*time.Millisecond)
			text, err := runText(t.Context(), a, turn(t, ""))
			if text != c.text || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("text %q, error %v; want %q, %s", text, err, c.text, c.err)
			}
		})
	}
	a := newAgent(t, Config{Command: shell(""), Grace: time.Minute})
	if a.patience != time.Minute || newAgent(t, Config{Command: shell("")}).patience != command.ClosedPatience {
		t.Error("the patience is not the longer of the grace and its own")
	}
}
