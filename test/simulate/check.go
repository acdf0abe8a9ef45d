package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// lost records that Redis does not know an accepted message.
func (h *history) lost(m *sent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found("lost", "%s of %s was accepted and is not stored", m.id, m.session)
}

// unfinished finds accepted messages without an outcome.
func (h *history) unfinished() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.sent {
		if m.accepted && m.outcome == nil {
			h.found("live", "%s of %s has not ended %v after the last fault", m.id, m.session, quiet)
		}
	}
}

// undelivered are the messages with a route whose outcome the receiver has not handled.
func (h *history) undelivered() (missing []*sent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := map[string]bool{}
	for _, p := range h.posts {
		for _, id := range p.messages {
			if p.handled && strings.HasPrefix(p.kind, "message.") && p.kind != "message.withdrawn" {
				taken[p.session+" "+id] = true
			}
		}
	}
	for _, m := range h.sent {
		if m.accepted && m.routed && !taken[m.session+" "+m.id] {
			missing = append(missing, m)
		}
	}
	return missing
}

// check reads what is stored, and compares it with what senders were told and receivers got.
func (l *life) check(rdb redis.UniversalClient) {
	l.checkNowhere(rdb)
	missing, transcripts, left := l.history.undelivered(), l.transcripts(rdb), l.leftovers(rdb)
	h := l.history
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range missing {
		h.found("undelivered", "the outcome of %s of %s", m.id, m.session)
	}
	for _, key := range left {
		h.found("leftover", "%s", key)
	}
	h.checkPosts()
	h.checkGivenUp()
	h.checkOnce(transcripts)
	h.checkCalm()
	for _, c := range l.chats {
		if !c.wild {
			h.checkOrder(c.key, transcripts[c.key])
		}
	}
}

// checkPosts: a delivery has one body, and new ones of a session come in order.
func (h *history) checkPosts() {
	bodies, last := map[string]string{}, map[string]int64{}
	for _, p := range h.posts {
		body, again := bodies[p.id]
		switch {
		case again && body != p.body:
			h.found("body", "delivery %s of %s has two bodies", p.id, p.session)
		case !again && p.sequence <= last[p.session]:
			h.found("sequence", "delivery %d of %s arrives behind %d", p.sequence, p.session, last[p.session])
		}
		if !again {
			bodies[p.id], last[p.session] = p.body, p.sequence
		}
	}
}

// checkGivenUp: no message is given up in a life in which nothing fails but Redis.
func (h *history) checkGivenUp() {
	for kind := range h.faults {
		if kind != "Redis paused" {
			return
		}
	}
	for _, m := range h.sent {
		if m.outcome != nil && strings.HasPrefix(m.outcome.Error, "given up") {
			h.found("given-up", "%s of %s: %s", m.id, m.session, m.outcome.Error)
		}
	}
}

// checkOnce: a message is in a transcript at most once, and a refused one never.
func (h *history) checkOnce(transcripts map[string][]session.Entry) {
	for _, m := range h.sent {
		n := 0
		for _, e := range transcripts[m.session] {
			if e.Role == session.RoleUser && e.Message == m.id {
				n++
			}
		}
		switch {
		case n > 1:
			h.found("once", "%s of %s is %d times in its transcripts", m.id, m.session, n)
		case !m.accepted && n > 0:
			h.found("refused", "%s of %s was refused and has run", m.id, m.session)
		}
	}
}

// checkOrder: without modes and commands, each message has run, once for its receiver, in the order of
// acceptance, and the receiver has handled the outcomes in this order. A delivery with another sequence
// than at its first arrival was redriven, and may come late.
func (h *history) checkOrder(key string, entries []session.Entry) {
	last, handled := -1, int64(0)
	for _, m := range h.sent {
		if m.session != key || m.outcome == nil {
			continue
		}
		at := slices.IndexFunc(entries, func(e session.Entry) bool { return e.Role == session.RoleUser && e.Message == m.id })
		switch {
		case m.outcome.Status != session.StatusDone && m.outcome.Status != session.StatusFailed:
			h.found("ended", "%s of %s is %s: %s", m.id, key, m.outcome.Status, m.outcome.Error)
		case m.outcome.Status == session.StatusDone && at < 0:
			h.found("transcript", "%s of %s is done, and not there", m.id, key)
		case at >= 0 && at < last:
			h.found("order", "%s of %s has run before one that was accepted earlier", m.id, key)
		}
		last = max(last, at)
		first := map[string]int64{} // by delivery: the sequence of its first arrival
		for _, p := range h.posts {
			if p.session != key || !slices.Contains(p.messages, m.id) {
				continue
			}
			if _, again := first[p.id]; !again {
				first[p.id] = p.sequence
			}
			if p.handled && p.sequence == first[p.id] {
				if p.sequence < handled {
					h.found("handled", "the outcome of %s of %s comes behind one of a later message", m.id, key)
				}
				handled = max(handled, p.sequence)
			}
		}
		if len(first) > 1 {
			h.found("delivered", "%s of %s ended in several deliveries: %v", m.id, key, slices.Sorted(maps.Keys(first)))
		}
	}
}

// transcripts reads what each session has said, under all its ids.
func (l *life) transcripts(rdb redis.UniversalClient) map[string][]session.Entry {
	a, all := turnstile.NewClient(rdb), map[string][]session.Entry{}
	ids := map[string][]string{}
	l.history.mu.Lock()
	for _, m := range l.history.sent {
		if m.outcome != nil && m.outcome.SessionID != "" && !slices.Contains(ids[m.session], m.outcome.SessionID) {
			ids[m.session] = append(ids[m.session], m.outcome.SessionID)
		}
	}
	l.history.mu.Unlock()
	for _, c := range l.chats {
		for _, id := range ids[c.key] {
			page, err := a.Session(c.key).Transcript(context.Background(), turnstile.TranscriptQuery{ID: id, Limit: session.NoLimit})
			if err != nil {
				l.history.note("the transcript %s of %s: %v", id, c.key, err)
			}
			all[c.key] = append(all[c.key], page.Entries...)
		}
	}
	return all
}

// checkNowhere: nothing is stored of a message that was refused, or of which an error says so.
func (l *life) checkNowhere(rdb redis.UniversalClient) {
	client, h := turnstile.NewClient(rdb), l.history
	h.mu.Lock()
	all := slices.Clone(h.sent)
	h.mu.Unlock()
	for _, m := range all {
		if m.accepted {
			continue
		}
		if stored, err := client.Session(m.session).Message(context.Background(), m.id); !errors.Is(err, session.ErrNotFound) {
			h.mu.Lock()
			h.found("refused", "%s of %s was refused and is %s: %v", m.id, m.session, stored.State, err)
			h.mu.Unlock()
		}
	}
}

// leftovers are keys of sessions that only work in progress has.
func (l *life) leftovers(rdb redis.UniversalClient) (left []string) {
	ctx := context.Background()
	p := rdb.Pipeline()
	for _, c := range l.chats {
		k := rediskey.For(c.key)
		for _, key := range []string{k.Sentinel(), k.Pending(), k.Active(), k.Partial(), k.Followups(), k.Owed(), k.Outbox()} {
			p.Exists(ctx, key)
		}
	}
	replies, _ := p.Exec(ctx) // each has its error
	for _, r := range replies {
		if n, err := r.(*redis.IntCmd).Result(); n > 0 || err != nil {
			left = append(left, fmt.Sprint(r.Args()[1], " ", err))
		}
	}
	return left
}
