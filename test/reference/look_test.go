package reference_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/reference"
)

// found is the stored data of a session, read in two round trips: first the keys, and then the tasks and
// transcripts.
type found struct {
	pending, active                       *redis.StringSliceCmd
	scheduled, retry, completed, archived *redis.ZSliceCmd
	paused                                *redis.IntCmd
	sentinel, state                       *redis.StringCmd
	journal                               *redis.MapStringStringCmd
	run, record, resume                   *redis.MapStringStringCmd
	events                                *redis.XMessageSliceCmd
	ready, due, owned, sessions           *redis.FloatCmd
	listed                                *redis.BoolCmd
	outbox                                outboxOf
	ttls                                  ttls
}

// picture reads the session on Redis as the model's Picture.
func (b *actual) picture() reference.Picture {
	b.Helper()
	ctx, k := b.ctx, b.k
	f := found{}
	_, err := b.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		f.pending, f.active = p.LRange(ctx, k.Pending(), 0, -1), p.LRange(ctx, k.Active(), 0, -1)
		f.scheduled, f.retry = p.ZRangeWithScores(ctx, k.Scheduled(), 0, -1), p.ZRangeWithScores(ctx, k.Retry(), 0, -1)
		f.completed, f.archived = p.ZRangeWithScores(ctx, k.Completed(), 0, -1), p.ZRangeWithScores(ctx, k.Archived(), 0, -1)
		f.paused = p.Exists(ctx, k.Paused())
		f.sentinel, f.journal, f.state = p.Get(ctx, k.Sentinel()), p.HGetAll(ctx, k.Journal()), p.Get(ctx, k.State())
		f.run, f.record = p.HGetAll(ctx, k.Run()), p.HGetAll(ctx, k.Record())
		f.resume = p.HGetAll(ctx, k.Resume())
		f.events = p.XRange(ctx, k.Events(), b.lastEvent, "+")
		f.ready, f.due = p.ZScore(ctx, rediskey.Ready, key), p.ZScore(ctx, rediskey.Due, key)
		f.owned, f.sessions = p.ZScore(ctx, rediskey.Owned, key), p.ZScore(ctx, rediskey.Sessions, key)
		f.outbox = b.readOutbox(p)
		f.ttls = b.readTTLs(p)
		f.listed = p.SIsMember(ctx, rediskey.AllQueues, rediskey.Queue(key))
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		b.Fatal(err)
	}
	run, record := f.run.Val(), f.record.Val()
	b.names.turn(number(run["fence"]))
	current := b.names.session(record["session_id"])

	p := reference.Picture{
		"paused": fmt.Sprint(f.paused.Val() == 1),
		"turn":   b.recordTurn(run, f.sentinel.Val()),
		"record": fmt.Sprintf("known %v, %s, title %q by %q, settings %v, replies to %q, dropped %v, agent %q", len(record) > 0, current, record["title"], record["title_by"],
			settings(record["queue"]), record["reply_to"], b.list(record["dropped"]), agentOf(record)),
		"resume":  b.resumeOf(f.resume.Val()),
		"journal": b.journalOf(f.journal.Val()),
		"state":   kept(f.state.Val()),
		"events":  b.eventsOf(f.events.Val()),
		"index": fmt.Sprintf("ready %v, due %s, owned %v, known %v, listed %v", f.ready.Err() == nil, reference.At(int64(f.due.Val()), b.start),
			f.owned.Err() == nil, f.sessions.Err() == nil, f.listed.Val()),
	}
	b.tasks(p, f)
	f.outbox.picture(b, p)
	f.ttls.picture(p)
	return p
}

// reason is the reason of a message's archiving, in the model's terms.
func reason(text string) string {
	if strings.HasPrefix(text, "invalid message: its task has ") {
		return reference.TooLong
	}
	return text
}

// task is a task's hash.
type task struct {
	state, status, why            string
	quiet, route                  string
	failures, redelivered, deaths int64
}

