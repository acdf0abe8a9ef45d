package reference_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	sq "turnstile/internal/protocol"
	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/redistest"
	"turnstile/test/reference"
)

const key = "agent:main:telegram:dm:42"

// allAgents are the agents of both workers.
var allAgents = []string{agents.Default, "support", "coder"}

// redisOf is a test's Redis, on which one life after the other runs.
type redisOf struct {
	testing.TB
	rdb    redis.UniversalClient
	faults *redistest.Faults
	clock  *standIns
}

func newRedis(t testing.TB, mutate func(source string) string) *redisOf {
	t.Helper()
	rdb := redistest.New(t)
	r := &redisOf{TB: t, rdb: rdb, faults: &redistest.Faults{}, clock: newStandIns(t, rdb, mutate)}
	rdb.AddHook(r.faults) // the first is the outermost: faults match the original scripts
	rdb.AddHook(r.clock)
	return r
}

// empty deletes all keys. It does not flush, because the server may have other users.
func (r *redisOf) empty() {
	r.faults.Clear()
	ctx := context.Background()
	keys, err := r.rdb.Keys(ctx, "*").Result()
	if err == nil && len(keys) > 0 {
		err = r.rdb.Unlink(ctx, keys...).Err()
	}
	if err != nil {
		r.Fatal(err)
	}
}

// actual is the session on Redis, with its senders, workers and operator.
type actual struct {
	*redisOf
	ctx       context.Context
	end       context.CancelFunc
	k         rediskey.Session
	client    *actors.Client
	fallback  string // the sender's default destination
	plain     *asynq.Client
	inspector *asynq.Inspector
	workers   [2]*actors.Consumer
	serves    [2][]string // the agents of each worker
	start     int64
	names     names
	lastEvent string // the last event read
}

func (r *redisOf) begin(c reference.Config, now int64) *actual {
	r.empty()
	b := &actual{
		redisOf: r, k: rediskey.For(key), start: now, lastEvent: "-", names: newNames(),
		plain: asynq.NewClientFromRedisClient(r.rdb), inspector: asynq.NewInspectorFromRedisClient(r.rdb),
	}
	b.client = actors.NewClientWith(r.rdb, turnstile.ClientConfig{
		Limits: limitsOf(c), DefaultReplyTo: func(string) string { return b.fallback },
	})
	b.ctx, b.end = context.WithCancel(context.Background())
	for i := range b.workers {
		var err error
		b.workers[i], err = actors.NewConsumer(r.rdb, configOf(c, i, func() []string { return b.serves[i] }))
		if err != nil {
			r.Fatal(err)
		}
	}
	return b
}

func configOf(c reference.Config, worker int, serves func() []string) sq.Config {
	policy, retention := sq.CrashResume, time.Duration(0)
	if c.CrashSuspends {
		policy = sq.CrashSuspend
	}
	if c.Keeps {
		retention = reference.ResultTTL * time.Millisecond
	}
	return sq.Config{
		Agents: allAgents, AgentOf: func(string) string { return c.Agent }, Serves: serves,
		Age:    func() time.Duration { return time.Duration(worker/reference.Veteran) * 100_000 * time.Hour },
		Worker: fmt.Sprint("worker", worker), Immediate: c.Immediate, StuckLimit: c.StuckLimit, CrashPolicy: policy, Retention: retention,
		SentinelTTL: time.Duration(c.TTL) * time.Millisecond, TranscriptCap: c.TranscriptCap, TurnMessages: c.TurnMessages, Limits: limitsOf(c), TranscriptBytes: transcriptBytes, Line: settingsOf(c.Workers[worker]),
		SessionTTL: reference.SessionTTL * time.Millisecond, ArchiveTTL: reference.DeadTTL * time.Millisecond,
	}
}

func settingsOf(s reference.Settings) session.QueueSettings {
	return session.QueueSettings{
		Mode: session.Mode(s.Mode), Cap: s.Cap, Drop: session.DropPolicy(s.Drop), Debounce: session.Millis(s.Debounce * int64(time.Millisecond)),
	}
}

// setTime sets the clock of a life.
func (b *actual) setTime(ms int64) {
	b.clock.now = ms
	b.must(b.rdb.Set(b.ctx, clockKey, ms, 0).Err())
}

func (b *actual) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// word is an error in the model's terms.
func word(err error) string {
	for e, word := range map[error]string{
		lease.ErrLost: reference.Lost, sq.ErrStopRequested: "stop", sq.ErrInterruptRequested: "interrupt", sq.ErrRollbackRequested: "rollback",
		sq.ErrDraining: "drain", redistest.ErrLostReply: "reply lost", session.ErrInvalid: "invalid",
	} {
		if errors.Is(err, e) {
			return word
		}
	}
	for _, e := range []error{session.ErrBusy, session.ErrNoTurn, session.ErrLastFailed, session.ErrNoQuestion, session.ErrOtherQuestion, session.ErrJustAsked, session.ErrDecided, session.ErrNoWait, session.ErrGiven} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return reference.OK
}

