package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// Records that are unreadable, incomplete or of a newer version never stop a session, from whatever
// moment they are so: its messages run, and readers get a result.
func TestRecords(t *testing.T) {
	t.Parallel()
	for kind, records := range damagedRecords() {
		for _, moment := range moments[kind] {
			for _, r := range records {
				t.Run(moment+"/"+kind+"/"+r, func(t *testing.T) {
					t.Parallel()
					b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Debounce = session.Millis(time.Millisecond) })
					live(b, moment, func() { damaged[kind](b, r) })
				})
			}
		}
	}
}

// The moments at which a record is damaged.
const (
	idle        = "idle"
	running     = "running"     // in a turn
	dead        = "dead"        // after a worker's death
	interrupted = "interrupted" // the same, and then a message with mode interrupt came
)

// moments are those after which each kind of record is read. An owner without its turn's own record
// has lost the turn, so only the claim reads that one.
var moments = map[string][]string{
	"record": {idle, dead}, "settings": {idle}, "resume": {idle, dead}, "followup": {running},
	"entry": {idle, interrupted}, "run": {idle, running}, "dead run": {dead, interrupted},
	"task": {running, dead},
}

// damagedRecords are damaged values by kind of record. A hash is written as field=value, with
// spaces between several and -field to remove one. V stands for a version from the future.
func damagedRecords() map[string][]string {
	return map[string][]string{
		"record": {
			"", "v=2", "v=x", "v=2 session_id=other fence=1 V=1", "session_id=", "fence=x", "fence=-1", "fence=1e300",
			"created_at=x", "updated_at=x", "seq=x", "undone=x", "title= title_by=V",
			"dropped=x", "dropped={}", "dropped=5", "dropped=null", "dropped=[5]", "dropped=[null]", `dropped=["gone"]`, `dropped={"v":2}`,
		},
		"settings": {
			"", "x", "[]", "5", "null", `{"v":2}`, `{"mode":"later"}`, `{"mode":5}`, `{"mode":null}`, `{"mode":{"is":"collect"}}`, `{"mode":true}`,
			`{"cap":"x"}`, `{"cap":20.5}`, `{"cap":-1}`, `{"cap":null}`, `{"cap":1e300}`, `{"cap":{}}`,
			`{"debounce_ms":"x"}`, `{"debounce_ms":0.5}`, `{"debounce_ms":-1}`, `{"debounce_ms":null}`, `{"debounce_ms":1e300}`, `{"debounce_ms":[]}`,
			`{"drop":"later","cap":1}`, `{"drop":5,"cap":1}`, `{"drop":null,"cap":1}`, `{"drop":{},"cap":1}`,
		},
		"resume": {
			"", "v=2 V=1", "pending=yes", "pending=1", "pending=1 reason=V marked_at=x", "pending=1 marked_at=1e300", "pending=1 marked_at=nan",
			"interruptions=x", "interruptions=1.5", "interruptions=-1", "fence=x", "suspended=x", "suspended=1 pending=1 v=2",
		},
		"followup": {
			"", "x", "null", "5", "[]", `{"refused":`, `{"refused":"later"}`, `{"v":2,"mode":{"kind":"steer"},"state":["queued"]}`,
			`{"mode":"steer","state":"queued"}`, `{"mode":"steer","state":"queued","arrived_at":"x","order":{},"text":null}`,
			`{"mode":"steer","state":"queued","V":{"a":[1,null,{}]}}`, `{"state":"later","order":"x"}`,
		},
		"entry": {
			"", "x", "null", "5", "[]", "{}", `{"role":"tool"}`, `{"role":5}`, `{"v":2,"role":"later","parts":[{"text":"a"}]}`,
			`{"role":"user","text":{"v":2}}`, `{"role":"assistant","turn":5}`, `{"role":"tool","tool":{"name":5}}`, `{"at":"x"}`,
		},
		"run": {
			"v=2 V=1", "entries=x", "done=x", "hold=x", "hold=9 x", "started_at=x", "seq=x", "mode=V", "mode=", "cap=x", "cap=", "drop=V", "drop=", "debounce=x",
			"stop=x", "interrupt=x", "rollback=x", "steer=x", "nostart=x", "rotated=", "reset=V", "resume=V", "last=x",
		},
		"dead run": {"ids=x", "ids=null", "ids=5", "-ids", "fence=x", "-fence", "phase=V", "-phase", "token=x"},
		"task":     {"quiet=x", "quiet=", "quiet=1e300 x", "seen=x", "seq=x", "deaths=x", "redelivered=x", "V=1"},
	}
}

