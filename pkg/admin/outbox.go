package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// outboxPage is how many deliveries a round trip reads, or a script moves. A text may have 256 KiB.
const outboxPage = 20

// Delivery is a record of a session's outbox: it tells a destination how a message ended, or that an
// agent asks a question. See docs/webhooks.md.
type Delivery struct {
	Session     string    `json:"session"`
	Destination string    `json:"destination"`
	ID          string    `json:"id"`       // its webhook-id
	Sequence    int64     `json:"sequence"` // rises within the session
	Type        string    `json:"type"`     // message.done, question.asked ...
	Messages    []string  `json:"messages"` // ids of the messages that it is about
	At          time.Time `json:"at"`       // when it was stored, by Redis' clock

	// Attempts are those of the record at the head of its line, NextAt is when the next one may be,
	// and Error what the last one met.
	Attempts int       `json:"attempts,omitempty"`
	NextAt   time.Time `json:"next_at,omitzero"`
	Error    string    `json:"error,omitempty"`

	// Undelivered says that it was given up, for the reason in Error. Redrive tries it again.
	Undelivered bool `json:"undelivered,omitempty"`
}

// Outbox visits the deliveries that a session stores, by destination and then in their order, and
// after them those that were given up, the oldest first. An error comes last, with a zero Delivery;
// it wraps session.ErrInvalid if the session key is wrong.
func (a *Client) Outbox(ctx context.Context, sessionKey string) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		if err := session.ValidateKey(sessionKey); err != nil {
			yield(Delivery{}, err)
			return
		}
		k := rediskey.For(sessionKey)
		heads := map[string]bool{} // destinations whose first record was read
		for _, key := range []string{k.Outbox(), k.Undelivered()} {
			for from := int64(0); ; from += outboxPage {
				page, err := a.outboxPage(ctx, sessionKey, key, from, heads)
				if err != nil {
					yield(Delivery{}, fmt.Errorf("read the outbox of %s: %w", sessionKey, err))
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
func (a *Client) outboxPage(ctx context.Context, sessionKey, key string, from int64, heads map[string]bool) ([]Delivery, error) {
	k := rediskey.For(sessionKey)
	members, err := a.rdb.ZRangeWithScores(ctx, key, from, from+outboxPage-1).Result()
	if err != nil || len(members) == 0 {
		return nil, err
	}
	page := make([]Delivery, len(members))
	texts := make([]*redis.SliceCmd, len(members))
	lines := map[string]*redis.StringCmd{}
	_, err = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, m := range members {
			member, _ := m.Member.(string)
			to, sequence, _ := strings.Cut(member, " ")
			page[i] = Delivery{Session: sessionKey, Destination: to, Sequence: protocol.Number(sequence), Undelivered: key == k.Undelivered()}
			texts[i] = p.HMGet(ctx, k.Deliveries(), sequence, "id "+sequence, "why "+sequence)
			if !heads[to] && !page[i].Undelivered {
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
			d.readLine(line.Val())
			lines[d.Destination] = nil
		}
	}
	return page, nil
}

// read reads a record's text and what stands beside it.
func (d *Delivery) read(stored script.Fields) {
	var body struct {
		Type      string
		Timestamp time.Time
		Data      struct{ Messages []string }
	}
	sequence := strconv.FormatInt(d.Sequence, 10)
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

// readLine reads the state of the line at whose head the record is: "token till attempts at unsure
// error".
func (d *Delivery) readLine(text string) {
	words := strings.SplitN(text, " ", 6)
	if len(words) < 6 {
		return
	}
	d.Attempts, d.Error = int(protocol.Number(words[2])), words[5]
	if at := protocol.Number(words[3]); at > 0 {
		d.NextAt = time.UnixMilli(at).UTC()
	}
}

// Owing counts the outcomes of a session that destinations do not have.
type Owing struct {
	Owed        int // of messages with a route that have not ended
	Stored      int // deliveries that wait for their attempt, questions too
	Undelivered int // deliveries that were given up
}

// Owing counts what a session owes. It reads three sizes, however much is stored. The error wraps
// session.ErrInvalid if the session key is wrong.
func (a *Client) Owing(ctx context.Context, sessionKey string) (Owing, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return Owing{}, err
	}
	var owed, stored, undelivered *redis.IntCmd
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		k := rediskey.For(sessionKey)
		owed, stored, undelivered = p.HLen(ctx, k.Owed()), p.ZCard(ctx, k.Outbox()), p.ZCard(ctx, k.Undelivered())
		return nil
	})
	if err != nil {
		return Owing{}, fmt.Errorf("count what session %s owes: %w", sessionKey, err)
	}
	return Owing{Owed: int(owed.Val()), Stored: int(stored.Val()), Undelivered: int(undelivered.Val())}, nil
}

// SessionsWithDeliveries visits the keys of the sessions that store deliveries, delivered ones left
// out, each once and in no order. It reads every known session, in batches. An error comes last,
// with an empty key.
func (a *Client) SessionsWithDeliveries(ctx context.Context) iter.Seq2[string, error] {
	return a.sessionsWith(ctx, "look for deliveries", rediskey.Session.Outbox, rediskey.Session.Undelivered)
}

// Redrive puts a session's deliveries that were given up back at the end of their lines, and returns
// how many. An empty destination means all. The error wraps session.ErrInvalid if the session key is
// wrong.
func (a *Client) Redrive(ctx context.Context, sessionKey, destination string) (n int, err error) {
	return a.redrive(ctx, protocol.Redrive{Session: sessionKey, Destination: destination})
}

// DropUndelivered deletes a session's deliveries that were given up, and returns how many. An empty
// destination means all. The error wraps session.ErrInvalid if the session key is wrong.
func (a *Client) DropUndelivered(ctx context.Context, sessionKey, destination string) (n int, err error) {
	return a.redrive(ctx, protocol.Redrive{Session: sessionKey, Destination: destination, Delete: true})
}

func (a *Client) redrive(ctx context.Context, r protocol.Redrive) (n int, err error) {
	if err := session.ValidateKey(r.Session); err != nil {
		return 0, err
	}
	r.Most = outboxPage
	for more := true; more; {
		r.Call = rand.Text()
		var moved int
		if moved, more, err = r.Do(ctx, a.rdb); err != nil {
			return n, fmt.Errorf("deliveries of %s that were given up: %w", r.Session, err)
		}
		n += moved
	}
	return n, nil
}

// Destinations returns the states of the destinations that are paused or disabled, by name.
func (a *Client) Destinations(ctx context.Context) (map[string]session.DestinationState, error) {
	states, _, err := protocol.Destinations(ctx, a.rdb)
	if err != nil {
		err = fmt.Errorf("read the states of destinations: %w", err)
	}
	return states, err
}

// SetDestination pauses, disables or (with the zero state) enables a destination, for all deliverers.
// After it is enabled, its deliveries go on within about two seconds: that reads each session that has
// deliveries, about 100,000 in a second. The error wraps session.ErrInvalid if the name is wrong.
func (a *Client) SetDestination(ctx context.Context, name string, s session.DestinationState) error {
	if err := session.ValidateDestination(name); err != nil {
		return err
	}
	if err := protocol.SetDestination(ctx, a.rdb, name, s); err != nil {
		return fmt.Errorf("set the state of destination %s: %w", name, err)
	}
	if s.Paused || s.Disabled {
		return nil
	}
	if err := protocol.ResumeDestination(ctx, a.rdb, name); err != nil {
		return fmt.Errorf("destination %s is enabled, but its deliveries may wait for a minute: %w", name, err)
	}
	return nil
}
