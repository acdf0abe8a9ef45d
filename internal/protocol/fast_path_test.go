package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// whole keeps a client from the fast paths of claim and finish, and counts their calls.
type whole struct {
	fastCalls
	kept int
}

func (w *whole) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !actors.FastPath(cmd) {
			err := next(ctx, cmd)
			w.count(cmd)
			return err
		}
		w.kept++
		cmd.(redistest.Reply).SetVal([]any{[]any{"special"}}) // these lives are of one session
		return nil
	}
}

// fastCalls counts the calls that the fast paths completed.
type fastCalls struct{ plain, special, released int }

func (a *fastCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *fastCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		a.count(cmd)
		return err
	}
}

func (a *fastCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *fastCalls) count(cmd redis.Cmder) {
	c, ok := cmd.(redistest.Reply)
	if !ok || !actors.FastPath(cmd) {
		return
	}
	list, _ := alone(c).([]any)
	switch {
	case len(list) == 0:
	case list[0] == "special":
		a.special++
	case list[0] == "released":
		a.released++
	default:
		a.plain++
	}
}

// The fast paths of claim and finish leave the same keys and take the same turns as the full paths,
// whatever state the session is in.
func TestFastPathLeavesTheSame(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	seeds := 8
	if expect.Proof() {
		seeds = 32
	}
	lives, plainly := make([][]moment, seeds), make([][]moment, seeds)
	seen, kept := make([]fastCalls, seeds), make([]whole, seeds)
	t.Run("lives", func(t *testing.T) {
		for seed := range seeds {
			t.Run(fmt.Sprint("full ", seed), func(t *testing.T) {
				t.Parallel()
				lives[seed] = life(t, seed, &kept[seed])
			})
			t.Run(fmt.Sprint("fast ", seed), func(t *testing.T) {
				t.Parallel()
				plainly[seed] = life(t, seed, &seen[seed])
			})
		}
	})
	for seed, moments := range lives {
		var did []string
		for i, whole := range moments {
			if t.Failed() {
				return
			}
			did = append(did, whole.did)
			if i >= len(plainly[seed]) {
				t.Fatalf("seed %d, after %q: the life on the fast path is over", seed, did)
			}
			plain := plainly[seed][i]
			expect.Equal(t, fmt.Sprint("step of seed ", seed), plain.did, whole.did)
			expect.Equal(t, fmt.Sprintf("seed %d, after %q: the turn", seed, did), plain.turn, whole.turn)
			left, plainLeft := sameStart(whole.left, plain.left)
			actors.Same(t, fmt.Sprintf("seed %d, after %q, fast path against full path", seed, did), left, plainLeft)
		}
	}
	var sum fastCalls
	for _, a := range seen {
		sum.plain, sum.special, sum.released = sum.plain+a.plain, sum.special+a.special, sum.released+a.released
	}
	t.Logf("%d claims and ends with a next turn on the fast path, %d with a release, %d on the full path", sum.plain, sum.released, sum.special)
	if sum.plain < 6*seeds || sum.released < seeds || sum.special < 3*seeds {
		t.Error("these lives do not show much")
	}
	var without whole
	for _, w := range kept {
		without.kept, without.plain = without.kept+w.kept, without.plain+w.plain+w.released
	}
	if without.kept < 6*seeds || without.plain > 0 {
		t.Errorf("%d calls of the fast path were kept back, and %d went through", without.kept, without.plain)
	}
}

// sameStart cuts the older events of the stream that begins earlier. Redis trims a stream by its
// bytes, which depend on the digits of the turns' durations.
func sameStart(one, other string) (string, string) {
	a, b := eventsOf(one), eventsOf(other)
	const node = 40 // Redis trims whole nodes of 4 KiB: at most this many parts
	n := min(len(a), len(b))
	if n == 0 || max(len(a), len(b))-n > node {
		return one, other
	}
	return strings.Replace(one, strings.Join(a[:len(a)-n], ""), "", 1), strings.Replace(other, strings.Join(b[:len(b)-n], ""), "", 1)
}

// eventsOf are the parts of the events in a picture.
func eventsOf(picture string) []string {
	_, behind, _ := strings.Cut(picture, ":events stream expires=false [")
	line, _, _ := strings.Cut(behind, "\n")
	return strings.SplitAfter(line, "} ")
}