var damaged = map[string]func(b *actors.Bench, value string){
	"record":   func(b *actors.Bench, value string) { setFields(b, b.Keys.Record(), value) },
	"resume":   func(b *actors.Bench, value string) { setFields(b, b.Keys.Resume(), value) },
	"run":      func(b *actors.Bench, value string) { setFields(b, b.Keys.Run(), value) },
	"dead run": func(b *actors.Bench, value string) { setFields(b, b.Keys.Run(), value) },
	"settings": func(b *actors.Bench, value string) { b.Redis.HSet(b.Ctx, b.Keys.Record(), "queue", value) },
	"followup": func(b *actors.Bench, value string) {
		b.Redis.HSet(b.Ctx, b.Keys.Followups(), "nobody", value)
		if b.State("two") == "pending" {
			b.Redis.HSet(b.Ctx, b.Keys.Followups(), "two", value)
		}
	},
	"entry": func(b *actors.Bench, value string) {
		b.Redis.RPush(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID), value)
	},
	"task": func(b *actors.Bench, value string) {
		for _, id := range []string{"one", "two"} {
			if b.State(id) != "" {
				setFields(b, b.Keys.Task(b.Task(id)), value)
			}
		}
	},
}

// setFields writes field=value pairs; an empty value deletes the key.
func setFields(b *actors.Bench, key, fields string) {
	b.Helper()
	if fields == "" {
		expect.OK(b, b.Redis.Del(b.Ctx, key).Err())
	}
	for _, f := range strings.Fields(fields) {
		name, value, _ := strings.Cut(f, "=")
		if gone, ok := strings.CutPrefix(f, "-"); ok {
			expect.OK(b, b.Redis.HDel(b.Ctx, key, gone).Err())
			continue
		}
		expect.OK(b, b.Redis.HSet(b.Ctx, key, name, value).Err())
	}
}

// live is a stretch of a session's life. It calls spoil at the moment.
func live(b *actors.Bench, moment string, spoil func()) {
	b.Helper()
	at := func(now string) {
		if now == moment {
			spoil()
		}
	}
	b.Say("before")
	b.Finish(b.Start())
	at(idle)
	var sent []string
	say := func(id string, mode session.Mode) {
		if b.Say(id, mode).Status != receipt.Refused { // a readable cap may refuse it
			sent = append(sent, id)
		}
	}
	say("one", "")
	h := b.Start()
	runs(b, h)
	say("two", "")
	at(running)
	say("collected", session.ModeCollect)
	say("steered", session.ModeSteer)
	_, err := h.Steer(b.Ctx)
	expect.OK(b, err)
	for _, r := range b.Worker.Renew(b.Ctx, []*protocol.Claim{h}) {
		expect.OK(b, r.Err)
	}
	if moment == interrupted {
		say("urgent", session.ModeInterrupt)
	}
	if moment == dead || moment == interrupted {
		b.Die()
		at(moment)
		b.Overdue(rediskey.Owned)
		b.Reap()
		b.Sweep()
		h = nil
	}
	looks(b)
	expect.Soon(b, "the end of all messages", func() bool {
		if h == nil {
			claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
			expect.OK(b, err)
			if len(claims) == 0 {
				return ended(b, sent)
			}
			h = claims[0]
			expect.OK(b, h.Promote(b.Ctx))
			runs(b, h)
		}
		if more := b.Finish(h); !more {
			h = nil
			return ended(b, sent)
		}
		expect.OK(b, h.Promote(b.Ctx))
		runs(b, h)
		return false
	})
	for _, id := range sent {
		if s := b.Outcome(id).Status; s != session.StatusDone && (moment != interrupted || s != session.StatusInterrupted) {
			b.Errorf("message %s ended as %s", id, s)
		}
	}
	for _, command := range []string{"/undo", "/retry", "/stop", "/resume", "/new", "/title x", "/queue reset"} {
		name, args, _ := strings.Cut(command, " ")
		_, err := b.Client.Command(b.Ctx, actors.Key, name, args)
		expect.OK(b, err)
	}
	b.Drain()
	keys := protocol.KeysOf(actors.Key, "")
	expect.OK(b, protocol.Do(b.Ctx, b.Redis, "purge", keys, nil, "batch", 100, "archive_ttl", 0, "quiet", 0, "events_cap", 1000).Err())
	expect.OK(b, protocol.Do(b.Ctx, b.Redis, "forget", keys, nil, "age", 100).Err())
	expect.OK(b, protocol.Do(b.Ctx, b.Redis, "erase", keys, nil, "fence", "100", "size", 0, "unused", 0, "last", false, "keep", false).Err())
}

// An unused session is forgotten although its record is unreadable.
func TestForgetOfADamagedRecord(t *testing.T) {
	t.Parallel()
	for _, fields := range []string{"updated_at=x", "updated_at=x created_at=x", "-updated_at", "-updated_at -created_at", "v=2"} {
		b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
		b.Say("one")
		b.Drain()
		setFields(b, b.Keys.Record(), fields)
		gone, err := protocol.Do(b.Ctx, b.Redis, "forget", protocol.KeysOf(actors.Key, ""), nil, "age", -1).Slice()
		expect.OK(t, err)
		expect.Equal(t, "forgotten with "+fields, fmt.Sprint(gone), "[1]")
	}
}

