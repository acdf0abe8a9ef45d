package protocol

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// A write of the journal has at most these many fields and bytes. A larger one is several calls.
const (
	journalFields = 500
	journalBytes  = 4 << 20
)

// JournalWrite is what is new in a turn's journal.
type JournalWrite struct {
	Entries  map[int]session.Entry // by their places
	Count    int                   // how many entries there are now
	HasSteps bool
	Closed   int            // how many of them stand when the turn goes on, if it has steps
	Progress bool           // a step has ended in this run
	Usage    *session.Usage // so far; nil: unknown
	Ran      time.Duration  // how long the turn has run, in all runs, if it has steps
	Messages []string       // IDs of the messages whose words are in the entries
	Lead     int            // the first Lead messages started the turn; later ones were steered in. 0: all of the claim

	// Steps are records by their keys, JSON.
	Steps map[string]string

	// Items is how many items of the turn's output the entries have: texts and tools.
	Items int

	// Keeps is how many items of the turn's output followers keep if it is interrupted now, because its next
	// run goes on from here; -1: that one begins again.
	Keeps int

	// Events are written with it. No call of Emit may be in flight.
	Events []session.Event
}

// Journal adds to the running turn's journal. If the turn is interrupted, the next claim finds it; the turn's
// end deletes it. It returns the secret from which the turn's idempotency keys are made.
func (c *Claim) Journal(ctx context.Context, w JournalWrite) (origin string, err error) {
	changes, err := c.journalChanges(w)
	if err != nil {
		return "", err
	}
	all := slices.Collect(batches(changes))
	for i, batch := range all {
		var events []session.Event
		if i == len(all)-1 { // with the counts
			events = w.Events
		}
		if origin, err = c.journal(ctx, batch, events); err != nil {
			return "", err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeps = max(w.Keeps, 0)
	return origin, nil
}

// stands returns how many items of the turn's output stand if it is interrupted now.
func (c *Claim) stands() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keeps
}

func (c *Claim) journal(ctx context.Context, changes []string, events []session.Event) (origin string, err error) {
	var texts []string
	batch := ""
	if len(events) > 0 {
		undo := c.startUnsent()
		if texts, batch, err = c.nextBatch(events); err != nil {
			return "", err
		}
		defer func() {
			if err != nil {
				undo()
			}
		}()
		defer c.consumer.readers.Wrote(c.session)
	}
	k, o := c.owner()
	c.mu.Lock()
	c.journaled++
	number, first := c.journaled, ""
	if len(c.part) > 0 {
		first = c.part[0].taskID
	}
	c.mu.Unlock()
	r, err := own(ctx, c, true, scripts.Journal, scripts.JournalKeys(k), scripts.JournalArgs{
		Owner: o, Stream: c.consumer.stream, Task: k.TaskPrefix(), TTL: c.consumer.ttl(), JournalTTL: c.consumer.cfg.TranscriptTTL.Milliseconds(),
		Number: strconv.Itoa(number), Origin: rand.Text(), First: first,
		Batch: batch, Events: int64(len(texts)), Texts: append(texts, changes...),
	})
	return r.Origin, err
}

// journalChanges are the fields and values of a write. Its counts are the last, so that a part of the write
// changes nothing that is read.
func (c *Claim) journalChanges(w JournalWrite) (changes []string, err error) {
	for _, place := range slices.Sorted(maps.Keys(w.Entries)) {
		text, err := marshal(c.consumer.bounded([]session.Entry{w.Entries[place]})[0])
		if err != nil {
			return nil, err
		}
		changes = append(changes, "e:"+strconv.Itoa(place), text)
	}
	for _, key := range slices.Sorted(maps.Keys(w.Steps)) {
		changes = append(changes, "s:"+key, w.Steps[key])
	}
	tasks, err := marshal(c.tasksOf(w.Messages))
	if err != nil {
		return nil, err
	}
	changes = append(changes, "ids", tasks, "lead", strconv.Itoa(cmp.Or(w.Lead, 1+len(c.Turn().Collected))),
		"items", strconv.Itoa(w.Items), "n", strconv.Itoa(w.Count))
	if w.HasSteps {
		changes = append(changes, "closed", strconv.Itoa(w.Closed), "ran", strconv.FormatInt(w.Ran.Milliseconds(), 10))
	}
	switch {
	case !w.HasSteps:
	case w.Keeps < 0: // an agent of an earlier run may have gone on
		changes = append(changes, "began", "0", "keeps", "0")
	default:
		began := strings.TrimPrefix(cmp.Or(c.Turn().Continues, c.Turn().ID), c.prefix)
		changes = append(changes, "began", began, "keeps", strconv.Itoa(w.Keeps))
	}
	if w.Progress {
		changes = append(changes, "progress", strconv.FormatInt(c.Turn().Fence, 10))
	}
	if w.Usage != nil {
		usage, err := marshal(w.Usage)
		if err != nil {
			return nil, err
		}
		changes = append(changes, "usage", usage)
	}
	return changes, nil
}

// tasksOf returns the task IDs of messages of the turn.
func (c *Claim) tasksOf(messages []string) (tasks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.part {
		if slices.Contains(messages, p.id) {
			tasks = append(tasks, p.taskID)
		}
	}
	return tasks
}

// batches splits changes, pairs of a field and its value.
func batches(changes []string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		from, size := 0, 0
		for i := 0; i < len(changes); i += 2 {
			pair := len(changes[i]) + len(changes[i+1])
			if i > from && (size+pair > journalBytes || i-from >= 2*journalFields) {
				if !yield(changes[from:i]) {
					return
				}
				from, size = i, 0
			}
			size += pair
		}
		yield(changes[from:])
	}
}

