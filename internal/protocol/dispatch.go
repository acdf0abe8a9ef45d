package protocol

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/tenants"
	"turnstile/internal/redis/script"
)

// pick says which sessions a worker wants.
type pick struct {
	most  int
	named string    // only this one
	taken []arrival // sessions that were taken off the ready index, to be sorted, too
}

// arrival is a session that is to be sorted.
type arrival struct {
	session string
	since   float64 // it waits, ms; negative if it was taken off the ready index, 0: now
	agent   string  // "": that of its record
}

// dispatch sorts all sessions that have arrived, and takes up to pick.most by the tenants' order and limits:
// lua/dispatch.lua. Those of an agent that no living worker runs are among them, for Claim to say so. The caller must claim
// the sessions or put them back, and Leave those that it does not run.
func (c *Consumer) dispatch(ctx context.Context, table *tenants.Table, p pick) ([]string, error) {
	token, arrived := rand.Text(), p.taken
	if p.named != "" { // its sender enters it into the ready index a moment after the signal
		arrived = []arrival{{session: p.named}}
	}
	for {
		args := scripts.DispatchArgs{
			Queue: rediskey.Queues, Held: rediskey.Held, Bell: rediskey.Bells, TTL: c.ttl(), Token: token, Most: int64(p.most), Named: p.named,
			Agents: nil, Arrived: nil, Since: nil, Tenants: nil, Shares: nil, To: nil,
		}
		if err := c.place(ctx, table, arrived, &args); err != nil {
			return nil, err
		}
		args.Agents = c.takes()
		r, err := scripts.Dispatch.Run(ctx, c.rdb, []string{
			rediskey.Ready, rediskey.Sorted, rediskey.Places, rediskey.Holds, rediskey.Ends, rediskey.Running, rediskey.Limits, rediskey.Waits, rediskey.Fair,
		}, args)
		if err != nil {
			return nil, err
		}
		c.holds.add(texts(r.Held), token)
		if len(r.Rest) == 0 && (len(r.Found) > 0 || !r.More) {
			return texts(r.Found), nil
		}
		arrived = arrived[:0:0]
		for i := 0; i+1 < len(r.Rest); i += 2 {
			since, _ := strconv.ParseFloat(r.Rest.Text(i+1), 64)
			arrived = append(arrived, arrival{session: r.Rest.Text(i), since: since})
		}
	}
}

// takes returns the agents whose sessions this worker takes: those that it runs now, and those that no living worker runs.
func (c *Consumer) takes() []string {
	own, runs := c.cfg.Serves(), c.runs()
	c.holds.mu.Lock()
	defer c.holds.mu.Unlock()
	for agent := range c.holds.agents {
		if !runs(agent) {
			own = append(own, agent)
		}
	}
	return own
}

// runs returns whether a living worker runs an agent, as far as that is known. One that this worker has paused counts.
func (c *Consumer) runs() func(agent string) bool {
	elsewhere, known := c.cfg.Elsewhere()
	return func(agent string) bool {
		return !known || slices.Contains(c.cfg.Agents, agent) || slices.Contains(elsewhere, agent)
	}
}

// agentsOf reads the agents of sessions that have one, unless that makes no difference: all run here, and have no limits.
func (c *Consumer) agentsOf(ctx context.Context, table *tenants.Table, arrived []arrival) ([]string, error) {
	names, own := make([]string, len(arrived)), c.cfg.Serves()
	elsewhere, known := c.cfg.Elsewhere()
	differs := func(agent string) bool { return !slices.Contains(own, agent) }
	if len(arrived) == 0 || known && len(own) == len(c.cfg.Agents) && !slices.ContainsFunc(elsewhere, differs) && !table.LimitsAgents() {
		return names, nil
	}
	read := make([]*redis.StringCmd, len(arrived))
	_, err := c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, a := range arrived {
			read[i] = pipe.HGet(ctx, rediskey.For(a.session).Record(), "agent")
		}
		return nil
	})
	var reply redis.Error
	if err != nil && !errors.As(err, &reply) { // the claim finds out what is wrong with a session
		return nil, err
	}
	for i := range read {
		names[i] = read[i].Val()
	}
	return names, nil
}

