package deliveries

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/script"
)

// TakeLines returns at most so many records, with so many bytes of text.
const (
	takeMost  = 32
	takeBytes = 4 << 20
)

// unknownAge is the age at which a record is given up if its destination is not configured.
const unknownAge = 72 * time.Hour

// Line is a destination in a deliverer's configuration.
type Line struct {
	Destination string
	MaxAge      time.Duration // an older record is given up
	Paused      bool          // it gets nothing now
}

// Delivery is a record of the outbox that its taker may deliver until Until.
type Delivery struct {
	Session     string
	Destination string
	Sequence    int64  // rises within the session
	ID          string // identifies the record for its receiver, the same in every attempt
	Attempt     int    // 1, 2 ...
	Unsure      bool   // an earlier attempt may have been delivered
	Refused     int    // how often its destination refused it since it was stored or redriven
	By          int64  // deadline of the delivery, ms by Redis' clock; 0: its destination's MaxAge
	Body        []byte // never changes
	Token       string // of the lease
	Until       time.Time
	TraceParent string // of this attempt; "": it is not traced
}

// TakenLines is the result of TakeLines.
type TakenLines struct {
	Now        int64    // Redis' clock, ms
	At         int64    // when to check the session again, ms by Redis' clock, not after Now if there is more to check; 0: nothing is stored
	Unknown    int      // queues of destinations that the caller does not know
	Last       int64    // the highest sequence of a record of the session
	Forged     []string // destinations of records that were removed because no script can have stored them; "-": unknown
	Deliveries []Delivery
}

// More reports whether another call would check more of the session.
func (t TakenLines) More() bool { return t.At > 0 && t.At <= t.Now }

// TakeLines leases the session's queues that have a record to deliver now, and returns their first
// records. lua/take.lua.
func TakeLines(ctx context.Context, rdb script.Client, sessionKey string, known []Line, lease time.Duration) (TakenLines, error) {
	token := rand.Text()
	var names, ages, paused []string
	for _, l := range known {
		names, ages, paused = append(names, l.Destination), append(ages, fmt.Sprint(l.MaxAge.Milliseconds())), append(paused, scripts.Flag(l.Paused))
	}
	sent := time.Now()
	prefixes := scripts.PrefixesOf(sessionKey)
	r, err := scripts.Take.Run(ctx, rdb, scripts.TakeKeys(scripts.KeysOf(sessionKey, "", sent)), scripts.TakeArgs{
		Prefixes: prefixes, Token: token, Lease: lease.Milliseconds(),
		Most: takeMost, Bytes: takeBytes, Known: names, Ages: ages, Paused: paused, UnknownAge: unknownAge.Milliseconds(),
	})
	if err != nil {
		return TakenLines{}, err
	}
	t := TakenLines{Now: r.Now, At: r.At, Unknown: int(r.Unknown), Last: r.Last}
	for i := range r.Forged {
		t.Forged = append(t.Forged, r.Forged.Text(i))
	}
	for _, d := range r.Records {
		t.Deliveries = append(t.Deliveries, Delivery{
			Session: sessionKey, Destination: d.To, Sequence: d.Sequence, ID: prefixes.Prefix + fmt.Sprint(d.ID),
			Attempt: int(d.Attempt), Unsure: d.Unsure, Refused: int(d.Refused), By: d.By, Body: []byte(d.Body), Token: token, Until: sent.Add(lease),
		})
	}
	return t, nil
}

// Verdict is the result of a delivery.
type Verdict string

// The verdicts.
const (
	Delivered Verdict = "delivered"
	Again     Verdict = "again"   // to be tried again
	GiveUp    Verdict = "dead"    // given up; an operator may redrive it
	Untried   Verdict = "release" // not tried
)

// Ack stores the result of a delivery. lua/ack.lua.
type Ack struct {
	Delivery Delivery
	Verdict  Verdict
	Wait     time.Duration // Again: time until the next attempt
	Unsure   bool          // Again, GiveUp: the receiver may have it
	Refused  bool          // Again: the receiver refused this record
	Why      string        // the error of the attempt
}

// Do returns whether the caller still had the lease, and whether the queue has more records. It
// keeps the lease after Delivered and GiveUp.
func (a Ack) Do(ctx context.Context, rdb script.Client) (ok, left bool, err error) {
	d := a.Delivery
	r, err := scripts.Ack.Run(ctx, rdb, scripts.AckKeys(scripts.KeysOf(d.Session, "", time.Now())), scripts.AckArgs{
		To: d.Destination, Token: d.Token, Sequence: d.Sequence, Verdict: string(a.Verdict), Wait: a.Wait.Milliseconds(),
		Unsure: a.Unsure, Refused: a.Refused, Why: a.Why,
	})
	return r.OK, r.Left, err
}

