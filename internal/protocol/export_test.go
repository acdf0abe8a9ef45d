package protocol

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// Scripts are the package's scripts by name, for tests that break their calls.
var Scripts = func() map[string]*redis.Script {
	all := map[string]*redis.Script{}
	for name, m := range moves {
		all[name] = redis.NewScript(m.Text().Source)
	}
	return all
}()

// Do calls a script by hand, with a session's keys, the call's own keys, and names and values of
// arguments. It adds the arguments that follow from the session.
func Do(ctx context.Context, rdb redis.Scripter, name string, keys, own []string, pairs ...any) *redis.Cmd {
	m := moves[name]
	sessionKey, _, _ := rediskey.Parse(keys[0])
	for _, arg := range m.made().Args {
		switch arg.Name {
		case "task":
			pairs = append(pairs, arg.Name, rediskey.For(sessionKey).TaskPrefix())
		case "prefix":
			pairs = append(pairs, arg.Name, rediskey.IDPrefix(sessionKey))
		case "idem":
			pairs = append(pairs, arg.Name, rediskey.For(sessionKey).Idem(""))
		}
	}
	return Scripts[name].Run(ctx, rdb, m.keys(keys, own...), m.args(pairs...)...)
}

// ClaimFast sends the fast path of a claim of one session.
func ClaimFast(ctx context.Context, rdb redis.Scripter, sessionKey string) *redis.Cmd {
	args := append(claimFast.args("ttl", 60_000, "worker", "w", "phase", "starting", "mode", "queue", "cap", 5, "drop", "new",
		"debounce", 0, "warm", "0", "longest", 4<<20), claimFast.each("task", rediskey.For(sessionKey).TaskPrefix(), "token", "token", "fresh_sid", "sid")...)
	return Scripts[claimFast.name].Run(ctx, rdb, claimFast.keys(Keys(sessionKey, "", time.Now())), args...)
}

// KeysOf are the KEYS of every script of a session.
func KeysOf(session, sessionID string) []string { return Keys(session, sessionID, time.Now()) }

// Waiting is how many moves wait for a shared command.
func (c *Consumer) Waiting() int { return c.moves.Waiting() }

// AwaitingUnclaim counts the claims that wait for Unclaim.
func AwaitingUnclaim(c *Consumer) int {
	c.replyLostMu.Lock()
	defer c.replyLostMu.Unlock()
	return len(c.replyLost)
}

// LoseReply leaves Unclaim a claim whose sentinel ended long ago.
func LoseReply(c *Consumer, session string) {
	c.addReplyLost(&Claim{consumer: c, session: session, keys: Keys(session, "", time.Now())})
}

// Bounds returns the limits that the end of a turn applies to its transcript.
func Bounds(c *Consumer, before int64, entries []string) string { return c.bounds(before, entries) }

// EncodeTask encodes a task as a sender does.
func EncodeTask(sessionKey, id string, payload []byte, nonce string) []byte {
	return encodeTask(sessionKey, id, payload, nonce, "")
}

// KeyNames are the names of a script's KEYS.
func KeyNames(script string) []string { return moves[script].made().Keys }

// Waiting is how many messages wait for others that are on their way.
func (s *Sender) Waiting() int { return s.gate.Waiting() }
