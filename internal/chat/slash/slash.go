package slash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// Operations are the calls that commands make, on one session.
type Operations interface {
	Info(ctx context.Context) (session.Info, error)
	Tail(ctx context.Context, n int) ([]session.Entry, error)
	Stop(ctx context.Context) (session.Stopped, error)
	NewConversation(ctx context.Context, agent string) error
	SetQueue(ctx context.Context, s session.QueueSettings) error
	DecideNumber(ctx context.Context, number int, d session.Decision) (session.Question, error)
	Undo(ctx context.Context) (session.Undone, error)
	Retry(ctx context.Context) (session.Undone, error)
	SetTitle(ctx context.Context, title string) error
	Rerun(ctx context.Context) (n int, err error)
	HasWorker(ctx context.Context) (bool, error)
	Agents(ctx context.Context) ([]string, error)
	Paused(ctx context.Context) (bool, error)
}

// Command is a slash command. The sender carries it out at once, without owning the session.
type Command struct {
	Name       string
	args, help string
	run        func(ctx context.Context, c Operations, args string) (string, error) // nil: the command's text is a message
}

func commands() []Command {
	return []Command{
		{"/help", "", "lists the commands", help},
		{"/status", "", "shows what the session is doing", status},
		{"/stop", "", "ends the running turn; waiting messages become dead letters", stop},
		{"/new", "", "begins a new conversation (also /reset)", newConversation},
		{"/reset", "", "", newConversation},
		{"/agent", "[NAME]", "begins a new conversation with another agent, or shows which it is", chooseAgent},
		{"/queue", "[MODE] [debounce:0.5s] [cap:25] [drop:new|old|summarize] | reset", "sets what messages do while a turn runs", queue},
		{"/approve", "[NUMBER] [always]", "allows what the agent asks permission for", approve},
		{"/deny", "[NUMBER]", "denies it", deny},
		{"/steer", "TEXT", "hands TEXT to the running turn", nil},
		{"/retry", "", "removes the last turn and runs its message again", again},
		{"/undo", "", "removes the last turn from the conversation", undo},
		{"/title", "[TEXT]", "sets or shows the title of the conversation", title},
		{"/history", "[ENTRIES]", "shows the last entries of the conversation", history},
		{"/resume", "", "reruns dead letters: messages that a /stop ended or that failed", rerun},
	}
}

// named returns the command with this name, which includes the slash.
func named(name string) (Command, bool) {
	all := commands()
	i := slices.IndexFunc(all, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return Command{}, false
	}
	return all[i], true
}

// Parse returns the command in a text: its first word, if the text has only one line.
func Parse(text string) (cmd Command, args string, ok bool) {
	name, args := split(text)
	cmd, ok = named(name)
	return cmd, args, ok
}

// argsError explains an invalid command, or its arguments, to the user. The command was not carried
// out.
type argsError string

func (e argsError) Error() string { return string(e) }
func (e argsError) Unwrap() error { return session.ErrInvalid }

// Unknown returns the error of a text that is no command. It wraps session.ErrInvalid, and its text is
// for the user.
func Unknown(text string) error {
	if reply, ok := Suggest(text); ok {
		return argsError(reply)
	}
	return argsError("That is no command; /help lists them.")
}

// Run carries out the command and returns the reply to the user. If args are wrong, nothing was done:
// the error wraps session.ErrInvalid, and its text is for the user.
func (cmd Command) Run(ctx context.Context, c Operations, args string) (reply string, err error) {
	switch {
	case args != "" && cmd.args == "":
		return "", argsError(fmt.Sprintf("%s takes no arguments. To send it as a message, write /%[1]s.", cmd.Name))
	case cmd.run == nil && args != "":
		return "", argsError(fmt.Sprintf("%s TEXT is a message for the running turn, not a command: send it as one.", cmd.Name))
	case cmd.run == nil:
		return "", argsError("Write what to hand to the running turn: " + cmd.Name + " " + cmd.args + ".")
	}
	return cmd.run(ctx, c, args)
}

// Reads reports whether the command with args changes nothing.
func (cmd Command) Reads(args string) bool {
	switch cmd.Name {
	case "/help", "/status", "/history":
		return true
	case "/queue", "/title", "/agent":
		return args == ""
	}
	return false
}

// NamesAgent reports whether the command with args chooses an agent.
func (cmd Command) NamesAgent(args string) bool { return cmd.Name == "/agent" && args != "" }

// Shows reports whether the reply to the command with args has texts or the title of the session.
func (cmd Command) Shows(args string) bool {
	switch cmd.Name {
	case "/status", "/history", "/undo", "/retry":
		return true
	case "/title":
		return args == ""
	}
	return false
}

// IsMessage reports whether the command with args is a message to steer into the running
// turn.
func (cmd Command) IsMessage(args string) bool { return cmd.run == nil && args != "" }