// place adds sessions to the arguments of dispatch. Those with a wrong name leave the ready index.
func (c *Consumer) place(ctx context.Context, table *tenants.Table, arrived []arrival, args *scripts.DispatchArgs) error {
	read, err := c.agentsOf(ctx, table, arrived)
	if err != nil {
		return err
	}
	var wrong []any
	for i, a := range arrived {
		if len(c.ValidNames([]string{a.session})) == 0 {
			wrong = append(wrong, a.session)
			continue
		}
		agent := cmp.Or(a.agent, read[i])
		// A sender's Redis user may write any name into its sessions' records.
		if agents.ValidateName(agent) != nil || !c.cfg.Covers(agent, a.session) {
			agent = c.cfg.AgentOf(a.session)
		}
		tenant := table.Of(a.session)
		args.Arrived = append(args.Arrived, a.session)
		args.Since = append(args.Since, strconv.FormatInt(int64(a.since), 10))
		args.Tenants = append(args.Tenants, tenant)
		args.Shares = append(args.Shares, strconv.Itoa(table.Share(tenant)))
		args.To = append(args.To, agent+" "+strings.Join(tenants.LimitsOf(tenant, agent), " "))
		c.holds.know(agent)
	}
	if len(wrong) == 0 {
		return nil
	}
	return c.rdb.ZRem(ctx, rediskey.Ready, wrong...).Err()
}

func texts(list script.Result) []string {
	all := make([]string, len(list))
	for i := range list {
		all[i] = list.Text(i)
	}
	return all
}

// awaitDispatch is Await in the tenants' order: it waits for a session that arrives, or for the bell of one of the worker's
// agents. Whatever ends the wait, dispatch decides.
func (c *Consumer) awaitDispatch(ctx context.Context, table *tenants.Table, block time.Duration) ([]string, error) {
	keys := []string{rediskey.Ready}
	for _, agent := range c.cfg.Serves() {
		keys = append(keys, rediskey.Bells+agent)
	}
	one, err := c.rdb.BZPopMin(ctx, block, keys...).Result()
	p := pick{most: 1}
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, err
	case one.Key == rediskey.Ready:
		session, _ := one.Member.(string)
		p.taken = []arrival{{session: session, since: -one.Score}}
	}
	found, err := c.dispatch(ctx, table, p)
	if err != nil && len(p.taken) > 0 {
		err = errors.Join(err, c.PutBack(ctx, []string{p.taken[0].session}))
	}
	return found, err
}

// sortAgain sorts sessions for another agent, which a claim has named.
func (c *Consumer) sortAgain(ctx context.Context, table *tenants.Table, others []arrival) error {
	for some := range slices.Chunk(others, 128) { // as dispatch takes them
		if _, err := c.dispatch(ctx, table, pick{taken: some}); err != nil {
			return err
		}
	}
	return nil
}

// Prefer takes a session out of turn, for the worker that has its warm agent. It returns false if limits hold the
// session back, or it does not wait any more.
func (c *Consumer) Prefer(ctx context.Context, session string) (bool, error) {
	table := c.cfg.Tenants()
	if table == nil {
		return true, nil
	}
	found, err := c.dispatch(ctx, table, pick{most: 1, named: session})
	return len(found) > 0, err
}

// Unsort returns sessions to the ready index that were sorted for an agent that no living worker runs.
func (c *Consumer) Unsort(ctx context.Context, sessions []string) error {
	if len(sessions) == 0 {
		return nil
	}
	var places *redis.SliceCmd
	var since *redis.FloatSliceCmd
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		places, since = p.HMGet(ctx, rediskey.Places, sessions...), p.ZMScore(ctx, rediskey.Sorted, sessions...)
		return nil
	})
	if err != nil {
		return err
	}
	runs := c.runs()
	_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, place := range places.Val() {
			text, _ := place.(string)
			if agent, _, _ := strings.Cut(text, " "); text != "" && !runs(agent) {
				p.ZRem(ctx, rediskey.Sorted, sessions[i])
				p.HDel(ctx, rediskey.Places, sessions[i])
				p.ZAddNX(ctx, rediskey.Ready, redis.Z{Score: since.Val()[i], Member: sessions[i]})
			}
		}
		return nil
	})
	return err
}

