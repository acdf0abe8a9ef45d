package openai

import (
	"context"
	"encoding/json"
	"slices"
	"sort"

	"turnstile"
	"turnstile/pkg/session"
)

const (
	// transcriptPage is how many entries a read of a transcript has; it has fewer if they are long.
	transcriptPage = 100

	// turnTexts is how many bytes of texts of one turn are kept, and notShown stands for the others.
	turnTexts = 8 << 20
	notShown  = "[This text is not shown: the turn has more than 8 MiB of them. The transcript has it.]"
)

// transcript is a session's transcript, which is read turn by turn.
type transcript struct {
	chat   *turnstile.Session
	id     string
	length int64 // entries
}

// transcript returns a transcript of a session; without an ID the current one.
func (a *API) transcript(ctx context.Context, sessionKey, id string) (transcript, error) {
	chat := a.client.Session(sessionKey)
	last, err := chat.Transcript(ctx, turnstile.TranscriptQuery{ID: id, Limit: 1})
	return transcript{chat, last.ID, last.Before + 1}, err
}

// page returns the last entries before a place, and how many are before them.
func (t transcript) page(ctx context.Context, before int64, limit int) (entries []session.Entry, older int64, err error) {
	page, err := t.chat.Transcript(ctx, turnstile.TranscriptQuery{ID: t.id, Before: before, Limit: limit})
	return page.Entries, page.Before, err
}

// before returns how many entries are of turns before the one with that fencing token. The tokens rise, so it reads
// only a few entries.
func (t transcript) before(ctx context.Context, fence int64) (n int64, err error) {
	if t.id == "" {
		return 0, nil
	}
	n = int64(sort.Search(int(t.length), func(i int) bool {
		var of string
		for limit := 1; limit <= transcriptPage && of == "" && err == nil; limit *= transcriptPage { // some cannot be read
			var entries []session.Entry
			entries, _, err = t.page(ctx, int64(i)+1, limit)
			for _, e := range entries {
				if e.Turn != "" {
					of = e.Turn
				}
			}
		}
		return err != nil || fenceOf(of) >= fence
	}))
	return n, err
}

// turn returns the entries of a turn, none if the transcript does not have it.
func (t transcript) turn(ctx context.Context, turn string) (entries []session.Entry, err error) {
	end, err := t.before(ctx, fenceOf(turn)+1)
	if err != nil {
		return nil, err
	}
	if last, _, err := t.page(ctx, end, 1); end == 0 || err != nil || len(last) == 0 || last[0].Turn != turn && last[0].Turn != "" {
		return nil, err
	}
	err = t.turns(ctx, end, false, func(last []session.Entry) bool {
		if last[0].Turn == turn {
			entries = last
		}
		return false
	})
	return entries, err
}

// turns visits the turns before a place, the newest first, or those after it in their order, until see returns false. It
// holds the entries of one turn and one page.
func (t transcript) turns(ctx context.Context, place int64, ascending bool, see func([]session.Entry) bool) error {
	var turn []session.Entry // in the order of the visit
	texts, more := 0, t.id != ""
	end := func() {
		if len(turn) > 0 {
			if !ascending {
				slices.Reverse(turn)
			}
			more = see(turn)
		}
		turn, texts = nil, 0
	}
	for limit := int64(transcriptPage); more; {
		before, n := place, min(limit, place)
		if ascending {
			before = min(place+limit, t.length)
			n = before - place
		}
		if n <= 0 {
			break
		}
		entries, older, err := t.page(ctx, before, int(n))
		switch {
		case err != nil:
			return err
		case ascending && older > place && n > 1: // they are too long for a page: about as many as came fit
			limit = max(before-older, 1)
			continue
		case ascending:
			place, limit = before, min(2*limit, transcriptPage)
		default:
			place = older
			slices.Reverse(entries)
		}
		for _, e := range entries {
			if len(turn) > 0 && e.Turn != "" && turn[0].Turn != e.Turn {
				end()
			}
			if !more {
				return nil
			}
			if e.Role != session.RoleSystem { // it cannot be read, and says of no turn
				if texts += len(e.Text); texts > turnTexts {
					e.Text = notShown
				}
				turn = append(turn, brief(e))
			}
		}
	}
	end()
	return nil
}

// brief returns an entry without what items do not have: what the agent's tools were told and returned.
func brief(e session.Entry) session.Entry {
	if e.Tool == nil || e.Tool.Client {
		return e
	}
	tool := session.ToolUse{Name: e.Tool.Name, CallID: e.Tool.CallID}
	if e.Tool.Error != "" {
		tool.Error = failed
	}
	if e.Tool.Output != nil {
		tool.Output = json.RawMessage("{}")
	}
	e.Tool = &tool
	return e
}
