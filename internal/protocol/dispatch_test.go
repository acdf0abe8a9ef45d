package protocol_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/tenants"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// apply stores the caps of a table, as operators do, and returns it.
func apply(t *testing.T, rdb redis.UniversalClient, text string) *tenants.Table {
	t.Helper()
	table, err := tenants.Parse([]byte(text))
	expect.OK(t, err)
	rdb.Del(t.Context(), rediskey.Limits)
	for limit, most := range table.Caps() {
		expect.OK(t, rdb.HSet(t.Context(), rediskey.Limits, limit, most).Err())
	}
	return table
}

// sorted is a worker's setup: it sorts by a table, and runs some agents.
func sorted(table *tenants.Table, agents ...string) actors.Setup {
	return func(c *protocol.Config) {
		c.Tenants = func() *tenants.Table { return table }
		c.Agents, c.AgentOf = agents, agentOf
		c.Elsewhere = func() ([]string, bool) { return []string{"a", "b"}, true }
	}
}

// wake enters sessions into the ready index, in this order.
func wake(t *testing.T, rdb redis.UniversalClient, sessions ...string) {
	t.Helper()
	for _, s := range sessions {
		n := rdb.ZCard(t.Context(), rediskey.Ready).Val()
		expect.OK(t, rdb.ZAddNX(t.Context(), rediskey.Ready, redis.Z{Score: float64(time.Now().UnixMilli()/1e6*1e6 + n), Member: s}).Err())
	}
}

func many(beginning string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%s:%03d", beginning, i))
	}
	return list
}

func pop(t *testing.T, w *actors.Consumer, n int) []string {
	t.Helper()
	sessions, err := w.Pop(t.Context(), n)
	expect.OK(t, err)
	return sessions
}

// A tenant's sessions do not make another one wait: it gets its turn after at most one start of each tenant that waits, by
// their weights.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	table := apply(t, rdb, `{"tenants": {"three": {"sessions": ["x:*"], "weight": 3}}}`)
	w := actors.NewWorker(t, rdb, "one", sorted(table, "a"))
	wake(t, rdb, many("acme:a", 300)...)
	expect.List(t, "first", pop(t, w, 2), "acme:a:000", "acme:a:001")
	wake(t, rdb, "globex:a:hello")
	expect.List(t, "after two of acme's", pop(t, w, 2), "acme:a:002", "globex:a:hello")
	wake(t, rdb, many("x:a", 9)...)
	var of []string
	for _, s := range pop(t, w, 12) {
		of = append(of, tenantOf(s))
	}
	expect.Equal(t, "by weight", strings.Join(of, " "), "x x x acme x x x acme x x x acme")
	rest := 0
	for n := 1; n > 0; rest += n {
		n = len(pop(t, w, 1000))
	}
	expect.Equal(t, "nobody is lost", rest, 300-2-1-3)
	expect.Equal(t, "left over", rdb.Exists(t.Context(), rediskey.Fair, rediskey.Sorted, rediskey.Places, rediskey.Queues+"a").Val(), 0)
}

// A neighbour is next although a thousand sessions arrived before it while no slot was free.
func TestNeighbourBehindABurst(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	w := actors.NewWorker(t, rdb, "one", sorted(apply(t, rdb, `{"tenants": {}}`), "a"))
	burst := many("acme:a", 1000)
	members := make([]redis.Z, len(burst))
	for i, s := range burst {
		members[i] = redis.Z{Score: float64(1000 + i), Member: s}
	}
	expect.OK(t, rdb.ZAdd(t.Context(), rediskey.Ready, members...).Err())
	expect.OK(t, rdb.ZAdd(t.Context(), rediskey.Ready, redis.Z{Score: 5000, Member: "globex:a:1"}).Err())
	expect.List(t, "taken", pop(t, w, 2), "acme:a:000", "globex:a:1")
	line, err := w.Line(t.Context())
	expect.OK(t, err)
	expect.Equal(t, "others of acme's", line.Others("acme:a:000"), false)
	expect.Equal(t, "others of globex'", line.Others("globex:a:1"), true)
}

