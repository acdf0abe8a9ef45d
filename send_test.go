package turnstile_test

import (
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
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// sent sends a message with an ID, and returns the receipt's status with its state or reason.
func sent(b *actors.Bench, id, text string) string {
	b.Helper()
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: text})
	expect.OK(b, err)
	return string(r.Status) + " " + string(r.State) + r.Reason
}

// An asynq.Client and Send find each other's messages by ID. Only Send detects a conflict.
func TestIDsOfPlainSenders(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("plain")
	expect.Equal(t, "the same", sent(b, "plain", "plain"), "duplicate pending")
	expect.Equal(t, "with another text", sent(b, "plain", "another"), "duplicate pending")

	expect.Equal(t, "sent", sent(b, "own", "own"), "accepted ")
	enqueue := func() error {
		_, err := asynq.NewClientFromRedisClient(b.Redis).EnqueueContext(b.Ctx, asynq.NewTask(wire.TaskType, []byte(`{"v":1,"text":"own"}`)),
			asynq.Queue(actors.Queue), asynq.TaskID(b.Task("own")))
		return err
	}
	if err := enqueue(); !errors.Is(err, asynq.ErrTaskIDConflict) {
		t.Errorf("enqueued beside it: %v", err)
	}
	expect.List(t, "run", b.Drain(), "plain", "own")
	expect.OK(t, b.Inspector().DeleteTask(actors.Queue, b.Task("own")))
	expect.OK(t, enqueue())
	expect.Equal(t, "while the plain one waits", sent(b, "own", "own"), "duplicate pending")
	expect.Equal(t, "the id is still that message's", sent(b, "own", "another"), "refused conflict")
	expect.List(t, "run", b.Drain(), "own")
}

// Without the key of its ID, a message is known as long as it is stored.
func TestEvictedID(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.Equal(t, "first", sent(b, "a", "a"), "accepted ")
	expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Idem("a")).Err())
	expect.Equal(t, "again", sent(b, "a", "a"), "duplicate pending")
	expect.Equal(t, "another text", sent(b, "a", "b"), "duplicate pending")
	b.Drain()
	expect.Equal(t, "after the end", sent(b, "a", "b"), "duplicate completed")
	expect.OK(t, b.Inspector().DeleteTask(actors.Queue, b.Task("a")))
	expect.Equal(t, "when nothing is left", sent(b, "a", "b"), "accepted ")
}

// A key of a wrong type blocks only its ID. Nothing is stored.
func TestIDWithAKeyOfAWrongType(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Redis.RPush(b.Ctx, b.Keys.Idem("a"), "x").Err())
	before := database(b)
	_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
	if err == nil || !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("error: %v", err)
	}
	expect.Equal(t, "state", b.State("a"), "")
	expect.Equal(t, "keys of the session", len(b.Redis.Keys(b.Ctx, "*:pending").Val()), 0)
	if before == "" {
		t.Error("the key is gone")
	}
	expect.Equal(t, "another id", sent(b, "b", "b"), "accepted ")
}

// The reply is lost, the message's turn ends, and nothing of it is kept: the repeated request does
// not store it again.
func TestLostReplyOfAMessageWithoutRetention(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Retention = 0 })
	again, first := &redistest.Faults{}, &redistest.Faults{}
	again.RunTwice(actors.Script("accept"), 1)
	stored := first.GateReply(actors.Script("accept"))
	worker := actors.BenchOn(t, b.BareRedis())
	worker.Worker = actors.NewWorker(t, worker.Redis, "other", func(c *protocol.Config) { c.Retention = 0 })
	b.Redis.AddHook(again)
	b.Redis.AddHook(first)
	receipts := make(chan receipt.Receipt, 1)
	go func() {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
		if err != nil {
			t.Error(err)
		}
		receipts <- r
	}()
	<-stored.Arrived()
	expect.List(t, "run", worker.Drain(), "a")
	expect.Equal(t, "kept", worker.State("a"), "")
	stored.Release()
	r := <-receipts
	expect.Equal(t, "receipt", string(r.Status)+r.Reason, "accepted")
	expect.List(t, "run again", worker.Drain())
	expect.Equal(t, "another Send", sent(b, "a", "a"), "refused expired")
}

