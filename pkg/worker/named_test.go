package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"turnstile"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// says is an agent whose reply begins with its name.
func says(name string) agent.Agent {
	return agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		return agent.Result{Text: name + ": " + turn.Text()}, nil
	})
}

// named are agents by their patterns, each named after the text before the colon.
func named(patterns ...string) change {
	return with(func(c *worker.Config) {
		for _, pattern := range patterns {
			name, _, _ := strings.Cut(pattern, ":")
			c.Agents = append(c.Agents, worker.NamedAgent{Name: name, Sessions: []string{pattern}, Agent: says(name)})
		}
	})
}

// Each session gets the agent of its key, however its message came: from a sender or a plain
// asynq.Client, or as a dead letter that asynqmon runs again.
func TestAgentsByName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(says("default"), named("a:*", "b:*", "c:*"), slots(3), with(func(c *worker.Config) { c.SweepInterval = 100 * time.Millisecond }))
	for _, key := range []string{"a:1", "b:1", "c:1", "d:1", "a"} {
		r.send(key, turnstile.Message{ID: "m", Text: "hello"})
	}
	for key, name := range map[string]string{"a:1": "a", "b:1": "b", "c:1": "c", "d:1": "default", "a": "default"} {
		expect.Equal(t, key, r.outcomeIn(key, "m").Reply, name+": hello")
	}
	payload, err := wire.Message{Text: "plain"}.Payload()
	expect.OK(t, err)
	_, err = asynq.NewClientFromRedisClient(r.rdb).EnqueueContext(r.ctx, asynq.NewTask(wire.TaskType, payload),
		asynq.Queue(rediskey.Queue("b:2")), asynq.TaskID(rediskey.TaskID("b:2", "p")))
	expect.OK(t, err)
	expect.Equal(t, "plain", r.outcomeIn("b:2", "p").Reply, "b: plain")

	expect.OK(t, errors.Join(r.client.Session("c:2").SetTitle(r.ctx, "made")))
	sent := r.send("c:2", turnstile.Message{ID: "later", Text: "later", Delay: time.Hour})
	_, err = r.client.Session("c:2").Cancel(r.ctx, sent.ID)
	expect.OK(t, err)
	expect.OK(t, asynq.NewInspectorFromRedisClient(r.rdb).RunTask(rediskey.Queue("c:2"), rediskey.TaskID("c:2", "later")))
	for e, err := range r.client.Session("c:2").Events(r.ctx) {
		expect.OK(t, err)
		if e.Reply != "" {
			expect.Equal(t, "run again", e.Reply, "c: later")
			break
		}
	}
}

// A record that names an agent for which the session is none of its own runs nothing: not the agent, nor the
// session's own one. The session waits, and needs attention.
func TestAForgedAgentRunsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(says("default"), named("a:*", "b:*"))
	r.send("b:1", turnstile.Message{ID: "m", Text: "hello"})
	expect.Equal(t, "of b's own session", r.outcomeIn("b:1", "m").Reply, "b: hello")
	expect.OK(t, r.rdb.HSet(r.ctx, rediskey.For("a:1").Record(), "agent", "b").Err())
	r.send("a:1", turnstile.Message{ID: "m", Text: "hello"})
	expect.Soon(t, "it needs attention", func() bool {
		info, err := r.client.Session("a:1").Info(r.ctx)
		expect.OK(t, err)
		return info.Needs == "b" && info.Waiting == 1 && info.Phase == session.PhaseIdle
	})
	_, err := r.client.Session("a:1").NewTranscript(r.ctx, turnstile.TranscriptConfig{Agent: "a"})
	expect.OK(t, err)
	expect.OK(t, r.rdb.ZAdd(r.ctx, rediskey.Ready, redis.Z{Member: "a:1"}).Err()) // else it waits 15 s
	expect.Equal(t, "with its own agent", r.outcomeIn("a:1", "m").Reply, "a: hello")
}

// Another agent begins with another transcript, and gets nothing of the first one's.
func TestAnotherAgentSeesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var seen agent.Turn
	other := agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		seen = *turn
		return agent.Result{Text: "other"}, nil
	})
	first := agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		turn.Emit(agent.Event{Type: session.EventState, Data: []byte(`{"secret":1}`)})
		return agent.Result{Text: "first"}, nil
	})
	r.worker(nil, with(func(c *worker.Config) {
		c.Agents = []worker.NamedAgent{{Name: "first", Sessions: []string{"s:a:*"}, Agent: first}, {Name: "other", Sessions: []string{"s:*"}, Agent: other}}
	}))
	r.send("s:a:1", turnstile.Message{ID: "m1", Text: "my secret"})
	expect.Equal(t, "reply", r.outcomeIn("s:a:1", "m1").Reply, "first")
	_, err := protocol.Rotate{Session: "s:a:1", Until: time.Now().Add(time.Hour).UnixMilli(), Agent: "other"}.Do(r.ctx, r.rdb)
	expect.OK(t, err)
	r.send("s:a:1", turnstile.Message{ID: "m2", Text: "hello"})
	expect.Equal(t, "reply", r.outcomeIn("s:a:1", "m2").Reply, "other")
	if len(seen.History) != 0 || seen.State != nil || seen.Note != "" {
		t.Errorf("the other agent got %+v, %s, %q", seen.History, seen.State, seen.Note)
	}
}

