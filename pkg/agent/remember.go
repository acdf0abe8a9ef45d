package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"turnstile/pkg/session"
)

// rememberedText is how much a recap of a turn repeats of the user's words, and of the agent's, in bytes.
const rememberedText = 2 << 10

// saidAgain stands for the words of a message that follows once more.
const saidAgain = "[The message that follows once more]"

// Remembered returns a transcript as agents get it. A turn that failed or was stopped becomes a short recap: its words,
// without attachments, so that what a model refused is not refused for ever; its tools with their results cut; and how
// it ended. Of several in a row that did nothing only the last stays. A message that runs again, in messages or in a
// later turn, has its words only there.
func Remembered(transcript []session.Entry, messages []session.Message) []session.Entry {
	if !slices.ContainsFunc(transcript, func(e session.Entry) bool { return e.Ended != nil }) {
		return transcript
	}
	again := map[string]bool{}
	for _, m := range messages {
		again[m.ID] = true
	}
	var turns [][]session.Entry // newest first
	var idle session.Status     // of a turn that came next and did nothing
	for end := len(transcript); end > 0; {
		turn := lastTurn(transcript[:end])
		end -= len(turn)
		last := turn[len(turn)-1].Ended
		if last != nil {
			nothing := !slices.ContainsFunc(turn, func(e session.Entry) bool { return e.Role != session.RoleUser })
			if nothing && idle == last.Status {
				continue
			}
			idle = ""
			if nothing {
				idle = last.Status
			}
			turn = recapped(turn, again)
		} else {
			idle = ""
		}
		for _, e := range turn {
			if e.Message != "" {
				again[e.Message] = true
			}
		}
		turns = append(turns, turn)
	}
	slices.Reverse(turns)
	return slices.Concat(turns...)
}

// lastTurn returns the entries of a transcript's last turn. One that cannot be read belongs to the turn after it.
func lastTurn(transcript []session.Entry) []session.Entry {
	of, from := "", len(transcript)-1
	for ; from > 0; from-- {
		if of == "" {
			of = transcript[from].Turn
		}
		if before := transcript[from-1].Turn; of != "" && before != "" && before != of {
			break
		}
	}
	return transcript[from:]
}

// recapped is the recap of a turn that failed or was stopped. Its last entry is the agent's, and has Ended. A turn that
// had only what a program brought has none: the program brings it again.
func recapped(turn []session.Entry, again map[string]bool) (recap []session.Entry) {
	left := map[session.Role]int{session.RoleUser: rememberedText, session.RoleAssistant: rememberedText}
	for _, e := range turn {
		e.Attachments, e.Brought, e.Usage, e.Interrupted, e.Ended = nil, nil, nil, false, nil
		switch {
		case e.Role == session.RoleTool && e.Tool != nil:
			use := *e.Tool
			use.Input, use.Output, use.Error = cutJSON(use.Input), cutJSON(use.Output), cut(use.Error, recapTool)
			e.Tool = &use
		case e.Role == session.RoleUser && e.Message != "" && again[e.Message]:
			e.Text, e.Message = saidAgain, ""
		default:
			most := left[e.Role]
			left[e.Role] -= min(len(e.Text), most)
			if e.Text = cut(e.Text, most); most == 0 {
				e.Text = ""
			}
		}
		if e.Text != "" || e.Tool != nil {
			recap = append(recap, e)
		}
	}
	if len(recap) == 0 {
		return nil
	}
	last := turn[len(turn)-1]
	end := howEnded(*last.Ended)
	if n := len(recap); n > 0 && recap[n-1].Role == session.RoleAssistant {
		recap[n-1].Text, recap[n-1].Ended = recap[n-1].Text+"\n\n"+end, last.Ended
		return recap
	}
	return append(recap, session.Entry{Role: session.RoleAssistant, Text: end, Turn: last.Turn, At: last.At, Ended: last.Ended})
}

func howEnded(e session.Ended) string {
	if e.Status == session.StatusStopped {
		return "[The user stopped this turn here.]"
	}
	return "[This turn failed here: " + strings.Join(strings.Fields(cut(e.Why, recapTool)), " ") + "]"
}

// cutJSON shortens a value to a string with its beginning.
func cutJSON(value json.RawMessage) json.RawMessage {
	if len(value) <= recapTool {
		return value
	}
	text := string(value)
	_ = json.Unmarshal(value, &text) // it stays what it is if it is no string
	short, err := json.Marshal(cut(text, recapTool))
	if err != nil {
		return nil // no string fails
	}
	return short
}