// The client sets how long IDs are remembered.
func TestIdempotencyTTL(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	c := turnstile.NewClient(b.Redis, turnstile.ClientConfig{RememberIDs: time.Hour})
	_, err := receipt.Input(b.Ctx, c.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
	expect.OK(t, err)
	c = turnstile.NewClient(b.Redis, turnstile.ClientConfig{RememberIDs: time.Nanosecond})
	_, err = receipt.Input(b.Ctx, c.Session(actors.Key), turnstile.Message{ID: "b", Text: "b"})
	expect.OK(t, err)
	expect.List(t, "in line", b.Waiting(), "a", "b")
	if ttl := b.Redis.TTL(b.Ctx, b.Keys.Idem("a")).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("the id is remembered for %s", ttl)
	}
}

// Each limit has its error, and nothing is stored.
func TestSendRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for what, m := range actors.OverLimits() {
		_, err := b.Chat().Send(b.Ctx, turnstile.Message{ID: "m", Text: m.Text, Meta: m.Meta, Attachments: m.Attachments})
		if !errors.Is(err, session.ErrInvalid) || !strings.Contains(fmt.Sprint(err), what) {
			t.Errorf("%s: %.200v", what, err)
		}
		expect.Equal(t, what+": keys", len(b.Redis.Keys(b.Ctx, "*").Val()), 0)
		b.Redis.FlushDB(b.Ctx) // the clock and the version come first
	}
}

// No limit is said by NoLimit, where it may be. A negative limit would otherwise refuse each message as
// one too many.
func TestSendRefusesNegativeLimits(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for _, l := range []session.Limits{{MessageBytes: -1}, {Queue: session.NoLimit}, {Outbox: -1}, {AllQueues: -2}, {Destination: -2}} {
		_, err := turnstile.NewClient(b.Redis, turnstile.ClientConfig{Limits: l}).Session(actors.Key).Send(b.Ctx, turnstile.Message{Text: "a"})
		if !errors.Is(err, session.ErrInvalid) || errors.Is(err, session.ErrFull) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	no := session.Limits{AllQueues: session.NoLimit, Destination: session.NoLimit}
	_, err := turnstile.NewClient(b.Redis, turnstile.ClientConfig{Limits: no}).Session(actors.Key).Send(b.Ctx, turnstile.Message{Text: "a"})
	expect.OK(t, err)
}

// sentAfter sends a message that must follow another one.
func sentAfter(b *actors.Bench, id, after string) string {
	b.Helper()
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, After: after})
	expect.OK(b, err)
	if r.Status == receipt.Refused && !errors.Is(r.Err, session.ErrNotLast) {
		b.Errorf("%s: %v", id, r.Err)
	}
	return string(r.Status)
}

// A message that must follow another one is refused unless that one is the session's last.
func TestAMessageFollowsTheLastOne(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.Equal(t, "behind nothing", sentAfter(b, "x", "a"), "refused")
	sent(b, "a", "a")
	expect.Equal(t, "while it waits", sentAfter(b, "b", "a"), "accepted")
	expect.Equal(t, "the same again", sentAfter(b, "b", "a"), "duplicate")
	expect.Equal(t, "a fork in the line", sentAfter(b, "x", "a"), "refused")
	expect.List(t, "run", b.Drain(), "a", "b")
	expect.Equal(t, "a fork", sentAfter(b, "x", "a"), "refused")
	expect.Equal(t, "the same after its end", sentAfter(b, "b", "a"), "duplicate")
	expect.Equal(t, "behind the end", sentAfter(b, "c", "b"), "accepted")
	expect.List(t, "run", b.Drain(), "c")
	_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "in a new conversation", sentAfter(b, "x", "c"), "refused")
	sent(b, "d", "d")
	if r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "b", Text: "b", After: "d"}); !errors.Is(r.Err, session.ErrConflict) {
		t.Errorf("the id of one that followed another: %+v, %v", r, err)
	}
	expect.Equal(t, "which has begun", sentAfter(b, "e", "d"), "accepted")
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "f", Text: "f", After: "e", Delay: time.Second})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("delayed: %v", err)
	}
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "f", Text: "f", After: " "})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("behind no id: %v", err)
	}
}

func TestAMessageFollowsARunningTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	sent(b, "a", "a")
	turn := b.Claim()
	expect.Equal(t, "while it runs", sentAfter(b, "b", "a"), "queued")
	expect.Equal(t, "a fork behind the line", sentAfter(b, "x", "a"), "refused")
	expect.Equal(t, "the turn continues with the next", b.Finish(turn), true)
	expect.List(t, "it runs", actors.MessageIDs(turn), "b")
}

// The last turn was undone, and the one before it is not remembered.
func TestNothingFollowsAnUndoneTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	sent(b, "a", "a")
	sent(b, "b", "b")
	expect.List(t, "run", b.Drain(), "a", "b")
	_, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "the undone one", sentAfter(b, "x", "b"), "refused")
	expect.Equal(t, "the one before", sentAfter(b, "x", "a"), "refused")
	sent(b, "c", "c")
	expect.List(t, "run", b.Drain(), "c")
	expect.Equal(t, "the next one", sentAfter(b, "d", "c"), "accepted")
}

// The sender dies, or loses Redis, at each of its commands in turn: either nothing is stored or the
// sweep finds it, and the same Send again stores one message.
func TestB82_SendBrokenAnywhere(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			broke := false
			t.Run(fmt.Sprintf("after=%v/%d", after, n), func(t *testing.T) {
				b := actors.NewBench(t)
				b.Say("earlier")
				b.Drain()
				b.LoseIndexes()
				faults := &redistest.Faults{}
				b.Redis.AddHook(faults)
				left := n
				nth := func(redis.Cmder) bool { left--; return left == -1 }
				if after {
					faults.LoseReply(nth, 1)
				} else {
					faults.FailBefore(nth, 1, redistest.ErrLostReply)
				}
				_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "m", Text: "m"})
				broke = err != nil
				faults.Clear()
				if stored := b.State("m") != ""; stored && !b.IsIn(rediskey.Ready, actors.Key) {
					expect.Equal(t, "woken by the sweep", b.Sweep(), 1)
				}
				r := b.Say("m")
				if r.Status != receipt.Accepted && r.Status != receipt.Duplicate {
					t.Errorf("sent again: %s", r.Status)
				}
				if !b.IsIn(rediskey.Ready, actors.Key) {
					t.Error("no worker was notified")
				}
				expect.List(t, "runs", b.Drain(), "m")
				expect.Equal(t, "sent after the end", b.Say("m").State, "completed")
				expect.List(t, "runs after the end", b.Drain())
			})
			if !broke {
				break
			}
		}
	}
}

// The same ID, sent before, while and after its message runs, is one turn (B82).
func TestB82_Duplicates(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	dup := func(state string) {
		t.Helper()
		r := b.Say("a")
		expect.Equal(t, "status", r.Status, receipt.Duplicate)
		expect.Equal(t, "state", string(r.State), state)
	}
	expect.Equal(t, "first", b.Say("a").Status, receipt.Accepted)
	dup("pending")
	h := b.Claim()
	dup("running")
	expect.OK(t, h.Promote(b.Ctx))
	dup("running")
	b.Say("b")
	expect.Equal(t, "b again", b.Say("b").State, "pending")
	expect.Equal(t, "b's place", b.Say("b").Position, 2)
	b.Finish(h)
	dup("completed")
	expect.OK(t, h.Promote(b.Ctx))
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	expect.Equal(t, "b archived", b.Say("b").State, "archived")
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "c", Text: "c", Delay: time.Hour})
	expect.OK(t, err)
	r := b.Say("c")
	expect.Equal(t, "c", string(r.Status)+" "+string(r.State), "duplicate scheduled")
	expect.List(t, "runs", b.Drain())
	expect.List(t, "transcript", b.Transcript(h.Turn().TranscriptID), "a", "re: a")

	// After its retention the ID is still remembered, and a day later it is free.
	b.Redis.ZAdd(b.Ctx, b.Keys.Completed(), redis.Z{Score: 1, Member: b.Task("a")})
	n, err := b.Worker.Purge(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "purged", n, 1)
	r = b.Say("a")
	expect.Equal(t, "again", string(r.Status)+" "+r.Reason, "refused expired")
	if !errors.Is(r.Err, session.ErrExpired) {
		t.Errorf("error: %v", r.Err)
	}
	expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.Idem("a")).Err())
	expect.Equal(t, "a day later", b.Say("a").Status, receipt.Accepted)
}