// Waiting are the tenants of sessions that wait for a free worker, of the first of each queue.
type Waiting struct {
	Any     bool
	table   *tenants.Table // nil: first come, first served
	tenants map[string]bool
}

// Others reports whether a session of another tenant waits.
func (w Waiting) Others(session string) bool {
	return w.table != nil && len(w.tenants) > 0 && (len(w.tenants) > 1 || !w.tenants[w.table.Of(session)])
}

// waitingMost is how many sessions of each queue Waiting looks at. The lowest tags are first: those of other tenants are
// among them.
const waitingMost = 32

// Line returns which sessions wait for a free worker.
func (c *Consumer) Line(ctx context.Context) (w Waiting, err error) {
	table := c.cfg.Tenants()
	if table == nil {
		n, err := c.rdb.ZCard(ctx, rediskey.Ready).Result()
		return Waiting{Any: n > 0}, err
	}
	if _, err := c.dispatch(ctx, table, pick{}); err != nil { // with busy slots nobody else sorts
		return w, err
	}
	keys := []string{}
	for _, agent := range c.cfg.Serves() {
		keys = append(keys, rediskey.Queues+agent)
	}
	lists := make([]*redis.StringSliceCmd, len(keys))
	_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			lists[i] = p.ZRange(ctx, key, 0, waitingMost-1)
		}
		return nil
	})
	w = Waiting{table: table, tenants: map[string]bool{}}
	for _, list := range lists {
		for _, session := range list.Val() {
			w.Any, w.tenants[table.Of(session)] = true, true
		}
	}
	return w, err
}

// Leave releases what sessions hold of limits that were taken and not claimed. If that fails, their holds end with their
// leases.
func (c *Consumer) Leave(ctx context.Context, sessions ...string) error {
	tokens := make([]string, len(sessions))
	for i, s := range sessions {
		tokens[i] = c.holds.take(s)
	}
	return c.hold(ctx, sessions, tokens, 0)
}

// Leave releases what the claim holds of limits, after its end.
func (c *Claim) Leave(ctx context.Context) error {
	return c.consumer.hold(ctx, []string{c.session}, []string{c.hold}, 0)
}

// hold renews the holds with these tokens, or releases them if ttl is 0. A session with the token "" has none.
func (c *Consumer) hold(ctx context.Context, sessions, tokens []string, ttl int64) error {
	args := scripts.HoldArgs{Queue: rediskey.Queues, Held: rediskey.Held, Bell: rediskey.Bells, TTL: ttl, Sessions: nil, Tokens: nil}
	for i, token := range tokens {
		if token != "" {
			args.Sessions, args.Tokens = append(args.Sessions, sessions[i]), append(args.Tokens, token)
		}
	}
	if len(args.Sessions) == 0 {
		return nil
	}
	_, err := scripts.Hold.Run(ctx, c.rdb, []string{rediskey.Holds, rediskey.Ends, rediskey.Running, rediskey.Limits, rediskey.Places, rediskey.Waits}, args)
	return err
}

// holds are the tokens of what sessions hold of limits, from dispatch until they are claimed, and the agents of the sessions
// that this worker has sorted.
type holds struct {
	mu     sync.Mutex
	tokens map[string]string // by session
	agents map[string]bool
}

func (h *holds) add(sessions []string, token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range sessions {
		h.tokens[s] = token
	}
}

// take removes a session and returns its token, or "".
func (h *holds) take(session string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := h.tokens[session]
	delete(h.tokens, session)
	return token
}

// know notes an agent: an agent that all workers have lost must still be found.
func (h *holds) know(agent string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.agents) < agentsMost {
		h.agents[agent] = true
	}
}

// agentsMost is how many agents' names a worker keeps. Sessions of further ones wait for reap.
const agentsMost = 1000
