package protocol_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// hooks are n destinations, in the order of their names.
func hooks(n int) (known []deliveries.Line) {
	for i := range n {
		known = append(known, deliveries.Line{Destination: fmt.Sprintf("hook%04d", i), MaxAge: time.Hour})
	}
	return known
}

func take(b *actors.Bench, known []deliveries.Line) deliveries.TakenLines {
	b.Helper()
	taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
	expect.OK(b, err)
	return taken
}

// Calls go round all queues of a session: neither those that wait nor those with many records keep
// the others from being delivered. A repeated call returns the first one's leases.
func TestTakeGoesRound(t *testing.T) {
	t.Parallel()
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprint("twice ", twice), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			known := hooks(250)
			now := time.Now().UnixMilli()
			for i, l := range known {
				store(b, l.Destination, now+int64(i), 1, 10)
				known[i].Paused = i < 220
			}
			if twice {
				faults := &redistest.Faults{}
				b.Redis.AddHook(faults)
				faults.RunTwice(actors.Script("take"), -1)
			}
			var all []string
			calls, last := 0, take(b, known)
			for ; last.More(); last = take(b, known) {
				for _, d := range last.Deliveries {
					all = append(all, d.Destination)
				}
				if calls++; calls > 10 {
					t.Fatalf("there is more to look at after %d calls", calls)
				}
			}
			for _, d := range last.Deliveries {
				all = append(all, d.Destination)
			}
			expect.Equal(t, "further calls", calls, 2)
			expect.Equal(t, "taken", len(slices.Compact(slices.Sorted(slices.Values(all)))), 30)
			if wait := last.At - last.Now; wait < 50_000 || wait > 70_000 {
				t.Errorf("look again after %d ms", wait)
			}
			first := take(b, known)
			expect.Equal(t, "a round begins anew", first.More(), true)
		})
	}
}

// A queue with more records than a call returns does not starve the next ones.
func TestTakeLeavesALongLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	now := time.Now().UnixMilli()
	store(b, "hook0000", now, 100, 10)
	store(b, "hook0001", now+200, 1, 10)
	first := take(b, hooks(2))
	expect.Equal(t, "taken", len(first.Deliveries), 32)
	expect.Equal(t, "there is more", first.More(), true)
	for _, d := range first.Deliveries {
		_, _, err := deliveries.Ack{Delivery: d, Verdict: deliveries.Delivered}.Do(b.Ctx, b.Redis)
		expect.OK(t, err)
	}
	second := take(b, hooks(2))
	expect.Equal(t, "taken then", len(second.Deliveries), 1)
	expect.Equal(t, "of the other line", second.Deliveries[0].Destination, "hook0001")
}

// A session with more promises than one call looks at is to be looked at again at once.
func TestTakeLooksAtAllPromises(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 1200 {
		b.Redis.HSet(b.Ctx, b.Keys.Owed(), fmt.Sprint("gone", i), "other - ")
	}
	calls := 1
	for ; take(b, hooks(1)).More(); calls++ {
		if calls > 100 {
			t.Fatal("there is always more to look at")
		}
	}
	expect.Equal(t, "owed", b.Redis.HLen(b.Ctx, b.Keys.Owed()).Val(), 0)
	expect.Equal(t, "stored", b.Redis.ZCard(b.Ctx, b.Keys.Outbox()).Val(), 1200)
	if calls < 3 {
		t.Errorf("%d calls", calls)
	}
}

// A clock that is set back delays no queue: neither one that waits, nor one with a dead deliverer.
func TestTakeAfterTheClockWasPutBack(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"waits": "-token 0 1 %d 0 503", "is leased": "token %d 0 0 1 "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			now := time.Now()
			store(b, "hook0000", now.UnixMilli(), 1, 10)
			state := func(ahead time.Duration) {
				b.Redis.HSet(b.Ctx, b.Keys.Deliveries(), "line hook0000", fmt.Sprintf(line, now.Add(ahead).UnixMilli()))
			}
			state(time.Hour)
			expect.Equal(t, "taken within the longest wait", len(take(b, hooks(1)).Deliveries), 0)
			state(24 * time.Hour)
			taken := take(b, hooks(1))
			expect.Equal(t, "taken", len(taken.Deliveries), 1)
			expect.Equal(t, "unsure", taken.Deliveries[0].Unsure, name == "is leased")
		})
	}
}

// Any text that a stock asynq.Server has stored as a result is delivered as valid JSON.
func TestForeignResults(t *testing.T) {
	t.Parallel()
	ours := `{"type":"turn_ended","messages":["m"],"status":"failed","error":"no"}`
	for name, c := range map[string]struct {
		state, result string
		want          session.Outcome
	}{
		"ours":              {"completed", ours, session.Outcome{Status: session.StatusFailed, Error: "no"}},
		"a text":            {"completed", "it's \"done\"\x00\n", session.Outcome{Status: session.StatusDone, Reply: "it's \"done\"\x00\n"}},
		"other JSON":        {"completed", `{"status":"failed"}`, session.Outcome{Status: session.StatusDone, Reply: `{"status":"failed"}`}},
		"broken JSON":       {"completed", ours[:40], session.Outcome{Status: session.StatusDone, Reply: ours[:40]}},
		"two values":        {"completed", ours + "}", session.Outcome{Status: session.StatusDone, Reply: ours + "}"}},
		"no UTF-8":          {"completed", "\xffé\xc0\x80", session.Outcome{Status: session.StatusDone, Reply: "\ufffd\ufffd\ufffd\ufffd\ufffd"}},
		"UTF-8":             {"completed", "é€𝄞", session.Outcome{Status: session.StatusDone, Reply: "é€𝄞"}},
		"nothing":           {"completed", "", session.Outcome{Status: session.StatusDone}},
		"too long":          {"completed", strings.Repeat("\xff", 300<<10), session.Outcome{Status: session.StatusDone}},
		"that was archived": {"archived", "half", session.Outcome{Status: session.StatusFailed, Reply: "half", Error: stream.ArchivedByHand}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook0000"))
			b.Say("m")
			b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("m")), "state", c.state, "result", c.result)
			taken := take(b, hooks(1))
			body := taken.Deliveries[0].Body
			var r record
			if err := json.Unmarshal(body, &r); err != nil {
				t.Fatalf("%v: %q", err, body)
			}
			expect.Equal(t, "type", r.Type, "message."+string(c.want.Status))
			o := r.Data.Outcome
			expect.Equal(t, "outcome", session.Outcome{Status: o.Status, Reply: o.Reply, Error: o.Error}, c.want)
		})
	}
}

