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

// A task that asynq can read is read here with the same fields, and what cannot be read here asynq
// cannot read either.
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

// Places in a stream are in one order, that of Redis, and each is read as it is written.
func FuzzEventID(f *testing.F) {
	f.Add("1795227266293-0.1", "1795227266293-0")
	f.Add("0-0", "18446744073709551615-18446744073709551615.9")
	f.Add("00001-01.0", "1-1.0")
	f.Add("99999999999999999999-0", "1-1.10")
	f.Add(strings.Repeat("long", 1000), "")
	f.Fuzz(func(t *testing.T, one, other string) {
		a, err := ParseEventID(one)
		if err != nil {
			expect.Line(t, "the error", err.Error(), expect.ErrorMost)
			return
		}
		whole, err := ParseEventID(a.Entry())
		if err != nil || whole.ms != a.ms || whole.seq != a.seq || a.After(whole) {
			t.Errorf("%q is in the entry %+v, %v", one, whole, err)
		}
		b, err := ParseEventID(other)
		if err == nil && (a.After(b) && b.After(a) || a != b && !a.After(b) && !b.After(a) || a == b && a.After(b)) {
			t.Errorf("%q and %q are in no order", one, other)
		}
	})
}

// Entries of a stream that anybody has written become events, and those have places that a reader can
// continue from.
func FuzzStreamEntry(f *testing.F) {
	f.Add("1795227266293-0", `{"type":"turn_started","turn":"t"}`, `{"type":"text","text":"a"}`)
	f.Add("1-1", `null`, `[]`)
	f.Add("x", `{"ID":"7","At":"2020-01-01T00:00:00Z","type":"a"}`, "\xff")
	f.Fuzz(func(t *testing.T, id, s, e string) {
		events := DecodeEvents(redis.XMessage{ID: id, Values: map[string]any{"s": s, "e": e, "x": 1}})
		last := EventID{}
		for i, event := range events {
			place, err := ParseEventID(event.ID)
			if _, bad := ParseEventID(id + ".0"); bad == nil && (err != nil || i > 0 && !place.After(last)) {
				t.Errorf("event %d of %q has the place %q, %v", i, id, event.ID, err)
			}
			if last = place; event.At.UnixMilli() < 0 && !strings.HasPrefix(id, "-") {
				t.Errorf("event %d of %q was at %s", i, id, event.At)
			}
		}
	})
}

// A result that anybody has stored becomes an outcome, of that message.
func FuzzResult(f *testing.F) {
	f.Add(`{"type":"turn_ended","status":"failed","turn":"t","error":"no","usage":{"cost_usd":1}}`, "archived")
	f.Add(`{"type":"text"}`, "archived")
	f.Add("\xff of a stock server", "completed")
	f.Fuzz(func(t *testing.T, result, state string) {
		o := StoredOutcome("s", "m1", state, result)
		if o.Session != "s" || o.ID != "m1" {
			t.Errorf("%q is the outcome of another message: %+v", result, o)
		}
		if _, err := json.Marshal(o); err != nil {
			t.Errorf("%q: %v", result, err)
		}
	})
}

// Signals come over a channel to which everybody may publish: one that means nothing is ignored.
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
		r := newReaders()
		r.add(text)
		if len(r.until) > watchedSessions {
			t.Errorf("%d sessions are watched", len(r.until))
		}
	})
}

// Notes of dropped messages that anybody has stored never make a turn forget more than it was told.
func FuzzNotes(f *testing.F) {
	f.Add(`3 1 ["a","b"]`, 1)
	f.Add(`9223372036854775807 -9223372036854775808 ["a"]`, 5)
	f.Add(`0 0 [`+strings.Repeat(`"a",`, 60)+`"b"]`, 50)
	f.Add(`x`, -1)
	f.Add(`1 1 [1,null]`, 1)
	f.Fuzz(func(t *testing.T, stored string, named int) {
		var turn ClaimedTurn
		turn.setDropped(stored)
		told := turn.told(named)
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
		q := OpenQuestion("s", fence, question, decided)
		if q != nil && (fence == "" || !strings.HasPrefix(question, fence) || !strings.HasSuffix(q.Turn, fence)) {
			t.Errorf("%q gives turn %q the question %+v", question, fence, q)
		}
	})
}