// Sessions of an agent that no worker runs are claimed a few at a time, beside those that can run.
func TestManyOfAnUnservedAgent(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	w := actors.NewWorker(t, rdb, "one", sorted(apply(t, rdb, `{"tenants": {}}`), "a"))
	wake(t, rdb, append(many("x:none", 300), "y:a:1")...)
	got := pop(t, w, 2)
	expect.Equal(t, "at most two", len(got), 2)
	expect.Equal(t, "the one that can run", slices.Contains(got, "y:a:1"), true)
	expect.OK(t, w.PutBack(t.Context(), got))
	expect.Equal(t, "nobody is lost", rdb.ZCard(t.Context(), rediskey.Sorted).Val()+rdb.ZCard(t.Context(), rediskey.Ready).Val(), int64(301))
}

// A claim knows a session's agent better than the session's record, which dispatch reads: the session goes to that one's queue.
func TestClaimNamesAnotherAgent(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	table := apply(t, rdb, `{"tenants": {}}`)
	a, b := actors.NewWorker(t, rdb, "a", sorted(table, "a")), actors.NewWorker(t, rdb, "b", sorted(table, "b"))
	key := "x:a:1"
	_, err := actors.NewClient(rdb).Session(key).Send(t.Context(), turnstile.Message{ID: "m", Text: "hello"})
	expect.OK(t, err)
	expect.OK(t, rdb.HSet(t.Context(), rediskey.For(key).Run(), "fence", 7, "phase", "parked", "hold", 0, "other_agent", "7 b", "special", 1).Err())
	expect.OK(t, rdb.RPopLPush(t.Context(), rediskey.For(key).Pending(), rediskey.For(key).Active()).Err())
	expect.List(t, "taken for its record's agent", pop(t, a, 1), key)
	claims, err := a.Claim(t.Context(), []string{key})
	expect.OK(t, err)
	expect.Equal(t, "claims", len(claims), 0)
	expect.List(t, "taken by the other agent's worker", pop(t, b, 1), key)
}

// A sender's Redis user may write any agent into its sessions' records. That stops nobody.
func TestForgedAgentStopsNobody(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	table := apply(t, rdb, `{"tenants": {"*": {"running": 5}}, "agents": {"a": {"running": 5}}}`)
	w := actors.NewWorker(t, rdb, "one", sorted(table, "a"), func(c *protocol.Config) { c.Covers = func(agent, _ string) bool { return agent != "b" } })
	for i, agent := range []string{"x y", "a tenant:x z", " ", strings.Repeat("n", 100), "b"} {
		key := fmt.Sprintf("x:a:%d", i)
		expect.OK(t, rdb.HSet(t.Context(), rediskey.For(key).Record(), "agent", agent).Err())
		wake(t, rdb, key)
	}
	wake(t, rdb, "y:a:1")
	expect.Equal(t, "all are taken", len(pop(t, w, 10)), 5) // as many as the agent's limit lets run
	expect.Equal(t, "of this agent", rdb.HGet(t.Context(), rediskey.Running, "agent:a").Val(), "5")
}

// A session whose record names a living agent that is not its own waits, instead of being sorted and claimed without end.
func TestSessionOfAForgedAgentWaits(t *testing.T) {
	t.Parallel()
	rdb, key := redistest.New(t), "x:a:1"
	w := actors.NewWorker(t, rdb, "one", sorted(apply(t, rdb, `{"tenants": {}}`), "a"), func(c *protocol.Config) { c.Covers = func(agent, _ string) bool { return agent != "b" } })
	_, err := actors.NewClient(rdb).Session(key).Send(t.Context(), turnstile.Message{ID: "m", Text: "hello"})
	expect.OK(t, err)
	expect.OK(t, rdb.HSet(t.Context(), rediskey.For(key).Record(), "agent", "b").Err())
	expect.List(t, "taken", pop(t, w, 1), key)
	claims, err := w.Claim(t.Context(), []string{key})
	expect.OK(t, err)
	expect.Equal(t, "claims", len(claims), 0)
	expect.List(t, "at once again", pop(t, w, 1))
	expect.OK(t, rdb.ZScore(t.Context(), rediskey.Due, key).Err())
}

