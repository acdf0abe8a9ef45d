package openai_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/agent/echo"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestResponse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	p := say("chat", "usage=7:5 hello")
	p.Metadata = map[string]string{"order": "7"}
	got, err := r.sdk.Responses.New(t.Context(), p)
	expect.OK(t, err)
	expect.Equal(t, "text", got.OutputText(), "echo: hello")
	expect.Equal(t, "status", string(got.Status), "completed")
	expect.Equal(t, "conversation", got.Conversation.ID, "chat")
	expect.Equal(t, "metadata", got.Metadata["order"]+" of "+got.Model, "7 of echo")
	expect.Equal(t, "tokens", got.Usage.InputTokens+got.Usage.OutputTokens, 12)
	if got.CreatedAt < 1e9 {
		t.Errorf("created at %v", got.CreatedAt)
	}
	again, err := r.sdk.Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{})
	expect.OK(t, err)
	expect.Equal(t, "read again", again.RawJSON(), got.RawJSON())
	next := say("", "more")
	next.PreviousResponseID = sdk.String(got.ID)
	second, err := r.sdk.Responses.New(t.Context(), next)
	expect.OK(t, err)
	expect.Equal(t, "the same conversation", second.Conversation.ID, "chat")
	expect.Equal(t, "previous", second.PreviousResponseID, got.ID)
	next.Input.OfString = sdk.String("a fork")
	_, err = r.sdk.Responses.New(t.Context(), next)
	r.refused(err, 400, "invalid_request", "cannot be continued twice")
	alone, err := r.sdk.Responses.New(t.Context(), say("", "hello"))
	expect.OK(t, err)
	if alone.Conversation.ID == "" || alone.Conversation.ID == "chat" {
		t.Errorf("a response without a conversation is in %q", alone.Conversation.ID)
	}
}

// streamed reads a stream to its end, checks its numbers and, for a stream from the beginning, its
// deltas, and returns the text of its completed items.
func streamed(t *testing.T, s *ssestream.Stream[responses.ResponseStreamEventUnion]) (events []responses.ResponseStreamEventUnion, text string) {
	t.Helper()
	deltas, last := map[string]string{}, int64(-1)
	for s.Next() {
		e := s.Current()
		if e.SequenceNumber <= last || e.SequenceNumber >= 1<<53 {
			t.Errorf("%s has the number %d behind %d", e.Type, e.SequenceNumber, last)
		}
		last = e.SequenceNumber
		events = append(events, e)
		switch e.Type {
		case "response.output_text.delta":
			deltas[e.ItemID] += e.Delta
		case "response.output_item.done":
			if e.Item.Type == "message" && e.Item.Status == "completed" {
				if events[0].Type == "response.created" {
					expect.Equal(t, "the deltas of "+e.Item.ID, deltas[e.Item.ID], e.Item.Content[0].Text)
				}
				text += deltas[e.Item.ID]
			}
		}
	}
	expect.OK(t, s.Err())
	expect.OK(t, s.Close())
	return events, text
}

func TestStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	events, text := streamed(t, r.sdk.Responses.NewStreaming(t.Context(), say("s", "tool=look stream=5 hello there")))
	end := events[len(events)-1]
	expect.Equal(t, "end", end.Type, "response.completed")
	expect.Equal(t, "text", text, "echo: hello there")
	expect.Equal(t, "the response's text", end.Response.OutputText(), text)
	var kinds []string
	for _, e := range events {
		if e.Type != "response.output_text.delta" {
			kinds = append(kinds, strings.TrimPrefix(e.Type, "response."))
		}
	}
	expect.List(t, "events", kinds, "created", "queued", "in_progress",
		"output_item.added", "mcp_call.in_progress", "mcp_call.completed", "output_item.done",
		"output_item.added", "content_part.added", "output_text.done", "content_part.done", "output_item.done", "completed")
	stored, err := r.sdk.Responses.Get(t.Context(), end.Response.ID, responses.ResponseGetParams{})
	expect.OK(t, err)
	expect.Equal(t, "stored", stored.OutputText(), text)
	for i, item := range stored.Output {
		at := slices.IndexFunc(events, func(e responses.ResponseStreamEventUnion) bool {
			return e.Type == "response.output_item.done" && e.OutputIndex == int64(i)
		})
		expect.Equal(t, "item", item.ID, events[at].Item.ID)
	}
	// After any event, another gateway sends the rest with the same numbers.
	_, url := r.gateway()
	elsewhere := r.at(url)
	for i, e := range events {
		rest, _ := streamed(t, elsewhere.Responses.GetStreaming(t.Context(), end.Response.ID, responses.ResponseGetParams{StartingAfter: sdk.Int(e.SequenceNumber)}))
		var got, want []string
		for _, e := range rest {
			got = append(got, e.RawJSON())
		}
		for _, e := range events[i+1:] {
			want = append(want, e.RawJSON())
		}
		expect.List(t, "behind "+e.Type, got, want...)
	}
}

