package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// shown is a session as show prints it.
type shown struct {
	Session    string          `json:"session"`
	SessionID  string          `json:"session_id"`
	Phase      string          `json:"phase"`
	State      admin.State     `json:"state"`
	Paused     bool            `json:"paused"`
	Worker     string          `json:"worker"`
	Fence      int64           `json:"fence"`
	Pending    int             `json:"pending"`
	Followups  []shownFollowup `json:"followups"`
	Resume     shownResume     `json:"resume"`
	Transcript []session.Entry `json:"transcript"`

	Title   string                `json:"title"`
	TitleBy string                `json:"title_by"` // user, agent, or "" without a title
	Queue   session.QueueSettings `json:"queue"`    // absent fields have the worker's defaults
	Dropped int                   `json:"dropped"`

	Turn      string     `json:"turn"`
	Messages  []string   `json:"messages"`
	Since     *time.Time `json:"since"` // null: no turn runs
	Scheduled int        `json:"scheduled"`
	Archived  int        `json:"archived"`

	// The agent's open question: its number, name and text; null: none.
	Question *shownQuestion `json:"question"`

	// Of the running turn.
	TurnMessages []shownMessage `json:"turn_messages"`
	Reply        string         `json:"reply"` // so far: the text since the last tool

	Dead []shownDead `json:"dead"` // the last ones, the last one first

	running time.Duration
	events  []session.Event // of the running turn
	idle    bool            // no worker is running
}

type shownMessage struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// shownDead is a dead letter and its reason.
type shownDead struct {
	ID     string         `json:"id"`
	Status session.Status `json:"status"`
	Error  string         `json:"error"`
	At     time.Time      `json:"at"`

	age time.Duration
}

// deadShown is how many dead letters show lists.
const deadShown = 10

type shownQuestion struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Text   string `json:"text,omitempty"`
}

type shownFollowup struct {
	ID    string                `json:"id"`
	Text  string                `json:"text"`
	Mode  session.Mode          `json:"mode"`
	State session.FollowupState `json:"state"`
}

type shownResume struct {
	Pending       bool   `json:"pending"`
	Reason        string `json:"reason"`
	Interruptions int    `json:"interruptions"`
	Suspended     bool   `json:"suspended"`

	MarkedAt *time.Time `json:"marked_at"` // null: no mark
}

// show prints one session, and with follow the events of its turn from then on.
func (p *program) show(ctx context.Context, flags map[string]string, key string, asJSON, follow bool) error {
	if err := session.ValidateKey(key); err != nil {
		return err
	}
	return p.withRedis(ctx, flags, func(rdb redis.UniversalClient) error {
		client := admin.NewClient(rdb)
		s, err := look(ctx, client, key)
		if err != nil {
			return err
		}
		if follow {
			s.events = nil // followTurn prints them
		}
		if asJSON {
			err = p.printJSON(s)
		} else {
			s.idle = s.State == admin.StateWaiting && client.NoWorker(ctx)
			err = s.print(p.stdout)
		}
		if err != nil || !follow {
			return err
		}
		return p.followTurn(ctx, rdb, s, asJSON)
	})
}

// look reads a session part by part, so one part may be newer than another.
func look(ctx context.Context, client *admin.Client, key string) (shown, error) {
	info, err := client.Session(ctx, key)
	if err != nil {
		return shown{}, err
	}
	if unknown(info) {
		return shown{}, unknownError(key)
	}
	followups, err := client.Followups(ctx, key)
	if err != nil {
		return shown{}, err
	}
	record, err := client.ResumeRecord(ctx, key)
	if err != nil {
		return shown{}, err
	}
	transcript, err := client.Transcript(ctx, key, info.SessionID)
	if err != nil {
		return shown{}, err
	}
	states, err := client.States(ctx, []session.Info{info})
	if err != nil {
		return shown{}, err
	}
	s := shown{
		Session: key, SessionID: info.SessionID, Phase: info.Phase, State: states[0].State, Paused: states[0].Paused,
		Worker: info.Worker, Fence: info.Fence,
		Pending: info.Pending, Followups: []shownFollowup{}, Resume: resumeOf(record),
		Transcript: append([]session.Entry{}, transcript...),
		Turn:       info.Turn, Messages: append([]string{}, info.Messages...), Since: startOf(info),
		Scheduled: info.Scheduled, Archived: info.Archived, running: info.Since,
		Title: info.Title, TitleBy: info.TitleBy, Queue: info.Settings, Dropped: info.Dropped,
	}
	if q := info.Question; q != nil {
		s.Question = &shownQuestion{q.Number, q.Name, q.Text}
	}
	for _, f := range followups {
		s.Followups = append(s.Followups, shownFollowup{f.ID, f.Text, cmp.Or(f.Mode, info.Mode, session.ModeQueue), f.State})
	}
	return s, s.lookFurther(ctx, client, info)
}

// lookFurther reads the running turn, and the reasons of the last dead letters.
func (s *shown) lookFurther(ctx context.Context, client *admin.Client, info session.Info) error {
	turn, err := client.RunningTurn(ctx, info)
	if err != nil {
		return err
	}
	s.TurnMessages, s.Reply, s.events = []shownMessage{}, turn.Reply, turn.Events
	for _, m := range turn.Messages {
		s.TurnMessages = append(s.TurnMessages, shownMessage{m.ID, m.Text})
	}
	s.Dead = []shownDead{}
	if info.Archived == 0 {
		return nil
	}
	dead, err := client.LastDeadLetters(ctx, info.Session, deadShown)
	for _, d := range dead {
		s.Dead = append(s.Dead, shownDead{d.ID, d.Outcome.Status, d.Outcome.Error, d.At.UTC(), d.Age})
	}
	return err
}

func unknownError(key string) error {
	return fmt.Errorf("session %s is unknown: it never had a message, or it was forgotten", key)
}

// checkKnown returns an error if a session is unknown.
func checkKnown(ctx context.Context, client *admin.Client, key string) error {
	info, err := client.Session(ctx, key)
	if err == nil && unknown(info) {
		return unknownError(key)
	}
	return err
}

// unknown reports whether a session never had a message or a setting.
func unknown(info session.Info) bool {
	return info.SessionID == "" && info.Phase == session.PhaseIdle && info.Pending+info.Scheduled+info.Archived == 0 &&
		info.Title == "" && info.Settings == (session.QueueSettings{})
}

func resumeOf(r resume.Record) shownResume {
	s := shownResume{Pending: r.Pending, Reason: r.Reason, Interruptions: r.Interruptions, Suspended: r.Suspended}
	if !r.MarkedAt.IsZero() {
		at := r.MarkedAt.UTC()
		s.MarkedAt = &at
	}
	return s
}
