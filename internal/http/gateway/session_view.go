package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/text/printable"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// DefaultAgents returns what the default agents of workers are, if they differ: echo, claude, or go: and the name of a
// program. Then it is chance which one runs a turn.
func DefaultAgents(workers []admin.Worker) (kinds []string) {
	for _, w := range workers {
		if w.Agent != "" && slices.Contains(w.Agents, agents.Default) {
			kinds = append(kinds, w.Agent)
		}
	}
	slices.Sort(kinds)
	if kinds = slices.Compact(kinds); len(kinds) < 2 {
		return nil
	}
	return kinds
}

// ErrUnknown is wrapped by the error about a session that never had a message or a setting, or that
// was forgotten.
var ErrUnknown = errors.New("is unknown: it never had a message, or it was forgotten")

// SessionView is a session without its transcript, as `worker show --json` prints it and the gateway
// serves it.
type SessionView struct {
	Session      string        `json:"session"`
	TranscriptID string        `json:"session_id"`
	Phase        session.Phase `json:"phase"`
	State        admin.State   `json:"state"`
	Paused       bool          `json:"paused"`
	Worker       string        `json:"worker"`
	Fence        int64         `json:"fence"`
	Pending      int           `json:"pending"`
	Followups    []Followup    `json:"followups"`
	Resume       Resume        `json:"resume"`

	Agent string `json:"agent"` // its name, "" before the first turn
	Needs string `json:"needs"` // the agent that its messages wait for, because no living worker runs it

	Title   string                `json:"title"`
	TitleBy string                `json:"title_by"` // user, agent, or "" without a title
	Queue   session.QueueSettings `json:"queue"`    // absent fields: the worker's defaults
	Dropped int                   `json:"dropped"`

	ReplyTo string `json:"reply_to"` // the destination of its outcomes, "": none
	Outbox  Outbox `json:"outbox"`

	Failing []Failing `json:"failing,omitempty"`

	Turn      string     `json:"turn"`
	Messages  []string   `json:"messages"`
	Since     *time.Time `json:"since"` // null: no turn runs
	Until     *time.Time `json:"until"` // of the open question or a parked turn; null: none, or no such time
	Scheduled int        `json:"scheduled"`
	Archived  int        `json:"archived"`

	// The agent's open question: its number, name and text; null: none.
	Question *Question `json:"question"`
	WaitsFor string    `json:"waits_for"` // the key of a program's value or a time, "": it waits for neither

	// Of the running turn.
	TurnMessages []TurnMessage `json:"turn_messages"`
	Reply        string        `json:"reply"` // so far: the text since the last tool

	Dead []Dead `json:"dead"` // the last ones, the last one first

	// Of the running turn, for show's text.
	Running time.Duration   `json:"-"`
	Left    time.Duration   `json:"-"` // until Until
	Events  []session.Event `json:"-"`
}

// Outbox counts undelivered outcomes.
type Outbox struct {
	Owed    int `json:"owed"` // of messages that have not ended yet
	Waiting int `json:"stored"`
	GivenUp int `json:"undelivered"`
}

// Failing is a destination that did not take the session's next delivery.
type Failing struct {
	Destination string    `json:"destination"`
	Count       int       `json:"count"`           // outcomes that the session owes it
	Since       time.Time `json:"since"`           // when the delivery was stored
	Error       string    `json:"error,omitempty"` // of the last attempt, for operators
}

func failingOf(s admin.SessionInfo) (list []Failing) {
	for _, f := range s.Failing {
		list = append(list, Failing(f))
	}
	return list
}

// TurnMessage is a message of the running turn.
type TurnMessage struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Cut  bool   `json:"text_cut,omitempty"` // the text is only the beginning

	Sender string    `json:"sender,omitempty"`
	Name   string    `json:"name,omitempty"` // what the sender calls itself
	At     time.Time `json:"at,omitzero"`    // when it joined the queue
}

// Who is the message's sender for people.
func (m TurnMessage) Who() string { return who(m.Sender, m.Name) }

// Who returns the sender of a message or an entry with this meta for people, such as "web/ada (Ada)". The name is
// what the sender calls itself, so the sender comes first.
func Who(meta map[string]string) string { return who(meta[senderMeta], meta[nameMeta]) }

func who(sender, name string) string {
	if sender != "" && name != "" {
		return sender + " (" + name + ")"
	}
	return cmp.Or(sender, name)
}

// Dead is a dead letter and its reason.
type Dead struct {
	ID     string         `json:"id"`
	Status session.Status `json:"status"`
	Error  string         `json:"error"`
	Code   string         `json:"code,omitempty"`
	Detail string         `json:"detail,omitempty"` // for operators
	At     time.Time      `json:"at"`

	Age time.Duration `json:"-"`
}

// deadShown is how many dead letters a view has.
const deadShown = 10

// Question is the agent's open question.
type Question struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Text   string `json:"text,omitempty"`

	Approvers []string  `json:"approvers,omitempty"` // who may decide; none: by the gateway's rule
	AskedAt   time.Time `json:"asked_at,omitzero"`
	Senders   []string  `json:"senders,omitempty"` // of the messages for which the turn began
}

