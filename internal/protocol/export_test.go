package protocol

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/lua"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// Scripts are the package's scripts by name, for tests that break their calls.
var Scripts = func() map[string]*redis.Script {
	all := map[string]*redis.Script{}
	for _, s := range script.All() {
		if header(s.Name) != nil {
			all[s.Name] = redis.NewScript(s.Source)
		}
	}
	return all
}()

// header returns the header of a script, nil if it is no script of the protocol.
func header(name string) *lua.Header {
	if s, err := lua.Compose(name); err == nil {
		return &s.Header
	}
	return nil
}

// Do calls a script by hand, with a session's keys, the call's own keys, and names and values of
// arguments. It adds the arguments that follow from the session.
func Do(ctx context.Context, rdb redis.Scripter, name string, session, own []string, pairs ...any) *redis.Cmd {
	h, names := header(name), header("erase").Keys
	sessionKey, _, _ := rediskey.Parse(session[0])
	k := rediskey.For(sessionKey)
	pairs = append(pairs, "task", k.TaskPrefix(), "prefix", rediskey.IDPrefix(sessionKey), "idem", k.Idem(""))
	var keys []string
	for _, key := range h.Keys {
		if at := slices.Index(names, key); at >= 0 && at < len(session) {
			keys = append(keys, session[at])
		}
	}
	var words []any
	for _, arg := range slices.Concat(h.Args, h.Each) {
		at := 0
		for pairs[at] != arg.Name {
			at += 2
		}
		switch value := pairs[at+1].(type) {
		case bool:
			words = append(words, scripts.Flag(value))
		case []string:
			words = append(words, len(value))
			for _, word := range value {
				words = append(words, word)
			}
		default:
			words = append(words, value)
		}
	}
	return Scripts[name].Run(ctx, rdb, append(keys, own...), words...)
}

// ClaimFast sends the fast path of a claim of one session.
func ClaimFast(ctx context.Context, rdb redis.Scripter, sessionKey string) *redis.Cmd {
	return Do(ctx, rdb, "claim_fast", Keys(sessionKey, "", time.Now()), nil, "ttl", 60_000, "worker", "w", "phase", "starting", "mode", "queue", "cap", 5, "drop", "new",
		"debounce", 0, "warm", "0", "longest", 4<<20, "token", "token", "fresh_sid", "sid")
}

// KeysOf are the KEYS of every script of a session.
func KeysOf(session, transcriptID string) []string { return Keys(session, transcriptID, time.Now()) }

// Waiting is how many moves wait for a shared command.
func (c *Consumer) Waiting() int { return c.moves.Waiting() }

// AwaitingUnclaim counts the claims that wait for Unclaim.
func AwaitingUnclaim(c *Consumer) int {
	c.replyLostMu.Lock()
	defer c.replyLostMu.Unlock()
	return len(c.replyLost)
}

// LoseReply leaves Unclaim a claim with a sentinel that ended long ago.
func LoseReply(c *Consumer, session string) {
	c.addReplyLost(&Claim{consumer: c, session: session, keys: scripts.KeysOf(session, "", time.Now())})
}

// Bounds returns the limits that the end of a turn applies to its transcript.
func Bounds(c *Consumer, before int64, entries []string) string { return c.bounds(before, entries) }

// EncodeTask encodes a task as a sender does.
func EncodeTask(sessionKey, id string, payload []byte, nonce string) []byte {
	return encodeTask(sessionKey, id, payload, nonce, "")
}

// KeyNames are the names of a script's KEYS.
func KeyNames(script string) []string { return header(script).Keys }

// Waiting is how many messages wait for others that are on their way.
func (s *Sender) Waiting() int { return s.gate.Waiting() + s.lists.Waiting() }
