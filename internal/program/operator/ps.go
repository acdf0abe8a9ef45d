package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// listed is one session in the list.
type listed struct {
	Session      string        `json:"session"`
	TranscriptID string        `json:"session_id"`
	Phase        session.Phase `json:"phase"`
	State        admin.State   `json:"state"`
	Paused       bool          `json:"paused"`
	Suspended    bool          `json:"suspended"`
	Worker       string        `json:"worker"`
	Fence        int64         `json:"fence"`
	Turn         string        `json:"turn"`
	Since        *time.Time    `json:"since"` // null: no turn runs
	Until        *time.Time    `json:"until"` // of the open question or a parked turn; null: none, or no such time
	Followups    int           `json:"followups"`
	Pending      int           `json:"pending"`
	Scheduled    int           `json:"scheduled"`
	Agent        string        `json:"agent"`
	Needs        string        `json:"needs"`
	Broken       string        `json:"broken,omitempty"`

	running, left time.Duration
	waits         bool
}

// ps lists the running turns and the waiting messages.
func (p *Program) ps(ctx context.Context, flags map[string]string, asJSON bool) error {
	list := []listed{}
	idle, refused := false, "" // no worker is running; why that is unknown
	var unable []string
	err := p.withAdmin(ctx, flags, func(client *admin.Client, rdb redis.UniversalClient) error {
		seen := map[string]bool{}
		for s, err := range client.Sessions(ctx, admin.Query{State: admin.StateBusy}) {
			if err != nil {
				return err
			}
			if seen[s.Session] { // it was used meanwhile
				continue
			}
			seen[s.Session] = true
			l := listedOf(s)
			if s.Phase != session.PhaseIdle {
				followups, err := client.Session(s.Session).FollowUps(ctx)
				if err != nil && !p.passOver(err) {
					return err
				}
				l.Followups = len(followups)
			}
			list = append(list, l)
		}
		idle, refused = hasNoWorker(ctx, rdb)
		workers, _ := client.Workers(ctx) // as far as the Redis user may read them
		for _, w := range workers {
			for _, why := range w.Unable {
				unable = append(unable, fmt.Sprintf("%s (worker %s)", why, w.Name))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b listed) int {
		return cmp.Or(cmp.Compare(b.running, a.running), cmp.Compare(a.Session, b.Session))
	})
	if asJSON {
		err = p.printJSON(list)
	} else {
		err = p.printListed(list, idle)
	}
	switch {
	case idle:
		p.Complain(noWorker)
	case refused != "":
		p.Complain(refused)
	}
	for _, line := range unable {
		p.Complain(line)
	}
	return err
}

const noWorker = "no worker is running: messages wait until one is started"

func listedOf(s admin.SessionInfo) listed {
	return listed{
		Session: s.Session, TranscriptID: s.TranscriptID, Phase: s.Phase, State: s.State, Paused: s.Paused, Suspended: s.Suspended,
		Worker: s.Worker, Fence: s.Fence, Turn: s.Turn, Since: gateway.StartOf(s.Info), Until: gateway.EndOf(s.Info), Pending: s.Waiting, Scheduled: s.Delayed,
		Agent: s.Agent, Needs: s.Needs, Broken: s.Broken, running: s.Running, left: s.Left(), waits: s.Question != nil || s.WaitsFor != "",
	}
}

func (p *Program) printListed(list []listed, idle bool) error {
	if len(list) == 0 {
		return p.say("Nothing runs, nothing waits.")
	}
	t := p.table()
	t.row("SESSION", "STATE", "WORKER", "FENCE", "SINCE", "FOLLOW-UPS", "PENDING", "DELAYED")
	for _, l := range list {
		since := "-"
		if l.Since != nil {
			since = l.running.Round(100 * time.Millisecond).String()
		}
		t.row(l.Session, l.text(idle), cmp.Or(l.Worker, "-"), l.Fence, since, l.Followups, l.Pending, l.Scheduled)
	}
	return t.end()
}

// text is the session's state as text. idle says that no worker is running.
func (l listed) text(idle bool) string {
	return parkedText(stateText(l.State, l.Paused, l.Suspended, idle, cmp.Or(l.Broken, l.Needs)), l.Phase, l.Until, l.left, l.waits)
}

// parkedText is a session's state, as text, with the time until its parked turn goes on by itself. waits: for a
// decision, a program or a time. Else it waits for its next attempt.
func parkedText(text string, phase session.Phase, until *time.Time, left time.Duration, waits bool) string {
	switch {
	case phase != session.PhaseParked:
		return text
	case until == nil:
		return text + ", parked"
	case !waits:
		return "tries again in " + age(left)
	}
	return text + ", parked, " + age(left) + " left"
}

// stateText is a session's state as text. A session that was paused during a turn is still running.
// idle says that no worker is running, lacks is the agent or the key that keeps the session from running.
func stateText(state admin.State, paused, suspended, idle bool, lacks string) string {
	text := string(state)
	switch state {
	case admin.StateAsking:
		text = "waits for a decision"
	case admin.StateWaiting:
		text = "waits for a slot"
		if idle {
			text = "waits for a worker"
		}
	case admin.StateDelayed:
		text = "waits for its time"
	case admin.StateBroken:
		return "broken: " + lacks
	case admin.StateRunning, admin.StateStarting, admin.StatePaused, admin.StateSuspended, admin.StateIdle:
	}
	if lacks != "" {
		text = "waits for a worker with the agent " + lacks
	}
	if paused && state != admin.StatePaused {
		text += ", paused"
	}
	if suspended && state != admin.StateSuspended {
		text += ", suspended"
	}
	return text
}