// Followup is a message that arrived while a turn was running.
type Followup struct {
	ID    string       `json:"id"`
	Text  string       `json:"text"`
	Cut   bool         `json:"text_cut,omitempty"` // the text is only the beginning
	Mode  session.Mode `json:"mode"`
	State string       `json:"state"` // queued, collected or steered
}

// Resume is the mark that the next turn resumes.
type Resume struct {
	Pending       bool   `json:"pending"`
	Reason        string `json:"reason"`
	Interruptions int    `json:"interruptions"`
	Suspended     bool   `json:"suspended"`

	MarkedAt *time.Time `json:"marked_at"` // null: no mark
}

// ReadSession reads a session part by part, so one part may be newer than another. The error wraps
// ErrUnknown, or session.ErrInvalid if the key is wrong.
func ReadSession(ctx context.Context, s *admin.Session) (SessionView, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return SessionView{}, err
	}
	if !Known(info.Info) {
		return SessionView{}, fmt.Errorf("session %s %w", info.Session, ErrUnknown)
	}
	followups, err := s.FollowUps(ctx)
	if err != nil {
		return SessionView{}, err
	}
	v := SessionView{
		Session: info.Session, TranscriptID: info.TranscriptID, Phase: info.Phase, State: info.State, Paused: info.Paused,
		Worker: info.Worker, Fence: info.Fence,
		Pending: info.Waiting, Followups: []Followup{}, Resume: resumeOf(info.Resume),
		Turn: info.Turn, Messages: append([]string{}, info.Messages...), Since: StartOf(info.Info), Until: EndOf(info.Info),
		Scheduled: info.Delayed, Archived: info.DeadLetters, Running: info.Running, Left: info.Left(),
		Title: info.Title, TitleBy: info.TitleBy, Queue: info.Queue, Dropped: info.Dropped,
		ReplyTo: info.ReplyTo, Agent: info.Agent, Needs: info.Needs, WaitsFor: info.WaitsFor, Failing: failingOf(info),
	}
	if q := info.Question; q != nil {
		v.Question = &Question{q.Number, q.Name, q.Text, q.Approvers, q.AskedAt.UTC(), q.Senders}
	}
	for _, f := range followups {
		state := string(f.State)
		if f.State == session.MessagePending {
			state = "queued"
		}
		v.Followups = append(v.Followups, Followup{f.ID, f.Text, f.Cut, cmp.Or(f.Mode, info.Mode, session.ModeQueue), state})
	}
	return v, v.readFurther(ctx, s)
}

// readFurther reads the outbox, the running turn, and the reasons of the last dead letters.
func (v *SessionView) readFurther(ctx context.Context, s *admin.Session) error {
	undelivered, err := s.Undelivered(ctx)
	if err != nil {
		return err
	}
	v.Outbox = Outbox(undelivered)
	turn, err := s.Turn(ctx)
	if err != nil {
		return err
	}
	v.TurnMessages = []TurnMessage{}
	if turn.ID != "" && turn.ID == v.Turn { // otherwise it ended meanwhile
		v.Messages, v.Reply, v.Events = []string{}, turn.Reply, turn.Events
		for _, m := range turn.Messages { // one may have been steered in meanwhile
			v.Messages = append(v.Messages, m.ID)
			text := printable.Head(m.Text, printable.HeadMost)
			v.TurnMessages = append(v.TurnMessages, TurnMessage{m.ID, text, len(text) < len(m.Text), m.Meta[senderMeta], m.Meta[nameMeta], m.ArrivedAt})
		}
	}
	v.Dead = []Dead{}
	if v.Archived == 0 {
		return nil
	}
	dead, err := s.LastDeadLetters(ctx, deadShown)
	for _, d := range dead {
		v.Dead = append(v.Dead, Dead{d.ID, d.Outcome.Status, d.Outcome.Error, d.Outcome.Code, d.Outcome.Detail, d.At.UTC(), d.Age})
	}
	return err
}

// Known reports whether a session had a message or a setting.
func Known(info session.Info) bool {
	return info.TranscriptID != "" || info.Phase != session.PhaseIdle || info.Waiting+info.Delayed+info.DeadLetters > 0 ||
		info.Title != "" || info.ReplyTo != "" || info.Queue != (session.QueueSettings{})
}

// StartOf returns the start of the running turn, nil if none runs.
func StartOf(info session.Info) *time.Time {
	if info.Phase == session.PhaseIdle {
		return nil
	}
	at := info.StartedAt.UTC()
	return &at
}

// EndOf returns when the open question counts as denied, or a parked turn goes on; nil if there is no such time.
func EndOf(info session.Info) *time.Time {
	if info.Until.IsZero() {
		return nil
	}
	at := info.Until.UTC()
	return &at
}

func resumeOf(r session.Resume) Resume {
	s := Resume{Pending: r.Pending, Reason: r.Reason, Interruptions: r.Interruptions, Suspended: r.Suspended}
	if !r.At.IsZero() {
		at := r.At.UTC()
		s.MarkedAt = &at
	}
	return s
}
