package model

import (
	"strings"
	"testing"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// What a server sends beside text and calls goes back to it: in the turn, and in later ones. Another model gets none of it.
func TestFieldsGoBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Tools: []Tool{shell("clock", "echo 12:00")}},
		modelserver.Plain(200, "text/event-stream", delta(`{"reasoning_content":"R1 \ud83d"}`)+delta(`{"reasoning_content":"\ude00<b>","role":"assistant","audio":null}`)+
			delta(`{"reasoning_details":[{"type":"reasoning.text","text":"de","index":0,"format":"x"}]}`)+
			delta(`{"reasoning_details":[{"type":"reasoning.text","text":"tail","index":0,"format":"x"},{"type":"reasoning.encrypted","data":"E","index":1}]}`)+
			callPieces(`{"index":0,"id":"c1","type":"function","function":{"name":"clock","arguments":"{}"},"extra_content":{"google":{"thought_signature":"SIG"}}}`)+calledAll),
		modelserver.Plain(200, "text/event-stream", delta(`{"content":"noon","reasoning":"R2"}`)+ended), text("ok"), text("ok"))
	c := work(r, r.agent)
	ends(r, c, say(r, c, turnstile.Message{Text: "time"}), session.StatusDone)
	ends(r, c, say(r, c, turnstile.Message{Text: "again"}), session.StatusDone)
	call := `,"tool_calls":[{"id":"c1","type":"function","function":{"name":"clock","arguments":"{}"},"extra_content":{"google":{"thought_signature":"SIG"}}}],` +
		`"reasoning_content":"R1 \ud83d\ude00<b>","reasoning_details":[{"format":"x","index":0,"text":"detail","type":"reasoning.text"},{"type":"reasoning.encrypted","data":"E","index":1}]}`
	requests := r.model.Requests()
	for i, want := range map[int][]string{1: {call}, 2: {call, `{"role":"assistant","content":"noon","reasoning":"R2"}`}} {
		for _, w := range want {
			if !strings.Contains(string(requests[i].Body), w) {
				t.Errorf("request %d lacks %s:\n%s", i+1, w, requests[i].Body)
			}
		}
	}
	_, entries := transcript(r, c)
	expect.Equal(t, "from", entries[1].Sent.From, strings.TrimPrefix(r.model.URL(), "http://")+" m")

	other := newRig(t, Config{URL: r.model.URL(), Model: "other"})
	tn := turn("hello")
	tn.History = entries
	other.must(tn)
	for _, word := range []string{"reasoning", "extra_content"} {
		if last := r.model.Requests()[3].Body; strings.Contains(string(last), word) {
			t.Errorf("another model is sent %s: %s", word, last)
		}
	}
}

// A thinking block of LiteLLM's comes in pieces without an index, and its signature ends it.
func TestThinkingBlocksInPieces(t *testing.T) {
	t.Parallel()
	var p pieces
	for _, raw := range []string{`[{"type":"thinking","thinking":"a","signature":null}]`, `[{"type":"thinking","thinking":"b"}]`, `[{"type":"thinking","thinking":"","signature":"S"}]`, `[{"type":"thinking","thinking":"c"}]`} {
		p.add("thinking_blocks", []byte(raw))
	}
	expect.Equal(t, "blocks", string(p.join()["thinking_blocks"]), `[{"signature":"S","thinking":"ab","type":"thinking"},{"type":"thinking","thinking":"c"}]`)
}

// Lists go back as they came: items of one piece are different ones, and go on in the pieces that follow by their index.
func TestListsGoBackUnchanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pieces []string
		want   string
	}{
		{[]string{`[]`}, `[]`},
		{[]string{`[]`, `[]`}, `[]`},
		{[]string{`"hm"`, `[]`}, `"hm"`},
		{[]string{`[{"type":"t","text":"a"},{"type":"t","text":"b","x":null}]`}, `[{"type":"t","text":"a"},{"type":"t","text":"b","x":null}]`},
		{[]string{`[{"type":"t","text":"a"},{"type":"t","text":"b"}]`, `[]`, `[{"type":"t","text":"c"}]`}, `[{"type":"t","text":"a"},{"text":"bc","type":"t"}]`},
		{[]string{`[{"type":"t","text":"a"}]`, `[{"type":"t","text":"b"},{"type":"t","text":"c"}]`, `[{"type":"t","text":"d"}]`}, `[{"text":"ab","type":"t"},{"text":"cd","type":"t"}]`},
		{[]string{`[{"index":0,"text":"a"},{"index":1,"text":"b"}]`, `[{"index":0,"text":"c"},{"index":1,"text":"d"}]`}, `[{"index":0,"text":"ac"},{"index":1,"text":"bd"}]`},
		{[]string{`[{"index":0,"text":"a","signature":"S"}]`, `[{"index":0,"text":"c"}]`}, `[{"index":0,"text":"a","signature":"S"},{"index":0,"text":"c"}]`},
		{[]string{`{"a":{"text":"x","n":1}}`, `{"a":{"text":"y","n":0},"b":[1]}`, `{"b":[2],"c":null}`}, `{"a":{"n":0,"text":"xy"},"b":[1,2],"c":null}`},
	} {
		var p pieces
		for _, raw := range c.pieces {
			p.add("x", []byte(raw))
		}
		expect.Equal(t, strings.Join(c.pieces, " "), string(p.join()["x"]), c.want)
	}
}

// No two neighbours have one role, every message has its content, and Mistral's models get IDs that their templates take.
func TestRequestsAreStrict(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{SystemPrompt: "be kind", Model: "mistral-small"}, text("ok"))
	tn := turn("now", "and")
	tn.Note = "[System note: y]"
	tn.History = []session.Entry{user("a"), user("b"), assistant("c"), used(session.ToolUse{Name: "ls", CallID: "toolu_01", Output: []byte(`1`)}), assistant("d"), assistant("e")}
	r.must(tn)
	id := shortened("toolu_01")
	r.wasAsked(1, `
system: be kind
user: a

b
assistant: c `+id+`=ls({})
tool: 1 =`+id+`
assistant: d

e
user: [System note: y]

now

and`)
	if !shortID.MatchString(id) {
		t.Error(id)
	}
	r = newRig(t, Config{}, text("ok"))
	tn.History = []session.Entry{used(session.ToolUse{Name: "ls", CallID: "a", Output: []byte(`1`)})}
	r.must(tn)
	if body := string(r.model.Requests()[0].Body); !strings.Contains(body, `{"role":"assistant","content":"","tool_calls"`) {
		t.Error(body)
	}
}
