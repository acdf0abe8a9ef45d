package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile/pkg/followup"
	"turnstile/pkg/session"
)

// senderEvents is the cap of the event stream for the events of senders, who do not
// know EventsCap: a bound for a session that no worker looks after. The next event of
// an owner cuts the stream to what it is to be.
const senderEvents = 100_000

// command is carried out by the sender's library: it takes no sentinel.
type command struct {
	name, args, help string
	run              func(c *Client, ctx context.Context, sessionKey, args string) (string, error)
}

func commands() []command {
	return []command{
		{"/help", "", "lists the commands", (*Client).help},
		{"/status", "", "tells what the session does", (*Client).status},
		{"/stop", "", "ends the running turn and archives what waits behind it", (*Client).stop},
		{"/new", "", "begins a new conversation; /reset is the same", (*Client).renew},
		{"/reset", "", "", (*Client).renew},
		{"/queue", "[MODE] [debounce:0.5s] [cap:25] [drop:new|old|summarize] | reset", "says what messages do while a turn runs", (*Client).queue},
		{"/approve", "[NUMBER] [always]", "allows what the agent asks for", (*Client).approve},
		{"/deny", "[NUMBER]", "refuses it", (*Client).deny},
		{"/steer", "TEXT", "hands TEXT to the running turn", nil},
		{"/retry", "", "runs the last turn again, as if it had not been", (*Client).again},
		{"/undo", "", "takes the last turn out of the conversation", (*Client).undo},
		{"/title", "[TEXT]", "gives the conversation a title, or tells it", (*Client).title},
		{"/history", "[ENTRIES]", "shows the end of the conversation", (*Client).history},
		{"/resume", "", "runs again what a /stop or a failure has put aside", (*Client).resume},
	}
}

func commandNamed(name string) (command, bool) {
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return all[i], true
}

// parseCommand finds a command: the first word of a one-line text.
func parseCommand(text string) (cmd command, args string, ok bool) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "\n") {
		return command{}, "", false
	}
	name, args, _ := strings.Cut(text, " ")
	cmd, ok = commandNamed(name)
	return cmd, strings.TrimSpace(args), ok
}

// argsError is the answer to a command whose arguments are wrong: it was not carried
// out. Commands return it as an error, which their caller takes out.
type argsError string

func (b argsError) Error() string { return string(b) }

// Command carries out a slash command and answers what the user is to read. What
// is wrong with its arguments is an answer too, and changes nothing. /steer is a
// message: Submit it.
func (c *Client) Command(ctx context.Context, sessionKey, name, args string) (string, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	cmd, ok := commandNamed(name)
	if !ok || cmd.run == nil {
		return "", fmt.Errorf("%w command %q: /help lists them", session.ErrInvalid, name)
	}
	reply, _, err := c.carryOut(ctx, sessionKey, cmd, args)
	return reply, err
}

// carryOut is Command that tells whether the reply is what was wrong with the
// arguments.
func (c *Client) carryOut(ctx context.Context, sessionKey string, cmd command, args string) (reply string, invalid bool, err error) {
	switch {
	case args != "" && cmd.args == "":
		err = argsError(fmt.Sprintf("%s takes no words behind it. To send it as a message, write /%[1]s.", cmd.name))
	case cmd.run == nil:
		err = argsError("Say what the running turn is to be told: " + cmd.name + " " + cmd.args + ".")
	default:
		reply, err = cmd.run(c, ctx, sessionKey, args)
	}
	if bad := argsError(""); errors.As(err, &bad) {
		return string(bad), true, nil
	}
	return reply, false, err
}

func (c *Client) help(context.Context, string, string) (string, error) {
	var b strings.Builder
	for _, cmd := range commands() {
		if cmd.help != "" {
			fmt.Fprintf(&b, "%-8s  %s\n", cmd.name, cmd.help)
		}
		if len(cmd.args) > len("[ENTRIES]") {
			fmt.Fprintf(&b, "%-8s  %s %s\n", "", cmd.name, cmd.args)
		}
	}
	b.WriteString("A message that is to begin with a slash is written with two.")
	return b.String(), nil
}

func (c *Client) status(ctx context.Context, sessionKey, _ string) (string, error) {
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
	if s.Settings != (followup.Settings{}) {
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

func statusLine(s SessionInfo) string {
	waiting := fmt.Sprintf("%d waiting", s.Pending)
	switch s.Phase {
	case PhaseIdle:
		if s.Pending == 0 {
			return "Idle: nothing runs, nothing waits."
		}
		return "Nothing runs yet, " + waiting + "."
	case phaseStarting:
		return "The agent is starting up, " + waiting + "."
	}
	return fmt.Sprintf("A turn has been running for %s, %s.", s.Since.Round(time.Second), waiting)
}

func (c *Client) stop(ctx context.Context, sessionKey, _ string) (string, error) {
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
	case phaseStarting:
		return "The agent is still starting up; it will be stopped before it runs." + stopped, nil
	case phaseRunning:
		return "Stopping the running turn." + stopped, nil
	}
	if s.Dropped > 0 {
		return "Nothing is running." + stopped, nil
	}
	return "Nothing is running, there is nothing to stop.", nil
}

func (c *Client) renew(ctx context.Context, sessionKey, _ string) (string, error) {
	s, err := c.Session(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	if _, err := c.Rotate(ctx, sessionKey, ""); err != nil {
		return "", err
	}
	if s.Phase != PhaseIdle {
		return "The next message begins a new conversation. What runs now still ends in the old one.", nil
	}
	return "The next message begins a new conversation.", nil
}

func (c *Client) queue(ctx context.Context, sessionKey, args string) (string, error) {
	switch args {
	case "":
		s, err := c.Session(ctx, sessionKey)
		if err != nil {
			return "", err
		}
		if s.Settings == (followup.Settings{}) {
			return "Messages that find the session busy do what its worker says; nothing else is set here.", nil
		}
		return "Messages that find the session busy: " + s.Settings.String(), nil
	case "reset":
		return "Messages that find the session busy do what its worker says.", c.Configure(ctx, sessionKey, followup.Settings{})
	}
	set, err := followup.ParseSettings(args)
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

func (c *Client) title(ctx context.Context, sessionKey, args string) (string, error) {
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

func (c *Client) undo(ctx context.Context, sessionKey, _ string) (string, error) {
	u, err := c.Undo(ctx, sessionKey)
	if err != nil {
		return undoRefusal(err)
	}
	return fmt.Sprintf("Taken out of the conversation (%s): %s", counted(u.Entries, "entry", "entries"), firstLine(u.Text)), nil
}

func (c *Client) again(ctx context.Context, sessionKey, _ string) (string, error) {
	u, err := c.Retry(ctx, sessionKey)
	if err != nil {
		return undoRefusal(err)
	}
	return "Running again: " + firstLine(u.Text), nil
}

func undoRefusal(err error) (string, error) {
	switch {
	case errors.Is(err, ErrBusy):
		return "A turn is running. Wait for its end, or say /stop first.", nil
	case errors.Is(err, ErrNothing):
		return "The conversation has no turn yet.", nil
	case errors.Is(err, session.ErrInvalid): // the conversation, not what was written
		return nothingChanged(err), nil
	}
	return "", err
}

func (c *Client) resume(ctx context.Context, sessionKey, _ string) (string, error) {
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
