package slash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// Operations are what commands do to a session.
type Operations interface {
	Session(ctx context.Context, sessionKey string) (session.Info, error)
	ResumeRecord(ctx context.Context, sessionKey string) (resume.Record, error)
	Tail(ctx context.Context, sessionKey string, n int) ([]session.Entry, error)
	Stop(ctx context.Context, sessionKey string) (session.Stopped, error)
	Rotate(ctx context.Context, sessionKey, old string) (sessionID string, err error)
	Configure(ctx context.Context, sessionKey string, s session.QueueSettings) error
	Answer(ctx context.Context, sessionKey string, number int, d session.Decision) (session.Question, error)
	Undo(ctx context.Context, sessionKey string) (session.Undone, error)
	Retry(ctx context.Context, sessionKey string) (session.Undone, error)
	SetTitle(ctx context.Context, sessionKey, title string) error
	Rerun(ctx context.Context, sessionKey string) (n int, err error)
}

// Command is a slash command. The sender's library carries it out: it takes no sentinel.
type Command struct {
	Name       string
	args, help string
	run        func(ctx context.Context, c Operations, sessionKey, args string) (string, error) // nil: it is a message
}

func commands() []Command {
	return []Command{
		{"/help", "", "lists the commands", help},
		{"/status", "", "tells what the session does", status},
		{"/stop", "", "ends the running turn and archives what waits behind it", stop},
		{"/new", "", "begins a new conversation; /reset is the same", renew},
		{"/reset", "", "", renew},
		{"/queue", "[MODE] [debounce:0.5s] [cap:25] [drop:new|old|summarize] | reset", "says what messages do while a turn runs", queue},
		{"/approve", "[NUMBER] [always]", "allows what the agent asks for", approve},
		{"/deny", "[NUMBER]", "refuses it", deny},
		{"/steer", "TEXT", "hands TEXT to the running turn", nil},
		{"/retry", "", "runs the last turn again, as if it had not been", again},
		{"/undo", "", "takes the last turn out of the conversation", undo},
		{"/title", "[TEXT]", "gives the conversation a title, or tells it", title},
		{"/history", "[ENTRIES]", "shows the end of the conversation", history},
		{"/resume", "", "runs again what a /stop or a failure has put aside", rerun},
	}
}

// Named is the command of that name, with its slash.
func Named(name string) (Command, bool) {
	all := commands()
	i := slices.IndexFunc(all, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return Command{}, false
	}
	return all[i], true
}

// Parse finds a command: the first word of a one-line text.
func Parse(text string) (cmd Command, args string, ok bool) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "\n") {
		return Command{}, "", false
	}
	name, args, _ := strings.Cut(text, " ")
	cmd, ok = Named(name)
	return cmd, strings.TrimSpace(args), ok
}

// argsError is the answer to a command whose arguments are wrong: it was not carried
// out. Commands return it as an error, which their caller takes out.
type argsError string

func (b argsError) Error() string { return string(b) }

// Run carries the command out, and returns what the user is to read. invalid: that says
// what is wrong with args, and nothing was done. A command that IsMessage is not run.
func (cmd Command) Run(ctx context.Context, c Operations, sessionKey, args string) (reply string, invalid bool, err error) {
	switch {
	case args != "" && cmd.args == "":
		err = argsError(fmt.Sprintf("%s takes no words behind it. To send it as a message, write /%[1]s.", cmd.Name))
	case cmd.run == nil:
		err = argsError("Say what the running turn is to be told: " + cmd.Name + " " + cmd.args + ".")
	default:
		reply, err = cmd.run(ctx, c, sessionKey, args)
	}
	if bad := argsError(""); errors.As(err, &bad) {
		return string(bad), true, nil
	}
	return reply, false, err
}

// IsMessage reports whether the command with args is a message for the running turn, to
// be steered into it.
func (cmd Command) IsMessage(args string) bool { return cmd.run == nil && args != "" }

// MayRun reports whether the command is one that is carried out, and no message.
func (cmd Command) MayRun() bool { return cmd.run != nil }

func help(context.Context, Operations, string, string) (string, error) {
	var b strings.Builder
	for _, cmd := range commands() {
		if cmd.help != "" {
			fmt.Fprintf(&b, "%-8s  %s\n", cmd.Name, cmd.help)
		}
		if len(cmd.args) > len("[ENTRIES]") {
			fmt.Fprintf(&b, "%-8s  %s %s\n", "", cmd.Name, cmd.args)
		}
	}
	b.WriteString("A message that is to begin with a slash is written with two.")
	return b.String(), nil
}

