package openai_test

import (
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/test/expect"
)

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
