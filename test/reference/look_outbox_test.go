package reference_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/reference"
)

// outboxOf is the stored data of a session's outbox.
type outboxOf struct {
	owed, deliveries    *redis.MapStringStringCmd
	outbox, undelivered *redis.ZSliceCmd
	index               *redis.FloatCmd
}

func (b *actual) readOutbox(p redis.Pipeliner) (f outboxOf) {
	f.owed, f.deliveries = p.HGetAll(b.ctx, b.k.Owed()), p.HGetAll(b.ctx, b.k.Deliveries())
	f.outbox, f.undelivered = p.ZRangeWithScores(b.ctx, b.k.Outbox(), 0, -1), p.ZRangeWithScores(b.ctx, b.k.Undelivered(), 0, -1)
	f.index = p.ZScore(b.ctx, rediskey.Outbox, key)
	return f
}

// picture adds the outbox to a picture. Each field of deliveries must have its use.
func (f outboxOf) picture(b *actual, p reference.Picture) {
	var owed []string
	fields := f.deliveries.Val()
	for id, route := range f.owed.Val() {
		text := b.names.message(id) + " to " + b.routeOf(route).String()
		if by := use(fields, "deliver_by "+id); by != "" {
			text += " by " + reference.At(number(by), b.start)
		}
		owed = append(owed, text)
	}
	slices.Sort(owed)
	sequence := use(fields, "seq")
	use(fields, "routes") // an undo shows them
	p["walk"] = b.walk(use(fields, "walk"))
	var counts, asked []string
	for name, value := range fields {
		if to, is := strings.CutPrefix(name, "n "); is {
			counts = append(counts, to+" "+value)
			delete(fields, name)
		}
	}
	for line := range strings.Lines(use(fields, "question")) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 5)
		asked = append(asked, fmt.Sprintf("%s %+d", words[0], number(words[1])-b.start))
	}
	slices.Sort(counts)
	var stored, undelivered, attempts []string
	for _, z := range f.outbox.Val() {
		stored = append(stored, b.delivery(fmt.Sprint(z.Member), fields))
	}
	for _, z := range f.undelivered.Val() {
		_, seq, _ := strings.Cut(fmt.Sprint(z.Member), " ")
		why := use(fields, "why "+seq)
		undelivered = append(undelivered, fmt.Sprintf("%s given up %s: %s", b.delivery(fmt.Sprint(z.Member), fields), reference.At(int64(z.Score), b.start), why))
	}
	for name, value := range fields {
		if to, is := strings.CutPrefix(name, "line "); is {
			attempts = append(attempts, to+" "+b.attempts(value))
			delete(fields, name)
		}
	}
	slices.Sort(attempts)
	p["owed"], p["counts"] = strings.Join(owed, "; "), strings.Join(counts, "; ")
	p["outbox"], p["undelivered"] = strings.Join(stored, "\n      "), strings.Join(undelivered, "\n      ")
	p["attempts"], p["asked"] = strings.Join(attempts, "; "), strings.Join(asked, "; ")
	p["sequence"] = reference.At(number(sequence), b.start)
	if at := int64(f.index.Val()); at > 0 {
		p["index of outboxes"] = reference.At(at, b.start)
	}
	if len(fields) > 0 {
		p["stray deliveries"] = fmt.Sprint(fields)
	}
}

// walk is the look at all lines that several calls share: "token from soonest next soonest".
func (b *actual) walk(text string) string {
	words := strings.Fields(text)
	if len(words) < 5 {
		return ""
	}
	return fmt.Sprintf("%s %s, %s %s", words[1], reference.At(number(words[2]), b.start), words[3], reference.At(number(words[4]), b.start))
}

// use returns a field and takes it out.
func use(fields map[string]string, name string) string {
	value := fields[name]
	delete(fields, name)
	return value
}

func (b *actual) routeOf(text string) reference.Route {
	words := strings.SplitN(text, " ", 3)
	r := reference.Route{To: words[0], Context: words[2]}
	if words[1] != "-" {
		r.Of = b.names.message(words[1])
	}
	return r
}

// delivery makes a record of the outbox from its fields, and uses them up.
func (b *actual) delivery(member string, fields map[string]string) string {
	to, seq, _ := strings.Cut(member, " ")
	var text struct {
		Type      string
		Timestamp time.Time
		Data      struct {
			Session   string
			Messages  []string
			RetryOf   string `json:"retry_of"`
			Context   json.RawMessage
			Outcome   *session.Event
			Truncated bool
			Number    int
			Question  struct{ Name string }
			Turn      string
		}
	}
	if err := json.Unmarshal([]byte(use(fields, seq)), &text); err != nil || text.Data.Session != key {
		return fmt.Sprintf("%s: unreadable (%v) or of %q", member, err, text.Data.Session)
	}
	d := text.Data
	r := reference.Delivery{
		Route: reference.Route{To: to, Context: string(d.Context)}, Sequence: number(seq), First: number(seq), At: text.Timestamp.UnixMilli(), Type: text.Type,
	}
	if first := use(fields, "id "+seq); first != "" {
		r.First = number(first)
	}
	if by := use(fields, "by "+seq); by != "" {
		r.By = number(by)
	}
	r.Maybe = use(fields, "unsure "+seq) != ""
	if d.RetryOf != "" {
		r.Of = b.names.message(d.RetryOf)
	}
	for _, id := range d.Messages {
		r.Messages = append(r.Messages, b.names.message(id))
	}
	switch {
	case d.Truncated:
		r.Told = "truncated"
	case d.Outcome != nil:
		r.Told = b.event(*d.Outcome)
	case d.Turn != "" && d.Number == 0:
		r.Told = b.names.turnID(d.Turn)
	default:
		r.Told = fmt.Sprint("question ", d.Number)
		if d.Turn != "" {
			r.Told += " of " + b.names.turnID(d.Turn)
		}
		if asks := d.Question.Name != ""; asks != (text.Type == "question.asked") {
			r.Told += " " + d.Question.Name
		}
	}
	return r.Text(b.start)
}

// attempts are those to deliver the first record of a line: "token till attempts at unsure error".
func (b *actual) attempts(text string) string {
	var token string
	var unsure int
	a := reference.Attempts{}
	if _, err := fmt.Sscan(text, &token, &a.Till, &a.Count, &a.At, &unsure); err != nil {
		return text
	}
	a.Leased = !strings.HasPrefix(token, "-")
	if a.Unsure = unsure == 1; a.Leased {
		a.Unsure = unsure == 2
	}
	return a.Text(b.start)
}

// owing is the result of an Erase that is refused because of undelivered outcomes.
func owing(err error) string {
	if errors.Is(err, session.ErrUndelivered) {
		var owed, stored int
		_, _ = fmt.Sscanf(err.Error(), "erase "+key+": %d outcomes are owed to destinations, %d are not delivered", &owed, &stored)
		return fmt.Sprintf("%d owed, %d undelivered", owed, stored)
	}
	return word(err)
}
