package cli

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"syscall"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// given says where a turn's prompt stands in the program's record of its session, so that the turn's next run can
// see whether the program has the prompt. It is stored before the program has read anything.
type given struct {
	Messages string `json:"messages"` // a hash of their IDs
	From     int64  `json:"from"`     // how many bytes the record had before
}

// recorded is what the lines of a record say.
type recorded struct {
	prompt string            // the last of the user
	began  []session.ToolUse // tools
	ended  map[string]bool   // tools, by CallID

	compacted bool // the program has replaced all before by a summary, which may lack the words
}

// giving notes where in the session's record the turn's prompt will stand. nil: nobody knows.
func (p program) giving(spec command.Spec, session string, turn *agent.Turn) *given {
	g := &given{Messages: idsOf(turn)}
	switch {
	case p.record == nil || g.Messages == "":
		return nil
	case session == "": // it begins with the turn
		return g
	}
	root, path := p.record(spec, session)
	f, err := openBeneath(root, path, syscall.O_NOFOLLOW)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	g.From, err = f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	return g
}

// goOn returns the text with which the program goes on with an interrupted turn. It is "" unless an earlier run of
// this turn has given the program the turn's words, and the program has written them into its session: then it
// remembers them, and what it has done.
//
// The agent can write the file, and could hide its own user's words from itself.
func (p program) goOn(spec command.Spec, known state, turn *agent.Turn) string {
	words := *turn
	words.Note = ""
	want := strings.TrimSpace(command.Users{Mentions: p.mentions}.Quote(words.Text()))
	g := known.Given
	if p.record == nil || !turn.Redelivered || known.Session == "" || want == "" || g == nil || g.Messages != idsOf(turn) {
		return ""
	}
	root, path := p.record(spec, known.Session)
	f, err := openBeneath(root, path, syscall.O_NOFOLLOW)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(io.NewSectionReader(f, g.From, command.MaxOutput))
	lines.Buffer(nil, command.MaxLine)
	found, had := false, recorded{ended: map[string]bool{}}
	for lines.Scan() {
		had.compacted = false
		prompt := p.read(lines.Bytes(), &had)
		// A recap and other lines may stand before the words.
		found = prompt && strings.HasSuffix(strings.TrimSpace(had.prompt), want) || found && !had.compacted
	}
	if !found || lines.Err() != nil {
		return ""
	}
	for _, use := range had.began {
		if !had.ended[use.CallID] && !slices.ContainsFunc(turn.History, func(e session.Entry) bool { return e.Tool != nil && e.Tool.CallID == use.CallID }) {
			words.History = append(slices.Clip(words.History), session.Entry{Role: session.RoleTool, Tool: &use})
		}
	}
	words.Note = turn.Note
	if p.sameIDs {
		return words.GoOn(func(callID string) bool { return had.ended[callID] })
	}
	return words.GoOn(nil)
}

// idsOf is empty if a message has no ID: then nobody can recognise it.
func idsOf(turn *agent.Turn) string {
	hash := sha256.New()
	for _, m := range turn.Messages {
		if m.ID == "" {
			return ""
		}
		_, _ = io.WriteString(hash, m.ID+"\x00")
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
