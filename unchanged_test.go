package turnstile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A command that Redis refuses at once has changed nothing, and the error says so. An error in the
// middle does not.
func TestWhatRedisRefusesChangesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	b := actors.BenchOn(t, server.Client())
	b.Say("a")
	b.Drain()
	b.Say("stopped")
	b.Replies("/stop", "1 waiting message")
	b.Say("waits")
	before := b.Dump()
	expect.OK(t, server.Client().ReplicaOf(b.Ctx, "127.0.0.1", "1").Err())
	for _, text := range []string{"hello", "/steer there", "/stop", "/new", "/title x", "/queue collect", "/undo", "/retry", "/resume"} {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "m", Text: text})
		if !errors.Is(err, session.ErrUnchanged) {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
		if is := text[0] == '/' && text != "/steer there"; is != (r.Status == receipt.Answered) {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if _, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: "/status"}); err != nil {
		t.Errorf("/status only reads: %v", err)
	}
	expect.OK(t, server.Client().ReplicaOf(b.Ctx, "no", "one").Err())
	actors.Same(t, "what was refused", before, b.Dump())

	// The message is stored, and its session is not woken.
	faults := &redistest.Faults{}
	rdb := server.Client()
	rdb.AddHook(faults)
	faults.FailBefore(func(cmd redis.Cmder) bool { return cmd.Name() == "zadd" && cmd.Args()[1] == rediskey.Owned }, 1, errors.New("OOM command not allowed"))
	_, err := receipt.Input(b.Ctx, actors.NewClient(rdb).Session(actors.Key), turnstile.Message{ID: "m", Text: "hello"})
	if err == nil || errors.Is(err, session.ErrUnchanged) {
		t.Errorf("refused in the middle: %v", err)
	}
	expect.Equal(t, "state", b.State("m"), "pending")
}

// An error before the first change changes nothing, whatever the error.
func TestWhatFailsAtItsFirstLookChangesNothing(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Drain()
	faults := &redistest.Faults{}
	faults.FailBefore(redistest.Any, -1, redistest.ErrLostReply)
	b.Redis.AddHook(faults)
	for _, text := range []string{"/stop", "/undo", "/retry"} {
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: text})
		if !errors.Is(err, session.ErrUnchanged) || !errors.Is(err, redistest.ErrLostReply) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// operation is a call that changes a session, and the script that does it.
type operation struct {
	script string
	call   func(ctx context.Context, c clients) error
}

// clients are the types with calls that promise session.ErrUnchanged.
type clients struct {
	*turnstile.Client
	admin    *admin.Client
	question string // the open question's ID
}

// operations are all that promise session.ErrUnchanged. The session has had a turn, runs no other, and
// one message waits in it. Another one was stopped. If decisions are tried, the message's turn runs, and
// has asked a question.
var operations = map[string]operation{
	"send": {"accept", func(ctx context.Context, c clients) error {
		return errOf(receipt.Input(ctx, c.Session(actors.Key), turnstile.Message{ID: "new", Text: "x"}))
	}},
	"send, unnamed": {"accept", func(ctx context.Context, c clients) error {
		return errOf(receipt.Input(ctx, c.Session(actors.Key), turnstile.Message{Text: "x"}))
	}},
	"send by the full path": {"accept", func(ctx context.Context, c clients) error {
		return errOf(receipt.Input(ctx, c.Session(actors.Key), turnstile.Message{ID: "new", Text: "x", Delay: time.Hour}))
	}},
	"title": {"title", func(ctx context.Context, c clients) error { return c.Session(actors.Key).SetTitle(ctx, "x") }},
	"configure": {"configure", func(ctx context.Context, c clients) error {
		return c.Session(actors.Key).SetQueue(ctx, session.QueueSettings{Cap: 7})
	}},
	"reply to": {"configure", func(ctx context.Context, c clients) error {
		return c.Session(actors.Key).SetReplyTo(ctx, "somewhere")
	}},
	"cancel": {"cancel", func(ctx context.Context, c clients) error {
		_, _, err := actors.Cancel(ctx, c.Session(actors.Key), "waits", false)
		return err
	}},
	"rotate": {"rotate", func(ctx context.Context, c clients) error {
		_, err := c.Session(actors.Key).NewTranscript(ctx)
		return err
	}},
	"undo":  {"undo", func(ctx context.Context, c clients) error { _, err := c.Session(actors.Key).Undo(ctx); return err }},
	"retry": {"undo", func(ctx context.Context, c clients) error { _, err := c.Session(actors.Key).Retry(ctx); return err }},
	"rerun": {"rerun", func(ctx context.Context, c clients) error {
		_, err := c.admin.Session(actors.Key).Rerun(ctx, admin.All)
		return err
	}},
	"rerun of one": {"rerun", func(ctx context.Context, c clients) error {
		_, err := c.admin.Session(actors.Key).Rerun(ctx, "stopped")
		return err
	}},
	"stop": {"stop", func(ctx context.Context, c clients) error { _, err := c.Session(actors.Key).Stop(ctx); return err }},
	"decide": {"decide", func(ctx context.Context, c clients) error {
		_, err := c.Session(actors.Key).Decide(ctx, "1", session.Allow)
		return err
	}},
	"decide by id": {"decide", func(ctx context.Context, c clients) error {
		_, err := c.Session(actors.Key).Decide(ctx, c.question, session.Deny)
		return err
	}},
	"command": {"undo", func(ctx context.Context, c clients) error {
		return errOf(receipt.Input(ctx, c.Session(actors.Key), turnstile.Message{Text: "/undo"}))
	}},
	"command with an id": {"undo", func(ctx context.Context, c clients) error {
		return errOf(receipt.Input(ctx, c.Session(actors.Key), turnstile.Message{ID: "new", Text: "/undo"}))
	}},
	"record of a command with an id": {"once", func(ctx context.Context, c clients) error {
		return errOf(receipt.Input(ctx, c.Session(actors.Key), turnstile.Message{ID: "new", Text: "/undo"}))
	}},
}