// moment is the effect of a step of a life, and the state after it.
type moment struct{ did, turn, left string }

func life(t *testing.T, seed int, hook redis.Hook) (moments []moment) {
	r := rand.New(rand.NewPCG(uint64(seed), 11))
	b := actors.NewBench(t, func(c *protocol.Config) {
		c.Worker, c.TranscriptCap, c.StuckLimit, c.Immediate = "worker", 7, 100, seed%2 == 0
		c.Line.Debounce = session.Millis(time.Hour) // longer than any of this
		c.EventsBytes = 20_000
		if seed%8 == 7 {
			c.Retention = 0
		}
	})
	b.Redis.AddHook(hook)
	var h *protocol.Claim
	promote := func() {
		if err := h.Promote(b.Ctx); err != nil {
			t.Logf("promote: %v", err) // stopped or interrupted: a later step ends it
		}
	}
	for i := range 80 {
		id := fmt.Sprint("m", i)
		var did string
		switch n := r.IntN(32); {
		case n < 8:
			did = "put in"
			b.Enqueue(id)
		case n < 10:
			did = "say"
			b.Say(id)
		case n == 10:
			mode := []session.Mode{session.ModeCollect, session.ModeInterrupt, session.ModeSteer}[r.IntN(3)]
			did = string(mode)
			b.Say(id, mode)
		case n == 11 && r.IntN(2) == 0:
			did = "a due message"
			b.SayDelayed(id)
		case n == 11:
			did = "another program's task"
			b.EnqueueTask(wire.TaskType, `{"v":1,"text":"`+id+`"}`, `odd "id" `+id, asynq.Unique(time.Hour))
		case n == 12 && h == nil:
			did = "pause"
			_ = b.Inspector().PauseQueue(rediskey.Queue(actors.Key)) // it may be paused already
		case n == 12:
			did = "checkpoint"
			expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{{Role: session.RoleUser, Text: "part"}}))
		case n == 13 && r.IntN(2) == 0:
			did = "the head's task is lost"
			b.Redis.Del(b.Ctx, b.Keys.Task(b.Redis.LIndex(b.Ctx, b.Keys.Pending(), -1).Val()))
		case n == 14 && h == nil:
			did = "another session id"
			_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
			expect.OK(t, err)
		case h == nil && n == 19:
			did = "unpause"
			_ = b.Inspector().UnpauseQueue(rediskey.Queue(actors.Key))
		case h == nil:
			did = "claim"
			claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
			expect.OK(t, err)
			if len(claims) > 0 {
				h = claims[0]
				promote()
			}
		case n == 14 && r.IntN(3) == 0:
			did = "the turn's task is lost"
			b.Redis.Del(b.Ctx, b.Keys.Task(b.Redis.LIndex(b.Ctx, b.Keys.Active(), 0).Val()))
		case n == 13:
			did = "renew"
			expect.OK(t, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
		case n == 14:
			did = "mark from outside"
			_, err := resume.Mark(b.Ctx, b.Redis, actors.Key, "")
			expect.OK(t, err)
		case n == 15:
			did = "retry"
			if h.Park(b.Ctx, protocol.Parking{Failed: errors.New("flaky"), Wait: time.Duration(r.IntN(2))}) == nil {
				h = nil
			}
		case n == 16 && r.IntN(2) == 0:
			did = "requeue"
			if h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}) == nil {
				h = nil
			}
		case n == 16:
			did = "die"
			b.Die()
			h = nil
		default:
			end := protocol.End{Status: session.StatusDone, Reply: "re", Release: n == 17}
			if i%3 == 0 {
				end.Reply = longReply
			}
			if n == 18 {
				end.Status, end.Error = session.StatusFailed, "why"
			}
			for j := range r.IntN(4) {
				end.Entries = append(end.Entries, session.Entry{Role: session.RoleUser, Text: fmt.Sprint(i, " ", j)})
			}
			did = fmt.Sprintf("end, %s, release %v, %d entries", end.Status, end.Release, len(end.Entries))
			more, err := h.Finish(b.Ctx, end)
			expect.OK(t, err)
			if more {
				promote()
			} else {
				h = nil
			}
		}
		m := moment{did: did}
		if did == "claim" || strings.HasPrefix(did, "end") {
			m.left = picture(b)
		}
		if h != nil {
			m.turn = told(h.Turn())
		}
		moments = append(moments, m)
	}
	return moments
}

