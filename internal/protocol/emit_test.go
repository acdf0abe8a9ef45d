package protocol_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// streamed returns the sizes of the stream's events, the oldest first: the bytes of those longer
// than 2 KiB, and the numbers of these and of the others.
func streamed(b *actors.Bench) (bytes, large, small int) {
	b.Helper()
	all, err := b.Redis.XRange(b.Ctx, b.Keys.Events(), "-", "+").Result()
	expect.OK(b, err)
	for _, m := range all {
		n := 0
		for _, text := range m.Values {
			n += len(text.(string))
		}
		if n > 2048 {
			bytes, large = bytes+n, large+1
		} else {
			small++
		}
	}
	return bytes, large, small
}

// notice emits an event of about n bytes.
func notice(b *actors.Bench, h *protocol.Claim, n int) {
	b.Helper()
	expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Turn: h.Turn().ID, Text: strings.Repeat("x", n)}}))
}

// The large events of a stream have at most as many bytes as the limit and, once there were as
// many, at least about half of their share of three quarters, whichever script writes them.
func TestStreamIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	ends := func(end func(b *actors.Bench, h *protocol.Claim, text string)) func(b *actors.Bench, i int) {
		return func(b *actors.Bench, i int) {
			b.Say(fmt.Sprint("m", i))
			h := b.Claim()
			expect.OK(b, h.Promote(b.Ctx))
			end(b, h, strings.Repeat("x", 60_000+1000*(i%50)))
		}
	}
	for name, tell := range map[string]func(b *actors.Bench, i int){
		"emit": ends(func(b *actors.Bench, h *protocol.Claim, text string) {
			notice(b, h, len(text))
			b.Finish(h)
		}),
		"finish": ends(func(b *actors.Bench, h *protocol.Claim, text string) {
			expect.OK(b, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err) // so it takes the full path
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: text})
			expect.OK(b, err)
		}),
		"finish, fast path": ends(func(b *actors.Bench, h *protocol.Claim, text string) {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: text})
			expect.OK(b, err)
		}),
		"requeue": ends(func(b *actors.Bench, h *protocol.Claim, text string) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: text}))
			b.Drain()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, actors.EventsBytes(limit), func(c *protocol.Config) { c.StuckLimit = 1000 })
			most := 0
			for i := range 60 {
				tell(b, i)
				bytes, large, _ := streamed(b)
				if bytes > limit {
					t.Fatalf("%d: %d bytes in %d large events", i, bytes, large)
				}
				if most = max(most, bytes); most > limit*3/8 && bytes < limit*3/8-110_000 || large == 0 {
					t.Errorf("%d: %d bytes are left of %d", i, bytes, most)
				}
			}
			if most < limit*9/16 {
				t.Errorf("%d bytes at most", most)
			}
		})
	}
}

// A single event that is longer than the limit stays, without other large ones, until the next
// large one.
func TestEventLongerThanTheLimit(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.EventsBytes(100_000))
	b.Say("a")
	h := b.Start()
	for range 3 {
		notice(b, h, 30_000)
	}
	for range 2 {
		notice(b, h, 300_000)
		bytes, large, _ := streamed(b)
		expect.Equal(t, "large events", large, 1)
		expect.Equal(t, "it is the long one", bytes > 300_000, true)
	}
	notice(b, h, 30_000)
	bytes, large, _ := streamed(b)
	expect.Equal(t, "then", fmt.Sprint(large, bytes < 31_000), "1 true")
	notice(b, h, 15_000)
	_, large, _ = streamed(b)
	expect.Equal(t, "and then", large, 2)
}

// Short events are bounded by their number alone: they cost no additional command, and displace no
// large ones before that.
func TestShortEventsAreNotCountedInBytes(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for range 300 {
		notice(b, h, 1500)
	}
	_, large, small := streamed(b)
	expect.Equal(t, "large and small", fmt.Sprint(large, small >= 300), "0 true")
	expect.Equal(t, "counted", b.Redis.HExists(b.Ctx, b.Keys.Run(), "stream").Val(), false)
}

