package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/session"
)

// Decided is a decision, and the number of its question. The zero value is no decision.
type Decided struct {
	Question int
	Decision session.Decision
	By       string // the user, "" if unknown
}

// Asked is a question in Redis.
type Asked struct {
	Decided               // without a decision, its number alone
	Age     time.Duration // since it was asked first, if that was in an earlier run of the turn
}

// AskWithin sets how long the turn's questions wait for their decision, which is stored with them for people to
// see. 0: as long as the turn.
func (c *Claim) AskWithin(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patience = d
}

// Ask stores a question of the turn's agent, for Decide to find, and returns its number. A turn has
// one open question: a new one replaces it. Ask ignores q's own number.
func (c *Claim) Ask(ctx context.Context, q session.Question) (number int, err error) {
	a, err := c.AskFor(ctx, "", q)
	return a.Question, err
}

// AskFor is Ask for a question with a key, which is its name in all runs of the turn. The turn must have a
// journal. If an earlier run has asked the question, it keeps its number, and may have its decision.
func (c *Claim) AskFor(ctx context.Context, key string, q session.Question) (Asked, error) {
	c.mu.Lock()
	q.Timeout = session.Millis(c.patience)
	c.mu.Unlock()
	a, err := c.putQuestion(ctx, key, q)
	if err == nil && a.Decision == "" {
		_ = index.NeedAttention(ctx, c.consumer.rdb, c.redisNow(), c.session)
	}
	return a, err
}

func (c *Claim) putQuestion(ctx context.Context, key string, q any) (a Asked, err error) {
	data, err := marshal(q)
	if err != nil {
		return a, fmt.Errorf("encode question: %w", err)
	}
	c.mu.Lock()
	c.questions++
	c.mu.Unlock()
	r, err := c.ask(ctx, key, data)
	a = Asked{Decided: Decided{int(r.Number), session.Decision(r.Decision), r.By}}
	if r.At > 0 && r.At < c.Turn().Fence { // a fencing token is the time of its claim, or later
		a.Age = time.Duration(max(c.redisNow()-r.At, 0)) * time.Millisecond
	}
	return a, err
}

// Withdraw closes the turn's last question: the agent no longer waits, and later decisions are
// refused. It returns the decision, if there was one.
func (c *Claim) Withdraw(ctx context.Context) (Decided, error) { return c.Deny(ctx, "") }

// Deny is Withdraw for a question with a key: without a decision it is denied, in later runs, too.
func (c *Claim) Deny(ctx context.Context, key string) (Decided, error) {
	r, err := c.ask(ctx, key, "")
	return Decided{int(r.Number), session.Decision(r.Decision), r.By}, err
}

func (c *Claim) ask(ctx context.Context, key, question string) (scripts.AskResult, error) {
	c.mu.Lock()
	nth := c.questions
	c.mu.Unlock()
	k, o := c.owner()
	return own(ctx, c, true, scripts.Ask, scripts.AskKeys(k), scripts.AskArgs{
		Prefixes: scripts.PrefixesOf(c.session), Owner: o, TTL: c.consumer.ttl(), Nth: int64(nth), Question: question, Key: key,
	})
}

func readQuestion(text string) (q session.Question) {
	_ = json.Unmarshal([]byte(text), &q) // the number counts; a question without its words is still open
	return q
}

// OpenQuestion returns the open question of the turn with that fencing token, from the fields of
// its run record; nil if there is none. last is the field questions.
func OpenQuestion(sessionKey, fence, question, decided, last string) *session.Question {
	number, text := openQuestion(fence, question, decided)
	if text == "" || strings.HasPrefix(text, waitBegins) {
		return nil
	}
	q := readQuestion(text)
	q.Turn = rediskey.IDPrefix(sessionKey) + fence
	q.Number, _ = strconv.Atoi(number)
	q.AskedAt = askedAt(number, last)
	return &q
}

// askedAt is when the question with this number was asked first; zero if unknown.
func askedAt(number, last string) (at time.Time) {
	if f := strings.Fields(last); len(f) == 4 && f[0] == number {
		if ms, err := strconv.ParseInt(f[3], 10, 64); err == nil {
			at = time.UnixMilli(ms)
		}
	}
	return at
}

func openQuestion(fence, question, decided string) (number, text string) {
	of, rest, _ := strings.Cut(question, " ")
	number, text, _ = strings.Cut(rest, " ")
	if of == "" || of != fence || strings.HasPrefix(decided, of+" "+number+" ") {
		return "", ""
	}
	return number, text
}