// errOf makes a refusal an error.
func errOf(r receipt.Receipt, err error) error {
	return errors.Join(err, r.Err)
}

// withOneWaiting makes a session in which every operation has something to change.
func withOneWaiting(t *testing.T, rdb redis.UniversalClient) *actors.Bench {
	t.Helper()
	b := actors.BenchOn(t, rdb)
	b.Say("stopped")
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	b.Say("before")
	b.Drain()
	b.Say("waits")
	return b
}

// asks makes the message's turn ask a question, and returns the question's ID.
func asks(b *actors.Bench) string {
	b.Helper()
	b.Asks(b.Start(), "run make")
	return b.Info().Question.ID()
}

// withoutRecord leaves out the record of a command with an ID: after a call that may have run, it
// stays.
func withoutRecord(dump string) string {
	var lines []string
	for line := range strings.Lines(dump) {
		if !strings.Contains(line, ":idem:new ") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// ofSession is all that is stored of the session. The indexes, where a call lists it first, are not.
func ofSession(b *actors.Bench) string {
	b.Helper()
	rdb := b.Redis
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		node, err := cluster.MasterForKey(b.Ctx, b.Keys.Record())
		expect.OK(b, err)
		rdb = node
	}
	var lines []string
	for line := range strings.Lines(actors.Dump(b, rdb)) {
		if name, _, _ := strings.Cut(line, " "); strings.Contains(name, actors.Key) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// check makes the call twice: none of its attempts is sent; and the first is carried out, loses its
// reply, and the others meet the fate.
func (op operation) check(t *testing.T, rdb redis.UniversalClient, then redistest.Fate) {
	t.Helper()
	b, wire := withOneWaiting(t, rdb), &redistest.Wire{}
	faulty := wire.Client(t, rdb)
	client := clients{Client: turnstile.NewClient(faulty), admin: admin.NewClient(faulty)}
	if op.script == "decide" {
		client.question = asks(b)
	}
	before := ofSession(b)
	if then != redistest.CarriedOut {
		wire.Meet(actors.Script(op.script), then)
		err := op.call(b.Ctx, client)
		wire.Heal()
		if unchanged := errors.Is(err, session.ErrUnchanged); unchanged != (then != redistest.Cut) {
			t.Errorf("the error of what was not sent wraps session.ErrUnchanged: %v: %v", unchanged, err)
		}
		after := ofSession(b)
		if then == redistest.Cut && op.script != "once" {
			after = withoutRecord(after)
		}
		actors.Same(t, "what was not sent", before, after)
	}
	wire.LoseReply(actors.Script(op.script), then)
	err := op.call(b.Ctx, client)
	wire.Heal()
	switch {
	case before == ofSession(b):
		t.Errorf("the first attempt was not carried out, so this tests nothing: %v", err)
	case then == redistest.CarriedOut:
		expect.OK(t, err)
	case err == nil || errors.Is(err, session.ErrUnchanged):
		t.Errorf("the error of what was carried out: %v", err)
	}
}

var fates = []redistest.Fate{redistest.Loading, redistest.ReadOnly, redistest.Cut, redistest.NoServer, redistest.CarriedOut}

// After session.ErrUnchanged, or a refusal, nothing was changed. That holds too if a first attempt
// succeeded, its reply was lost, and its repetition is refused. A short blip stays invisible.
func TestUnchangedIsTrueBelowGoRedis(t *testing.T) {
	t.Parallel()
	for name, op := range operations {
		for _, then := range fates {
			t.Run(name+", "+string(then), func(t *testing.T) {
				t.Parallel()
				op.check(t, redistest.New(t), then)
			})
		}
	}
}

func TestUnchangedIsTrueOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for name, op := range operations {
		for _, then := range fates {
			t.Run(name+", "+string(then), func(t *testing.T) {
				for _, node := range cluster.Nodes {
					expect.OK(t, node.Client().FlushAll(t.Context()).Err())
				}
				op.check(t, cluster.Client(), then)
			})
		}
	}
}
