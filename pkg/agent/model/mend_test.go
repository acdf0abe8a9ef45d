package model

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// overflowing are the words of servers for a conversation that is too long.
var overflowing = map[string]string{
	"OpenAI":         "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
	"Gemini":         "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
	"xAI":            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
	"Moonshot":       "Invalid request: Your request exceeded model token limit: 262144",
	"GitHub Copilot": "prompt token count of 130000 exceeds the limit of 128000",
	"Anthropic":      "prompt is too long: 210000 tokens > 200000 maximum",
	"Bedrock":        "Input is too long for requested model.",
	"Groq":           "Please reduce the length of the messages or completion.",
	"llama.cpp":      "the request exceeds the available context size, try increasing it",
	"LM Studio":      "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens",
	"vLLM":           "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
	"TGI":            "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
	"Zhipu":          "Prompt exceeds max length",
	"DashScope":      "Range of input length should be [1, 30720]",
	"Volcano":        "Total tokens of image and text exceed max message tokens",
	"Together":       "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens and 512 `max_new_tokens`",
	"Zhipu, Chinese": "Prompt 超长",
	"an unknown one": "Your conversation is larger than this model allows: 9000 tokens",
}

// An overflow in any wording leaves out the older half of the history, once.
func TestOverflowShrinks(t *testing.T) {
	t.Parallel()
	tn := turn("now")
	tn.History = []session.Entry{user("first"), assistant("so"), user("second"), assistant("yes")}
	for server, words := range overflowing {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{}, modelserver.Error(400, "", words), text("ok"))
			r.must(tn)
			r.wasAsked(2, "user: second\nassistant: yes\nuser: now")
			r.waited()
			r = newRig(t, Config{}, modelserver.Error(400, "", words), modelserver.Error(400, "", words))
			r.says(r.run(tn), false, "/new")
			r.requests(2)
		})
	}
	for _, other := range []modelserver.Response{
		modelserver.Error(400, "", "max_tokens is too large: 9000. This model supports at most 4096 completion tokens."),
		modelserver.Error(401, "", "the request has too many tokens"),
	} {
		r := newRig(t, Config{}, other)
		if err := r.run(tn); err == nil || strings.Contains(err.Error(), "too long") {
			t.Error(err)
		}
	}
}

// A request with images that is refused is sent again without those of the history, whatever the server says.
func TestRefusedImages(t *testing.T) {
	t.Parallel()
	tn := turn("now")
	tn.History = []session.Entry{{Role: session.RoleUser, Text: "see", Attachments: []session.Attachment{{Name: "a", Mime: "image/png", URL: "https://x.test/a"}}}, assistant("nice")}
	for words, status := range map[string]int{
		"No endpoints found that support image input": 404, "Unable to download the file": 400, "content must be a string": 422,
		"image input is not supported - hint: you may need to provide the mmproj": 500, "blocked": 403, "too large": 413,
	} {
		r := newRig(t, Config{}, modelserver.Error(status, "", words), text("ok"))
		r.must(tn)
		r.requests(2)
		if strings.Contains(string(r.model.Requests()[1].Body), "image_url") {
			t.Errorf("%s: %s", words, r.asked(2))
		}
	}
}

// The model learns what a server could not read of its reply, at most twice, and the same after a death.
func TestUnreadableReplyIsTold(t *testing.T) {
	t.Parallel()
	failed := modelserver.Plain(400, "application/json", `{"error":{"message":"Failed to call a function.","code":"tool_use_failed","failed_generation":"<function=clock>"}}`)
	r := newRig(t, Config{Tools: []Tool{shell("clock", "echo 12")}}, failed, call("c1", "clock", "{}"), text("ok"))
	j := newJournal(t)
	j.dieAfter("the end of call:1.1")
	_, err := j.finish(r, turn("go"))
	expect.OK(t, err)
	told := "user: go\n\n[Your reply could not be used: Failed to call a function. You wrote: <function=clock> Call only tools that you have, with arguments that are a JSON object, or reply without a tool.]"
	r.wasAsked(2, told)
	r.wasAsked(3, told+"\nassistant:  c1=clock({})\ntool: 12 =c1")
	r = newRig(t, Config{}, failed, failed, failed)
	r.says(r.run(turn("go")), false, "Failed to call a function")
	r.requests(3)
}

// A server that loads its model is waited for, without spending tries.
func TestServerThatLoadsItsModel(t *testing.T) {
	t.Parallel()
	loading := modelserver.Error(503, "unavailable_error", "Loading model")
	r := newRig(t, Config{MaxRetries: 1}, loading, loading, loading, text("ok"))
	r.must(turn("go"))
	r.waited(2*time.Second, 2*time.Second, 2*time.Second)
}

// A session that another model has served lacks what this one wants.
func TestFieldsThatAServerMisses(t *testing.T) {
	t.Parallel()
	tn := turn("now")
	tn.History = []session.Entry{user("a"), used(session.ToolUse{Name: "ls", CallID: "toolu_01", Output: []byte(`1`)})}
	for words, want := range map[string]string{
		"thinking is enabled but reasoning_content is missing in assistant tool call message at index 2": `"reasoning_content":""`,
		"Function call is missing a thought_signature in functionCall parts.":                            `"thought_signature":"skip_thought_signature_validator"`,
		"Tool call id was toolu_01 but must be a-z, A-Z, 0-9, with a length of 9.":                       `"tool_call_id":"` + shortened("toolu_01") + `"`,
	} {
		r := newRig(t, Config{Tools: []Tool{shell("clock", "echo 12")}}, modelserver.Error(400, "", words), call("c1", "clock", "{}"), text("ok"))
		j := newJournal(t)
		j.dieAfter("the end of call:1.1")
		_, err := j.finish(r, tn)
		expect.OK(t, err)
		r.requests(3)
		for _, q := range r.model.Requests()[1:] {
			if !strings.Contains(string(q.Body), want) {
				t.Errorf("%s: %s", words, q.Body)
			}
		}
	}
}

// A server that refuses what it has sent itself gets it back no more in this turn, also after a death.
func TestFieldsThatAServerRefuses(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"property 'messages.2.assistant.reasoning_content' is unsupported", "Extra inputs are not permitted", "extra_forbidden"} {
		r := newRig(t, Config{Tools: []Tool{shell("clock", "echo 12")}}, modelserver.Error(400, "", words), call("c1", "clock", "{}"), text("ok"))
		tn := turn("now")
		tn.History = []session.Entry{user("a"), assistant("b")}
		tn.History[1].Sent = &session.Sent{From: r.agent.origin(), Fields: map[string]json.RawMessage{"reasoning_content": json.RawMessage(`"hm"`)}}
		j := newJournal(t)
		j.dieAfter("the end of call:1.1")
		_, err := j.finish(r, tn)
		expect.OK(t, err)
		r.requests(3)
		for i, q := range r.model.Requests() {
			if strings.Contains(string(q.Body), "reasoning_content") != (i == 0) {
				t.Errorf("%s: request %d: %s", words, i+1, q.Body)
			}
		}
		r = newRig(t, Config{}, modelserver.Error(400, "", words))
		r.says(r.run(turn("go")), false, "refused the request")
		r.requests(1) // there is nothing to leave out
	}
}
