package protocol

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
)

// Claim claims sessions with their next messages. It takes one round trip, and a second one if a
// session needs the full path.
//
// It leaves out sessions that are owned, paused or empty. Those that wait for a time go into the
// due index. A claim lasts while parent does and its lease is renewed.
//
// On an error, the sessions without a claim are back in the ready index, except for those of a NotWokenError, and
// those that Redis refuses to read (ErrBroken): reap finds these in time. Then call Unclaim: Redis may have
// carried out a claim and its reply was lost.
func (c *Consumer) Claim(parent context.Context, sessions []string) ([]*Claim, error) {
	sent := time.Now()
	attempts := make([]*Claim, len(sessions))
	for i, s := range sessions {
		attempts[i] = &Claim{
			consumer: c, session: s, token: rand.Text(), prefix: rediskey.IDPrefix(s), keys: scripts.KeysOf(s, "", sent),
			claimedBy: sent.Add(2 * c.cfg.SentinelTTL),
		}
	}
	serves, elsewhere := c.cfg.Serves(), ""
	if names, known := c.cfg.Elsewhere(); known {
		elsewhere = spaced(names)
	}
	for _, claim := range attempts {
		if agent := c.cfg.AgentOf(claim.session); slices.Contains(serves, agent) {
			claim.agent = agent
		}
	}
	var claims, special []*Claim
	var waiting []index.WakeUp
	var failed error
	var again []string
	var others []arrival // another agent's than dispatch took them for
	readResults := func(attempts []*Claim, calls []*script.Call) {
		for i, call := range calls {
			claim := attempts[i]
			if call.Err != nil {
				err := fmt.Errorf("claim %s: %w", claim.session, call.Err)
				if broken(call.Err) {
					err = fmt.Errorf("%w: %w", ErrBroken, err)
				} else {
					again = append(again, claim.session)
				}
				if mayBeDone(call.Err) {
					c.addReplyLost(claim)
				}
				failed = errors.Join(failed, err)
				continue
			}
			switch r := scripts.Claim.Result(call); r.Status { // both paths have this result
			case scripts.Special:
				special = append(special, claim)
			case scripts.Turn:
				claim.lease = lease.New(parent, sent, c.cfg.SentinelTTL)
				claim.begin(sent, r)
				claim.turn.Reset, claim.turn.Resume, claim.turn.Carries, claim.turn.Ends = r.Reset, r.Resume, Carries(r.Carries), endsOf(r.Ends)
				claim.turn.Throttled, _ = strconv.Atoi(r.Throttled)
				if r.Began > 0 {
					claim.turn.Continues, claim.turn.Keeps = claim.prefix+strconv.FormatInt(r.Began, 10), int(r.Keeps)
					claim.keeps = claim.turn.Keeps
				}
				claim.hold = c.holds.take(claim.session)
				claims = append(claims, claim)
			case scripts.Other:
				if c.cfg.Tenants() != nil && r.Missing == 0 && c.cfg.Covers(r.Agent, claim.session) {
					others = append(others, arrival{session: claim.session, since: -float64(r.Now), agent: r.Agent})
				} else if c.unserved(parent, claim.session, r) {
					again = append(again, claim.session)
				} else {
					waiting = append(waiting, index.WakeUp{Session: claim.session, At: r.Now + unservedPause.Milliseconds()})
				}
			case scripts.Wait:
				waiting = append(waiting, index.WakeUp{Session: claim.session, At: r.At})
			case scripts.Again:
				if again = append(again, claim.session); r.Dead > 0 { // if it fails, the sweep lists it
					_ = index.NeedAttention(parent, c.rdb, r.Dead, claim.session)
				}
			}
		}
	}
	calls, err := c.claimFast(parent, attempts)
	if err != nil {
		failed = fmt.Errorf("put sessions into the owned index before their claim: %w", err)
	}
	if calls == nil && err != nil {
		return nil, errors.Join(failed, c.PutBack(parent, sessions))
	}
	readResults(attempts, calls)
	if rest := special; len(rest) > 0 {
		// The fast path may have set the sentinel, and its reply was lost. So the lease counts from
		// before the fast path was sent.
		readResults(rest, scripts.Claim.Each(parent, c.rdb, len(rest), func(i int) ([]string, scripts.ClaimArgs) {
			return scripts.ClaimKeys(rest[i].keys), rest[i].claimArgs(serves, elsewhere)
		}))
	}
	if len(others) > 0 {
		if err := c.sortAgain(parent, c.cfg.Tenants(), others); err != nil {
			failed = errors.Join(failed, err)
			for _, o := range others {
				again = append(again, o.session)
			}
		}
	}
	if len(waiting) > 0 {
		if err := index.Wake(parent, c.rdb, 0, 0, waiting...); err != nil {
			failed = errors.Join(failed, err)
			for _, up := range waiting {
				again = append(again, up.Session)
			}
		}
	}
	return claims, errors.Join(failed, c.PutBack(parent, again))
}

