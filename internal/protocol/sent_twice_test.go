package protocol_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// resend sends every call of a script a second time, as go-redis does after a lost reply, and
// compares the database and the results.
type resend struct {
	t      testing.TB
	bare   redis.UniversalClient
	script string
	calls  int

	special string // the first result of a fast path that was sent again
}

func (r *resend) again(cmds []redis.Cmder, send func() error) error {
	cmd, ok := cmds[0].(redistest.Reply)
	if !ok || !actors.Script(r.script)(cmd) {
		return send()
	}
	if err := send(); err != nil {
		return err // NOSCRIPT: nothing was carried out
	}
	r.calls++
	first, before := alone(cmd), withoutClock(actors.Dump(r.t, r.bare))
	err := send()
	if err != nil {
		return err
	}
	actors.Same(r.t, r.script+" sent a second time", before, withoutClock(actors.Dump(r.t, r.bare)))
	a, b := timeless(r.script, first), timeless(r.script, alone(cmd))
	if r.special != "" && r.special != a {
		r.t.Errorf("%s returned %s, and after a repetition %s", r.script, r.special, a)
	}
	if a != b && b == `["special"]` { // the full path decides
		r.special = a
	} else if a != b && !strings.HasPrefix(a, `["again"`) { // the next claim may do more
		r.t.Errorf("%s returned %s, and sent a second time %s", r.script, a, b)
	}
	return nil
}

var clock = regexp.MustCompile(`lease="\d+"|:lease zset .*|updated_at="\d+"|needs="\S+ \d+"`)

// withoutClock leaves out times: asynq's lease, and when the record was last changed.
func withoutClock(dump string) string { return clock.ReplaceAllString(dump, "lease") }

// timeless returns a result without times.
func timeless(script string, v any) string {
	a, _ := v.([]any)
	blank := func(list []any, indexes ...int) {
		for _, i := range indexes {
			if i < len(list) {
				list[i] = "time"
			}
		}
	}
	messages := func(i int) {
		if i < len(a) {
			list, _ := a[i].([]any)
			for j := range list {
				m, _ := list[j].([]any)
				blank(m, 2)
				list[j] = without(m, 3, int64(0), int64(0))
			}
		}
	}
	switch script {
	case "trim":
		blank(a, 0) // how many left the queue: no caller relies on it
	case "accept":
		blank(a, 0)
		if a[1] == "idle" {
			blank(a, 2)
		}
	case "claim":
		blank(a, 1)
		messages(6)
		if len(a) > 13 && a[8] == "" && a[10] == "" && a[13] == "" {
			a = without(a, 7, "", "", a[9], "", int64(0), int64(0), "", "")
		}
	case "steer":
		messages(1)
	case "finish":
		switch a[0] {
		case "next":
			if _, plain := a[1].(string); plain {
				blank(a, 3)
			} else {
				blank(a, 1)
				messages(6)
			}
		case "released":
			a = a[:1]
		}
	case "park":
		blank(a, 1, 2)
	case "purge", "forget", "look", "erase", "discard":
		return ""
	}
	return fmt.Sprintf("%q", a)
}

// alone returns a script's result; of a fast path, the result of its only call.
func alone(cmd redistest.Reply) any {
	if answers, _ := cmd.Val().([]any); actors.FastPath(cmd) && len(answers) == 1 {
		return answers[0]
	}
	return cmd.Val()
}

// without returns a list without the values that the fast path leaves out.
func without(list []any, from int, defaults ...any) []any {
	if from < len(list) && slices.Equal(list[from:], defaults) {
		return list[:from]
	}
	return list
}

// A script that is sent again after a lost reply changes nothing more and returns the same.
func TestScriptsSentTwice(t *testing.T) {
	t.Parallel()
	for _, s := range situations() {
		if strings.HasPrefix(s.name, "tidies: ") {
			continue // it is to be sent again, and then takes a turn
		}
		t.Run(strings.TrimSuffix(s.script+"/"+s.name, "/"), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			move := s.prepare(b)
			options, err := redis.ParseURL(redistest.URL(t))
			expect.OK(t, err)
			bare := redis.NewClient(options)
			defer bare.Close()
			r := &resend{t: t, bare: bare, script: s.script}
			b.Redis.AddHook(actors.Hook(r.again))
			expect.OK(t, move())
			if most := len(variantsOf(s.script)); r.calls < 1 || r.calls > most { // the fast path first
				t.Errorf("%d calls of the script", r.calls)
			}
		})
	}
}