// runs runs a turn as a worker does.
func runs(b *actors.Bench, h *protocol.Claim) {
	b.Helper()
	past, err := h.History(b.Ctx)
	expect.OK(b, err)
	expect.OK(b, actors.Checkpoint(b.Ctx, h, append(past.Entries, session.Entry{Role: session.RoleUser, Text: h.Turn().Message.Text})))
	expect.OK(b, h.Title(b.Ctx, "a title"))
	expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "x"}}))
}

// looks reads all that clients can read of a session.
func looks(b *actors.Bench) {
	b.Helper()
	info := b.Info()
	_, err := actors.Collect(b.Client.Sessions(b.Ctx, admin.Query{State: admin.StateBusy}))
	expect.OK(b, err)
	_, err = b.Client.Operate(actors.Key).FollowUps(b.Ctx)
	expect.OK(b, err)
	_, err = resume.Read(b.Ctx, b.Redis, actors.Key)
	expect.OK(b, err)
	_, err = actors.Transcript(b.Ctx, b.Client.Session(actors.Key), info.TranscriptID)
	expect.OK(b, err)
	for _, command := range []string{"/status", "/history", "/queue", "/title"} {
		_, err := b.Client.Command(b.Ctx, actors.Key, command, "")
		expect.OK(b, err)
	}
}

func ended(b *actors.Bench, ids []string) bool {
	for _, id := range ids {
		if _, over, err := actors.Result(b.Ctx, b.Client.Session(actors.Key), id); err != nil || !over {
			return false
		}
	}
	return true
}

// An entry, a setting and a mark that another version has written in part, or with unknown words,
// stop no session.
func TestRecordsOfOtherVersions(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Record(), "queue", `{"mode":"telepathy","colour":"red"}`, "dropped", "not JSON", "new", "1").Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Resume(), "pending", "1", "colour", "red").Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Run(), "colour", "red").Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Journal(), "v", "9", "n", "7").Err())
	expect.OK(t, b.Redis.RPush(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID), `{"role":"oracle","colour":"red"}`, "not JSON").Err())
	b.Say("b")
	h := b.Start()
	expect.Equal(t, "resume", h.Turn().Resume, "restart_timeout")
	past, err := h.History(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "entries", len(past.Entries), 4)
	expect.Equal(t, "role of one that cannot be read", past.Entries[3].Role, session.RoleSystem)
	expect.Equal(t, "waits", b.Say("c").Status, receipt.Queued)
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	b.Finish(h)
	expect.Equal(t, "status", b.Outcome("c").Status, session.StatusDone)
}

// Settings that no user can have set (of another version, of a broken record) do not stop a
// session.
func TestBrokenSettingsSayNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "[]", `"collect"`, "7", "null", `{"mode":"sometimes"}`} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			b.Start()
			b.Redis.HSet(b.Ctx, b.Keys.Record(), "queue", text)
			expect.Equal(t, "status", b.Say("b").Status, receipt.Queued)
		})
	}
}

// A task that is no message of this version is claimed with an error, and can be archived.
func TestForeignTasks(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for id, payload := range map[string]string{"text": "hello", "version": `{"v":7,"text":"x"}`, "empty": `{"v":1,"text":""}`, "nothing": ""} {
		t.Run(id, func(t *testing.T) {
			b := actors.NewBench(t)
			b.EnqueueTask(wire.TaskType, payload, id)
			h := b.Claim()
			if !errors.Is(h.Turn().Err, session.ErrInvalid) {
				t.Errorf("err: %v", h.Turn().Err)
			}
			expect.Equal(t, "id", h.Turn().Message.ID, id)
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: h.Turn().Err.Error()})
			expect.OK(t, err)
			expect.Equal(t, "state", b.Redis.HGet(b.Ctx, b.Keys.Task(id), "state").Val(), "archived")
		})
	}
	b.EnqueueTask("email:welcome", `{"v":1,"text":"x"}`, "other")
	if err := b.Claim().Turn().Err; !errors.Is(err, session.ErrInvalid) {
		t.Errorf("another task type: %v", err)
	}
}

// A task with a msg that is not protobuf does not stop its session.
func TestBrokenTask(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("a")), "msg", "\xff\xff\xff")
	h := b.Claim()
	if h.Turn().Err == nil {
		t.Error("no error")
	}
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: h.Turn().Err.Error()})
	expect.OK(t, err)
	expect.Equal(t, "has a next turn", more, true)
}