// allowed is the result of an operator's button.
func allowed(err error) string { return fmt.Sprint(err == nil) }

func (b *actual) send(id, mode string, due int64, opts ...actors.Option) string {
	if due > 0 {
		opts = append(opts, actors.Delay(time.Duration(due+500-b.clock.now)*time.Millisecond))
	}
	r, err := receipt.Input(b.ctx, b.client.Session(key), actors.With(turnstile.Message{ID: id, Text: id, Mode: session.Mode(mode)}, opts...))
	if err != nil {
		return word(err)
	}
	at := int64(0)
	if !r.At.IsZero() {
		at = r.At.UnixMilli()
	}
	return receiptOf(string(r.Status), string(r.State), r.Reason, r.Position, at, b.start)
}

func receiptOf(status, state, reason string, position int, at, start int64) string {
	return fmt.Sprintf("%s %s %s %d %s", status, state, reason, position, reference.At(at, start))
}

// limitsOf bounds messages far below the default, so that a message over the limit costs little.
func limitsOf(c reference.Config) session.Limits {
	return session.Limits{MessageBytes: 10_000, Queue: c.LineCap, Outbox: c.OutboxCap}
}

// A large entry is padded to this many bytes, for which Redis takes a quarter more. A transcript
// has room for this many large entries, whatever else is in it.
const (
	largeEntries    = 1
	largeEntry      = 66_000
	transcriptBytes = 110_000
	padding         = " padding"
)

func (b *actual) enqueue(id string, due int64, long bool) string {
	opts := []asynq.Option{asynq.Queue(rediskey.Queue(key)), asynq.TaskID(rediskey.TaskID(key, id))}
	if due > 0 {
		opts = append(opts, asynq.ProcessAt(time.UnixMilli(due)))
	}
	text := id
	if long {
		text = strings.Repeat("x", int(sq.TaskMost(limitsOf(reference.Config{}))))
	}
	payload, err := wire.Message{ID: id, Text: text}.Payload()
	b.must(err)
	_, err = b.plain.Enqueue(asynq.NewTask(wire.TaskType, payload), opts...)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		b.must(err)
	}
	return allowed(err)
}

// claim returns the claim, if there is one, and its turn.
func (b *actual) claim(worker int) (*sq.Claim, string) {
	claims, err := b.workers[worker].Claim(b.ctx, []string{key})
	if err != nil || len(claims) == 0 {
		return nil, word(err)
	}
	return claims[0], b.turn(claims[0])
}

// agentOf is a record's agent.
func agentOf(record map[string]string) string {
	if record["agent"] == "" && record["fence"] != "" {
		return agents.Default
	}
	return record["agent"]
}

// turn is a worker's view of its turn.
func (b *actual) turn(h *sq.Claim) string {
	t := h.Turn()
	var messages, dropped []string
	for _, m := range t.Messages() {
		messages = append(messages, b.names.message(m.Message.ID))
	}
	for _, id := range t.Dropped {
		dropped = append(dropped, b.names.message(strings.TrimPrefix(id, rediskey.IDPrefix(key))))
	}
	return turnText(b.names.turn(t.Fence), b.names.session(t.TranscriptID), t.Agent, t.Reset, t.Resume, messages, dropped, t.Attempt, int(t.Entries), t.Redelivered, t.Throttled, endsOf(t.Ends))
}

// endsOf is how a turn is to end, in the model's terms.
func endsOf(err error) string {
	var dead sq.GivenUpError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &dead):
		return dead.Error()
	}
	return word(err)
}

func turnText(turn, transcriptID, agent, reset, resume string, messages, dropped []string, attempt, entries, again, throttled int, ends string) string {
	return fmt.Sprintf("%s (ends %q) %s of %s %v, attempt %d, %d entries, redelivered %d, throttled %d, reset %q, resume %q, dropped %v",
		turn, ends, transcriptID, agent, messages, attempt, entries, again, throttled, reset, resume, dropped)
}

