package openai_test

import (
	"encoding/base64"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/actors"
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

// A token that may control can cancel a response, like any message. Without the right to read it
// learns the status and no text.
func TestCancelNeedsControl(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "ann send", "eye send read", "op control", "boss control read"))
	at := func(token string) *sdk.Client {
		c := r.at(r.url, option.WithAPIKey(token), option.WithMaxRetries(0))
		return &c
	}
	id, _ := background(t, *at("ann"), "s", "hello")
	for _, token := range []string{"ann", "eye"} {
		_, err := at(token).Responses.Cancel(t.Context(), id)
		r.refused(err, 403, "forbidden", "may not control")
	}
	r.worker()
	whole, err := at("boss").Responses.Get(t.Context(), id, responses.ResponseGetParams{})
	expect.OK(t, err)
	_, _ = streamed(t, at("boss").Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}))
	expect.Equal(t, "id", whole.ID, id)
	blind, err := at("op").Responses.Cancel(t.Context(), id)
	expect.OK(t, err)
	expect.Equal(t, "status", string(blind.Status), "completed")
	expect.Equal(t, "output without read", len(blind.Output), 0)
	seen, err := at("boss").Responses.Cancel(t.Context(), id)
	expect.OK(t, err)
	expect.Equal(t, "output with read", seen.OutputText(), "echo: hello")
}

// The ID of a message that another route stored is no response's ID.
func TestMadeUpResponseIDs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.client.Session("s").Send(t.Context(), turnstile.Message{ID: "m", Text: "hello"})
	expect.OK(t, err)
	id := "resp_" + base64.RawURLEncoding.EncodeToString([]byte("s\nm"))
	_, err = r.sdk.Responses.Cancel(t.Context(), id)
	r.refused(err, 404, "unknown_message", id)
	_, err = r.sdk.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
	r.refused(err, 404, "unknown_message", id)
	state, _, _, err := actors.MessageState(t.Context(), r.client.Session("s"), "m")
	expect.OK(t, err)
	expect.Equal(t, "the message", state, "pending")
}

// The input of a response is one message, with the texts and files that were sent, while it waits and after its end.
func TestInputItems(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const picture, bill = "https://pics.example/cat.png", "data:application/pdf;base64,eA=="
	status, got := r.post("/v1/responses", `{"conversation":"s","background":true,"input":[{"role":"user","content":"one"},{"role":"user","content":[
		{"type":"input_text","text":"two"},{"type":"input_image","image_url":"`+picture+`"},
		{"type":"input_file","file_url":"https://files.example/a.txt"},{"type":"input_file","file_data":"`+bill+`","filename":"bill.pdf"}]}]}`)
	expect.Equal(t, "status", status, 200)
	id, _ := got["id"].(string)
	list := func(p responses.InputItemListParams) []responses.ResponseItemUnion {
		t.Helper()
		page, err := r.sdk.Responses.InputItems.List(t.Context(), id, p)
		expect.OK(t, err)
		return page.Data
	}
	waits := list(responses.InputItemListParams{})
	expect.Equal(t, "items", len(waits), 1)
	item := waits[0].AsMessage()
	expect.Equal(t, "role", string(item.Role), "user")
	var parts []string
	for _, p := range item.Content {
		parts = append(parts, p.Type+" "+p.Text+p.ImageURL+p.FileURL+p.FileData+" "+p.Filename)
	}
	expect.List(t, "parts", parts, "input_text one\n\ntwo ", "input_image "+picture+" ", "input_file https://files.example/a.txt a.txt", "input_file "+bill+" bill.pdf")
	r.worker()
	_, _ = streamed(t, r.sdk.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{}))
	for _, order := range []responses.InputItemListParamsOrder{"asc", "desc"} {
		ended := list(responses.InputItemListParams{Order: order, Limit: sdk.Int(1)})
		expect.Equal(t, "ended, "+string(order), ended[0].RawJSON(), waits[0].RawJSON())
		expect.Equal(t, "behind it", len(list(responses.InputItemListParams{Order: order, After: sdk.String(item.ID)})), 0)
	}

	_, err := r.sdk.Responses.InputItems.List(t.Context(), id, responses.InputItemListParams{After: sdk.String("msg_none")})
	r.refused(err, 400, "invalid_request", "has no item")
	_, err = r.sdk.Responses.InputItems.List(t.Context(), id, responses.InputItemListParams{Order: "up"})
	r.refused(err, 400, "invalid_request", "asc or desc")
	_, err = r.sdk.Responses.InputItems.List(t.Context(), id, responses.InputItemListParams{Limit: sdk.Int(101)})
	r.refused(err, 400, "invalid_request", "from 1 to 100")
	_, err = r.sdk.Responses.InputItems.List(t.Context(), "resp_none", responses.InputItemListParams{})
	r.refused(err, 404, "unknown_message", "resp_none")
}