// tasks reads every task, and reports a task if its state differs from its list.
func (b *actual) tasks(p reference.Picture, f found) {
	b.Helper()
	lists := map[string][]string{"line": backwards(f.pending.Val()), "active": backwards(f.active.Val())}
	for name, z := range map[string]*redis.ZSliceCmd{"scheduled": f.scheduled, "retry": f.retry, "completed": f.completed, "archived": f.archived} {
		for _, m := range z.Val() {
			lists[name] = append(lists[name], fmt.Sprint(m.Member))
		}
	}
	due := map[string]string{}
	for _, m := range f.scheduled.Val() {
		due[fmt.Sprint(m.Member)] = reference.At(int64(m.Score)*1000, b.start)
	}
	all := slices.Concat(lists["line"], lists["active"], lists["scheduled"], lists["retry"], lists["completed"], lists["archived"])
	known := slices.Clone(all)
	for i := range messages {
		known = append(known, rediskey.TaskID(key, id(i)))
	}
	tasks := map[string]*redis.MapStringStringCmd{}
	transcripts, left := map[string]*redis.StringSliceCmd{}, map[string]*redis.DurationCmd{}
	_, err := b.rdb.Pipelined(b.ctx, func(pipe redis.Pipeliner) error {
		for _, id := range known {
			tasks[id] = pipe.HGetAll(b.ctx, b.k.Task(id))
		}
		for sid := range b.names.sessions {
			transcripts[sid] = pipe.LRange(b.ctx, b.k.Transcript(sid), 0, -1)
			left[sid] = pipe.PTTL(b.ctx, b.k.Transcript(sid))
			pipe.PExpire(b.ctx, b.k.Transcript(sid), aged)
		}
		return nil
	})
	b.must(err)
	read := map[string]task{}
	for id, t := range tasks {
		read[id] = readTask(t.Val(), b.start)
	}
	name := func(id, state string) string {
		is := read[id].state
		if is != state {
			return fmt.Sprintf("%s (its task is %q)", b.message(id), is)
		}
		return b.message(id)
	}
	for list, state := range map[string]string{"line": "pending", "active": "active"} {
		var ids []string
		for _, id := range lists[list] {
			ids = append(ids, name(id, state))
			t := read[id]
			p["message "+b.message(id)] = fmt.Sprintf("%d failures, %d redelivered, %d deaths, %s", t.failures, t.redelivered, t.deaths, t.quiet)
		}
		p[list] = fmt.Sprint(ids)
	}
	for list, tell := range map[string]func(id string) string{
		"scheduled": func(id string) string { return name(id, "scheduled") + " at " + due[id] },
		"completed": func(id string) string {
			return fmt.Sprintf("%s %s %q", name(id, "completed"), read[id].status, read[id].why)
		},
		"archived": func(id string) string {
			return fmt.Sprintf("%s %s %q", name(id, "archived"), read[id].status, read[id].why)
		},
	} {
		var ids []string
		for _, id := range lists[list] {
			ids = append(ids, tell(id))
		}
		slices.Sort(ids)
		p[list] = strings.Join(ids, "; ")
	}
	if len(lists["retry"]) > 0 {
		p["retry"] = fmt.Sprint(lists["retry"])
	}
	for id, t := range read {
		if t.state != "" && !slices.Contains(all, id) {
			p["stray "+b.message(id)] = t.state
		}
	}
	var routes []string
	for _, id := range all {
		if route := read[id].route; route != "" {
			routes = append(routes, b.message(id)+" to "+b.routeOf(route).String())
		}
	}
	slices.Sort(routes)
	p["routes"] = strings.Join(routes, "; ")
	p["follow-ups"] = b.followUps()
	for sid, lines := range transcripts {
		if entries := b.entries(lines.Val()); len(entries) > 0 {
			p["transcript "+b.names.session(sid)] = fmt.Sprint(entries) + renewed(left[sid].Val())
		}
	}
}

func (b *actual) message(taskID string) string {
	return b.names.message(strings.TrimPrefix(taskID, rediskey.IDPrefix(key)))
}

func backwards(ids []string) []string {
	slices.Reverse(ids)
	return ids
}

func readTask(h map[string]string, start int64) task {
	t := task{state: h["state"], redelivered: number(h["redelivered"]), deaths: number(h["deaths"]), quiet: "no quiet window"}
	t.route = h["route"]
	if till, most, ok := strings.Cut(h["quiet"], " "); ok {
		t.quiet = fmt.Sprintf("quiet till %s or %s", reference.At(number(till), start), most)
	}
	var end session.Event
	if json.Unmarshal([]byte(h["result"]), &end) == nil {
		t.status, t.why = string(end.Status), reason(end.Error)
	}
	const retried = 6 // of asynq's TaskMessage
	for msg := []byte(h["msg"]); len(msg) > 0; {
		num, typ, n := protowire.ConsumeTag(msg)
		size := protowire.ConsumeFieldValue(num, typ, msg[max(n, 0):])
		if n < 0 || size < 0 {
			t.state += ", unreadable"
			break
		}
		if num == retried {
			v, _ := protowire.ConsumeVarint(msg[n:])
			t.failures = int64(v)
		}
		msg = msg[n+size:]
	}
	return t
}

func (b *actual) recordTurn(run map[string]string, sentinel string) string {
	fence := run["fence"]
	phase := run["phase"]
	if phase == "" || phase == "idle" {
		if sentinel != "" {
			return "the sentinel is up, and nothing runs"
		}
		return "idle after " + b.turnName(fence)
	}
	asked := func(field string) bool { return run[field] == fence }
	question := ""
	if of, rest, _ := strings.Cut(run["question"], " "); of == fence {
		n, _, _ := strings.Cut(rest, " ")
		if !strings.HasPrefix(run["answered"], fence+" "+n+" ") {
			question = ", asks " + n
		}
	}
	return fmt.Sprintf("%s %s %s, %s entries, owned %v, asked %v %v %v, steer %v, nostart %v, rotated %q%s", b.turnName(fence), phase,
		b.names.session(run["sid"]), cmp.Or(run["entries"], "0"), sentinel == "in doubt" || sentinel != "" && sentinel == run["token"], asked("stop"), asked("rollback"), asked("interrupt"),
		asked("steer"), asked("nostart"), b.names.session(run["rotated"]), question)
}