// After a trim the client gets an error, and the numbers stay the same.
func TestStreamThatWasTrimmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	events, text := streamed(t, r.sdk.Responses.NewStreaming(t.Context(), say("s", "stream=4 tick=150ms hello there")))
	end := events[len(events)-1]
	for _, left := range []int64{1, 0} { // of the stored events
		expect.OK(t, r.redis.XTrimMaxLen(t.Context(), "turnstile:{session:s}:events", left).Err())
		s := r.sdk.Responses.GetStreaming(t.Context(), end.Response.ID, responses.ResponseGetParams{StartingAfter: sdk.Int(events[3].SequenceNumber)})
		if s.Next() {
			t.Errorf("behind the gap comes %s", s.Current().RawJSON())
		}
		if s.Err() == nil || !strings.Contains(s.Err().Error(), "events_lost") {
			t.Errorf("a stream with a gap ends with %v", s.Err())
		}
		// A client without any event gets the remaining ones.
		whole, _ := streamed(t, r.sdk.Responses.GetStreaming(t.Context(), end.Response.ID, responses.ResponseGetParams{}))
		last := whole[len(whole)-1]
		expect.Equal(t, "end", last.Type, "response.completed")
		expect.Equal(t, "number", last.SequenceNumber >= end.SequenceNumber, true)
		expect.Equal(t, "whole", last.Response.OutputText(), text)
	}
}

// The time of completion is the same in the stream, in the response to the request, and later.
func TestCompletedAt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := say("s", "hello")
	p.Background = sdk.Bool(true)
	before, err := r.redis.Time(t.Context()).Result()
	expect.OK(t, err)
	waits, err := r.sdk.Responses.New(t.Context(), p)
	expect.OK(t, err)
	expect.Equal(t, "of a response that waits", waits.JSON.CompletedAt.Raw(), "null")
	r.worker()
	events, _ := streamed(t, r.sdk.Responses.NewStreaming(t.Context(), say("s", "again")))
	for _, e := range events[:len(events)-1] {
		if e.Response.ID != "" {
			expect.Equal(t, "of "+e.Type, e.Response.JSON.CompletedAt.Raw(), "null")
		}
	}
	direct, err := r.sdk.Responses.New(t.Context(), say("s", "directly"))
	expect.OK(t, err)
	after, err := r.redis.Time(t.Context()).Result()
	expect.OK(t, err)
	for what, response := range map[string]responses.Response{"streamed": events[len(events)-1].Response, "waited": *direct} {
		at := response.CompletedAt
		if at < max(response.CreatedAt, float64(before.Unix())) || at > float64(after.Unix()) {
			t.Errorf("%s: created at %f, completed at %f, between %d and %d", what, response.CreatedAt, at, before.Unix(), after.Unix())
		}
		got, err := r.sdk.Responses.Get(t.Context(), response.ID, responses.ResponseGetParams{})
		expect.OK(t, err)
		expect.Equal(t, what+", read later", got.JSON.CompletedAt.Raw(), response.JSON.CompletedAt.Raw())
	}
}

