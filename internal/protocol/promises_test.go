package protocol_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// record is a record as its destination gets it.
type record struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		Session   string          `json:"session"`
		Messages  []string        `json:"messages"`
		RetryOf   string          `json:"retry_of"`
		Context   json.RawMessage `json:"context"`
		Outcome   session.Outcome `json:"outcome"`
		Truncated bool            `json:"truncated"`
		Number    int             `json:"number"`
		Decision  string          `json:"decision"`
		By        string          `json:"by"`
	} `json:"data"`
}

func (r record) String() string {
	return fmt.Sprint(r.Type, " ", strings.Join(r.Data.Messages, ","), string(r.Data.Context))
}

// records are the stored records of a session, by destination and then in their order.
func records(b *actors.Bench) (all []record) {
	b.Helper()
	texts := b.Redis.HGetAll(b.Ctx, b.Keys.Deliveries()).Val()
	for _, member := range b.Redis.ZRange(b.Ctx, b.Keys.Outbox(), 0, -1).Val() {
		_, sequence, _ := strings.Cut(member, " ")
		var r record
		if err := json.Unmarshal([]byte(texts[sequence]), &r); err != nil {
			b.Fatalf("record %s: %v:\n%s", member, err, texts[sequence])
		}
		all = append(all, r)
	}
	return all
}

func recorded(b *actors.Bench) (lines []string) {
	for _, r := range records(b) {
		lines = append(lines, r.String())
	}
	return lines
}

// Each script that ends a message keeps its promise: a message with a route has either not ended
// and has a promise, or one record has its outcome.
func TestEveryEndIsRecordedOnce(t *testing.T) {
	t.Parallel()
	for _, s := range situations() {
		if !strings.HasSuffix(s.name, "with a route") || s.script == "erase" {
			continue
		}
		for _, twice := range []bool{false, true} {
			t.Run(fmt.Sprint(s.script, "/", s.name, "/", twice), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				move := s.prepare(b)
				promisesHold(b, "before")
				if twice {
					faults := &redistest.Faults{}
					b.Redis.AddHook(faults)
					faults.RunTwice(actors.Script(s.script), -1)
				}
				expect.OK(t, move())
				promisesHold(b, "after")
			})
		}
	}
}

// promisesHold compares promises and records with the session's tasks.
func promisesHold(b *actors.Bench, when string) {
	b.Helper()
	owed := b.Redis.HGetAll(b.Ctx, b.Keys.Owed()).Val()
	told := map[string]int{}
	list := records(b)
	for _, r := range list {
		if strings.HasPrefix(r.Type, "message.") && r.Type != "message.withdrawn" {
			for _, id := range r.Data.Messages {
				told[id]++
			}
		}
		expect.Equal(b, when+": session", r.Data.Session, actors.Key)
		actors.Recent(b.T, when+": "+r.Type, r.Timestamp)
	}
	prefix := b.Keys.TaskPrefix()
	tasks := map[string]string{}
	for _, key := range b.Redis.Keys(b.Ctx, prefix+"*").Val() {
		task := b.Redis.HGetAll(b.Ctx, key).Val()
		id := strings.TrimPrefix(strings.TrimPrefix(key, prefix), strings.TrimSuffix(b.Task("x"), "x"))
		if task["route"] == "" || task["msg"] == "" {
			continue
		}
		tasks[id] = task["state"]
		ended := task["state"] == "completed" || task["state"] == "archived"
		if _, is := owed[id]; is == ended {
			b.Errorf("%s: %s is %s, owed: %v\n%s", when, id, task["state"], is, b.Dump())
		}
		if again := !strings.HasPrefix(task["route"], "hook - "); ended && told[id] != 1 || !ended && !again && told[id] != 0 {
			b.Errorf("%s: %s is %s and in %d records\n%s", when, id, task["state"], told[id], b.Dump())
		}
	}
	for id := range told {
		if told[id] > 1 && tasks[id] == "" {
			b.Errorf("%s: %s is in %d records", when, id, told[id])
		}
	}
	stored := b.Redis.HGetAll(b.Ctx, b.Keys.Deliveries()).Val()
	counted, want := stored["n hook"], fmt.Sprint(len(owed)+len(list))
	if counted != want && (want != "0" || counted != "") {
		b.Errorf("%s: counted %q, %d owed and %d stored\n%s", when, counted, len(owed), len(list), b.Dump())
	}
}

