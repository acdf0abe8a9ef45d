package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"turnstile/pkg/admin"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// shown is what there is to know of a session.
type shown struct {
	Session    string          `json:"session"`
	SessionID  string          `json:"session_id"`
	Phase      string          `json:"phase"`
	Worker     string          `json:"worker"`
	Fence      int64           `json:"fence"`
	Pending    int             `json:"pending"`
	Followups  []shownFollowup `json:"followups"`
	Resume     shownResume     `json:"resume"`
	Transcript []session.Entry `json:"transcript"`

	Title   string                `json:"title"`
	TitleBy string                `json:"title_by"` // user, agent, or "" without a title
	Queue   session.QueueSettings `json:"queue"`    // what is absent is as the worker says
	Dropped int                   `json:"dropped"`

	Turn      string     `json:"turn"`
	Messages  []string   `json:"messages"`
	Since     *time.Time `json:"since"` // null: no turn runs
	Scheduled int        `json:"scheduled"`
	Archived  int        `json:"archived"`

	// What the agent asks the user: its number, name and text; null: nothing.
	Question *shownQuestion `json:"question"`

	running time.Duration
}

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

// show prints one session.
func (p *program) show(ctx context.Context, flags map[string]string, key string, asJSON bool) error {
	if err := session.ValidateKey(key); err != nil {
		return err
	}
	var s shown
	err := p.ask(ctx, flags, func(client *admin.Client) (err error) {
		s, err = look(ctx, client, key)
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return p.printJSON(s)
	}
	return s.print(p.stdout)
}

// look reads a session part by part, so that one part may be newer than another.
func look(ctx context.Context, client *admin.Client, key string) (shown, error) {
	info, err := client.Session(ctx, key)
	if err != nil {
		return shown{}, err
	}
	if unknown(info) {
		return shown{}, fmt.Errorf("session %s is unknown: no message was ever put into it, or it was forgotten", key)
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
	s := shown{
		Session: key, SessionID: info.SessionID, Phase: info.Phase, Worker: info.Worker, Fence: info.Fence,
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
	return s, nil
}

// unknown reports whether nothing was ever put into a session or said about it.
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
