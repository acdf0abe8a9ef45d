package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// apply applies a table of tenants.
func (r *rig) apply(table string) {
	r.Helper()
	expect.OK(r, admin.NewClient(r.rdb).ApplyTenants(r.ctx, []byte(table)))
}

// flood sends messages to sessions of a tenant, and returns the sessions.
func (r *rig) flood(tenant string, sessions, messages int) (keys []string) {
	r.Helper()
	for n := range sessions {
		key := fmt.Sprintf("%s:%02d", tenant, n)
		keys = append(keys, key)
		for m := range messages {
			r.send(key, turnstile.Message{ID: fmt.Sprintf("%s.%d.%d", tenant, n, m), Text: "hello"})
		}
	}
	return keys
}

func tenantOf(a *act) string { return strings.Split(a.Session, ":")[0] }

// A tenant with many sessions takes all slots while it is alone. When another one sends a message, its turn begins after at most
// one more of the flood.
func TestANeighbourOfAFloodIsNext(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.apply(`{"tenants": {}}`)
	r.worker(s, slots(2))
	r.flood("acme", 20, 1)
	runs := []*act{expect.Received(t, "a turn", s.acts), expect.Received(t, "another turn", s.acts)}
	r.flood("globex", 1, 1)
	for turns := 1; tenantOf(runs[0]) == "acme"; turns++ {
		if turns > 3 { // the two that ran, and one with a tag that is no higher
			t.Fatal("two turns of the flood began before the neighbour's")
		}
		runs[0].reply("done")
		runs = []*act{expect.Received(t, "the next turn", s.acts), runs[1]}
	}
	for range 20 {
		runs[0].reply("done")
		runs = append(runs[1:], expect.Received(t, "a turn of the rest", s.acts))
		if len(s.acts) == 0 && r.rdb.ZCard(r.ctx, rediskey.Sorted).Val() == 0 {
			break
		}
	}
	for _, a := range runs {
		a.reply("done")
	}
}

// A session goes on with its messages while its tenant is alone. While another tenant waits, its share is one turn.
func TestShareBesideAnotherTenant(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.apply(`{"tenants": {}}`)
	r.worker(s, slots(1), with(func(c *worker.Config) { c.ShareTurns(1000) }))
	r.flood("acme", 2, 60)
	first := expect.Received(t, "a turn", s.acts)
	first.reply("done")
	again := expect.Received(t, "its next turn", s.acts)
	expect.Equal(t, "alone", again.Session, first.Session)
	r.flood("globex", 1, 1) // a look at who waits counts for 20 ms
	for again.Session == first.Session {
		again.reply("done")
		again = expect.Received(t, "a turn", s.acts)
		if r.rdb.LLen(r.ctx, rediskey.For(first.Session).Pending()).Val() == 0 {
			t.Fatal("all messages of the session ran before it made way")
		}
	}
	_, err := r.client.Session(first.Session).Stop(r.ctx)
	expect.OK(t, err)
	again.reply("done")
}

// A tenant's cap holds for all workers together, and its other sessions wait without a slot. A raised cap applies to turns that
// begin.
func TestCapForAllWorkers(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.apply(`{"tenants": {"acme": {"sessions": ["acme:*"], "running": 3}}}`)
	r.worker(s, slots(4))
	r.worker(s, slots(4))
	keys := r.flood("acme", 9, 1)
	var runs []*act
	for range 3 {
		runs = append(runs, expect.Received(t, "a turn", s.acts))
	}
	list := func() admin.Limit {
		limits, there, err := admin.NewClient(r.rdb).Limits(r.ctx)
		expect.OK(t, err)
		expect.Equal(t, "a table", there, true)
		return limits[0]
	}
	expect.Soon(t, "the rest to be held back", func() bool { return list().Held == 6 })
	expect.Equal(t, "the limit", list(), admin.Limit{Kind: "tenant", Name: "acme", Weight: 1, Cap: 3, Running: 3, Held: 6})
	s.empty(t)
	backlog, err := admin.NewClient(r.rdb).Backlog(r.ctx)
	expect.OK(t, err)
	expect.Equal(t, "the backlog", backlog.Ready, int64(6))
	r.flood("globex", 1, 1)
	neighbour := expect.Received(t, "the neighbour's turn", s.acts)
	expect.Equal(t, "its tenant", tenantOf(neighbour), "globex")
	neighbour.reply("done")
	for range 6 { // each end lets one on
		runs[0].reply("done")
		runs = append(runs[1:], expect.Received(t, "the next turn", s.acts))
	}
	for _, a := range runs {
		a.reply("done")
	}
	for n, key := range keys {
		r.outcomeIn(key, fmt.Sprintf("acme.%d.0", n))
	}
	expect.Soon(t, "nothing to be counted", func() bool { return r.rdb.Exists(r.ctx, rediskey.Running, rediskey.Holds, rediskey.Ends).Val() == 0 })
}