// ErrBroken is wrapped by Claim's error about a session with a key that Redis refuses to read or
// write, for example of a wrong type. Other sessions are not affected.
var ErrBroken = errors.New("the session is broken")

// broken reports whether an error is about the content of the script's keys.
func broken(err error) bool {
	return redisconn.Refused(err) && (redis.HasErrorPrefix(err, "WRONGTYPE") || strings.HasPrefix(err.Error(), "ERR "))
}

// claimSettings are the worker's arguments of both paths of a claim.
func (c *Consumer) claimSettings() scripts.ClaimFastShared {
	line := c.cfg.Line
	return scripts.ClaimFastShared{
		TTL: c.ttl(), Worker: c.cfg.Worker, Phase: c.phase(), Mode: string(line.Mode), Cap: int64(line.Cap), Drop: string(line.Drop),
		Debounce: time.Duration(line.Debounce).Milliseconds(), Warm: c.cfg.Warm, Longest: TaskMost(c.cfg.Limits),
	}
}

// spaced returns names each between blanks, as claim takes them.
func spaced(names []string) string { return " " + strings.Join(names, " ") + " " }

// unservedPause is when workers look again at a session whose agent one of them does not run. Such
// sessions must not keep workers busy.
const unservedPause = 15 * time.Second

// unserved reports a session whose agent this worker does not run, and returns whether others may take it at once.
func (c *Consumer) unserved(ctx context.Context, sessionKey string, r scripts.ClaimResult) (again bool) {
	missing := r.Missing == 1
	if missing { // a failed call does no harm: the next look, after the pause, lists it again
		_ = index.NeedAttention(ctx, c.rdb, r.Now, sessionKey)
	}
	return c.cfg.Unserved(sessionKey, r.Agent, missing)
}

func (c *Claim) claimArgs(serves []string, elsewhere string) scripts.ClaimArgs {
	own := make([]string, 0, len(serves))
	for _, agent := range serves {
		if c.consumer.cfg.Covers(agent, c.session) {
			own = append(own, agent)
		}
	}
	cfg, s := c.consumer.cfg, c.consumer.claimSettings()
	return scripts.ClaimArgs{
		TTL: s.TTL, Worker: s.Worker, Phase: s.Phase, Mode: s.Mode, Cap: s.Cap, Drop: s.Drop, Debounce: s.Debounce, Warm: s.Warm, Longest: s.Longest,
		Stream: c.consumer.stream, StuckLimit: int64(cfg.StuckLimit),
		CrashSuspends: cfg.CrashPolicy == CrashSuspend, StopBatch: stopBatch, TurnLimits: cfg.turnLimits(),
		Serves: spaced(own), Elsewhere: elsewhere, Prefixes: scripts.PrefixesOf(c.session), Token: c.token, FreshSID: newTranscriptID(),
		Agent: c.consumer.cfg.AgentOf(c.session),
	}
}

// retention is Retention in seconds.
func (c Config) retention() int64 { return int64(c.Retention / time.Second) }

// turnLimits are the most messages and bytes of a turn, as scripts read them.
func (c Config) turnLimits() string { return fmt.Sprint(c.TurnMessages, c.TurnBytes) }

// claimFast sends the fast path of claims, in one round trip. A claim that returns special has done
// nothing, and needs the full path.
//
// Before a claim is sent, reap must know the session, in case this worker dies. Senders make reap
// check it after ClaimGrace; a worker with a shorter lease makes reap check it after its own TTL.
// An error is about that. Without calls nothing was claimed.
func (c *Consumer) claimFast(ctx context.Context, attempts []*Claim) ([]*script.Call, error) {
	calls := make([]*script.Call, len(attempts))
	for i, claim := range attempts {
		calls[i] = scripts.ClaimFast.Call(scripts.ClaimFastKeys(claim.keys),
			scripts.ClaimFastArgs{Task: claim.keys.TaskPrefix(), Token: claim.token, FreshSID: newTranscriptID(), Agent: claim.agent})
		calls[i].Shared = c.claimShared
	}
	var first []*script.Call
	if c.cfg.SentinelTTL < index.ClaimGrace {
		for some := range slices.Chunk(attempts, index.TimerBatch) {
			first = append(first, c.indexOwned(some))
		}
	}
	sent := c.moves.DoAfter(ctx, first, calls)
	var failed error
	for _, call := range first {
		failed = errors.Join(failed, call.Err)
	}
	if !sent {
		return nil, failed
	}
	return calls, failed
}
