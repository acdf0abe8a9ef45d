package explore

import (
	"slices"
	"strings"
)

// told has the reports of the processes, and the order in which messages joined the queues.
type told struct {
	facts []string // sorted
	order []string // task IDs
	form  *form
}

func (t *told) canonical() *form {
	if t.form == nil {
		f := newFormer()
		for _, text := range slices.Concat(t.facts, []string{"|"}, t.order) {
			f.text(text)
		}
		t.form = f.end()
	}
	return t.form
}

// with adds facts.
func (t *told) with(facts []string) *told {
	next := t
	for _, f := range facts {
		if at, found := slices.BinarySearch(next.facts, f); !found {
			next = &told{facts: slices.Insert(slices.Clone(next.facts), at, f), order: next.order}
		}
	}
	return next
}

func (t *told) has(fact string) bool {
	_, found := slices.BinarySearch(t.facts, fact)
	return found
}

// joined adds the ordered messages that have joined a queue since.
func (t *told) joined(c *Configuration, db *snapshot) *told {
	next := t
	for _, key := range c.Sessions {
		k := keysOf(key)
		for _, id := range taskIDs(key, c.Ordered) {
			if !slices.Contains(next.order, id) && db.has(k.Task(id)) && slices.Contains(db.members(k.Pending()), id) {
				next = &told{facts: next.facts, order: append(slices.Clone(next.order), id)}
			}
		}
		if !c.Cleans {
			continue
		}
		for _, f := range t.facts { // an ended message may be purged
			if id, ok := strings.CutPrefix(f, "accepted "+key+" "); ok && ended(View{db, t}, key, k, id) {
				next = next.with([]string{"ended " + key + " " + id})
			}
		}
	}
	return next
}