// A cap is never exceeded, and each end lets exactly one session on, also past its worker's death.
func TestCapOfATenant(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	table := apply(t, rdb, `{"tenants": {"acme": {"sessions": ["acme:*"], "running": 2}, "*": {"running": 1}}}`)
	w, dies := actors.NewWorker(t, rdb, "one", sorted(table, "a")), actors.NewWorker(t, rdb, "two", sorted(table, "a"))
	wake(t, rdb, "acme:a:1", "acme:a:2", "acme:a:3", "acme:a:4", "globex:a:1", "globex:a:2", "initech:a:1")
	expect.List(t, "as many as they may", pop(t, w, 10), "acme:a:1", "globex:a:1", "initech:a:1", "acme:a:2")
	expect.List(t, "nobody else", pop(t, w, 10))
	expect.OK(t, w.Leave(t.Context(), "acme:a:2"))
	expect.List(t, "the next one", pop(t, dies, 10), "acme:a:3")
	expect.OK(t, w.Leave(t.Context(), "acme:a:3")) // it is not this worker's
	expect.OK(t, w.Leave(t.Context(), "acme:a:2")) // twice
	expect.List(t, "nobody else", pop(t, w, 10))

	wake(t, rdb, "acme:a:3") // for example reap, while the dead worker's hold lasts
	expect.List(t, "held back", pop(t, w, 10))
	expect.OK(t, rdb.ZAdd(t.Context(), rediskey.Ends, redis.Z{Score: 1, Member: "acme:a:3"}).Err())
	expect.List(t, "at its end the older one goes on", pop(t, w, 10), "acme:a:4")
	expect.OK(t, w.Leave(t.Context(), "acme:a:4", "globex:a:1"))
	expect.List(t, "then these", slices.Sorted(slices.Values(pop(t, w, 10))), "acme:a:3", "globex:a:2")
	expect.OK(t, w.Leave(t.Context(), "acme:a:1", "acme:a:3", "globex:a:2", "initech:a:1"))
	expect.Equal(t, "left over", rdb.Exists(t.Context(), rediskey.Holds, rediskey.Ends, rediskey.Running, rediskey.Sorted, rediskey.Waits).Val(), 0)
}

// A worker takes sessions of its agents only. Those that a worker has sorted for other agents wake a worker of theirs.
func TestPools(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	table := apply(t, rdb, `{}`)
	a, b := actors.NewWorker(t, rdb, "a", sorted(table, "a")), actors.NewWorker(t, rdb, "b", sorted(table, "b"))
	wake(t, rdb, "x:b:1", "x:b:2", "x:a:1")
	expect.List(t, "of the agent a", pop(t, a, 10), "x:a:1")
	for _, want := range []string{"x:b:1", "x:b:2"} {
		got, err := b.Await(t.Context(), time.Minute) // the bell has rung
		expect.OK(t, err)
		expect.List(t, "of the agent b", got, want)
	}
	wake(t, rdb, "x:none:1")
	expect.List(t, "of an agent that nobody runs: the claim says so", pop(t, a, 10), "x:none:1")
}

// The worker of a warm agent takes its session out of turn, unless limits hold it back.
func TestWarmSessionGoesFirst(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	table := apply(t, rdb, `{"agents": {"a": {"running": 1}}}`)
	w := actors.NewWorker(t, rdb, "one", sorted(table, "a"))
	wake(t, rdb, "x:a:1", "x:a:2")
	ok, err := w.Prefer(t.Context(), "x:a:2")
	expect.OK(t, err)
	expect.Equal(t, "taken", ok, true)
	ok, err = w.Prefer(t.Context(), "x:a:1")
	expect.OK(t, err)
	expect.Equal(t, "taken beyond the limit", ok, false)
	expect.List(t, "held back", pop(t, w, 10))
	expect.OK(t, w.Leave(t.Context(), "x:a:2"))
	expect.List(t, "then the first", pop(t, w, 10), "x:a:1")
}

// Workers, deaths, late calls and changed caps in any order: dispatch does what its model does. What runs never exceeds a
// cap, counts equal holds, and nobody is lost.
func TestLifeOfTheLine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			lifeOfTheLine(t, rand.New(rand.NewPCG(seed, 42)))
		})
	}
}