func help(context.Context, Operations, string) (string, error) {
	var b strings.Builder
	for _, cmd := range commands() {
		if cmd.help != "" {
			fmt.Fprintf(&b, "%-8s  %s\n", cmd.Name, cmd.help)
		}
		if len(cmd.args) > len("[ENTRIES]") {
			fmt.Fprintf(&b, "%-8s  %s %s\n", "", cmd.Name, cmd.args)
		}
	}
	b.WriteString("To send a message that begins with a slash, write two slashes.")
	return b.String(), nil
}

func status(ctx context.Context, c Operations, _ string) (string, error) {
	s, err := c.Info(ctx)
	if err != nil {
		return "", err
	}
	paused, err := c.Paused(ctx)
	if err != nil {
		return "", err
	}
	lines := []string{statusLine(s, paused)}
	if paused {
		lines = append(lines, "An operator has paused the session: no further turn begins until it is unpaused.")
	}
	switch {
	case (s.Phase == session.PhaseIdle || s.Phase == session.PhaseParked) && noWorker(ctx, c):
		lines = append(lines, "No worker is running: messages wait until one is started.")
	case s.Needs != "":
		lines = append(lines, "No running worker runs the agent "+s.Needs+" for this session: messages wait until one does.")
	}
	if s.Agent != "" && s.Agent != agents.Default {
		lines = append(lines, "Agent: "+s.Agent)
	}
	if q := s.Question; q != nil {
		ask := fmt.Sprintf("The agent asks for permission: %s. /approve %d or /deny %[2]d", q.Name, q.Number)
		if !s.Until.IsZero() {
			ask += " within " + s.Left().Round(time.Second).String()
		}
		if len(q.Approvers) > 0 {
			ask += " (" + strings.Join(q.Approvers, ", ") + ")"
		}
		lines = append(lines, ask)
	}
	if s.WaitsFor != "" {
		lines = append(lines, "The turn waits for "+s.WaitsFor+".")
	}
	if s.Title != "" {
		lines = append(lines, "Title: "+s.Title)
	}
	if s.Queue != (session.QueueSettings{}) {
		lines = append(lines, "Messages while it is busy: "+s.Queue.String())
	}
	switch r := s.Resume; {
	case r.Suspended:
		lines = append(lines, "It was interrupted too often: the next message begins a new conversation.")
	case r.Pending && s.Phase != session.PhaseIdle && !r.At.After(s.StartedAt): // otherwise a drain has just marked it
		lines = append(lines, "The turn resumes one that was interrupted.")
	case r.Pending:
		lines = append(lines, "Its last turn was interrupted; the next one gets a note.")
	}
	if s.DeadLetters > 0 {
		lines = append(lines, counted(s.DeadLetters, "dead letter", "dead letters")+"; /resume reruns those that a /stop ended or that failed.")
	}
	return strings.Join(lines, "\n"), nil
}

// noWorker reports whether no worker is running, as far as the Redis user may read that.
func noWorker(ctx context.Context, c Operations) bool {
	has, err := c.HasWorker(ctx)
	return err == nil && !has
}

func statusLine(s session.Info, paused bool) string {
	waiting := fmt.Sprintf("%d waiting", s.Waiting)
	switch s.Phase {
	case session.PhaseIdle:
		if s.Waiting == 0 && s.Needs == "" {
			return "Idle: nothing runs, nothing waits."
		}
		if paused {
			return "Nothing runs, " + waiting + "."
		}
		return "Nothing runs yet, " + waiting + "."
	case session.PhaseStarting:
		return "The agent is starting up, " + waiting + "."
	case session.PhaseParked:
		switch {
		case s.Question != nil:
			return "A turn waits for a decision, without a worker, " + waiting + "."
		case s.WaitsFor != "":
			return "A turn waits without a worker, " + waiting + "."
		case s.Left() > 0:
			return fmt.Sprintf("The turn tries again in %s, %s.", s.Left().Round(time.Second), waiting)
		}
		return "A turn waits to go on, " + waiting + "."
	}
	return fmt.Sprintf("A turn has been running for %s, %s.", s.Running.Round(time.Second), waiting)
}

func stop(ctx context.Context, c Operations, _ string) (string, error) {
	s, err := c.Stop(ctx)
	if err != nil {
		return "", err
	}
	var stopped string
	switch {
	case s.Dropped == 1:
		stopped = " 1 waiting message is now a dead letter; /resume reruns it."
	case s.Dropped > 1:
		stopped = fmt.Sprintf(" %d waiting messages are now dead letters; /resume reruns them.", s.Dropped)
	}
	switch s.Phase {
	case session.PhaseStarting:
		return "The agent is still starting up; it will be stopped before it runs." + stopped, nil
	case session.PhaseRunning:
		return "Stopping the running turn." + stopped, nil
	case session.PhaseParked:
		return "Ending the turn that waits to go on." + stopped, nil
	}
	if s.Dropped > 0 {
		return "Nothing is running." + stopped, nil
	}
	return "Nothing is running.", nil
}

