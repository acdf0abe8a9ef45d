package explore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"turnstile/internal/protocol/rediskey"
)

// checkJournal: what a turn has stored of its steps stays until the turn ends, and its next run gets it.
const checkJournal = "journal"

// journals compares the journal of each session's turn with steps before and after a command.
func (s *Search) journals(before, after *snapshot, cmd []string) string {
	if s.leftOut(checkJournal) || before == after {
		return ""
	}
	for _, key := range s.Config.Sessions {
		k := keysOf(key)
		if was := before.get(k.Journal()); was == nil || was == after.get(k.Journal()) && before.get(k.Run()) == after.get(k.Run()) {
			continue
		}
		what := journalStays(k, before, after)
		if name := CommandName(cmd); what == "" && (name == "finish" || name == "claim") {
			what = journalEnds(k, after)
		}
		if what != "" {
			return checkJournal + ": " + what
		}
	}
	return ""
}

// journalStays checks a session's journal, unless it has no steps, is of an ended turn, or another message's
// turn begins.
func journalStays(k rediskey.Session, before, after *snapshot) string {
	journal := k.Journal()
	var messages, had, runs []string
	_ = json.Unmarshal([]byte(before.field(journal, "ids")), &messages)
	_ = json.Unmarshal([]byte(before.field(k.Run(), "ids")), &had)
	_ = json.Unmarshal([]byte(after.field(k.Run(), "ids")), &runs)
	if before.field(journal, "closed") == "" || len(messages) == 0 || before.field(k.Task(messages[0]), "origin") != before.field(journal, "origin") {
		return ""
	}
	gone := func(id string) bool {
		return !slices.ContainsFunc(line(k), func(list string) bool { return slices.Contains(after.members(list), id) })
	}
	left := slices.DeleteFunc(slices.Clone(messages), gone)
	fence := after.field(k.Run(), "fence")
	begins := fence != before.field(k.Run(), "fence")
	if len(left) == 0 || left[0] != messages[0] || begins && first(after.field(k.Run(), "ids")) != first(before.field(journal, "ids")) {
		return ""
	}
	for field, value := range before.fields(journal) {
		is := after.field(journal, field)
		switch {
		case strings.HasPrefix(field, "s:") && (is == "" || len(is) < len(value)): // ended is longer than begun
			return fmt.Sprintf("the stored %q of step %s is %q", value, field[2:], is)
		case field == "n" || field == "closed":
			if whole(is) < whole(before.field(journal, "closed")) {
				return fmt.Sprintf("%s falls from %s to %q", field, value, is)
			}
		}
	}
	for i := range whole(before.field(journal, "closed")) {
		entry := fmt.Sprint("e:", i)
		if was, is := textOf(before.field(journal, entry)), textOf(after.field(journal, entry)); was != is {
			return fmt.Sprintf("the stored entry %d, %q, is %q", i, was, is)
		}
	}
	switch {
	case begins && after.field(journal, "fence") != fence:
		return "the turn's next run does not get it"
	case begins && !slices.Equal(runs, slices.DeleteFunc(had, gone)): // some were steered in, and are not in the journal yet
		return fmt.Sprintf("the turn had the messages %q, and begins again with %q", had, runs)
	}
	return ""
}

// journalEnds checks that a journal ends with its turn: the message may be run again.
func journalEnds(k rediskey.Session, after *snapshot) string {
	var messages []string
	_ = json.Unmarshal([]byte(after.field(k.Journal(), "ids")), &messages)
	if len(messages) > 0 && after.field(k.Task(messages[0]), "origin") == after.field(k.Journal(), "origin") &&
		(slices.Contains(after.members(k.Archived()), messages[0]) || slices.Contains(after.members(k.Completed()), messages[0])) {
		return "the turn has ended, and its journal stays"
	}
	return ""
}

// textOf is the text of an entry.
func textOf(entry string) string {
	var e struct{ Text string }
	_ = json.Unmarshal([]byte(entry), &e)
	return e.Text
}
