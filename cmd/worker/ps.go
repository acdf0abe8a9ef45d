package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"turnstile/pkg/sessionqueue"
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
	err := p.ask(ctx, flags, func(client *sessionqueue.Client) error {
		busy, err := client.Busy(ctx)
		for _, s := range busy {
			l := listed{
				Session: s.Session, SessionID: s.SessionID, Phase: s.Phase, Worker: s.Worker, Fence: s.Fence, Turn: s.Turn,
				Since: startOf(s), Pending: s.Pending, Scheduled: s.Scheduled, running: s.Since,
			}
			if s.Phase != sessionqueue.PhaseIdle {
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
		_, err := fmt.Fprintln(p.stdout, "Nothing runs, nothing waits.")
		return err
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tPHASE\tWORKER\tFENCE\tSINCE\tFOLLOW-UPS\tPENDING\tSCHEDULED")
	for _, l := range list {
		since := "-"
		if l.Since != nil {
			since = l.running.Round(100 * time.Millisecond).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\t%d\t%d\n",
			l.Session, l.Phase, cmp.Or(l.Worker, "-"), l.Fence, since, l.Followups, l.Pending, l.Scheduled)
	}
	return w.Flush()
}

// startOf is when the session's turn began, or nil.
func startOf(s sessionqueue.SessionInfo) *time.Time {
	if s.Phase == sessionqueue.PhaseIdle {
		return nil
	}
	at := s.StartedAt.UTC()
	return &at
}