// A session that has begun before there was a table makes way after its turn, however many messages wait: so that it is counted.
func TestTableForRunningSessions(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, slots(4))
	r.flood("acme", 4, 2)
	runs := map[string]*act{}
	for range 4 {
		a := expect.Received(t, "a turn", s.acts)
		runs[a.Session] = a
	}
	r.apply(`{"tenants": {"*": {"running": 1}}}`)
	expect.Soon(t, "one to run, and the others to be held back", func() bool {
		for key, a := range runs {
			r.send(key, turnstile.Message{Text: "one more"})
			a.reply("done")
			delete(runs, key)
		}
		for len(s.acts) > 0 {
			a := <-s.acts
			runs[a.Session] = a
		}
		return r.rdb.ZCard(r.ctx, rediskey.Held+"tenant:acme").Val() == 3
	})
	for key := range runs {
		_, err := r.client.Session(key).Stop(r.ctx)
		expect.OK(t, err)
	}
}

// Workers of some agents only: each session runs where its agent is, and one of an agent that no living worker runs is named
// and does not keep a slot busy.
func TestWorkersOfSomeAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	only := func(names ...string) change {
		return with(func(c *worker.Config) {
			for _, name := range []string{"a", "b", "c"} {
				n := worker.NamedAgent{Name: name, Sessions: []string{name + ":*"}}
				for _, own := range names {
					if own == name {
						n.Agent = says(name)
					}
				}
				c.Agents = append(c.Agents, n)
			}
		})
	}
	start := func(name string) {
		r.worker(nil, only(name), slots(1), func(s *setup) { s.Jobs(true, 0) })
		expect.Soon(t, "its heartbeat", func() bool {
			beats, err := maintenance.Heartbeats(r.ctx, r.rdb)
			expect.OK(t, err)
			return slices.ContainsFunc(beats, func(b maintenance.Heartbeat) bool { return slices.Contains(b.Agents, name) })
		})
	}
	start("a")
	start("b")
	for n := range 20 {
		for _, name := range []string{"a", "b", "c"} {
			r.send(fmt.Sprintf("%s:%d", name, n), turnstile.Message{ID: "m", Text: "hello"})
		}
	}
	ended := func(key string) (o session.Outcome) {
		expect.Soon(t, "the end of "+key, func() bool {
			for _, due := range r.rdb.ZRange(r.ctx, rediskey.Due, 0, -1).Val() { // else a worker looks at them after 15 s
				expect.OK(t, r.rdb.ZAddArgs(r.ctx, rediskey.Due, redis.ZAddArgs{XX: true, Members: []redis.Z{{Member: due}}}).Err())
			}
			var over bool
			var err error
			o, over, err = actors.Result(r.ctx, r.client.Session(key), "m")
			return err == nil && over
		})
		return o
	}
	for n := range 20 {
		for _, name := range []string{"a", "b"} {
			expect.Equal(t, "the reply", ended(fmt.Sprintf("%s:%d", name, n)).Reply, name+": hello")
		}
	}
	expect.Soon(t, "the agent to be named", func() bool {
		info, err := r.client.Session("c:1").Info(r.ctx)
		return err == nil && info.Needs == "c"
	})
	start("c")
	for n := range 20 {
		expect.Equal(t, "the reply", ended(fmt.Sprintf("c:%d", n)).Reply, "c: hello")
	}
}