// Redrive puts records that were given up back at the end of their queues, or deletes them.
// lua/redrive.lua.
type Redrive struct {
	Session     string
	Destination string // "": all
	Delete      bool
	Call        string // identifies this call, so that the script recognizes a repetition
	Most        int    // at most 1,000
}

// Do returns how many records it found, and whether there may be more.
func (r Redrive) Do(ctx context.Context, rdb script.Client) (n int, more bool, err error) {
	k := scripts.KeysOf(r.Session, "", time.Now())
	found, err := scripts.Redrive.Run(ctx, rdb, scripts.RedriveKeys(k, k.Call(r.Call)), scripts.RedriveArgs{
		Task: k.TaskPrefix(), To: r.Destination, Drop: r.Delete, Most: int64(r.Most),
	})
	return int(found.N), found.More, err
}

// DueOutbox returns due sessions of the outbox index, and hides them from other calls for hidden.
// score is their score in the index now, for RescoreOutbox. lua/outbox_due.lua.
func DueOutbox(ctx context.Context, rdb script.Client, most int, hidden time.Duration) (sessions []string, score int64, err error) {
	r, err := scripts.OutboxDue.Run(ctx, rdb, []string{rediskey.Outbox}, scripts.OutboxDueArgs{Batch: int64(most), Hidden: hidden.Milliseconds()})
	for i := range r.Sessions {
		sessions = append(sessions, r.Sessions.Text(i))
	}
	return sessions, r.At, err
}

// RescoreOutbox sets when a session is due in the index, in ms; 0 removes it. It does nothing if
// the session's score is no longer the one that DueOutbox returned: then a record was added.
func RescoreOutbox(ctx context.Context, rdb script.Client, sessionKey string, score, at int64) error {
	to := map[string]string{}
	if at > 0 {
		to[sessionKey] = fmt.Sprint(at)
	}
	_, err := index.RescoreUnchanged(ctx, rdb, rediskey.Outbox, []string{sessionKey}, map[string]string{sessionKey: fmt.Sprint(score)}, to)
	return err
}

// IndexOutbox makes deliverers check sessions no later than at, in ms by Redis' clock.
func IndexOutbox(ctx context.Context, rdb redis.Cmdable, at int64, sessions ...string) error {
	if len(sessions) == 0 {
		return nil
	}
	return rdb.ZAddLT(ctx, rediskey.Outbox, outboxEntries(at, sessions)...).Err()
}

// IndexOutboxNow makes deliverers check sessions at once.
func IndexOutboxNow(ctx context.Context, rdb redis.Cmdable, sessions ...string) error {
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	return IndexOutbox(ctx, rdb, now.UnixMilli(), sessions...)
}

// CheckOutboxes makes deliverers check sessions that store records, or only owe some: at once if
// they are not in the index, and within recheck if they store records and the index has a later
// time. now is in ms.
func CheckOutboxes(ctx context.Context, rdb redis.Cmdable, now int64, recheck time.Duration, storing, owing []string) error {
	if len(storing)+len(owing) == 0 {
		return nil
	}
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAddNX(ctx, rediskey.Outbox, outboxEntries(now, slices.Concat(storing, owing))...)
		if len(storing) > 0 {
			p.ZAddLT(ctx, rediskey.Outbox, outboxEntries(now+recheck.Milliseconds(), storing)...)
		}
		return nil
	})
	return err
}

func outboxEntries(at int64, sessions []string) []redis.Z {
	entries := make([]redis.Z, len(sessions))
	for i, s := range sessions {
		entries[i] = redis.Z{Score: float64(at), Member: s}
	}
	return entries
}

// OutboxSignals calls receive with each session that has a new record, until ctx ends. A signal may get
// lost: the sweep finds the session. It calls ready once it is subscribed.
func OutboxSignals(ctx context.Context, rdb redis.UniversalClient, ready func(), receive func(sessionKey string)) error {
	return stream.Subscribe(ctx, rdb, []string{rediskey.Signal(rediskey.OutboxSignals)}, ready, func(m *redis.Message) { receive(m.Payload) })
}

// ResumeDestination makes deliverers check the sessions that store records for a destination. Call
// it after storing the destination's new state. It reads each session of the index.
func ResumeDestination(ctx context.Context, rdb redis.UniversalClient, name string) error {
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	for cursor := uint64(0); ; {
		page, next, err := rdb.ZScan(ctx, rediskey.Outbox, cursor, "", 1000).Result()
		if err != nil {
			return err
		}
		owing := make([]*redis.BoolCmd, len(page)/2) // each session is followed by its score
		_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range owing {
				owing[i] = p.HExists(ctx, rediskey.For(page[2*i]).Deliveries(), "n "+name)
			}
			return nil
		})
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // the error of one session
			return err
		}
		var sessions []string
		for i, owes := range owing {
			if owes.Val() {
				sessions = append(sessions, page[2*i])
			}
		}
		if err := IndexOutbox(ctx, rdb, now.UnixMilli(), sessions...); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