// slow is a Redis with a clock one hour slower than the gateway's.
type slow struct{ redis.Hook }

func (slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if now, ok := cmd.(*redis.TimeCmd); ok && err == nil {
			now.SetVal(now.Val().Add(-time.Hour))
		}
		return err
	}
}

func (slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A response that is not kept was completed just now, by Redis' clock, as it was created.
func TestCompletedByRedisClock(t *testing.T) {
	t.Parallel()
	r := &rig{T: t, redis: redistest.New(t), hook: slow{}}
	r.client = turnstile.NewClient(r.redis)
	_, r.url = r.gateway()
	r.sdk = r.at(r.url)
	r.workerKeeping(echo.New(), time.Nanosecond) // not at all
	direct, err := r.sdk.Responses.New(t.Context(), say("s", "hello"))
	expect.OK(t, err)
	if at := time.Unix(int64(direct.CompletedAt), 0); time.Since(at) < time.Hour {
		t.Errorf("completed at %v by the gateway's clock", at)
	}
}

func TestBackgroundAndCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := say("s", "sleep=1h never")
	p.Background = sdk.Bool(true)
	first, err := r.sdk.Responses.New(t.Context(), p)
	expect.OK(t, err)
	expect.Equal(t, "status", string(first.Status), "queued")
	p.Input.OfString = sdk.String("behind it")
	second, err := r.sdk.Responses.New(t.Context(), p)
	expect.OK(t, err)
	p.Input.OfString = sdk.String("never, too")
	third, err := r.sdk.Responses.New(t.Context(), p)
	expect.OK(t, err)
	waits, err := r.sdk.Responses.Cancel(t.Context(), third.ID)
	expect.OK(t, err)
	expect.Equal(t, "cancelled in the line", string(waits.Status), "cancelled")
	s := r.sdk.Responses.GetStreaming(t.Context(), first.ID, responses.ResponseGetParams{})
	r.worker()
	for s.Next() && s.Current().Type != "response.in_progress" {
	}
	runs, err := r.sdk.Responses.Cancel(t.Context(), first.ID)
	expect.OK(t, err)
	expect.Equal(t, "cancelled in its turn", string(runs.Status), "cancelled")
	expect.Equal(t, "the stream is told", s.Next() && s.Current().Type == "response.incomplete" && s.Current().Response.Status == "cancelled", true)
	expect.OK(t, s.Close())
	_, text := streamed(t, r.sdk.Responses.GetStreaming(t.Context(), second.ID, responses.ResponseGetParams{}))
	expect.Equal(t, "the line goes on", text, "echo: behind it")
	polled, err := r.sdk.Responses.Get(t.Context(), second.ID, responses.ResponseGetParams{})
	expect.OK(t, err)
	expect.Equal(t, "polled", string(polled.Status)+" "+polled.OutputText(), "completed echo: behind it")
	again, err := r.sdk.Responses.Cancel(t.Context(), second.ID)
	expect.OK(t, err)
	expect.Equal(t, "too late", string(again.Status), "completed")
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for part, body := range map[string]string{
		"own instructions":     `{"input":"x","instructions":"be brief"}`,
		"TURNSTILE_TOOLS_FILE": `{"input":"x","tools":[{"type":"web_search"}]}`,
		"uses its tools":       `{"input":[{"type":"function_call_output","call_id":"c","output":"x"}]}`,
		"only what is new":     `{"input":[{"role":"assistant","content":"x"}]}`,
		"messages of the us":   `{"input":[{"role":"system","content":"x"}]}`,
		"replies with text":    `{"input":"x","text":{"format":{"type":"json_object"}}}`,
		"string or a list":     `{"input":7}`,
		"stores no files":      `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"ftp://host/x.png"}]}]}`,
		"A data URL is":        `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,x"}]}]}`,
		"none of an image":     `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:application/pdf;base64,eA=="}]}]}`,
		"no id of a respons":   `{"input":"x","previous_response_id":"resp_zzz"}`,
		"is empty":             `{"input":" "}`,
		"true or false":        `{"input":"x","stream":"yes"}`,
		"is the gateway's":     `{"input":"x","metadata":{"sender":"me"}}`,
		"session key":          `{"input":"x","conversation":"a b"}`,
	} {
		status, got := r.post("/v1/responses", body)
		failure, _ := got["error"].(map[string]any)
		if message, _ := failure["message"].(string); status != 400 || !strings.Contains(message, part) {
			t.Errorf("%s: %d %v, want %q", body, status, got, part)
		}
	}
	for part, body := range map[string]string{
		"TURNSTILE_TOOLS_FILE": `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]}`,
		"none of an image":     `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/plain;base64,eA=="}}]}]}`,
		"one choice":           `{"messages":[{"role":"user","content":"x"}],"n":2}`,
		"no messages":          `{"messages":[]}`,
		"Nothing is new":       `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"metadata":{"session":"s"}}`,
		`The role "tool"`:      `{"messages":[{"role":"tool","content":"x"}]}`,
	} {
		status, got := r.post("/v1/chat/completions", body)
		failure, _ := got["error"].(map[string]any)
		if message, _ := failure["message"].(string); status != 400 || !strings.Contains(message, part) {
			t.Errorf("%s: %d %v, want %q", body, status, got, part)
		}
	}
	// Unknown paths of OpenAI's API fail in its format, those of the gateway in the gateway's.
	for path, want := range map[string]string{"/v1/embeddings": `{"error":{"message":`, "/v1/sessions/s/nothing": `{"title":`} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader("{}"))
		expect.OK(t, err)
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request) // the document has neither
		expect.OK(t, err)
		body, err := io.ReadAll(response.Body)
		expect.OK(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusNotFound || !strings.HasPrefix(string(body), want) {
			t.Errorf("%s: %s %s", path, response.Status, body)
		}
	}
	_, err := r.sdk.Responses.Get(t.Context(), "resp_x", responses.ResponseGetParams{})
	r.refused(err, 404, "unknown_message", "resp_x")
	keyed := option.WithHeader("Idempotency-Key", "k")
	p := say("s", "one")
	p.Background = sdk.Bool(true)
	_, err = r.sdk.Responses.New(t.Context(), p, keyed)
	expect.OK(t, err)
	p.Input.OfString = sdk.String("two")
	_, err = r.sdk.Responses.New(t.Context(), p, keyed)
	r.refused(err, 400, "idempotency_conflict", "")
}