func status(ctx context.Context, c Operations, sessionKey, _ string) (string, error) {
	s, err := c.Session(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	lines := []string{statusLine(s)}
	if q := s.Question; q != nil {
		lines = append(lines, fmt.Sprintf("The agent asks for permission: %s. /approve %d or /deny %[2]d", q.Name, q.Number))
	}
	if s.Title != "" {
		lines = append(lines, "Title: "+s.Title)
	}
	if s.Settings != (session.QueueSettings{}) {
		lines = append(lines, "Messages that find it busy: "+s.Settings.String())
	}
	r, err := c.ResumeRecord(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	switch {
	case r.Suspended:
		lines = append(lines, "It was cut off too often: the next message begins a new conversation.")
	case r.Pending:
		lines = append(lines, "Its last turn was cut off; the next one will be told.")
	}
	if s.Archived > 0 {
		lines = append(lines, counted(s.Archived, "message was", "messages were")+" put aside; /resume runs those again that a /stop or a failure ended.")
	}
	return strings.Join(lines, "\n"), nil
}

func statusLine(s session.Info) string {
	waiting := fmt.Sprintf("%d waiting", s.Pending)
	switch s.Phase {
	case session.PhaseIdle:
		if s.Pending == 0 {
			return "Idle: nothing runs, nothing waits."
		}
		return "Nothing runs yet, " + waiting + "."
	case session.PhaseStarting:
		return "The agent is starting up, " + waiting + "."
	}
	return fmt.Sprintf("A turn has been running for %s, %s.", s.Since.Round(time.Second), waiting)
}

func stop(ctx context.Context, c Operations, sessionKey, _ string) (string, error) {
	s, err := c.Stop(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	var stopped string
	switch {
	case s.Dropped == 1:
		stopped = " 1 waiting message was stopped and archived; /resume runs it again."
	case s.Dropped > 1:
		stopped = fmt.Sprintf(" %d waiting messages were stopped and archived; /resume runs them again.", s.Dropped)
	}
	switch s.Phase {
	case session.PhaseStarting:
		return "The agent is still starting up; it will be stopped before it runs." + stopped, nil
	case session.PhaseRunning:
		return "Stopping the running turn." + stopped, nil
	}
	if s.Dropped > 0 {
		return "Nothing is running." + stopped, nil
	}
	return "Nothing is running, there is nothing to stop.", nil
}

func renew(ctx context.Context, c Operations, sessionKey, _ string) (string, error) {
	s, err := c.Session(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	if _, err := c.Rotate(ctx, sessionKey, ""); err != nil {
		return "", err
	}
	if s.Phase != session.PhaseIdle {
		return "The next message begins a new conversation. What runs now still ends in the old one.", nil
	}
	return "The next message begins a new conversation.", nil
}

func queue(ctx context.Context, c Operations, sessionKey, args string) (string, error) {
	switch args {
	case "":
		s, err := c.Session(ctx, sessionKey)
		if err != nil {
			return "", err
		}
		if s.Settings == (session.QueueSettings{}) {
			return "Messages that find the session busy do what its worker says; nothing else is set here.", nil
		}
		return "Messages that find the session busy: " + s.Settings.String(), nil
	case "reset":
		return "Messages that find the session busy do what its worker says.", c.Configure(ctx, sessionKey, session.QueueSettings{})
	}
	set, err := session.ParseQueueSettings(args)
	if err != nil {
		return "", refusal(err)
	}
	if err := c.Configure(ctx, sessionKey, set); err != nil {
		return "", err
	}
	return "Messages that find the session busy: " + set.String(), nil
}

// refusal is err as argsError, if it is about what the user has written.
func refusal(err error) error {
	if errors.Is(err, session.ErrInvalid) {
		return argsError(nothingChanged(err))
	}
	return err
}

func nothingChanged(err error) string {
	return "Nothing was changed: " + strings.ReplaceAll(err.Error(), "\n", "; ") + "."
}

func title(ctx context.Context, c Operations, sessionKey, args string) (string, error) {
	if args == "" {
		s, err := c.Session(ctx, sessionKey)
		if err != nil || s.Title != "" {
			return s.Title, err
		}
		return "The conversation has no title. /title TEXT gives it one.", nil
	}
	if err := c.SetTitle(ctx, sessionKey, args); err != nil {
		return "", refusal(err)
	}
	return "The conversation's title is now: " + args, nil
}

func undo(ctx context.Context, c Operations, sessionKey, _ string) (string, error) {
	u, err := c.Undo(ctx, sessionKey)
	if err != nil {
		return undoRefusal(err)
	}
	return fmt.Sprintf("Taken out of the conversation (%s): %s", counted(u.Entries, "entry", "entries"), firstLine(u.Text)), nil
}

func again(ctx context.Context, c Operations, sessionKey, _ string) (string, error) {
	u, err := c.Retry(ctx, sessionKey)
	if err != nil {
		return undoRefusal(err)
	}
	return "Running again: " + firstLine(u.Text), nil
}

func undoRefusal(err error) (string, error) {
	switch {
	case errors.Is(err, session.ErrBusy):
		return "A turn is running. Wait for its end, or say /stop first.", nil
	case errors.Is(err, session.ErrNoTurn):
		return "The conversation has no turn yet.", nil
	case errors.Is(err, session.ErrInvalid): // the conversation, not what was written
		return nothingChanged(err), nil
	}
	return "", err
}

func rerun(ctx context.Context, c Operations, sessionKey, _ string) (string, error) {
	n, err := c.Rerun(ctx, sessionKey)
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "There is nothing to run again.", nil
	}
	return counted(n, "message is", "messages are") + " run again.", nil
}

// counted is a number with what it counts.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
