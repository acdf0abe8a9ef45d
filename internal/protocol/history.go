package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/internal/stored"
	"turnstile/pkg/session"
)

// HistoryPage is how many bytes of a transcript one reply has, or one entry more: a
// read of all of it could take longer than a reply may.
const HistoryPage = 2 << 20

// droppedMost is how many bytes of dropped messages a turn reads, or one message more.
// Of each the note has no more than a line.
const droppedMost = 4 << 20

// pastPage is the size of the pages by which transcripts are read: with one byte more
// than is told it is clear what there is no room for.
func (c *Consumer) historyPage() int { return min(HistoryPage, c.cfg.HistoryBytes+1) }

// History is what came before a turn.
type History struct {
	// Entries are the transcript's, oldest first. Of one that has more than
	// Config.HistoryBytes they are the newest turns that fit in, and the last turn in
	// any case. Older is how many entries were left out.
	Entries []session.Entry
	Older   int

	// Partial is what an earlier run of the same message had done when it was cut
	// off; nil if there was none.
	Partial *stored.Partial

	// State is what the agent has kept, see Keep. Nil: nothing, or it does not fit
	// this transcript any more.
	State json.RawMessage

	// Dropped are the texts of Turn.Dropped, as far as they are still there: the
	// newest, 4 MiB of them or one more. Omitted is how many older ones there were.
	Dropped []string
	Omitted int
}

// History reads what came before the turn: in one round trip, one more for every
// further 2 MiB of transcript, and one for dropped messages. An error that may pass is tried again while the lease
// lasts.
func (c *Claim) History(ctx context.Context) (History, error) {
	turn, size := c.Turn(), c.consumer.historyPage()
	var p historyReads
	err := c.persist(ctx, func() (err error) {
		p, err = c.readHistory(ctx, turn)
		return err
	})
	t := &tail{left: -1, most: c.consumer.cfg.HistoryBytes}
	for page := p.page; err == nil; {
		t.add(page)
		if t.enough() {
			break
		}
		// Nobody else writes to it meanwhile: what takes entries out or trims is the
		// owner's, or needs the sentinel to be free.
		err = c.persist(ctx, func() (err error) {
			call := pageOf(c.session, turn.SessionID, t.left, size)
			page, err = pastMove.run(ctx, c.consumer.rdb, call.Keys, call.Args)
			return err
		})
	}
	if err != nil {
		return History{}, fmt.Errorf("read what came before turn %s: %w", turn.ID, err)
	}
	past := History{Omitted: turn.Omitted}
	past.Entries, past.Older = t.cut()
	past.State = stored.StateFor(p.state, turn.SessionID, turn.Entries, past.Entries)
	if partial, ok := stored.DecodePartial(p.partial); ok && partial.Messages[0] == turn.Message.ID {
		past.Partial = &partial
	}
	if err := c.readDropped(ctx, &past, turn.Dropped, p.sizes); err != nil {
		return History{}, fmt.Errorf("read what was dropped before turn %s: %w", turn.ID, err)
	}
	return past, nil
}

// pastReads is what one round trip tells of the past.
type historyReads struct {
	page           returned // the transcript's newest
	partial, state string
	sizes          []int64 // of the dropped tasks; 0: it is gone
}

func (c *Claim) readHistory(ctx context.Context, turn Turn) (historyReads, error) {
	k := rediskey.For(c.session)
	page := pageOf(c.session, turn.SessionID, "", c.consumer.historyPage())
	var partial, state *redis.StringCmd
	sizes := make([]*redis.IntCmd, len(turn.Dropped))
	err := script.Pipeline(ctx, c.consumer.rdb, []*script.Call{page}, func(p redis.Pipeliner) {
		partial = p.Get(ctx, k.Partial())
		state = p.Get(ctx, k.State())
		for i, id := range turn.Dropped {
			sizes[i] = p.HStrLen(ctx, k.Task(id), "msg")
		}
	})
	if err == nil {
		err = page.Err
	}
	p := historyReads{page: pastMove.returned(page.Result), partial: partial.Val(), state: state.Val()}
	for _, cmd := range sizes {
		p.sizes = append(p.sizes, cmd.Val())
	}
	return p, err
}

// readDropped reads the texts of dropped messages, the newest first, until they are
// droppedMost bytes.
func (c *Claim) readDropped(ctx context.Context, past *History, ids []string, sizes []int64) error {
	from, room := len(ids), int64(droppedMost)
	for from > 0 && room > 0 {
		from--
		room -= sizes[from]
	}
	for _, size := range sizes[:from] {
		if size > 0 {
			past.Omitted++
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var tasks []*redis.StringCmd
	err := c.persist(ctx, func() error {
		tasks = tasks[:0]
		_, _ = c.consumer.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, id := range ids[from:] {
				tasks = append(tasks, p.HGet(ctx, rediskey.For(c.session).Task(id), "msg"))
			}
			return nil
		})
		for _, cmd := range tasks {
			if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, cmd := range tasks {
		if task, err := ParseTaskMessage([]byte(cmd.Val())); err == nil {
			if m, err := task.Message(c.consumer.cfg.Limits); err == nil {
				past.Dropped = append(past.Dropped, m.Text)
			}
		}
	}
	return nil
}

// tail is the end of a transcript, read from the end on.
type tail struct {
	entries []session.Entry // the newest first
	sizes   []int           // of each, as it is stored
	total   int             // bytes
	left    int64           // older entries that were not read
	most    int             // bytes
}

// add takes a page as lua/past.lua answers it.
func (t *tail) add(page returned) {
	t.left = page.int("left")
	lines := page.behind()
	for i := range lines {
		line := lines.Text(i)
		t.entries = append(t.entries, stored.DecodeEntry(line))
		t.sizes = append(t.sizes, len(line))
		t.total += len(line)
	}
}

// enough reports whether the turns that fit, and the last one, are all there.
func (t *tail) enough() bool {
	return t.left == 0 || t.total > t.most && t.whole() > 0
}

// whole is how many of the newest entries are the turns that fit, or the last turn if
// none does; 0: that one's beginning was not read. A turn's messages, and what it did,
// are kept or left out together.
func (t *tail) whole() int {
	fits, size := 0, 0
	for i := range t.entries {
		if size += t.sizes[i]; size > t.most && fits > 0 {
			break
		}
		if t.begins(i) {
			fits = i + 1
		}
	}
	return fits
}

// begins reports whether a turn begins with entry i. An entry that cannot be read goes
// with the one before it.
func (t *tail) begins(i int) bool {
	turn := t.entries[i].Turn
	for _, before := range t.entries[i+1:] {
		if before.Turn != "" {
			return turn != "" && before.Turn != turn
		}
	}
	return t.left == 0 && i == len(t.entries)-1
}

// cut is the entries to be told, oldest first, and how many older ones there are.
func (t *tail) cut() (entries []session.Entry, older int) {
	n := len(t.entries)
	if t.total > t.most {
		n = t.whole()
	}
	older = int(t.left) + len(t.entries) - n
	entries = make([]session.Entry, n)
	for i, e := range t.entries[:n] {
		entries[n-1-i] = e
	}
	return entries, older
}