// finish returns the next turn, or the reason why there is none.
func (b *actual) finish(h *sq.Claim, e reference.End, steered []string) string {
	turn := h.Turn()
	end := sq.End{Status: session.Status(e.Status), Error: e.Error, Rollback: e.Rollback, Release: e.Release, Entries: b.entriesOf(e.Entries, turn.ID)}
	if e.Untaken {
		end.Untaken = b.names.ids(steered)
	}
	if e.Told {
		end.Told = len(turn.Dropped)
	}
	more, err := h.Finish(b.ctx, end)
	switch {
	case err != nil:
		return word(err)
	case more:
		return "next: " + b.turn(h)
	}
	return "released"
}

// released is the result of a move that releases the session.
func released(err error) string {
	if err == nil {
		return "released"
	}
	return word(err)
}

func (b *actual) entriesOf(entries []reference.Entry, turn string) []session.Entry {
	var list []session.Entry
	for _, e := range entries {
		text := e.Text
		if e.Large {
			text += strings.Repeat(padding, largeEntry/len(padding))
		}
		list = append(list, session.Entry{Role: session.Role(e.Role), Text: text, Message: b.names.id(e.Message), Turn: turn})
	}
	return list
}

// undo is the result in the model's terms.
func (b *actual) undo(u session.Undone, err error) string {
	if err != nil {
		return word(err)
	}
	return fmt.Sprintf("%s, %d entries, %q", b.names.turnID(cmp.Or(u.Turn, "0")), u.Entries, u.Text)
}

// timer runs a job of the timers, which may have run just now.
func (b *actual) timer(job string) string {
	b.must(b.rdb.Del(b.ctx, rediskey.Timer(job)).Err())
	b.lookLater(job == "reap")
	w := b.workers[0]
	switch job {
	case "reap":
		_, _, err := w.Reap(b.ctx)
		return word(err)
	case "due":
		_, err := w.Due(b.ctx)
		return word(err)
	}
	if _, err := w.Trim(b.ctx); err != nil {
		return word(err)
	}
	n, _, err := w.Sweep(b.ctx, time.Minute)
	return fmt.Sprint(n, " found ", word(err))
}

// lookLater sets when recovery checks the session's owner, if the session is in that index: now, or
// later. The model does not know the exact time.
func (b *actual) lookLater(now bool) {
	at := float64(b.clock.now + time.Hour.Milliseconds())
	if now {
		at = 1
	}
	b.must(b.rdb.ZAddXX(b.ctx, rediskey.Owned, redis.Z{Score: at, Member: key}).Err())
}

// freeIDs ends the time for which message IDs are remembered. Redis counts that by its own clock.
func (b *actual) freeIDs() {
	names, err := b.rdb.Keys(b.ctx, b.k.Idem("*")).Result()
	b.must(err)
	if len(names) > 0 {
		b.must(b.rdb.Del(b.ctx, names...).Err())
	}
}

func (b *actual) maintain() string {
	deleted, err := b.workers[0].Purge(b.ctx)
	b.must(err)
	names, err := b.workers[0].Unregister(b.ctx)
	b.must(err)
	forgotten, err := b.workers[0].Forget(b.ctx)
	b.must(err)
	return fmt.Sprint(deleted, names, forgotten)
}

// names gives random names the model's names.
type names struct {
	sessions, messages map[string]string
	turns              map[int64]string
	highest            int64
}

func newNames() names {
	return names{map[string]string{"": ""}, map[string]string{}, map[int64]string{0: "no turn"}, 0}
}

func (n *names) session(id string) string {
	if n.sessions[id] == "" && id != "" {
		n.sessions[id] = fmt.Sprint("sid", len(n.sessions))
	}
	return n.sessions[id]
}

func (n *names) message(id string) string {
	if len(id) < 6 { // an ID of the test
		return id
	}
	if n.messages[id] == "" {
		n.messages[id] = fmt.Sprint("again", len(n.messages)+1)
	}
	return n.messages[id]
}

// id is a name's ID.
func (n *names) id(name string) string { return n.ids([]string{name})[0] }

// ids are the names' ids.
func (n *names) ids(names []string) []string {
	ids := slices.Clone(names)
	for id, name := range n.messages {
		if i := slices.Index(ids, name); i >= 0 {
			ids[i] = id
		}
	}
	return ids
}

// turn names a fence. Each must be above all before it.
func (n *names) turn(fence int64) string {
	if n.turns[fence] == "" {
		n.turns[fence] = fmt.Sprint("T", len(n.turns))
		if fence <= n.highest {
			n.turns[fence] = fmt.Sprintf("a fence that fell from %d to %d", n.highest, fence)
		}
		n.highest = max(n.highest, fence)
	}
	return n.turns[fence]
}

func (n *names) turnID(id string) string {
	var fence int64
	if _, err := fmt.Sscan(strings.TrimPrefix(id, rediskey.IDPrefix(key)), &fence); err != nil {
		return id
	}
	return n.turn(fence)
}
