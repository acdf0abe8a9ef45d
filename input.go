package turnstile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"turnstile/internal/chat/slash"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// ParseInput parses a text that a person typed into a chat. command reports a slash command, such
// as /status: hand its text to Session.Command. Otherwise Send the message that it returns: a text
// that begins with // has lost a slash, and /steer TEXT is TEXT with session.ModeSteer.
//
// A command is a text of one line. A probably mistyped one, such as /stpo, is a command, too:
// Command suggests the right one. Any other text that begins with a slash is a message as it is,
// because agents have commands, too.
func ParseInput(m Message) (_ Message, command bool) {
	if cmd, args, ok := slash.Parse(m.Text); ok {
		if !cmd.IsMessage(args) {
			return m, true
		}
		m.Text, m.Mode = args, session.ModeSteer
		return m, false
	}
	if _, ok := slash.Suggest(m.Text); ok && len(m.Attachments) == 0 {
		return m, true
	}
	if strings.HasPrefix(m.Text, "//") {
		m.Text = m.Text[1:]
	}
	return m, false
}

// CommandConfig has the settings of one Command.
type CommandConfig struct {
	// ID makes the command run at most once within ClientConfig.RememberIDs: a repetition returns
	// the same reply. Another command with this ID is session.ErrConflict. If the program died
	// during the command, or lost Redis' reply, the command may have run: then a repetition returns
	// session.ErrExpired. Defaults to none: each call runs it.
	ID string
}

// Command carries out a slash command (docs/commands.md) and returns the reply for the user. It
// needs no worker. The error wraps session.ErrInvalid if the text is no command or its arguments
// are wrong; then the error's text is for the user, and nothing was changed.
func (s *Session) Command(ctx context.Context, text string, config ...CommandConfig) (reply string, err error) {
	if err := session.ValidateKey(s.key); err != nil {
		return "", err
	}
	cmd, args, ok := slash.Parse(text)
	if !ok {
		return "", slash.Unknown(text)
	}
	run := func() (string, error) { return cmd.Run(ctx, operations{s}, args) }
	id := only(config).ID
	if id == "" || cmd.Reads(args) {
		return run()
	}
	return s.once(ctx, id, text, run)
}

// once carries out a command that has an ID, or returns the reply to the same command under that ID.
func (s *Session) once(ctx context.Context, id, text string, run func() (string, error)) (string, error) {
	if err := session.ValidateID(id); err != nil {
		return "", err
	}
	m := wire.Message{Text: text}
	if s.user != "" {
		m.Meta = map[string]string{"sender": s.user}
	}
	what, err := m.Encode(s.c.cfg.Limits)
	if err != nil {
		return "", err
	}
	once := protocol.NewOnce(s.c.rdb, s.key, id, what, s.c.cfg.RememberIDs)
	stored, begun, err := once.Begin(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("carry out command %s of %s: %w", id, s.key, err)
	case !begun:
		var earlier carriedOut
		if err := json.Unmarshal([]byte(stored), &earlier); err != nil {
			return "", fmt.Errorf("read the result of command %s of %s: %w", id, s.key, err)
		}
		return earlier.Reply, nil
	}
	reply, err := run()
	switch {
	case err == nil:
		if result, err := json.Marshal(carriedOut{Session: s.key, Status: "answered", Reply: reply}); err == nil {
			_ = once.End(context.WithoutCancel(ctx), string(result)) // if it fails, a repetition returns session.ErrExpired
		}
	case errors.Is(err, session.ErrUnchanged):
		_ = once.Free(context.WithoutCancel(ctx)) // the same
	}
	return reply, err
}

// carriedOut is the stored result of a command.
type carriedOut struct {
	Session string `json:"session"`
	Status  string `json:"status"`
	Reply   string `json:"reply"`
}

// operations are the calls that commands make.
type operations struct{ *Session }

// Rerun is admin.Client's.
func (o operations) Rerun(ctx context.Context) (int, error) {
	return o.c.admin.Session(o.key).As(o.user).Rerun(ctx, admin.All)
}

// tailBytes is about how many bytes Tail reads.
const tailBytes = 8 << 20

// Tail returns the last n entries of the transcript, fewer if they are long.
func (o operations) Tail(ctx context.Context, n int) ([]session.Entry, error) {
	id, err := o.transcriptID(ctx)
	if id == "" || err != nil {
		return nil, err
	}
	return o.entries(ctx, TranscriptQuery{ID: id, Before: -1, Limit: n}, tailBytes)
}

// NewConversation is NewTranscript, with an agent if one is named.
func (o operations) NewConversation(ctx context.Context, agent string) error {
	_, err := o.NewTranscript(ctx, TranscriptConfig{Agent: agent})
	return err
}

// Agents returns the agents that living workers run. It fails for a Redis user that may not read the
// workers' heartbeats.
func (o operations) Agents(ctx context.Context) ([]string, error) {
	return maintenance.Agents(ctx, o.c.rdb)
}

// DecideNumber decides the question with that number; 0 is the open one.
func (o operations) DecideNumber(ctx context.Context, number int, d session.Decision) (session.Question, error) {
	return o.decide(ctx, protocol.Decide{Session: o.key, Question: number, Decision: d})
}

// HasWorker is the Client's.
func (o operations) HasWorker(ctx context.Context) (bool, error) { return o.c.HasWorker(ctx) }

// Paused reports whether an operator has paused the session, so that it is not claimed.
func (o operations) Paused(ctx context.Context) (bool, error) {
	n, err := o.c.rdb.Exists(ctx, rediskey.For(o.key).Paused()).Result()
	if err != nil {
		return false, fmt.Errorf("read whether session %s is paused: %w", o.key, err)
	}
	return n > 0, nil
}
