package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// HistoryPage is how many bytes of a transcript one reply has; a longer entry is read alone. A
// reply with the whole transcript could take longer than the read timeout.
const HistoryPage = 2 << 20

// droppedMost is how many bytes of dropped messages a turn reads; one message may be longer. The
// note has one line of each.
const droppedMost = 4 << 20

// historyPage is the size of the pages that History reads. One byte more than HistoryBytes shows
// that something does not fit.
func (c *Consumer) historyPage() int { return min(HistoryPage, c.cfg.HistoryBytes+1) }

// History is the session's history that a turn gets.
type History struct {
	// Entries are the transcript's, oldest first. If it has more than Config.HistoryBytes, they are
	// the newest turns that fit, and at least the last turn. Older counts the entries that were
	// left out.
	Entries []session.Entry
	Older   int

	// Earlier is what earlier, interrupted runs of the same message have done; nil if there were none.
	Earlier *Journal

	// State is the agent state, see StoreState. It is nil if there is none, or if it no longer fits
	// the transcript.
	State json.RawMessage

	Mark resume.Record // the session's, if the turn's claim found a mark

	// Dropped are the texts of the messages in Turn.Dropped that still exist: the newest 4 MiB, or
	// one longer. Omitted counts the older ones.
	Dropped []string
	Omitted int
}

// History reads the turn's history. It takes one round trip, one more for every further 2 MiB of
// transcript, one for dropped messages, one for a resume mark, and some for a journal. It repeats a read while the
// error may pass and the lease lasts.
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
		// The transcript does not change meanwhile: only the owner appends and trims, and Undo
		// needs a free sentinel.
		err = c.persist(ctx, func() error {
			call := pageOf(c.session, turn.TranscriptID, t.left, size, 0)
			call.Run(ctx, c.consumer.rdb)
			page = scripts.TranscriptPage.Result(call)
			return call.Err
		})
	}
	if err != nil {
		return History{}, fmt.Errorf("read the history of turn %s: %w", turn.ID, err)
	}
	history := History{Omitted: turn.Omitted}
	history.Entries, history.Older = t.cut()
	history.State = stateFor(p.state, turn.TranscriptID, turn.Entries, history.Entries)
	if turn.Carries != "" {
		if history.Earlier, err = c.readJournal(ctx, turn); err != nil {
			return History{}, fmt.Errorf("read the journal of turn %s: %w", turn.ID, err)
		}
	}
	if turn.Resume != "" {
		err = c.persist(ctx, func() (err error) { history.Mark, err = resume.Read(ctx, c.consumer.rdb, c.session); return err })
		if err != nil {
			return History{}, err
		}
	}
	if err := c.readDropped(ctx, &history, turn.Dropped, p.sizes); err != nil {
		return History{}, fmt.Errorf("read the dropped messages of turn %s: %w", turn.ID, err)
	}
	return history, nil
}

// historyReads is the result of the first round trip.
type historyReads struct {
	page  scripts.TranscriptPageResult // the newest of the transcript
	state string
	sizes []int64 // bytes of the dropped tasks; 0: it is gone
}

func (c *Claim) readHistory(ctx context.Context, turn ClaimedTurn) (historyReads, error) {
	k := rediskey.For(c.session)
	page := pageOf(c.session, turn.TranscriptID, -1, c.consumer.historyPage(), 0)
	var state *redis.StringCmd
	sizes := make([]*redis.IntCmd, len(turn.Dropped))
	err := script.Pipeline(ctx, c.consumer.rdb, []*script.Call{page}, func(p redis.Pipeliner) {
		state = p.Get(ctx, k.State())
		for i, id := range turn.Dropped {
			sizes[i] = p.HStrLen(ctx, k.Task(id), "msg")
		}
	})
	if err == nil {
		err = page.Err
	}
	p := historyReads{page: scripts.TranscriptPage.Result(page), state: state.Val()}
	for _, cmd := range sizes {
		p.sizes = append(p.sizes, cmd.Val())
	}
	return p, err
}

// readDropped reads the texts of dropped messages, the newest first, up to droppedMost bytes.
func (c *Claim) readDropped(ctx context.Context, history *History, ids []string, sizes []int64) error {
	from, room := len(ids), int64(droppedMost)
	for from > 0 && room > 0 {
		from--
		room -= sizes[from]
	}
	for _, size := range sizes[:from] {
		if size > 0 {
			history.Omitted++
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
				history.Dropped = append(history.Dropped, m.Text)
			}
		}
	}
	return nil
}

// tail is the end of a transcript, read backwards.
type tail struct {
	entries []session.Entry // the newest first
	sizes   []int           // bytes of each, as it is stored
	total   int             // bytes
	left    int64           // older entries that are not read yet
	most    int             // bytes that fit
}

// add appends a page, as lua/transcript_page.lua returns it.
func (t *tail) add(page scripts.TranscriptPageResult) {
	t.left = page.Left
	for i := range page.Entries {
		line := page.Entries.Text(i)
		t.entries = append(t.entries, DecodeEntry(line))
		t.sizes = append(t.sizes, len(line))
		t.total += len(line)
	}
}

// enough reports whether all turns that fit, and at least the last one, are read completely.
func (t *tail) enough() bool {
	return t.left == 0 || t.total > t.most && t.whole() > 0
}

// whole returns how many of the newest entries form the turns that fit, or the last turn if none
// fits. It returns 0 if the beginning of the last turn is not read yet. Turns are never split.
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

// begins reports whether a turn begins with entry i. An entry that cannot be read belongs to the
// turn before it.
func (t *tail) begins(i int) bool {
	turn := t.entries[i].Turn
	for _, before := range t.entries[i+1:] {
		if before.Turn != "" {
			return turn != "" && before.Turn != turn
		}
	}
	return t.left == 0 && i == len(t.entries)-1
}

// cut returns the entries that fit, oldest first, and how many older ones there are.
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

// TranscriptPage reads a page of a transcript, of about so many bytes and at most so many entries, from its end towards
// its beginning. left limits it to so many of the oldest entries; -1 is all. It returns how many older
// entries are left, and the stored entries of the page, newest first. lua/transcript_page.lua.
func TranscriptPage(ctx context.Context, rdb script.Client, sessionKey, transcriptID string, left int64, bytes, most int) (older int64, entries []string, err error) {
	call := pageOf(sessionKey, transcriptID, left, bytes, most)
	call.Run(ctx, rdb)
	if call.Err != nil {
		return 0, nil, call.Err
	}
	page := scripts.TranscriptPage.Result(call)
	for i := range page.Entries {
		entries = append(entries, page.Entries.Text(i))
	}
	return page.Left, entries, nil
}

// pageOf returns the call that reads a page of a transcript. oldest is how many of the oldest
// entries it may read, -1 for all, and most how many a page has; 0: as many as fit.
func pageOf(sessionKey, transcriptID string, oldest int64, bytes, most int) *script.Call {
	return scripts.TranscriptPage.Call([]string{rediskey.For(sessionKey).Transcript(transcriptID)},
		scripts.TranscriptPageArgs{Oldest: oldest, Room: int64(bytes), Most: int64(most)})
}