// Another message with a remembered ID is refused and not stored, whether the first waits, runs,
// ended or was deleted (B82).
func TestB82_AnIDIsOneMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	send := func(m turnstile.Message, o ...actors.Option) string {
		t.Helper()
		m.ID = "a"
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), actors.With(m, o...))
		expect.OK(t, err)
		switch r.Reason {
		case "conflict":
			expect.Equal(t, "is a conflict", errors.Is(r.Err, session.ErrConflict), true)
		case "expired":
			expect.Equal(t, "has expired", errors.Is(r.Err, session.ErrExpired), true)
		}
		return strings.TrimSpace(string(r.Status) + " " + r.Reason + string(r.State))
	}
	others := func(when string) {
		t.Helper()
		before := database(b)
		expect.Equal(t, when+", another text", send(turnstile.Message{Text: "b"}), "refused conflict")
		expect.Equal(t, when+", another mode", send(turnstile.Message{Text: "a", Mode: session.ModeSteer}), "refused conflict")
		expect.Equal(t, when+", other metadata", send(turnstile.Message{Text: "a", Meta: map[string]string{"sender": "eve"}}), "refused conflict")
		expect.Equal(t, when+", delayed", send(turnstile.Message{Text: "b"}, actors.Delay(time.Hour)), "refused conflict")
		actors.Same(t, "refused, "+when, before, database(b))
	}
	expect.Equal(t, "first", send(turnstile.Message{Text: "a"}), "accepted")
	others("it waits")
	expect.Equal(t, "again", send(turnstile.Message{Text: "a"}), "duplicate pending")
	h := b.Start()
	others("it runs")
	b.Finish(h)
	others("it has ended")
	expect.Equal(t, "again", send(turnstile.Message{Text: "a"}), "duplicate completed")
	expect.OK(t, b.Inspector().DeleteTask("session:"+actors.Key, b.Task("a")))
	others("it is gone")
	expect.Equal(t, "again", send(turnstile.Message{Text: "a"}), "refused expired")

	if ttl := b.Redis.TTL(b.Ctx, b.Keys.Idem("a")).Val(); ttl <= 23*time.Hour || ttl > 24*time.Hour {
		t.Errorf("the id is remembered for %s", ttl)
	}
	if used := b.Redis.MemoryUsage(b.Ctx, b.Keys.Idem("a")).Val(); used > 200 {
		t.Errorf("an id takes %d bytes", used)
	}
}

// database is the database without when the session was used last.
func database(b *actors.Bench) string {
	var lines []string
	for line := range strings.Lines(b.Dump()) {
		if !strings.HasPrefix(line, rediskey.Sessions) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// A refused message's ID is not remembered: another message may use it. Neither is an ID that Send
// makes.
func TestRefusedIDsAreFree(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	b.Start()
	expect.Equal(t, "refused", b.Say("new", session.ModeReject).Reason, "busy")
	r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "new", Text: "another text"})
	expect.OK(t, err)
	expect.Equal(t, "the id again", r.Status, receipt.Queued)
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "without an id"})
	expect.OK(t, err)
	remembered := b.Redis.Keys(b.Ctx, "*:idem:*").Val() // the braces of a tag are a pattern's, too
	slices.Sort(remembered)
	expect.List(t, "remembered", remembered, b.Keys.Idem("new"), b.Keys.Idem("now"))
}