// The SDKs repeat requests by themselves, send no key, and say that they repeat one.
func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	send := func(headers ...option.RequestOption) string {
		p := say("s", "again")
		p.Background = sdk.Bool(true)
		got, err := r.sdk.Responses.New(t.Context(), p, headers...)
		expect.OK(t, err)
		return got.ID
	}
	first := send()
	expect.Equal(t, "while it waits", send(retry), first)
	r.worker()
	streamed(t, r.sdk.Responses.GetStreaming(t.Context(), first, responses.ResponseGetParams{}))
	expect.Equal(t, "a retry after its end", send(retry), first)
	second := send()
	if second == first {
		t.Error("the same words are no new message after the end")
	}
	streamed(t, r.sdk.Responses.GetStreaming(t.Context(), second, responses.ResponseGetParams{}))
	expect.Equal(t, "a retry of the second", send(retry), second)
	if third := send(); third == first || third == second {
		t.Error("the same words are no third message")
	}
	// Without a conversation each gets a separate one.
	one, err := r.sdk.Responses.New(t.Context(), say("", "alone"))
	expect.OK(t, err)
	two, err := r.sdk.Responses.New(t.Context(), say("", "alone"))
	expect.OK(t, err)
	if one.Conversation.ID == two.Conversation.ID {
		t.Errorf("two responses without a conversation are in %s", one.Conversation.ID)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	expect.Soon(t, "the worker says what it runs", func() bool {
		list, err := r.sdk.Models.List(t.Context())
		return err == nil && len(list.Data) == 1 && list.Data[0].ID == "echo"
	})
}
