package openai_test

import (
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/test/expect"
)

// previous_response_id must be the conversation's last response, whatever has happened since.
func TestPreviousResponse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	after := func(conversation, previous, text string) (*responses.Response, error) {
		p := say(conversation, text)
		p.Background = sdk.Bool(true)
		p.PreviousResponseID = sdk.String(previous)
		return r.sdk.Responses.New(t.Context(), p)
	}
	ended := func(id string) {
		t.Helper()
		_, _ = streamed(t, r.sdk.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}))
	}
	p := say("s", "first")
	p.Background = sdk.Bool(true)
	first, err := r.sdk.Responses.New(t.Context(), p)
	expect.OK(t, err)
	second, err := after("", first.ID, "behind a message that waits")
	expect.OK(t, err)
	_, err = after("", first.ID, "a fork")
	r.refused(err, 400, "invalid_request", "last one is "+second.ID+": continue that one, or send the conversation s")
	_, err = after("s", first.ID, "a fork in the conversation that it names")
	r.refused(err, 400, "invalid_request", "cannot be continued twice")
	_, err = after("other", second.ID, "elsewhere")
	r.refused(err, 400, "invalid_request", "is of the conversation s")
	r.worker()
	ended(second.ID)
	runs, err := after("s", second.ID, "sleep=1h it runs")
	expect.OK(t, err)
	s := r.sdk.Responses.GetStreaming(t.Context(), runs.ID, responses.ResponseGetParams{})
	for s.Next() && s.Current().Type != "response.in_progress" {
	}
	expect.OK(t, s.Close())
	_, err = after("", second.ID, "a fork beside a turn")
	r.refused(err, 400, "invalid_request", "last one is "+runs.ID)
	third, err := after("", runs.ID, "behind a turn that runs")
	expect.OK(t, err)
	_, err = r.sdk.Responses.Cancel(t.Context(), runs.ID)
	expect.OK(t, err)
	ended(third.ID)

	// After an undo nothing can follow until the next turn.
	expect.Soon(t, "idle", func() bool {
		_, err := r.client.Session("s").Undo(t.Context())
		return err == nil
	})
	_, err = after("", third.ID, "behind what was undone")
	r.refused(err, 400, "invalid_request", "was undone")
	again, err := r.sdk.Responses.New(t.Context(), say("s", "again"))
	expect.OK(t, err)
	// A new transcript has no last response.
	_, err = r.client.Session("s").NewTranscript(t.Context())
	expect.OK(t, err)
	_, err = after("", again.ID, "behind /new")
	r.refused(err, 400, "invalid_request", "begun anew")
	fresh, err := r.sdk.Responses.New(t.Context(), say("s", "anew"))
	expect.OK(t, err)
	// A client that left before it had its response's ID finds it.
	_, err = after("", again.ID, "a fork of the conversation before")
	r.refused(err, 400, "invalid_request", "last one is "+fresh.ID)
	_, err = after("", fresh.ID, "goes on")
	expect.OK(t, err)
}
