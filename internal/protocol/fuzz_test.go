package protocol

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	_ "github.com/hibiken/asynq" // registers its messages
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A task that asynq can read is read here with the same fields. A task that cannot be read here is
// unreadable for asynq, too.
func FuzzTaskMessage(f *testing.F) {
	f.Add(encodeTask("s", "m1", []byte(`{"v":1,"text":"hello"}`), "nonce", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
	f.Add(append(encodeTask("s", "m1", nil, "", ""), completion(3600, 1795227266)...))
	f.Add([]byte("\x0a\x01a\x0a\x01b"))                                      // a field twice
	f.Add([]byte("\x12\xff\xff\xff\xff\x0f"))                                // longer than it is
	f.Add([]byte("\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))            // retried: -1
	f.Add([]byte("\x58\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))                // failed at the end of time
	f.Add([]byte("\x0b\x0c\x00"))                                            // a group, and the field 0
	f.Add([]byte("\x3a\x02\xff\xff"))                                        // an error that is not UTF-8
	f.Add([]byte("\x08\x01\x10\x01"))                                        // type and payload of another kind
	f.Add(append(bytes.Repeat([]byte("\xa0\x06\x01"), 2000), "\x0a\x01"...)) // many unknown fields
	task, err := protoregistry.GlobalTypes.FindMessageByName("asynq.TaskMessage")
	expect.OK(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseTaskMessage(data)
		theirs := task.New()
		theirErr := proto.Unmarshal(data, theirs.Interface())
		if err != nil {
			if theirErr == nil {
				t.Errorf("asynq reads %q, this does not: %v", data, err)
			}
			expect.Line(t, "the error", err.Error(), 200)
			return
		}
		if m.retried < 0 || m.retried+1 < 1 {
			t.Errorf("it failed %d times", m.retried)
		}
		if _, err := m.Message(session.Limits{}); err != nil {
			expect.Line(t, "the error", err.Error(), expect.ErrorMost)
		}
		if theirErr != nil {
			return
		}
		field := func(n protoreflect.FieldNumber) protoreflect.Value {
			return theirs.Get(task.Descriptor().Fields().ByNumber(n))
		}
		if m.taskType != field(fieldType).String() || !bytes.Equal(m.payload, field(fieldPayload).Bytes()) || m.Failure != field(fieldError).String() ||
			m.retried != attempts(uint64(field(fieldRetried).Int())) {
			t.Errorf("%q is %+v, and %v for asynq", data, m, theirs)
		}
	})
}

// Signals come over a channel to which everybody may publish: invalid ones are ignored.
func FuzzSignal(f *testing.F) {
	for _, text := range []string{`{"kind":"stop","token":"t","fence":1}`, `{"kind":"answer","question":1,"answer":"allow"}`, `{"kind":"ready","session":"s"}`, `{"kind":"steer"}`, `{"fence":1e99}`, `{"kind":"new"}`, "\xff"} {
		f.Add("own", text)
	}
	f.Add("asynq:cancel", "task")
	f.Fuzz(func(t *testing.T, channel, text string) {
		s, ok := parseSignal(&redis.Message{Channel: channel, Payload: text}, "own")
		if requests := s.Requested != nil || s.Steer || s.Decided.Question != 0 || s.Session != ""; ok != requests {
			t.Errorf("%q is %+v, %v", text, s, ok)
		}
		if channel != "own" && s.TaskID != text {
			t.Errorf("asynq's Cancel of %q is %+v", text, s)
		}
	})
}

// Stored notes of any content never make a turn remove more notes than it was told.
func FuzzNotes(f *testing.F) {
	f.Add(`3 1 ["a","b"]`, 1)
	f.Add(`9223372036854775807 -9223372036854775808 ["a"]`, 5)
	f.Add(`0 0 [`+strings.Repeat(`"a",`, 60)+`"b"]`, 50)
	f.Add(`x`, -1)
	f.Add(`1 1 [1,null]`, 1)
	f.Fuzz(func(t *testing.T, stored string, named int) {
		var turn ClaimedTurn
		turn.setDropped(stored)
		told := turn.reported(named)
		if turn.Omitted < 0 || len(turn.Dropped) > notesMost || told < 0 || told > turn.notes.ids || len(turn.Dropped) == 0 && told != 0 {
			t.Errorf("%q: %d dropped, %d omitted, %d of %d told", stored, len(turn.Dropped), turn.Omitted, told, turn.notes.ids)
		}
	})
}

// The fields of a run record give a question only to the turn that asked it.
func FuzzQuestion(f *testing.F) {
	f.Add("7", `7 1 {"name":"rm"}`, "")
	f.Add("7", `7 1 {"name":"rm"}`, "7 1 allow")
	f.Add("7", `7 -9 nonsense`, "7 1 allow")
	f.Add("", ` 1 {}`, "")
	f.Fuzz(func(t *testing.T, fence, question, decided string) {
		q := OpenQuestion("s", fence, question, decided, "1 7 1 5")
		if q != nil && (fence == "" || !strings.HasPrefix(question, fence) || !strings.HasSuffix(q.Turn, fence)) {
			t.Errorf("%q gives turn %q the question %+v", question, fence, q)
		}
	})
}

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
