package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// sessionSchema is the schema of a session's events.
func sessionSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schemas/session-event.json")
	expect.OK(t, err)
	return schema
}

// allAgent does all that an agent can do.
type allAgent struct{}

func (allAgent) Run(_ context.Context, turn *agent.Turn) (agent.Result, error) {
	if turn.Attempt == 1 {
		return agent.Result{}, agent.Retryable(errors.New("not yet"))
	}
	for _, e := range []agent.Event{
		{Type: session.EventThought, Text: "hm"},
		{Type: session.EventText, Text: "Let me look."},
		{Type: session.EventToolStart, Name: "grep", CallID: "1", Input: json.RawMessage(`{"q":[1,null,"x"]}`)},
		{Type: session.EventToolStart, Name: "shell", CallID: "2"},
		{Type: session.EventToolEnd, CallID: "1", Output: json.RawMessage(`null`)},
		{Type: session.EventToolEnd, CallID: "2", Name: "shell", Error: "exit status 2"},
		{Type: session.EventTitle, Text: "A look"},
		{Type: session.EventNotice, Text: "slow"},
		{Type: session.EventRaw, Name: "plan", Data: json.RawMessage(`{"a":[]}`)},
		{Type: session.EventRaw},
		{Type: session.EventUsage, Usage: &session.Usage{Model: "m", InputTokens: 7, CachedTokens: 1, OutputTokens: 2, CostUSD: 0.5, ContextTokens: 3, ContextLimit: 9}},
		{Type: session.EventUsage, Usage: &session.Usage{}},
	} {
		turn.Emit(e)
	}
	if strings.HasPrefix(turn.Text(), "fail") {
		return agent.Result{}, errors.New("told to fail")
	}
	return agent.Result{Text: "Nothing there."}, nil
}

// A worker's events are valid, and so are the objects of --json.
func TestEventsAreValid(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	schema := sessionSchema(t)
	w, err := worker.New(client(t, url), allAgent{}, worker.Config{
		LeaseTTL: time.Minute, Logger: slog.New(slog.DiscardHandler), RetryBackoff: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	check := func(text string) (e map[string]any) {
		event, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err == nil {
			err = schema.Validate(event)
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		e, _ = event.(map[string]any)
		return e
	}
	shown := map[string]bool{}
	for id, code := range map[string]int{"well": exitOK, "fail": exitEnded} {
		for line := range strings.Lines(enqueue(t, bg(t), url, "", "-s", "a", "--id", id, "--follow", "--json", id).want(t, code).out) {
			if !strings.Contains(line, `"type"`) {
				continue // the receipt and the end
			}
			e := check(line)
			shown[text(e, "type")] = true
			if id := text(e, "event_id"); id != "" {
				if _, err := stream.ParseEventID(id); err != nil {
					t.Error(err)
				}
			}
		}
	}
	entries, err := rdb.XRange(bg(t), rediskey.For("a").Events(), "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	written := typesOf(entries, check)
	want := []string{
		"notice", "raw", "text", "thought", "title", "tool_end", "tool_start", "turn_ended", "turn_retry", "turn_started", "usage",
	}
	if got := slices.Sorted(maps.Keys(written)); !slices.Equal(got, want) {
		t.Errorf("written %q, want %q", got, want)
	}
	shown["turn_ended"] = true // as the outcome
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func typesOf(entries []redis.XMessage, check func(string) map[string]any) map[string]bool {
	types := map[string]bool{}
	for _, entry := range entries {
		for _, value := range entry.Values {
			e, _ := value.(string)
			types[text(check(e), "type")] = true
		}
	}
	return types
}