// A turn is the same if all its commands are sent twice.
func TestTurnOfCommandsSentTwice(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	faults.RunTwice(redistest.Named("evalsha", "eval", "zadd", "sadd"), -1)

	expect.Equal(t, "first receipt", b.Say("a").Status, receipt.Accepted)
	h := b.Start()
	expect.Equal(t, "second receipt", b.Say("b").Status, receipt.Queued)
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "once", Turn: h.Turn().ID}}))
	first := h.Turn()
	if !b.Finish(h) {
		t.Fatal("no next turn")
	}
	expect.Equal(t, "next message", h.Turn().Message.ID, "b")
	expect.Equal(t, "entries before the second turn", h.Turn().Entries, 2)
	expect.OK(t, h.Promote(b.Ctx))
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Failed: errors.New("flaky")}))
	h = b.Start()
	expect.Equal(t, "attempt", h.Turn().Attempt, 2)
	expect.Equal(t, "redelivered", h.Turn().Redelivered, 0)
	if b.Finish(h) {
		t.Error("a third turn")
	}
	expect.List(t, "transcript", b.Transcript(first.TranscriptID), "a", "re: a", "b", "re: b")
	info, err := b.Inspector().GetQueueInfo(rediskey.Queue(actors.Key))
	expect.OK(t, err)
	expect.Equal(t, "processed", info.Processed, 2)
	expect.Equal(t, "notices", strings.Count(b.Dump(), `"text":"once"`), 1)
}

// The reply of a move is lost, and go-redis does not send it again: the move repeats itself, and a
// lost claim costs at most the sentinel's time.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = 2 * time.Second })
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	lose := func(script string) { faults.LoseReply(actors.Script(script), 1) }

	b.SayAll("a", "b", "c")
	h := b.Claim()
	lose("promote")
	expect.OK(t, h.Promote(b.Ctx))
	lose("emit")
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "once"}}))
	lose("finish")
	if !b.Finish(h) || h.Turn().Message.ID != "b" {
		t.Fatalf("after a finish whose reply was lost the turn is of %q", h.Turn().Message.ID)
	}
	lose("park")
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	expect.List(t, "the line", b.Waiting(), "c")
	expect.Equal(t, "notices", strings.Count(b.Dump(), `"text":"once"`), 1)

	lose("claim")
	if claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key}); len(claims) != 0 || !errors.Is(err, redistest.ErrLostReply) {
		t.Fatalf("a claim without a reply: %v, %v", claims, err)
	}
	b.ClaimNothing("another token holds the sentinel")
	b.Die()
	expect.List(t, "what is run afterwards", b.Drain(), "b", "c")
}

// A rotation comes between a claim with a lost reply and its repetition: the turn still writes into
// its first transcript (B77).
func TestB77_RotationBetweenClaimAndItsResend(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	old := b.Info().TranscriptID
	b.SayAll("b", "c")
	faults := actors.SendTwice(actors.Script("claim"), func() {
		_, err := actors.NewClient(b.Redis).Session(actors.Key).NewTranscript(b.Ctx)
		expect.OK(t, err)
	})
	b.Redis.AddHook(faults)
	h := b.Claim()
	expect.Equal(t, "session id of the turn", h.Turn().TranscriptID, old)
	expect.Equal(t, "run's session id", b.Redis.HGet(b.Ctx, b.Keys.Run(), "sid").Val(), old)
	b.Finish(h)
	expect.List(t, "the old transcript", b.Transcript(old), "a", "re: a", "b", "re: b")
	expect.Equal(t, "entries of the new session id", h.Turn().Entries, 0)
}