func newConversation(ctx context.Context, c Operations, _ string) (string, error) {
	s, err := c.Info(ctx)
	if err != nil {
		return "", err
	}
	if err := c.NewConversation(ctx, ""); err != nil {
		return "", err
	}
	return begins("a new conversation", s, false), nil
}

// begins is the reply to a command that begins a conversation, with another agent or the same.
func begins(what string, s session.Info, other bool) string {
	switch {
	case s.Phase == session.PhaseParked && (other || s.Question != nil || s.WaitsFor != ""):
		return "The next message begins " + what + ". The turn that waits ends in the old one."
	case s.Phase == session.PhaseParked:
		return "The next message begins " + what + ". The turn that waits goes on in the old one."
	case s.Phase != session.PhaseIdle:
		return "The next message begins " + what + ". The running turn ends in the old one."
	}
	return "The next message begins " + what + "."
}

// chooseAgent names no agent but the session's: a list would name those of others.
func chooseAgent(ctx context.Context, c Operations, name string) (string, error) {
	s, err := c.Info(ctx)
	switch {
	case err != nil:
		return "", err
	case name == "" && s.Agent == "":
		return "The session has no agent yet: its first message gets one.", nil
	case name == "":
		return "The session's agent is " + s.Agent + ".", nil
	case name == s.Agent:
		return "The session's agent is " + name + " already. /new begins a new conversation.", nil
	}
	if err := agents.ValidateName(name); err != nil {
		return "", refusal(err)
	}
	running, err := c.Agents(ctx) // fails for a Redis user that may not know
	if err == nil && len(running) > 0 && !slices.Contains(running, name) {
		return "", argsError("Nothing was changed: no running worker has an agent " + name + ".")
	}
	if err := c.NewConversation(ctx, name); err != nil {
		return "", err
	}
	return begins("a new conversation with "+name, s, true), nil
}

func queue(ctx context.Context, c Operations, args string) (string, error) {
	switch args {
	case "":
		s, err := c.Info(ctx)
		if err != nil {
			return "", err
		}
		if s.Queue == (session.QueueSettings{}) {
			return "Messages while the session is busy: as the worker is configured; nothing is set here.", nil
		}
		return "Messages while the session is busy: " + s.Queue.String(), nil
	case "reset":
		return "Messages while the session is busy: as the worker is configured.", c.SetQueue(ctx, session.QueueSettings{})
	}
	set, err := wire.ParseQueueSettings(args)
	if err != nil {
		return "", refusal(err)
	}
	if err := c.SetQueue(ctx, set); err != nil {
		return "", err
	}
	return "Messages while the session is busy: " + set.String(), nil
}

// refusal turns an error about the user's words into an argsError.
func refusal(err error) error {
	if errors.Is(err, session.ErrInvalid) {
		return argsError(nothingChanged(err))
	}
	return err
}

func nothingChanged(err error) string {
	return "Nothing was changed: " + strings.ReplaceAll(err.Error(), "\n", "; ") + "."
}

func title(ctx context.Context, c Operations, args string) (string, error) {
	if args == "" {
		s, err := c.Info(ctx)
		if err != nil || s.Title != "" {
			return s.Title, err
		}
		return "The conversation has no title. /title TEXT gives it one.", nil
	}
	if err := c.SetTitle(ctx, args); err != nil {
		return "", refusal(err)
	}
	return "The conversation's title is now: " + args, nil
}

func undo(ctx context.Context, c Operations, _ string) (string, error) {
	u, err := c.Undo(ctx)
	if err != nil {
		return undoRefusal(err)
	}
	return fmt.Sprintf("Removed from the conversation (%s): %s", counted(u.Entries, "entry", "entries"), firstLine(u.Text)), nil
}

func again(ctx context.Context, c Operations, _ string) (string, error) {
	u, err := c.Retry(ctx)
	if err != nil {
		return undoRefusal(err)
	}
	return "Running again: " + firstLine(u.Text), nil
}

func undoRefusal(err error) (string, error) {
	switch {
	case errors.Is(err, session.ErrBusy):
		return "A turn is running. Wait for its end, or write /stop first.", nil
	case errors.Is(err, session.ErrNoTurn):
		return "The conversation has no turn yet. /resume runs a message again that failed or was stopped.", nil
	case errors.Is(err, session.ErrLastFailed):
		return "Your last message failed or was stopped, and left nothing in the conversation. /retry runs it again.", nil
	case errors.Is(err, session.ErrInvalid): // about the conversation
		return nothingChanged(err), nil
	}
	return "", err
}

func rerun(ctx context.Context, c Operations, _ string) (string, error) {
	n, err := c.Rerun(ctx)
	switch {
	case err != nil:
		return "", err
	case n == 0:
		return "There is nothing to rerun.", nil
	}
	return "Rerunning " + counted(n, "message", "messages") + ".", nil
}

// counted returns a number with its noun.
func counted(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}