// A finish on the fast path costs 14 commands, its own call included. A long reply costs two more, and
// a third one when a generation is over.
func TestCommandsOfAFastFinish(t *testing.T) {
	t.Parallel()
	f := newFiller(t)
	for reply, commands := range map[int]int{10: 14, 5000: 16, 6 << 20: 17} {
		b := f.bench(t)
		b.SayAll("a", "b")
		h := b.Start()
		end := protocol.End{Status: session.StatusDone, Reply: strings.Repeat("x", reply), Entries: []session.Entry{{Text: "x"}}}
		works, err := f.count(func() error { _, err := h.Finish(b.Ctx, end); return err })
		expect.OK(t, err)
		expect.Equal(t, fmt.Sprintf("commands for %d bytes (%v)", reply, works), works["finish_fast"].calls, commands)
		f.clean()
	}
}

// Every event is written by append_event, which bounds the stream.
func TestEventsAreWrittenInOnePlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	expect.OK(t, err)
	library, err := filepath.Glob("lua/lib/*.lua")
	expect.OK(t, err)
	files = append(files, library...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		expect.OK(t, err)
		if strings.Contains(string(text), "XADD") != (file == "lua/lib/events.lua") {
			t.Errorf("%s: XADD belongs into lib/events.lua, and nowhere else", file)
		}
	}
}

// All events of a stream together, short and long ones, have no more bytes than the limit.
func TestAllEventsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	for name, cap := range map[string]int{"few": 100, "many": 3000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 1 << 20
			b := actors.NewBench(t, actors.EventsBytes(limit), func(c *protocol.Config) { c.EventsCap = cap })
			b.Say("a")
			h := b.Start()
			most := 0
			for i := range 200 {
				var events []session.Event
				for j := range 20 {
					n := 1800 // a short one, while there is room for short ones
					if j%10 == 0 {
						n = 10_000 + 100*i
					}
					events = append(events, session.Event{Type: session.EventNotice, Turn: h.Turn().ID, Text: strings.Repeat("x", n)})
				}
				expect.OK(t, h.Emit(b.Ctx, events))
				if i%10 == 9 {
					most = max(most, allStreamed(b))
				}
			}
			if most > limit || most < limit/4 {
				t.Errorf("%d bytes", most)
			}
		})
	}
}

// allStreamed is how many bytes the stream's events have.
func allStreamed(b *actors.Bench) (n int) {
	b.Helper()
	all, err := b.Redis.XRange(b.Ctx, b.Keys.Events(), "-", "+").Result()
	expect.OK(b, err)
	for _, m := range all {
		for _, text := range m.Values {
			n += len(text.(string))
		}
	}
	return n
}

// eventSchema is the schema of a session's events, and docs/events.md.
type eventSchema struct {
	Properties map[string]struct {
		Enum []string `json:"enum"`
	} `json:"properties"`
	page  string
	valid *jsonschema.Schema
}

// eventsBlock is the only code block of docs/events.md with that opening line.
func eventsBlock(t *testing.T, info string) (block, page string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/events.md")
	expect.OK(t, err)
	parts := strings.Split(string(text), "\n```"+info+"\n")
	if len(parts) != 2 {
		t.Fatalf("docs/events.md has %d blocks %q", len(parts)-1, info)
	}
	block, _, _ = strings.Cut(parts[1], "\n```\n")
	return block, string(text)
}

func readEventSchema(t *testing.T) (s eventSchema) {
	t.Helper()
	_, s.page = eventsBlock(t, "jsonl stream")
	const file = "../../docs/schemas/session-event.json"
	text, err := os.ReadFile(file)
	expect.OK(t, err)
	expect.OK(t, json.Unmarshal(text, &s))
	s.valid, err = jsonschema.NewCompiler().Compile(file)
	expect.OK(t, err)
	return s
}

