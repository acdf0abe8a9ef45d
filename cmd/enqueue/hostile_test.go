package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
	"turnstile/test/hostile"
)

// hostileAgent emits only hostile text. On request it fails, or asks for a permission.
type hostileAgent struct{}

func (hostileAgent) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	words := hostile.Text
	raw, err := json.Marshal(words)
	if err != nil {
		return agent.Result{}, err
	}
	input, err := json.Marshal(map[string]string{words: words, "b": words})
	if err != nil {
		return agent.Result{}, err
	}
	for _, e := range []agent.Event{
		{Type: session.EventThought, Text: words + "\n"},
		{Type: session.EventText, Text: words},
		{Type: session.EventToolStart, Name: words, CallID: words, Input: input},
		{Type: session.EventToolEnd, CallID: words, Error: words},
		{Type: session.EventToolStart, Name: "t", CallID: "2", Input: raw},
		{Type: session.EventToolEnd, CallID: "2", Output: raw},
		{Type: session.EventNotice, Text: words},
		{Type: session.EventTitle, Text: words},
		{Type: session.EventRaw, Name: words, Data: raw},
		{Type: session.EventUsage, Usage: &session.Usage{InputTokens: 1, Model: words}},
	} {
		turn.Emit(e)
	}
	switch text := turn.Text(); {
	case strings.Contains(text, "please ask"):
		ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if _, err := turn.Ask(ctx, agent.Question{Name: words, Text: words, CallID: words, Input: raw}); err != nil && ctx.Err() == nil {
			return agent.Result{}, err
		}
	case strings.Contains(text, "please fail"):
		return agent.Result{}, errors.New(words)
	}
	return agent.Result{Text: words}, nil
}

func hostileWorker(t *testing.T, url string) {
	t.Helper()
	w, err := worker.New(client(t, url), hostileAgent{}, worker.Config{
		LeaseTTL: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
}

// No text of an agent, a user or a file can control a terminal, with any flags, and also in a pipe.
// With --json the text is unchanged.
func TestNothingIsPrintedThatSteers(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	hostileWorker(t, url)
	words := hostile.Words
	file := func(texts ...string) string {
		var lines strings.Builder
		for i, text := range texts {
			line, err := json.Marshal(map[string]string{"session": fmt.Sprintf("f%d", i), "text": text})
			if err != nil {
				t.Fatal(err)
			}
			lines.WriteString(string(line) + "\n")
		}
		return writeFile(t, lines.String())
	}
	said := []string{"/status", "/history", "/title " + hostile.Text, "/nonsense " + hostile.Text, "/queue " + hostile.Text}

	type how int
	const (
		ignored how = iota // it may print the text or not
		printed            // it must print it
		whole              // it must print it, in JSON
	)
	calls := []struct {
		how  how
		args []string
	}{
		{printed, []string{"-s", "a", "--wait", hostile.Text}},
		{printed, []string{"-s", "b", "--wait", "please fail"}},
		{printed, []string{"-s", "c", "--follow", hostile.Text}},
		{printed, []string{"-s", "c", "--follow", "please ask"}},
		{printed, []string{"-s", "c", "--follow", "please fail", "--id", "m1"}},
		{printed, []string{"-s", "c", "--follow", "--after", "0-0", "--id", "m1"}},
		{ignored, []string{"-s", "a", "--meta", "k=" + words, "--expires-in", "1h", "hello"}},
		{ignored, []string{"-s", "a", "--in", "1h", "hello"}},
		{ignored, []string{"--help"}},
		{ignored, []string{"--version"}},
		{ignored, []string{"-s", "a"}},
		{printed, []string{"-s", "a", "--" + words}},
		{printed, []string{"-s", words, "hello"}},
		{printed, []string{"-s", "a", "--id", words, "hello"}},
		{printed, []string{"-s", "a", "--mode", words, "hello"}},
		{printed, []string{"-s", "a", "--in", words, "hello"}},
		{printed, []string{"-s", "a", "--meta", words, "hello"}},
		{printed, []string{"-s", "a", "--agent", words, "hello"}},
		{printed, []string{"-s", "a", "--reply-to", words, "hello"}},
		{ignored, []string{"-s", "a", "--reply-to", "hook", "--context", words, "hello"}},
		{printed, []string{"-s", "a", "--deliver-by", words, "hello"}},
		{ignored, []string{"-s", "a", "--answer", words, "1"}},
		{ignored, []string{"-s", "a", "--wait", "--timeout", words, "hello"}},
		{ignored, []string{"-s", "a", "--follow", "--id", "m", "--after", words}},
		{ignored, []string{"--redis", "redis://" + words, "-s", "a", "hello"}},
		{printed, []string{"--file", strings.ReplaceAll(words, "\x00", "")}},
		{printed, []string{"--file", writeFile(t, "{\"session\":\"a\",\"text\":\"x\",\""+hostile.Mark+"\\u001b[2J\\u202e\":1}\n{\"session\":\""+hostile.Mark+"\\u001b[2J\"}\n"+words+"\n")}},
		{printed, []string{"--file", file("hello", "please fail"), "--wait"}},
		{printed, []string{"--file", file("hello", "please ask"), "--follow"}},
		{printed, []string{"--file", file(append(said, hostile.Text)...), "--wait"}},
		{whole, []string{"-s", "d", "--json", "--wait", "hello"}},
		{whole, []string{"-s", "d", "--json", "--follow", "please fail"}},
		{whole, []string{"--json", "--file", file("hello", "please fail"), "--wait"}},
		{ignored, []string{"-s", "a", "--json", "--" + words}},
	}
	for _, text := range said {
		calls = append(calls, struct {
			how  how
			args []string
		}{ignored, []string{"-s", "a", text}})
	}
	flags := map[string]bool{}
	newCommand(&options{}, nil).Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	for _, c := range calls {
		for _, arg := range c.args {
			delete(flags, strings.TrimLeft(arg, "-"))
		}
		if slices.Contains(c.args, "-s") {
			delete(flags, "session")
		}
		r := enqueue(t, bg(t), url, "", c.args...)
		what := fmt.Sprintf("%q (exit code %d)", c.args, r.code)
		hostile.Check(t, what+" on stderr", r.err)
		switch c.how {
		case ignored:
			hostile.Check(t, what, r.out)
		case printed:
			hostile.CheckSeen(t, what, r.out+r.err)
		case whole:
			hostile.CheckJSON(t, what, r.out)
		}
	}
	for name := range flags {
		t.Errorf("no call here has the flag --%s", name)
	}
}

// Each line of a reply is marked as such, whatever ends it.
func TestNoReplyForgesALine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\u2028other m9: b":  "s m: a\ns m: other m9: b\n",
		"a\r\nb\rother m9: c": "s m: a\ns m: bother m9: c\n",
	} {
		if got := prefixed("s m", text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