// Journal is what earlier runs of a turn have done.
type Journal struct {
	Fence    int64
	Lead     int      // how many messages the first run began with
	Messages []string // IDs of the turn's messages, steered ones last
	Entries  []session.Entry
	Closed   int // how many entries stand if the turn goes on
	Usage    *session.Usage
	Ran      time.Duration // if it has steps: how long, in all runs
	Origin   string
	Steps    map[string]string // records by their keys, JSON
}

// journalPage is about how many fields one reply has. An entry may have 1 MiB.
const journalPage = 8

// readJournal reads the journal of the turn, or returns nil. It is not read in one reply: see HistoryPage.
func (c *Claim) readJournal(ctx context.Context, turn ClaimedTurn) (*Journal, error) {
	k := rediskey.For(c.session)
	stored := map[string]string{}
	for cursor := uint64(0); ; {
		var page []string
		err := c.persist(ctx, func() (err error) {
			page, cursor, err = c.consumer.rdb.HScan(ctx, k.Journal(), cursor, "*", journalPage).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		for pair := range slices.Chunk(page, 2) {
			stored[pair[0]] = pair[1]
		}
		if cursor == 0 {
			break
		}
	}
	number := func(field string) int {
		n, _ := strconv.Atoi(stored[field])
		return min(max(n, 0), len(stored)) // whoever wrote it
	}
	if stored["v"] != "1" || stored["fence"] != strconv.FormatInt(turn.Fence, 10) {
		return nil, nil //nolint:nilnil // the turn has none
	}
	j := &Journal{Lead: number("lead"), Closed: number("closed"), Origin: stored["origin"], Steps: map[string]string{}}
	ran, _ := strconv.ParseInt(stored["ran"], 10, 64)
	j.Ran = time.Duration(max(ran, 0)) * time.Millisecond
	fence, _, _ := strings.Cut(stored["call"], " ")
	j.Fence, _ = strconv.ParseInt(fence, 10, 64)
	var tasks []string
	_ = boundedjson.Unmarshal([]byte(stored["ids"]), &tasks)
	for _, task := range tasks {
		j.Messages = append(j.Messages, MessageID(c.prefix, task))
	}
	for i := range number("n") {
		j.Entries = append(j.Entries, DecodeEntry(stored["e:"+strconv.Itoa(i)]))
	}
	j.Closed = min(j.Closed, len(j.Entries))
	if usage := new(session.Usage); json.Unmarshal([]byte(stored["usage"]), usage) == nil {
		j.Usage = usage
	}
	for field, value := range stored {
		if key, ok := strings.CutPrefix(field, "s:"); ok {
			j.Steps[key] = value
		}
	}
	return j, nil
}
