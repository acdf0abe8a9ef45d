package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// The AI SDK sends the user's words and the results whole, and of the agent's items only the IDs, with every request in a
// new session: the model reads what it has said.
func TestReferredItems(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			r, server := modelled(t, true, picks(), modelserver.Reply("It is one."), modelserver.Reply("Yes."))
			send := func(input string) (refs string) {
				t.Helper()
				body := `{"tools":` + tools + `,"input":` + input + `}`
				var response map[string]any
				if stream {
					events := r.events(strings.Replace(body, "{", `{"stream":true,`, 1))
					response = events[len(events)-1]["response"].(map[string]any)
				} else {
					status, got := r.post("/v1/responses", body)
					expect.Equal(t, "status", status, 200)
					response = got
				}
				for _, item := range response["output"].([]any) {
					refs += fmt.Sprintf(`{"type":"item_reference","id":%q},`, item.(map[string]any)["id"])
				}
				return refs
			}
			all := `[{"role":"user","content":"go"},`
			all += send(all[:len(all)-1]+"]") + `{"type":"function_call_output","call_id":"c1","output":"one"},{"type":"function_call_output","call_id":"c2","output":"two"},`
			all += send(all[:len(all)-1] + "]")
			messages, _ := heard(server, 2)
			want := "system: Be kind.\nuser: go\nassistant: " + calls + " c1=pick({\"of\":\"<1>\"}) c2=pick({})\ntool: one\ntool: two\n"
			expect.Equal(t, "with the results", messages, want)
			send(all + `{"role":"user","content":"sure?"}]`)
			messages, _ = heard(server, 3)
			expect.Equal(t, "the next words", messages, want+"assistant: It is one.\nuser: sure?\n")
		})
	}
}

// A session has its items. What is no item, is gone, or is another conversation's is refused: the model would not know what it has said.
func TestItemsThatCannotBeReferredTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "web send read control instruct", "blind send instruct"))
	server := modelserver.New(t)
	server.Otherwise(func(modelserver.Request) modelserver.Response { return modelserver.Reply("said") })
	r.modelWorker(server, true)
	send := func(token, body string) (int, string, map[string]any) {
		status, got := r.post("/v1/responses", body, "Authorization", "Bearer "+token)
		text, err := json.Marshal(got)
		expect.OK(t, err)
		return status, string(text), got
	}
	item := func(body string) string {
		t.Helper()
		status, text, got := send("web", body)
		if status != 200 {
			t.Fatal(text)
		}
		return got["output"].([]any)[0].(map[string]any)["id"].(string)
	}
	lone, named := item(`{"input":"a"}`), item(`{"input":"a","conversation":"s"}`)
	refer := func(id string) string {
		return fmt.Sprintf(`"input":[{"role":"user","content":"a"},{"id":%q},{"role":"user","content":"b"}]`, id)
	}
	for _, c := range []struct {
		what, token, body string
		status            int
	}{
		{"of a session that was made", "web", `{` + refer(lone) + `}`, 200},
		{"of the session itself", "web", `{"conversation":"s",` + refer(named) + `}`, 200},
		{"of a named session elsewhere", "web", `{` + refer(named) + `}`, 400},
		{"of a token that may not read", "blind", `{` + refer(lone) + `}`, 400},
		{"another number", "web", `{` + refer(lone[:len(lone)-1]+"1") + `}`, 400},
		{"OpenAI's", "web", `{` + refer("rs_0c1d") + `}`, 400},
		{"OpenAI's in a session", "web", `{"conversation":"s",` + refer("msg_0c1d") + `}`, 400},
	} {
		status, text, _ := send(c.token, c.body)
		if status != c.status || status != 200 && !strings.Contains(text, "store: false") {
			t.Errorf("%s: %d %s", c.what, status, text)
		}
	}
	messages, _ := heard(server, 3)
	expect.Equal(t, "the model reads", messages, "system: Be kind.\nuser: a\nassistant: said\nuser: b\n")
	messages, _ = heard(server, 4)
	expect.Equal(t, "the model reads in the session", messages, "system: Be kind.\nuser: a\nassistant: said\nuser: b\n")
}