// check fails the test if a text is not an event by the schema.
func (s eventSchema) check(t testing.TB, text string) {
	t.Helper()
	event, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.valid.Validate(event)
	}
	if err != nil {
		t.Errorf("event %s: %v", text, err)
	}
	var e session.Event
	strict := json.NewDecoder(strings.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&e); err != nil {
		t.Errorf("event %s: %v", text, err)
	}
}

// The schema has all fields, types, statuses and modes, the table has a row for each type, and the
// example is valid. TestStatesPage checks the scripts' writes.
func TestEventSchema(t *testing.T) {
	t.Parallel()
	s := readEventSchema(t)
	var documented, have []string
	for name := range s.Properties {
		documented = append(documented, name)
	}
	slices.Sort(documented)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[session.Event]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	expect.List(t, "fields", documented, have...)
	sorted := func(list ...string) []string { return slices.Sorted(slices.Values(list)) }
	var types []string
	for _, kind := range []session.EventType{
		session.EventQueued, session.EventTurnStarted, session.EventText, session.EventThought, session.EventToolStart, session.EventToolEnd,
		session.EventTitle, session.EventUsage, session.EventRaw, session.EventSteered, session.EventQuestionAsked, session.EventQuestionAnswered,
		session.EventNotice, session.EventTurnRetry, session.EventTurnRequeued, session.EventTurnEnded, session.EventGap, session.EventReset,
		session.EventPlace,
	} {
		types = append(types, string(kind))
	}
	slices.Sort(types)
	expect.List(t, "types", sorted(s.Properties["type"].Enum...), types...)
	expect.List(t, "statuses", sorted(s.Properties["status"].Enum...), sorted(string(session.StatusDone), string(session.StatusFailed),
		string(session.StatusInterrupted), string(session.StatusExpired), string(session.StatusStopped), string(session.StatusDropped))...)
	expect.List(t, "modes", sorted(s.Properties["mode"].Enum...), sorted(string(session.ModeQueue), string(session.ModeCollect),
		string(session.ModeSteer), string(session.ModeInterrupt), string(session.ModeRollback), string(session.ModeReject))...)
	table, _, _ := strings.Cut(s.page, "```jsonl stream")
	for _, name := range append(types, s.Properties["status"].Enum...) {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("docs/events.md: %s is in no table", name)
		}
	}
	shown := map[string]bool{}
	for _, info := range []string{"jsonl stream", "jsonl otherwise"} {
		example, _ := eventsBlock(t, info)
		for line := range strings.Lines(example) {
			s.check(t, strings.TrimSpace(line))
			var e session.Event
			expect.OK(t, json.Unmarshal([]byte(line), &e))
			shown[string(e.Type)] = true
		}
	}
	expect.List(t, "types of the examples", slices.Sorted(maps.Keys(shown)), types...)
}

// The schema refuses other values than events.
func TestEventSchemaRefuses(t *testing.T) {
	t.Parallel()
	s := readEventSchema(t)
	for _, text := range []string{
		`[]`, `{}`, `{"type":"state","data":1}`, `{"type":"text","text":"no turn"}`, `{"type":"text","turn":"t"}`,
		`{"type":"queued","messages":[],"mode":"queue","position":1}`, `{"type":"queued","messages":["m"],"mode":"jump","position":1}`,
		`{"type":"turn_started","turn":"t","fence":1,"messages":["m"]}`, `{"type":"tool_start","turn":"t","name":"x"}`, `{"type":"tool_end","turn":"t"}`,
		`{"type":"usage","turn":"t"}`, `{"type":"usage","turn":"t","usage":{"input_tokens":"7"}}`, `{"type":"raw"}`, `{"type":"notice","turn":"t"}`,
		`{"type":"permission_asked","turn":"t","call_id":"1"}`, `{"type":"permission_answered","turn":"t","call_id":"1","decision":"maybe"}`,
		`{"type":"turn_ended","messages":["m"]}`, `{"type":"turn_ended","messages":["m"],"status":"over"}`,
	} {
		event, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		expect.OK(t, err)
		if s.valid.Validate(event) == nil {
			t.Errorf("%s is valid", text)
		}
	}
}
