package openai_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// parking is a rig with this agent and a worker that parks its turns at once.
func parking(t *testing.T, a agent.Agent) *rig {
	t.Helper()
	r := newRig(t)
	r.lookAfter = 300 * time.Millisecond
	_, r.url = r.gateway()
	r.sdk = r.at(r.url)
	w, err := worker.New(acl.Client(t, acl.Worker), a, worker.Config{
		ParkAfter: time.Millisecond, Keep: worker.Keep{Results: time.Hour}, Logger: slog.New(slog.DiscardHandler),
	})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	return r
}

// A request that waits for a turn which is parked ends with the response's ID. The same request again waits for the
// same turn, and has its response when the user has decided.
func TestParkedResponse(t *testing.T) {
	t.Parallel()
	r := parking(t, actors.Pays())
	client, keyed := r.at(r.url, option.WithMaxRetries(0)), option.WithHeader("Idempotency-Key", "k")
	_, err := client.Responses.New(t.Context(), say("s", "pay"), keyed)
	r.refused(err, 503, "turn_parked", `the decision on "pay"`)
	id := namedIn(t, err)
	for range 2 {
		_, err := client.Responses.New(t.Context(), say("s", "pay"), keyed)
		r.refused(err, 503, "turn_parked", id)
	}
	got, err := client.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
	expect.OK(t, err)
	expect.Equal(t, "status", got.Status, "in_progress")

	// A message behind it waits for the same decision. Without a key nobody repeats its request.
	_, err = r.sdk.Responses.New(t.Context(), say("s", "and again"))
	r.refused(err, 400, "turn_parked", "Get the response resp_")
	behind := namedIn(t, err)
	if behind == id {
		t.Error("it has the ID of the response before")
	}
	info, err := r.client.Session("s").Info(t.Context())
	expect.OK(t, err)
	expect.Equal(t, "question and messages that wait", fmt.Sprint(info.Question.Number, info.Waiting), "1 1")

	r.decides("s", 1, session.Allow)
	done, err := client.Responses.New(t.Context(), say("s", "pay"), keyed)
	expect.OK(t, err)
	expect.Equal(t, "the same request", done.ID+" "+done.OutputText(), id+" It is paid.")
	_, err = client.Responses.Cancel(t.Context(), behind)
	expect.OK(t, err)
}

// A client repeats its request by itself, and its message runs once.
func TestParkedResponseIsRepeated(t *testing.T) {
	t.Parallel()
	r := parking(t, actors.Pays())
	attempts := 0
	client := r.at(r.url, option.WithHeader("Idempotency-Key", "k"), option.WithMaxRetries(2), option.WithMiddleware(func(q *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		attempts++
		response, err := next(q)
		if err == nil && response.StatusCode == http.StatusServiceUnavailable && attempts == 1 {
			r.decides("s", 1, session.Allow)
		}
		return response, err
	}))
	done, err := client.Responses.New(t.Context(), say("s", "pay"))
	expect.OK(t, err)
	expect.Equal(t, "text", done.OutputText(), "It is paid.")
	expect.Equal(t, "requests", attempts, 2)
	page, err := r.client.Session("s").Transcript(t.Context(), turnstile.TranscriptQuery{})
	expect.OK(t, err)
	expect.Equal(t, "entries", len(page.Entries), 2)
}

func TestParkedChat(t *testing.T) {
	t.Parallel()
	r := parking(t, actors.Pays())
	client := r.at(r.url, option.WithMaxRetries(0), option.WithHeader("Idempotency-Key", "k"))
	_, err := client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("pay")))
	r.refused(err, 503, "turn_parked", "Get the response resp_")
	got, err := client.Responses.Get(t.Context(), namedIn(t, err), responses.ResponseGetParams{})
	expect.OK(t, err)
	r.decides(got.Conversation.ID, 1, session.Deny)
	done, err := client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("pay")))
	expect.OK(t, err)
	expect.Equal(t, "text", done.Choices[0].Message.Content, "It is not paid.")
}

// A request whose turn waits for a program's value ends, too.
func TestParkedForAValue(t *testing.T) {
	t.Parallel()
	r := parking(t, agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		value, err := turn.Wait(ctx, agent.Wait{Key: "paid"})
		return agent.Result{Text: string(value)}, err
	}))
	_, err := r.sdk.Responses.New(t.Context(), say("s", "pay"))
	r.refused(err, 400, "turn_parked", `without a worker, for "paid"`)
	namedIn(t, err)
}

// A stream stays open while its turn is parked, and has each item once.
func TestStreamOverAPark(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	client := r.at(r.url, option.WithMaxRetries(0))
	model := modelserver.New(t, modelserver.Stream(modelserver.Text("I pay. "), modelserver.Call("c1", "work", `{}`)), modelserver.Reply("Paid."))
	worksBy(t, model, dir, map[string]any{"name": "work", "argv": []string{"cat"}, "ask": true}, "TURNSTILE_PARK_AFTER=1ms")
	s := client.Responses.NewStreaming(t.Context(), say("s", "pay"))
	r.decides("s", 1, session.Allow)
	all, text := streamed(t, s)
	expect.Equal(t, "text", text, "I pay. Paid.")
	end := all[len(all)-1]
	expect.Equal(t, "end", end.Type, "response.completed")
	again, _ := streamed(t, client.Responses.GetStreaming(t.Context(), end.Response.ID, responses.ResponseGetParams{}))
	expect.Equal(t, "events of a stream after the end", len(again), len(all))
}

// decides decides the question for which a session's turn is parked.
func (r *rig) decides(key string, number int, d session.Decision) {
	r.Helper()
	expect.Soon(r, "the park", func() bool {
		info, err := r.client.Session(key).Info(r.Context())
		expect.OK(r, err)
		return info.Phase == session.PhaseParked && info.Question != nil
	})
	_, err := r.client.Session(key).Decide(r.Context(), strconv.Itoa(number), d)
	expect.OK(r, err)
}

// namedIn is the response that a problem names, in its text and in its field.
func namedIn(t *testing.T, err error) string {
	t.Helper()
	var failed *sdk.Error
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(failed.RawJSON(), `"turnstile_response":"`)
	id, _, _ = strings.Cut(id, `"`)
	if !strings.HasPrefix(id, "resp_") || !strings.Contains(failed.Message, "Get the response "+id+" later.") || failed.Response.Header.Get("Retry-After") != "1" {
		t.Fatalf("%s %v", failed.RawJSON(), failed.Response.Header)
	}
	return id
}
