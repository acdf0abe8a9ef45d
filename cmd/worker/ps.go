package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// listed is one session in the list.
type listed struct {
	Session   string     `json:"session"`
	SessionID string     `json:"session_id"`
	Phase     string     `json:"phase"`
	Worker    string     `json:"worker"`
	Fence     int64      `json:"fence"`
	Turn      string     `json:"turn"`
	Since     *time.Time `json:"since"` // null: no turn runs
	Followups int        `json:"followups"`
	Pending   int        `json:"pending"`
	Scheduled int        `json:"scheduled"`

	running time.Duration
}

// ps lists what runs and what waits.
func (p *program) ps(ctx context.Context, flags map[string]string, asJSON bool) error {
	list := []listed{}
	err := p.ask(ctx, flags, func(client *admin.Client) error {
		busy, err := client.BusySessions(ctx)
		for _, s := range busy {
			l := listed{
				Session: s.Session, SessionID: s.SessionID, Phase: s.Phase, Worker: s.Worker, Fence: s.Fence, Turn: s.Turn,
				Since: startOf(s), Pending: s.Pending, Scheduled: s.Scheduled, running: s.Since,
			}
			if s.Phase != session.PhaseIdle {
				followups, err := client.Followups(ctx, s.Session)
				if err != nil {
					return err
				}
				l.Followups = len(followups)
			}
			list = append(list, l)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(cmp.Compare(b.running, a.running), cmp.Compare(a.Session, b.Session))
	})
	if asJSON {
		return p.printJSON(list)
	}
	if len(list) == 0 {
		return p.say("Nothing runs, nothing waits.")
	}
	t := p.table()
	t.row("SESSION", "PHASE", "WORKER", "FENCE", "SINCE", "FOLLOW-UPS", "PENDING", "SCHEDULED")
	for _, l := range list {
		since := "-"
		if l.Since != nil {
			since = l.running.Round(100 * time.Millisecond).String()
		}
		t.row(l.Session, l.Phase, cmp.Or(l.Worker, "-"), l.Fence, since, l.Followups, l.Pending, l.Scheduled)
	}
	return t.end()
}

// startOf is when the session's turn began, or nil.
func startOf(s session.Info) *time.Time {
	if s.Phase == session.PhaseIdle {
		return nil
	}
	at := s.StartedAt.UTC()
	return &at
}
