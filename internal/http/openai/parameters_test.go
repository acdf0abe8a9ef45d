package openai_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Settings of a model, and parameters that the gateway does not know, change nothing.
func TestWhatIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	status, got := r.post("/v1/responses", `{"model":"any","input":"hello","conversation":{"id":"s"},"store":false,"max_output_tokens":5,"temperature":0.3,"top_p":1,
		"truncation":"auto","include":["reasoning.encrypted_content"],"reasoning":{"effort":"low"},"service_tier":"auto",
		"tool_choice":"auto","tools":[],"instructions":null,"text":{"format":{"type":"text"}},"parallel_tool_calls":true,"user":"u","not_known":{"a":[1]}}`)
	output, _ := got["output"].([]any)
	if status != 200 || got["status"] != "completed" || got["model"] != "any" || len(output) != 1 {
		t.Errorf("%d %v", status, got)
	}
	conversation, _ := got["conversation"].(map[string]any)
	expect.Equal(t, "conversation", conversation["id"], "s")
	status, got = r.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hello"}],"max_tokens":5,"max_completion_tokens":5,
		"temperature":0,"stop":["x"],"seed":1,"n":1,"logprobs":false,"tools":null,"tool_choice":"none","user":"u","not_known":7}`)
	if status != 200 || got["object"] != "chat.completion" {
		t.Errorf("%d %v", status, got)
	}
	for part, body := range map[string]string{
		"has no id":     `{"input":"x","conversation":{}}`,
		"is no string":  `{"input":"x","metadata":{"a":1}}`,
		"no such thing": `{"input":[{"role":"user","content":[{"type":"input_audio"}]}]}`,
		"a wrong type":  `{"input":"x","stream":"yes"}`,
		"an empty list": `{"input":[]}`,
		"no input":      `{"conversation":"s"}`,
		"half a body":   `{"input":`,
		"no data URL":   `{"input":[{"role":"user","content":[{"type":"input_file","file_data":"eA=="}]}]}`,
		"no base64":     `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,x"}]}]}`,
		"no URL":        `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"https:"}]}]}`,
		"a file's id":   `{"input":[{"role":"user","content":[{"type":"input_image","file_id":"file-1"}]}]}`,
	} {
		status, got := r.post("/v1/responses", body)
		if failure, ok := got["error"].(map[string]any); status != 400 || !ok || failure["message"] == "" {
			t.Errorf("%s: %s: %d %v", part, body, status, got)
		}
	}
}

// Items of the input, and parts of their contents, are one message. Images and files are its
// attachments, by their URLs.
func TestInputOfSeveralItems(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := make(chan *agent.Turn, 2)
	r.workerOf(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		seen <- turn
		turn.Emit(agent.Event{Type: session.EventText, Text: "ok"})
		return agent.Result{}, nil
	}))
	status, got := r.post("/v1/responses", `{"conversation":"s","metadata":{"order":"7"},"input":[
		{"role":"user","content":"one"},
		{"type":"message","role":"user","content":[{"type":"input_text","text":"two"},{"type":"input_text","text":"three"},
			{"type":"input_image","image_url":"https://pics.example/cat.png?x=1"},{"type":"input_file","file_url":"https://files.example/a.pdf","filename":"bill.pdf"}]}]}`)
	expect.Equal(t, "status", status, 200)
	expect.Equal(t, "response", got["status"], "completed")
	m := (<-seen).Messages[0]
	expect.Equal(t, "text", m.Text, "one\n\ntwo\nthree")
	expect.Equal(t, "metadata", m.Meta["order"], "7")
	expect.Equal(t, "sender", m.Meta["sender"], "local")
	var files []string
	for _, f := range m.Attachments {
		files = append(files, f.Name+" "+f.URL)
	}
	expect.List(t, "files", files, "cat.png https://pics.example/cat.png?x=1", "bill.pdf https://files.example/a.pdf")
	status, _ = r.post("/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"https://pics.example/dog"}}]}]}`)
	expect.Equal(t, "status", status, 200)
	m = (<-seen).Messages[0]
	expect.Equal(t, "text and file", m.Text+" "+m.Attachments[0].Name, "look image")
}

// A picture reaches the agent as a picture, by its URL or in the request, with a text or without one,
// in each API.
func TestPictures(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := make(chan *agent.Turn, 1)
	r.workerOf(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		seen <- turn
		turn.Emit(agent.Event{Type: session.EventText, Text: "ok"})
		return agent.Result{}, nil
	}))
	const data = "data:image/png;base64,iVBORw0KGgo="
	large := "data:image/jpeg;base64," + strings.Repeat("QUJD", 400_000)
	for _, c := range []struct{ path, body, text, files string }{
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + data + `"}]}]}`, "[image]", "image image/png " + data},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://p.example/dog"}]}]}`, "[image]", "image image/* https://p.example/dog"},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://p.example/cat.PNG?x=1"}]}]}`, "[cat.PNG]", "cat.PNG image/png https://p.example/cat.PNG?x=1"},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,eA=="}]}]}`, "[a.pdf]", "a.pdf application/pdf data:application/pdf;base64,eA=="},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"` + large + `"}]}]}`, "look", "image image/jpeg " + large},
		{"chat/completions", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + data + `"}}]}]}`, "[image]", "image image/png " + data},
		{"chat/completions", `{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,eA=="}}]}]}`, "[a.pdf]", "a.pdf application/pdf data:application/pdf;base64,eA=="},
		{"sessions/s/messages", `{"text":"","attachments":[{"name":"p.png","mime":"image/png","url":"` + data + `"}]}`, "[p.png]", "p.png image/png " + data},
	} {
		status, got := r.post("/v1/"+c.path, c.body)
		if status >= 300 {
			t.Fatalf("%.100s: %d %v", c.body, status, got)
		}
		m := expect.Received(t, "turn", seen).Messages[0]
		expect.Equal(t, "text", m.Text, c.text)
		for _, f := range m.Attachments {
			expect.Equal(t, "file", f.Name+" "+f.Mime+" "+f.URL, c.files)
		}
		expect.Equal(t, "files", len(m.Attachments), 1)
	}
}