// A message's own route counts before the session's, and that before the sender's default.
func TestWhereAnAnswerGoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ own, session, fallback, want string }{
		"nowhere":            {"", "", "", ""},
		"the message's":      {"a", "b", "c", "a"},
		"the session's":      {"", "b", "c", "b"},
		"the sender's":       {"", "", "c", "c"},
		"nowhere, by choice": {session.NoReply, "b", "c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			if c.session != "" {
				expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, c.session))
			}
			client := actors.NewClientWith(b.Redis, turnstile.ClientConfig{DefaultReplyTo: func(string) string { return c.fallback }})
			_, err := client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: "m", Text: "hi", ReplyTo: c.own, ReplyContext: json.RawMessage(`{"chat": 42}`)})
			expect.OK(t, err)
			var want []string
			if c.want != "" {
				want = []string{c.want + ` - {"chat":42}`}
			}
			expect.List(t, "owed", b.Redis.HVals(b.Ctx, b.Keys.Owed()).Val(), want...)
			b.Drain()
			expect.Equal(t, "records", len(records(b)), len(want))
			expect.Equal(t, "owed", b.Redis.Exists(b.Ctx, b.Keys.Owed()).Val(), 0)
		})
	}
}

// A message without a route costs no key.
func TestNoRouteNoKeys(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Drain()
	for _, key := range []string{b.Keys.Owed(), b.Keys.Outbox(), b.Keys.Deliveries(), b.Keys.Undelivered()} {
		expect.Equal(t, key, b.Redis.Exists(b.Ctx, key).Val(), 0)
	}
}

// One record notifies a route of all messages of a turn; messages with another route have another
// record.
func TestOneRecordForEachRoute(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	say := func(id, context string) {
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, Mode: session.ModeCollect, ReplyTo: "hook", ReplyContext: json.RawMessage(context)})
		expect.OK(t, err)
	}
	b.Say("now")
	h := b.Start()
	say("a", `{"chat":1}`)
	say("b", `{"chat":2}`)
	say("c", `{"chat":1}`)
	for _, id := range []string{"a", "b", "c"} {
		b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task(id)), "quiet", "1 100")
	}
	expect.Equal(t, "they are the next turn", b.Finish(h), true)
	b.Finish(h)
	expect.List(t, "records", recorded(b), `message.done a,c{"chat":1}`, `message.done b{"chat":2}`)
}

// An outcome that is too large for a record is left out, and the record says so.
func TestLargeOutcomesAreTruncated(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	h := b.Start()
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: strings.Repeat(`"x`, 200<<10)})
	expect.OK(t, err)
	r := records(b)[0]
	expect.Equal(t, "truncated", r.Data.Truncated, true)
	expect.Equal(t, "status", r.Data.Outcome.Status, session.StatusDone)
	expect.Equal(t, "reply", r.Data.Outcome.Reply, "")
}

// A rerun promises the outcome again, and its record names the repeated message. So does a /retry.
func TestRepeatedMessagesAreRecordedAgain(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "rerun", n, 1)
	b.Drain()
	expect.List(t, "records", recorded(b), "message.stopped a", "message.done a")
	expect.Equal(t, "repeats", records(b)[1].Data.RetryOf, "a")
	b.Command("/retry")
	b.Drain()
	list := records(b)
	expect.Equal(t, "withdrawn", list[2].String(), "message.withdrawn a")
	expect.Equal(t, "type", list[3].Type, "message.done")
	expect.Equal(t, "repeats", list[3].Data.RetryOf, "a")
}

// An undo notifies destinations also after the results were deleted.
func TestWithdrawnAfterThePurge(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i, to := range []string{"hook", "hook", "other"} {
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: fmt.Sprint("m", i), Text: "hello", ReplyTo: to, ReplyContext: json.RawMessage(`{"chat":7}`)})
		expect.OK(t, err)
		b.Drain()
		expect.OK(t, b.Inspector().DeleteTask("session:"+actors.Key, b.Task(fmt.Sprint("m", i))))
	}
	for range 3 {
		b.Command("/undo")
	}
	expect.List(t, "records", recorded(b), `message.done m0{"chat":7}`, `message.done m1{"chat":7}`, `message.withdrawn m1{"chat":7}`,
		`message.withdrawn m0{"chat":7}`, `message.done m2{"chat":7}`, `message.withdrawn m2{"chat":7}`)
}