// otherWorker adds a worker of another machine, and returns the key of its heartbeat.
func (r *rig) otherWorker(layout uint64) (heartbeat string) {
	r.Helper()
	info := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "elsewhere") // its host
	started := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(time.Now().Unix()))
	info = protowire.AppendBytes(protowire.AppendTag(info, 8, protowire.BytesType), started)
	info = protowire.AppendVarint(protowire.AppendTag(info, 1004, protowire.VarintType), layout)
	heartbeat = "asynq:servers:{elsewhere:1:id}"
	expect.OK(r, r.rdb.Set(r.ctx, heartbeat, info, 0).Err())
	expect.OK(r, r.rdb.ZAdd(r.ctx, rediskey.Servers, redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: heartbeat}).Err())
	beats, err := maintenance.Heartbeats(r.ctx, r.rdb)
	expect.OK(r, err)
	expect.Equal(r, "workers", len(beats), 1)
	return heartbeat
}

// A worker does not start beside one of a build with other records: each would spoil the other's turns.
func TestBesideAnotherLayout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	heartbeat := r.otherWorker(maintenance.Layout - 1)
	w, err := worker.New(r.rdb, says("default"), worker.Config{Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	if err := w.Start(r.ctx); err == nil || !strings.Contains(err.Error(), "the worker 0 on elsewhere is of another build") {
		t.Errorf("Start: %v", err)
	}
	expect.OK(t, r.rdb.Del(r.ctx, heartbeat).Err())
	r.worker(says("default"))
	r.say("m1", "hello")
	r.ends("m1", session.StatusDone)
}

// A session whose agent no living worker runs waits, and is one that needs attention, as /status says.
// Nothing of it is lost.
func TestAnAgentThatNobodyRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(says("default"))
	r.send("a:1", turnstile.Message{ID: "m", Text: "hello", Agent: "a"})
	operator := admin.NewClient(r.rdb)
	expect.Soon(t, "it needs attention", func() bool {
		expect.OK(t, r.rdb.ZAddArgs(r.ctx, rediskey.Ready, redis.ZAddArgs{Members: []redis.Z{{Member: "a:1"}}}).Err()) // claimed at once
		page, err := operator.Page(r.ctx, admin.Query{State: admin.StateAttention})
		expect.OK(t, err)
		return len(page.Sessions) == 1 && page.Sessions[0].Needs == "a"
	})
	reply, err := r.client.Session("a:1").Command(r.ctx, "/status")
	expect.OK(t, err)
	if !strings.Contains(reply, "No running worker runs the agent a for this session: messages wait until one does.") {
		t.Errorf("/status: %s", reply)
	}
	r.worker(says("default"), named("a:*"))
	expect.Equal(t, "after a worker with the agent has started", r.outcomeIn("a:1", "m").Reply, "a: hello")
	s, err := operator.Session("a:1").Info(r.ctx)
	expect.OK(t, err)
	expect.Equal(t, "needs", s.Needs, "")
}

func TestWrongAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for want, agents := range map[string][]worker.NamedAgent{
		`worker: Config.Agents: agent "a": sessions is missing: list patterns such as "acme:*"`: {{Name: "a", Agent: says("a")}},
		`worker: all of Config.Agents are nil: this worker would run none`:                      {{Name: "a", Sessions: []string{"a:*"}}},
		`worker: Config.Agents: agent "a" is there twice`: {
			{Name: "a", Sessions: []string{"a:*"}, Agent: says("a")}, {Name: "a", Sessions: []string{"b:*"}, Agent: says("a")},
		},
		`worker: there is no agent`: nil,
	} {
		_, err := worker.New(r.rdb, nil, worker.Config{Agents: agents})
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// sendAs sends a message for an agent.
func (r *rig) sendAs(id, agent string) {
	r.Helper()
	r.send(r.key, turnstile.Message{ID: id, Text: "hello", Agent: agent})
}

// newTranscript begins another transcript, with another agent.
func (r *rig) newTranscript(agent string) {
	r.Helper()
	_, err := r.client.Session(r.key).NewTranscript(r.ctx, turnstile.TranscriptConfig{Agent: agent})
	expect.OK(r, err)
}
