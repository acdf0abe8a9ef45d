package openai_test

import (
	"encoding/base64"
	"testing"

	"turnstile"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/test/actors"
	"turnstile/test/expect"
)

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
