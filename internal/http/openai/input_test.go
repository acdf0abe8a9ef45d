package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"

	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// Histories that began elsewhere have parts and items that this API never makes.
func TestHistoriesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const (
		parts = `[{"type":"thinking","thinking":"hm"},{"type":"refusal","refusal":"I will not."}]`
		want  = "system: Be kind.\nuser: go\nassistant: I will not.\nuser: and?\n"
	)
	for name, c := range map[string]struct{ path, body, want string }{
		"parts of an item":     {"responses", `{"input":[{"role":"user","content":"go"},{"role":"assistant","content":` + parts + `},{"role":"user","content":"and?"}]}`, want},
		"parts of a message":   {"chat/completions", `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":` + parts + `},{"role":"user","content":"and?"}]}`, want},
		"refusal of a message": {"chat/completions", `{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"refusal":"I will not."},{"role":"user","content":"and?"}]}`, want},
		"calls of a custom tool": {"responses", `{"input":[{"role":"user","content":"go"},{"type":"custom_tool_call","call_id":"c1","name":"patch","input":"-a"},
			{"type":"custom_tool_call_output","call_id":"c1","output":"done"},{"role":"user","content":"and?"}]}`,
			"system: Be kind.\nuser: go\nassistant:  c1=patch({\"input\":\"-a\"})\ntool: done\nuser: and?\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, server := modelled(t, true, modelserver.Reply("x"))
			status, got := r.post("/v1/"+c.path, c.body)
			expect.Equal(t, fmt.Sprint(got["error"]), status, 200)
			messages, _ := heard(server, 1)
			expect.Equal(t, "the model reads", messages, c.want)
		})
	}
}

// A function may return pictures. A tool's message has none, so they follow the results, also in later turns.
func TestResultsWithPictures(t *testing.T) {
	t.Parallel()
	r, server := modelled(t, true, modelserver.Stream(modelserver.Call("c1", "pick")), modelserver.Reply("x"), modelserver.Reply("y"))
	status, first := r.post("/v1/responses", `{"conversation":"s","input":"go","tools":`+tools+`}`)
	expect.Equal(t, "status", status, 200)
	output := `[{"type":"input_text","text":"seen"},{"type":"input_image","image_url":"https://x.test/a.png"},{"type":"input_file","filename":"b.pdf","file_url":"https://x.test/b.pdf"}]`
	status, second := r.post("/v1/responses", `{"previous_response_id":"`+first["id"].(string)+`","input":[{"type":"function_call_output","call_id":"c1","output":`+output+`}]}`)
	expect.Equal(t, fmt.Sprint(second["error"]), status, 200)
	status, _ = r.post("/v1/responses", `{"conversation":"s","input":"and?"}`)
	expect.Equal(t, "status", status, 200)
	files := "tool: seen\nuser: [Files that the functions returned]\n\n[Attachment: b.pdf (application/pdf): https://x.test/b.pdf]\n"
	for n, after := range []string{"", "assistant: x\nuser: and?\n"} {
		messages, _ := heard(server, n+2)
		expect.Equal(t, "the model reads", messages, "system: Be kind.\nuser: go\nassistant:  c1=pick({})\n"+files+after)
		expect.List(t, "pictures", server.Requests()[n+1].Messages[4].Images(), "https://x.test/a.png")
	}
	sent, err := r.sdk.Responses.InputItems.List(t.Context(), second["id"].(string), responses.InputItemListParams{})
	expect.OK(t, err)
	expect.Equal(t, "parts of the input item", strings.Count(sent.Data[0].RawJSON(), `"type":"input_`), 3)
}