// Also if they were many of one turn, with large contexts.
func TestManyWithdrawnAfterThePurge(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	long := strings.Repeat("x", wire.MaxContext-2)
	b.Say("now")
	h := b.Start()
	const most = 20
	for i := range most {
		text := []byte(fmt.Sprintf("%q", long[:len(long)-2]+fmt.Sprintf("%02d", i)))
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: fmt.Sprint("m", i), Text: "hello", Mode: session.ModeSteer, ReplyTo: "hook", ReplyContext: text})
		expect.OK(t, err)
	}
	_, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	end := b.Done(h)
	for i := range most {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleUser, Text: "hello", Message: fmt.Sprint("m", i), Turn: h.Turn().ID})
	}
	_, err = h.Finish(b.Ctx, end)
	expect.OK(t, err)
	for i := range most {
		expect.OK(t, b.Inspector().DeleteTask("session:"+actors.Key, b.Task(fmt.Sprint("m", i))))
	}
	b.Command("/undo")
	n := 0
	for _, r := range records(b) {
		if r.Type == "message.withdrawn" {
			n++
		}
	}
	expect.Equal(t, "withdrawn", n, most)
}

// The sweep makes a deliverer find messages that asynqmon's buttons ended.
func TestPromisesOutlivePeople(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.SayAll("archived", "deleted", "stays")
	queue := "session:" + actors.Key
	expect.OK(t, b.Inspector().ArchiveTask(queue, b.Task("archived")))
	expect.OK(t, b.Inspector().DeleteTask(queue, b.Task("deleted")))
	b.Sweep()
	sessions, score, err := deliveries.DueOutbox(b.Ctx, b.Redis, 10, time.Minute)
	expect.OK(t, err)
	expect.List(t, "due", sessions, actors.Key)
	again, _, err := deliveries.DueOutbox(b.Ctx, b.Redis, 10, time.Minute)
	expect.OK(t, err)
	expect.List(t, "due for another deliverer", again)

	taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}, time.Minute)
	expect.OK(t, err)
	lines := recorded(b)
	slices.Sort(lines)
	expect.List(t, "records", lines, "message.stopped archived", "message.stopped deleted")
	expect.Equal(t, "taken", len(taken.Deliveries), 2)
	expect.List(t, "owed", b.Redis.HKeys(b.Ctx, b.Keys.Owed()).Val(), "stays")
	for _, d := range taken.Deliveries {
		ok, _, err := deliveries.Ack{Delivery: d, Verdict: deliveries.Delivered}.Do(b.Ctx, b.Redis)
		expect.OK(t, err)
		expect.Equal(t, "acknowledged", ok, true)
	}
	expect.OK(t, deliveries.RescoreOutbox(b.Ctx, b.Redis, actors.Key, score, 0))
	expect.Equal(t, "in the index", b.IsIn("turnstile:outbox", actors.Key), false)
}

// OUTBOX_CAP counts promises and stored records.
func TestOutboxCap(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	c := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Outbox: 2}})
	expect.OK(t, c.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	send := func(id string, o ...actors.Option) string {
		r, err := receipt.Input(b.Ctx, c.Session(actors.Key), actors.With(turnstile.Message{ID: id, Text: id}, o...))
		expect.OK(t, err)
		return strings.TrimSpace(string(r.Status) + " " + r.Reason)
	}
	expect.Equal(t, "first", send("a"), "accepted")
	b.Drain()
	expect.Equal(t, "second", send("b"), "accepted")
	before := ownKeys(b)
	expect.Equal(t, "third", send("c"), "refused outbox")
	expect.Equal(t, "third, delayed", send("c", actors.Delay(time.Hour)), "refused outbox")
	actors.Same(t, "refused", before, ownKeys(b))
	expect.Equal(t, "the first again", send("a"), "duplicate")
	expect.Equal(t, "without a route", send("d", actors.ReplyTo(wire.Route{To: session.NoReply})), "accepted")
}