func lifeOfTheLine(t *testing.T, r *rand.Rand) {
	ctx, rdb, model := t.Context(), redistest.New(t), newLine()
	table := apply(t, rdb, `{"tenants": {"one": {"sessions": ["one:*"], "weight": 2, "running": 3}, "*": {"running": 2}}, "agents": {"b": {"running": 3}}}`)
	maps.Copy(model.caps, table.Caps())
	agents := [][]string{{"a", "b"}, {"b"}}
	workers := []*actors.Consumer{actors.NewWorker(t, rdb, "ab", sorted(table, "a", "b")), actors.NewWorker(t, rdb, "b", sorted(table, "b"))}
	sessions := []string{"one:a:1", "one:a:2", "one:b:1", "one:b:2", "two:a:1", "two:b:1", "two:b:2", "three:b:1", "three:a:1", "three:a:2"}
	limits := func(s string) []string { return tenants.LimitsOf(tenantOf(s), agentOf(s)) }
	owner := map[string]int{} // a worker that runs the session
	for step := range 150 {
		s, w := sessions[r.IntN(len(sessions))], r.IntN(len(workers))
		switch what := r.IntN(10); {
		case what < 4:
			wake(t, rdb, s)
			model.inbox[s] = true
		case what < 8:
			expect.OK(t, lookNow(ctx, rdb))
			arrived := rdb.ZRange(ctx, rediskey.Ready, 0, -1).Val()
			most, named, token := 1+r.IntN(3), "", strconv.Itoa(step)
			if what == 7 && slices.Contains(agents[w], agentOf(s)) {
				most, named, arrived = 1, s, []string{s}
			}
			model.sort(arrived, table.Share, limits)
			model.letOn(behind(model))
			want, got := model.take(most, named, token, agents[w]), []string(nil)
			if named == "" {
				got = pop(t, workers[w], most)
			} else {
				ok, err := workers[w].Prefer(ctx, s)
				expect.OK(t, err)
				if ok {
					got = []string{s}
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("step %d: worker %d took %v, the model %v", step, w, got, want)
			}
			for _, s := range got {
				owner[s] = w
			}
		case what == 8: // an end, or a late one of another worker, which releases nothing
			if of, ok := owner[s]; ok && r.IntN(3) > 0 {
				w = of
				delete(owner, s)
				model.letOn(model.end(s))
			} else if of == w {
				continue
			}
			expect.OK(t, workers[w].Leave(ctx, s))
		case r.IntN(2) == 0: // its worker dies
			if _, ok := model.holds[s]; ok {
				expect.OK(t, rdb.ZAdd(ctx, rediskey.Ends, redis.Z{Score: 1, Member: s}).Err())
				freed := model.end(s)
				model.sort(rdb.ZRange(ctx, rediskey.Ready, 0, -1).Val(), table.Share, limits)
				model.letOn(freed)
				pop(t, workers[1], 0)
			}
			delete(owner, s)
		default:
			model.caps["agent:b"] = 1 + r.IntN(3)
			expect.OK(t, rdb.HSet(ctx, rediskey.Limits, "agent:b", model.caps["agent:b"]).Err())
		}
		if checkLine(t, rdb, model); t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
}

// behind are the limits that hold sessions back.
func behind(l *line) (limits []string) {
	for _, p := range l.places {
		if p.behind != "" {
			limits = append(limits, p.behind)
		}
	}
	slices.Sort(limits)
	return slices.Compact(limits)
}

// lookNow makes the next dispatch look at all limits that hold sessions back.
func lookNow(ctx context.Context, rdb redis.UniversalClient) error {
	for _, limit := range rdb.ZRange(ctx, rediskey.Waits, 0, -1).Val() {
		if err := rdb.ZAdd(ctx, rediskey.Waits, redis.Z{Member: limit}).Err(); err != nil {
			return err
		}
	}
	return nil
}

func checkLine(t *testing.T, rdb redis.UniversalClient, model *line) {
	t.Helper()
	ctx := t.Context()
	keys := func(key string) []string { return slices.Sorted(maps.Keys(rdb.HGetAll(ctx, key).Val())) }
	expect.List(t, "inbox", slices.Sorted(slices.Values(rdb.ZRange(ctx, rediskey.Ready, 0, -1).Val())), slices.Sorted(maps.Keys(model.inbox))...)
	expect.List(t, "places", keys(rediskey.Places), slices.Sorted(maps.Keys(model.places))...)
	expect.List(t, "sorted", slices.Sorted(slices.Values(rdb.ZRange(ctx, rediskey.Sorted, 0, -1).Val())), slices.Sorted(maps.Keys(model.places))...)
	expect.List(t, "holds", keys(rediskey.Holds), slices.Sorted(maps.Keys(model.holds))...)
	expect.List(t, "ends", slices.Sorted(slices.Values(rdb.ZRange(ctx, rediskey.Ends, 0, -1).Val())), slices.Sorted(maps.Keys(model.holds))...)
	running := map[string]string{}
	for _, h := range model.holds {
		for _, limit := range h.limits {
			running[limit] = strconv.Itoa(model.counts(limit))
		}
	}
	got := rdb.HGetAll(ctx, rediskey.Running).Val()
	if !maps.Equal(got, running) {
		t.Fatalf("counts %v, want %v", got, running)
	}
}