// told describes a turn without its times.
func told(turn protocol.ClaimedTurn) string {
	var messages []string
	for _, m := range turn.Messages() {
		messages = append(messages, fmt.Sprint(m.Message.ID, m.Message.Text, m.Err, m.Redelivered))
	}
	return fmt.Sprint(messages, turn.Attempt, turn.Entries, turn.Reset, turn.Resume, turn.Dropped)
}

// longReply counts as a large event. It is removed from pictures first: the patterns would take
// most of the test's time on it.
var longReply = strings.Repeat("long ", 600)

var passing = []struct {
	what *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`\b\d{8}-\d{6}-[a-z0-9]{10}\b`), "SID"},
	{regexp.MustCompile(`[A-Z2-7]{26}`), "TOKEN"},
	{regexp.MustCompile(`\b\d{13}-\d+\b`), "ID"},
	{regexp.MustCompile(`,\\?"duration_ms\\?":\d+`), ""}, // 0 is left out
	{regexp.MustCompile(`\d{10,}(\.\d+)?(e\+\d+)?|\d\.\d+e\+\d+`), "TIME"},
	// Empty values that mean the same as none.
	{regexp.MustCompile(` entries="0"| (rotated|reset|resume|hold|special)=""|(?m)^entries="0" `), ""},
	// The size depends on how long a turn took, which is in its event.
	{regexp.MustCompile(` stream="\d+ \d+ `), ` stream="BYTES `},
	// Fields by which only a repetition is recognized; and statistics, which are added up instead.
	{regexp.MustCompile(` last="[^"]*"| done="\d+"|(?m)^\S+:processed\S* string .*\n`), ""},
}

// seenBefore caches lasting: most lines of a picture were in the one before.
var seenBefore sync.Map

// lasting returns a line of a dump without values that change with time and chance.
func lasting(line string) string {
	if known, ok := seenBefore.Load(line); ok {
		return known.(string)
	}
	text := line
	for _, p := range passing {
		text = p.what.ReplaceAllString(text, p.to)
	}
	seenBefore.Store(line, text)
	return text
}

// picture is the whole database without times and random names.
func picture(b *actors.Bench) string {
	b.Helper()
	ctx, rdb, k, all := b.Ctx, b.Redis, b.Keys, strings.ReplaceAll(b.Dump(), longReply, "LONG")
	for _, name := range rdb.Keys(ctx, k.TaskPrefix()+"*").Val() {
		msg := rdb.HGet(ctx, name, "msg").Val()
		all = strings.ReplaceAll(all, fmt.Sprintf("msg=%q", msg), "msg="+described([]byte(msg)))
	}
	var text strings.Builder
	for line := range strings.Lines(all) {
		text.WriteString(lasting(line))
	}
	all = text.String()
	uncounted, _ := rdb.HGet(ctx, k.Run(), "done").Int()
	for _, counter := range []string{k.Processed(), k.Processed() + time.Now().UTC().Format(":2006-01-02")} {
		n, _ := rdb.Get(ctx, counter).Int()
		all += fmt.Sprintf("\ncounted %d", uncounted+n)
	}
	lines := strings.Split(all, "\n")
	for i, line := range lines { // their order follows the time
		if name, list, ok := strings.Cut(line, " zset expires=false "); ok {
			members := strings.Split(strings.Trim(list, "[{}]"), "} {")
			slices.Sort(members)
			lines[i] = fmt.Sprint(name, members)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// described is an asynq TaskMessage without the time of its completion.
func described(msg []byte) string {
	var fields []string
	for len(msg) > 0 {
		num, typ, n := protowire.ConsumeTag(msg)
		size := protowire.ConsumeFieldValue(num, typ, msg[n:])
		if n < 0 || size < 0 {
			return "broken"
		}
		if field := msg[n : n+size]; num != 13 && num != 11 {
			fields = append(fields, fmt.Sprintf("%d:%q", num, field))
		} else {
			fields = append(fields, fmt.Sprint(num))
		}
		msg = msg[n+size:]
	}
	return strings.Join(fields, " ")
}
