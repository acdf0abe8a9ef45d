package protocol

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"turnstile/pkg/session"
)

// A stored entry of any content is read, in some form, and the result can be stored again and read
// as the same. It is one line, because a transcript's file has a line for each.
func FuzzEntry(f *testing.F) {
	for _, text := range []string{
		`{"role":"user","text":"a < b","message":"m1","meta":{"k":"v"},"attachments":[{"name":"f","path":"/f"}],"turn":"t","at":1}`,
		`{"role":"tool","tool":{"name":"ls","call_id":"1","input":{"a": [1,"\ud800"]},"output":null,"error":"no"},"turn":"t","at":1}`,
		`{"role":"assistant","usage":{"cost_usd":1e308},"interrupted":true,"newer":{}}`, `null`, `[]`, `{"at":1.5}`, "\xff", `{"tool":{"input":` + "\"\xff\"}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := DecodeEntry(text)
		if !json.Valid([]byte(text)) && (e.Role != session.RoleSystem || len(e.Text) > 1000) {
			t.Errorf("%q is %+v", text, e)
		}
		again, err := marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(again, "\n") {
			t.Errorf("%q has several lines", again)
		}
		if last, err := marshal(DecodeEntry(again)); err != nil || last != again {
			t.Errorf("%q becomes %q, and then %q, %v", text, again, last, err)
		}
	})
}

// A partial is read as it was stored, or not at all.
func FuzzPartial(f *testing.F) {
	f.Add(`{"v":1,"fence":1795227266293,"turn":"7c4a8d09-1795227266293","messages":["m1","m2"],"entries":["{\"role\":\"user\"}","no JSON"]}`)
	f.Add(`{"v":1,"messages":[""],"entries":[""]}`)
	f.Add(`{"V":1,"Messages":["a"],"ENTRIES":["{}"]}`)
	f.Add(`{"v":1,"messages":["a"],"entries":[{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := DecodePartial(text)
		if !ok {
			if !reflect.DeepEqual(p, Partial{}) {
				t.Errorf("%q is not read, and is %+v", text, p)
			}
			return
		}
		if len(p.Messages) == 0 || len(p.Entries) == 0 {
			t.Errorf("%q is read without a message or an entry: %+v", text, p)
		}
		again, err := p.encode()
		if err != nil {
			t.Fatal(err)
		}
		q, ok := DecodePartial(again)
		if last, err := q.encode(); !ok || err != nil || last != again {
			t.Errorf("%q becomes %q, and then %q, %v", text, again, last, err)
		}
	})
}

// An agent gets its state as it was stored, for its own session only.
func FuzzState(f *testing.F) {
	f.Add(`{"v":1,"session_id":"a","turn":"t4","entries":4,"after":7,"data":{"id":"<x>"}}`, "a", int64(4), "t4")
	f.Add(`{"v":1,"session_id":"a","data":null}`, "a", int64(0), "")
	f.Add(`{"v":1,"session_id":"b","data":1}`, "a", int64(0), "")
	f.Add(`{"v":1,"session_id":"a","data": [ ] }`, "a", int64(0), "")
	f.Fuzz(func(t *testing.T, text, transcriptID string, entries int64, turn string) {
		data := stateFor(text, transcriptID, entries, []session.Entry{{Turn: turn}})
		if data == nil {
			return
		}
		var s agentState
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.TranscriptID != transcriptID || !json.Valid(data) || string(data) == "null" {
			t.Errorf("%q gives %s to %q, %v", text, data, transcriptID, err)
		}
		again, err := s.encode()
		if err != nil || stateFor(again, transcriptID, entries, []session.Entry{{Turn: turn}}) == nil {
			t.Errorf("%q becomes %q, which gives nothing, %v", text, again, err)
		}
	})
}
