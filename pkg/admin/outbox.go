package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// outboxPage is how many deliveries a round trip reads, or a script moves. A text may have 256 KiB.
const outboxPage = 20

// Delivery is a record of a session's outbox, with a message's outcome or an agent's question for a
// destination. See docs/webhooks.md.
type Delivery struct {
	Session, Destination string
	ID                   string    // its webhook-id
	Sequence             int64     // rises within the session
	Type                 string    // message.done, question.asked ...
	Messages             []string  // IDs
	At                   time.Time // when it was stored, by Redis' clock

	// Of the next one for its destination: how often it was tried, when it is tried again, and why the
	// last attempt failed.
	Attempts int
	NextAt   time.Time
	Error    string // also why it was given up

	GivenUp bool // Redrive tries it again
}

// Deliveries visits the deliveries that wait, by destination and then in their order, then those that
// were given up, the oldest first.
func (s *Session) Deliveries(ctx context.Context) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		if err := session.ValidateKey(s.key); err != nil {
			yield(Delivery{}, err)
			return
		}
		heads := map[string]bool{} // destinations with their first record read
		for _, key := range []string{s.keys().Outbox(), s.keys().Undelivered()} {
			for from := int64(0); ; from += outboxPage {
				page, err := s.outboxPage(ctx, key, from, heads)
				if err != nil {
					yield(Delivery{}, fmt.Errorf("read the outbox of %s: %w", s.key, broken(err)))
					return
				}
				for _, d := range page {
					if !yield(d, nil) {
						return
					}
				}
				if len(page) < outboxPage {
					break
				}
			}
		}
	}
}

// outboxPage reads a page of the outbox, or of the deliveries that were given up.
func (s *Session) outboxPage(ctx context.Context, key string, from int64, heads map[string]bool) ([]Delivery, error) {
	k, rdb := s.keys(), s.admin.rdb
	members, err := rdb.ZRangeWithScores(ctx, key, from, from+outboxPage-1).Result()
	if err != nil || len(members) == 0 {
		return nil, err
	}
	page := make([]Delivery, len(members))
	texts := make([]*redis.SliceCmd, len(members))
	lines := map[string]*redis.StringCmd{}
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, m := range members {
			member, _ := m.Member.(string)
			to, text, _ := strings.Cut(member, " ")
			page[i] = Delivery{Session: s.key, Destination: to, Sequence: script.Number(text), GivenUp: key == k.Undelivered()}
			sequence := page[i].sequence() // a forged one has no record
			texts[i] = p.HMGet(ctx, k.Deliveries(), sequence, "id "+sequence, "why "+sequence)
			if !heads[to] && !page[i].GivenUp {
				heads[to] = true
				lines[to] = p.HGet(ctx, k.Deliveries(), "line "+to)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	for i := range page {
		d := &page[i]
		d.read(script.HashFields(texts[i]))
		if line := lines[d.Destination]; line != nil { // of the head only
			d.Attempts, d.NextAt, d.Error = deliveries.ParseLine(line.Val())
			lines[d.Destination] = nil
		}
	}
	return page, nil
}

func (d *Delivery) sequence() string { return strconv.FormatInt(d.Sequence, 10) }

// read reads a record's text and the facts about it.
func (d *Delivery) read(stored script.Fields) {
	var body struct {
		Type      string
		Timestamp time.Time
		Data      struct{ Messages []string }
	}
	sequence := d.sequence()
	if err := json.Unmarshal([]byte(stored.Text(sequence)), &body); err != nil {
		d.Error = "its text cannot be read"
	}
	first := stored.Text("id " + sequence)
	if first == "" {
		first = sequence
	}
	d.ID = rediskey.IDPrefix(d.Session) + first
	d.Type, d.At, d.Messages = body.Type, body.Timestamp, body.Data.Messages
	if why := stored.Text("why " + sequence); why != "" {
		d.Error = why
	}
}