func (b *actual) turnName(fence string) string {
	if fence == "" {
		return "T0"
	}
	return b.names.turn(number(fence))
}

func (b *actual) resumeOf(r map[string]string) string {
	return fmt.Sprintf("pending %v %q at %s, %d interruptions, counted %s, suspended %v", r["pending"] == "1", r["reason"],
		reference.At(number(r["marked_at"]), b.start), number(r["interruptions"]), b.turnName(r["fence"]), r["suspended"] == "1")
}

// journalOf is the journal.
func (b *actual) journalOf(j map[string]string) string {
	if len(j) == 0 {
		return ""
	}
	var ids []string
	b.must(json.Unmarshal([]byte(j["ids"]), &ids))
	for i, id := range ids {
		ids[i] = b.names.message(protocol.MessageID(rediskey.IDPrefix(key), id))
	}
	entries := make([]reference.Entry, number(j["n"]))
	for i := range entries {
		entries[i] = b.entry(protocol.DecodeEntry(j["e:"+strconv.Itoa(i)]))
	}
	fence, _, _ := strings.Cut(j["call"], " ")
	return fmt.Sprintf("%s %v %v, steps %v, progress %s", b.names.turn(number(fence)), ids, entries, j["closed"] != "", b.turnName(j["progress"]))
}

// checkpoint stores entries as a worker does. model is the claim's.
func (b *actual) checkpoint(h *protocol.Claim, model *reference.Claim, entries []reference.Entry, step bool) error {
	w := protocol.JournalWrite{Entries: map[int]session.Entry{}, Count: len(entries), HasSteps: step, Closed: len(entries), Progress: step}
	if step {
		w.Steps = map[string]string{"s": `{"state":"ended"}`}
	}
	for i, e := range b.entriesOf(entries, h.Turn().ID) {
		w.Entries[i] = e
	}
	for _, id := range slices.Concat(model.Turn.Messages, model.Steered()) {
		w.Messages = append(w.Messages, b.names.id(id))
	}
	_, err := h.Journal(b.ctx, w)
	return err
}

func kept(text string) string {
	var s struct{ Data json.RawMessage }
	if text == "" || json.Unmarshal([]byte(text), &s) != nil {
		return text
	}
	return string(s.Data)
}

func (b *actual) entry(e session.Entry) reference.Entry {
	n, _ := strconv.Atoi(strings.TrimPrefix(b.names.turnID(e.Turn), "T"))
	text, _, large := strings.Cut(e.Text, padding)
	return reference.Entry{Role: string(e.Role), Text: text, Turn: n, Large: large, Ended: e.Ended != nil}
}

func (b *actual) entries(lines []string) []reference.Entry {
	var list []reference.Entry
	for _, line := range lines {
		list = append(list, b.entry(protocol.DecodeEntry(line)))
	}
	return list
}

// followUps are the listed follow-ups.
func (b *actual) followUps() string {
	list, err := actors.NewClient(b.rdb).Operate(key).FollowUps(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	var told []string
	for _, f := range list {
		told = append(told, fmt.Sprintf("%s %s %s at %d", b.names.message(f.ID), f.Mode, strings.Replace(string(f.State), "pending", "queued", 1), f.Position))
	}
	return fmt.Sprint(told)
}

func (b *actual) list(text string) []string {
	var ids []string
	_ = json.Unmarshal([]byte(text), &ids) // "" means none
	for i := range ids {
		ids[i] = b.message(ids[i])
	}
	return ids
}

func settings(text string) reference.Settings {
	var s session.QueueSettings
	_ = json.Unmarshal([]byte(text), &s) // "" means none
	return reference.Settings{Mode: string(s.Mode), Cap: s.Cap, Drop: string(s.Drop), Debounce: int64(s.Debounce) / 1e6}
}

// eventsOf are the events since the last call.
func (b *actual) eventsOf(stream []redis.XMessage) string {
	var told []string
	for _, m := range stream {
		b.lastEvent = "(" + m.ID
		for _, field := range []string{"s", "e"} {
			text, ok := m.Values[field].(string)
			if !ok {
				continue
			}
			var e session.Event
			b.must(json.Unmarshal([]byte(text), &e))
			told = append(told, b.event(e))
		}
	}
	return reference.Events(told)
}

func (b *actual) event(e session.Event) string {
	ids := make([]string, len(e.Messages))
	for i, id := range e.Messages {
		ids[i] = b.names.message(id)
	}
	turn := "no turn"
	if e.Turn != "" {
		turn = b.names.turnID(e.Turn)
	}
	switch e.Type {
	case session.EventTurnStarted:
		return reference.Started(turn, b.names.session(e.TranscriptID), ids)
	case session.EventTurnEnded:
		return reference.Ended(string(e.Status), turn, ids, reason(e.Error))
	case session.EventTurnRetry:
		return fmt.Sprintf("turn_retry %d %s", e.Attempt, e.Why())
	case session.EventTurnRequeued:
		return "turn_requeued " + e.Reason
	case session.EventQueued:
		return fmt.Sprintf("queued %v %s at %d", ids, e.Mode, e.Position)
	}
	return string(e.Type) + " " + e.Text
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
