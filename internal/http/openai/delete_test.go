package openai_test

import (
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A deleted response is found nowhere, whatever its end was. One that waits or runs is not deleted. The conversation
// goes on, and its transcript keeps the words.
func TestDeleteResponse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gone := func(id string) {
		t.Helper()
		expect.OK(t, r.sdk.Responses.Delete(t.Context(), id))
		_, err := r.sdk.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
		r.refused(err, 404, "unknown_message", id)
		s := r.sdk.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{})
		expect.Equal(t, "a stream", s.Next(), false)
		r.refused(s.Err(), 404, "unknown_message", id)
		_, err = r.sdk.Responses.InputItems.List(t.Context(), id, responses.InputItemListParams{})
		r.refused(err, 404, "unknown_message", id)
		r.refused(r.sdk.Responses.Delete(t.Context(), id), 404, "unknown_message", id)
	}
	waits, _ := background(t, r.sdk, "s", "sleep=1h one")
	r.refused(r.sdk.Responses.Delete(t.Context(), waits), 400, "running", "cancel it")
	r.worker()
	s := r.sdk.Responses.GetStreaming(t.Context(), waits, responses.ResponseGetParams{})
	for s.Next() && s.Current().Type != "response.in_progress" {
	}
	expect.OK(t, s.Close())
	r.refused(r.sdk.Responses.Delete(t.Context(), waits), 400, "running", "cancel it")
	_, err := r.sdk.Responses.Cancel(t.Context(), waits)
	expect.OK(t, err)
	gone(waits)
	failed, err := r.sdk.Responses.New(t.Context(), say("s", "fail=final two"))
	expect.OK(t, err)
	gone(failed.ID)

	p := say("s", "three")
	done, err := r.sdk.Responses.New(t.Context(), p)
	expect.OK(t, err)
	gone(done.ID)
	page, err := r.client.Session("s").Transcript(t.Context(), turnstile.TranscriptQuery{})
	expect.OK(t, err)
	last := page.Entries[len(page.Entries)-1]
	expect.Equal(t, "the transcript's end", string(last.Role)+" "+last.Text, string(session.RoleAssistant)+" echo: three")
	p.PreviousResponseID = sdk.String(done.ID)
	next, err := r.sdk.Responses.New(t.Context(), p)
	expect.OK(t, err)
	expect.Equal(t, "the same words are another response", next.ID != done.ID, true)
	again, err := r.sdk.Responses.New(t.Context(), say("s", "three"), retry)
	expect.OK(t, err)
	expect.Equal(t, "a repetition does not find a deleted one", again.ID != done.ID && again.Status == "completed", true)
}