// Each text between tools is a separate item. In both APIs, the streamed items equal the stored
// ones.
func TestTextBetweenTools(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workerOf(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		for i, text := range []string{"I ", "look.", "Found ", "it.", "Done."} {
			if i == 2 || i == 4 {
				turn.Emit(agent.Event{Type: session.EventToolStart, Name: "look", CallID: "c"})
				turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: "c"})
			}
			turn.Emit(agent.Event{Type: session.EventText, Text: text})
		}
		return agent.Result{}, nil
	}))
	events, text := streamed(t, r.sdk.Responses.NewStreaming(t.Context(), say("s", "go")))
	expect.Equal(t, "text", text, "I look.Found it.Done.")
	end := events[len(events)-1].Response
	stored, err := r.sdk.Responses.Get(t.Context(), end.ID, responses.ResponseGetParams{})
	expect.OK(t, err)
	expect.Equal(t, "stored", stored.OutputText(), text)
	var items, kept []string
	for _, e := range events {
		if e.Type == "response.output_item.done" {
			items = append(items, e.Item.RawJSON())
		}
	}
	for _, item := range stored.Output {
		kept = append(kept, item.RawJSON())
	}
	expect.Equal(t, "items", len(items), 5)
	expect.List(t, "stored items", kept, items...)
	s := r.sdk.Chat.Completions.NewStreaming(t.Context(), chat(sdk.UserMessage("go")))
	var sum sdk.ChatCompletionAccumulator
	for s.Next() {
		sum.AddChunk(s.Current())
	}
	expect.OK(t, s.Err())
	whole, err := r.sdk.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("go")))
	expect.OK(t, err)
	expect.Equal(t, "chat", sum.Choices[0].Message.Content, "I look.\n\nFound it.\n\nDone.")
	expect.Equal(t, "chat, whole", whole.Choices[0].Message.Content, sum.Choices[0].Message.Content)
}

// There is nothing to stream after the end.
func TestStreamBehindTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	got, err := r.sdk.Responses.New(t.Context(), say("s", "hello"))
	expect.OK(t, err)
	rest, _ := streamed(t, r.sdk.Responses.GetStreaming(t.Context(), got.ID, responses.ResponseGetParams{StartingAfter: sdk.Int(1<<53 - 1)}))
	expect.Equal(t, "events", len(rest), 0)
	for _, bad := range []string{"x", "-1", "1.5", "9999999999999999999"} {
		_, err := r.sdk.Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{}, option.WithQuery("starting_after", bad))
		r.refused(err, 400, "invalid_request", "starting_after")
	}
}

// A request marked as repeated finds its running message at any gateway, streamed or not, in both
// APIs.
func TestRepeatedStreamsAtTwoGateways(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, url := r.gateway()
	elsewhere := r.at(url)
	var ids [4]string
	p := say("s", "sleep=1s again")
	streams := []interface {
		Next() bool
		Close() error
	}{}
	for i, client := range []sdk.Client{r.sdk, elsewhere} {
		repeats := option.WithHeader("X-Stainless-Retry-Count", strconv.Itoa(i))
		s := client.Responses.NewStreaming(t.Context(), p, repeats)
		expect.Equal(t, "begins", s.Next(), true)
		ids[i] = s.Current().Response.ID
		c := client.Chat.Completions.NewStreaming(t.Context(), chat(sdk.UserMessage("sleep=1s again")), repeats, option.WithHeader("X-Turnstile-Session", "c"))
		expect.Equal(t, "begins", c.Next(), true)
		ids[2+i] = c.Current().ID
		streams = append(streams, s, c)
	}
	expect.Equal(t, "responses", ids[1], ids[0])
	expect.Equal(t, "chats", ids[3], ids[2])
	if ids[0] == "" || ids[2] == "" || strings.HasSuffix(ids[2], ids[0]) {
		t.Errorf("ids %q", ids)
	}
	r.worker()
	for _, s := range streams {
		for s.Next() {
		}
		expect.OK(t, s.Close())
	}
	once, err := elsewhere.Responses.New(t.Context(), p, option.WithHeader("X-Stainless-Retry-Count", "2"))
	expect.OK(t, err)
	expect.Equal(t, "a retry, not streamed, is another body", once.ID != ids[0], true)
}