// A receiver gets only its messages' IDs, in the outcome as well.
func TestRecordsNameNobodyElsesMessages(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()
	for id, to := range map[string]string{"a": "one", "b": "two", "c": ""} {
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, Mode: session.ModeCollect, ReplyTo: to})
		expect.OK(t, err)
		b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task(id)), "quiet", "1 100")
	}
	expect.Equal(t, "they are the next turn", b.Finish(h), true)
	b.Finish(h)
	texts := b.Redis.HGetAll(b.Ctx, b.Keys.Deliveries()).Val()
	for to, id := range map[string]string{"one": "a", "two": "b"} {
		member := b.Redis.ZRangeByLex(b.Ctx, b.Keys.Outbox(), &redis.ZRangeBy{Min: "[" + to, Max: "[" + to + "~"}).Val()
		var r struct {
			Data struct {
				Messages []string
				Outcome  session.Event
			}
		}
		expect.OK(t, json.Unmarshal([]byte(texts[strings.TrimPrefix(member[0], to+" ")]), &r))
		expect.List(t, "messages of "+to, r.Data.Messages, id)
		expect.List(t, "messages of the outcome", r.Data.Outcome.Messages, id)
	}
}

// A question that many routes get is shortened, so that its records are bounded.
func TestLargeQuestionsAreTruncated(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	h := b.Start()
	b.Renew(h)
	for text, truncated := range map[string]bool{"short": false, strings.Repeat("x", 300<<10): true} {
		number, err := h.Ask(b.Ctx, session.Question{Name: "run make", Text: text})
		expect.OK(t, err)
		var r struct {
			Data struct {
				Turn      string
				Number    int
				Question  session.Question
				Truncated bool
			}
		}
		list := b.Redis.ZRange(b.Ctx, b.Keys.Outbox(), -1, -1).Val()
		expect.OK(t, json.Unmarshal([]byte(b.Redis.HGet(b.Ctx, b.Keys.Deliveries(), strings.TrimPrefix(list[0], "hook ")).Val()), &r))
		expect.Equal(t, "number", r.Data.Number, number)
		expect.Equal(t, "turn", r.Data.Turn, h.Turn().ID)
		expect.Equal(t, "name", r.Data.Question.Name, "run make")
		expect.Equal(t, "truncated", r.Data.Truncated, truncated)
		expect.Equal(t, "text", r.Data.Question.Text == text, !truncated)
	}
}

// A question that has closed does not come back.
func TestRedriveOfAClosedQuestion(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]bool{"open": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook0000"))
			b.Say("a")
			h := b.Start()
			b.Renew(h)
			b.Asks(h, "run make")
			asked := take(b, hooks(1)).Deliveries[0]
			_, _, err := deliveries.Ack{Delivery: asked, Verdict: deliveries.GiveUp, Why: "422"}.Do(b.Ctx, b.Redis)
			expect.OK(t, err)
			want := []string{"question.asked a", "question.closed a"}
			if closes {
				b.Command("/approve")
				want = want[1:]
			}
			n, more, err := deliveries.Redrive{Session: actors.Key, Call: "name", Most: 10}.Do(b.Ctx, b.Redis)
			expect.OK(t, err)
			expect.Equal(t, "redriven", fmt.Sprint(n, more), fmt.Sprint(len(want)-1, " false"))
			if !closes {
				b.Command("/approve")
			}
			expect.List(t, "records", recorded(b), want...)
			expect.Equal(t, "dead letters", b.Redis.ZCard(b.Ctx, b.Keys.Undelivered()).Val(), 0)
		})
	}
}

// A dead letter that Run in asynqmon puts back repeats itself, as after a rerun.
func TestRunInAsynqmonRepeats(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.OK(t, b.Inspector().RunTask("session:"+actors.Key, b.Task("a")))
	b.Sweep()
	b.Drain()
	expect.List(t, "records", recorded(b), "message.stopped a", "message.done a")
	list := records(b)
	expect.Equal(t, "repeats", list[0].Data.RetryOf+", "+list[1].Data.RetryOf, ", a")
}

// Records of a destination that the caller does not know wait for another caller, however many
// destinations this one knows.
func TestTakeLeavesUnknownDestinations(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		t.Run(fmt.Sprint("beside ", n), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			now := b.RedisTime()
			store(b, "unknown", now.Add(-71*time.Hour).UnixMilli(), 1, 10)
			taken := take(b, hooks(n))
			expect.Equal(t, "lines of unknown destinations", taken.Unknown, 1)
			expect.Equal(t, "dead letters", b.Redis.ZCard(b.Ctx, b.Keys.Undelivered()).Val(), 0)
			store(b, "unknown", now.Add(-73*time.Hour).UnixMilli(), 1, 10)
			take(b, hooks(n))
			expect.Equal(t, "dead letters after three days", b.Redis.ZCard(b.Ctx, b.Keys.Undelivered()).Val(), 1)
		})
	}
}
