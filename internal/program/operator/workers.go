package operator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/agreement"
	"turnstile/pkg/admin"
)

// liveWorker is one worker or gateway in the list.
type liveWorker struct {
	Worker   string     `json:"worker"`
	Host     string     `json:"host"`
	PID      int        `json:"pid"`
	Slots    int        `json:"slots"`
	Turns    int        `json:"turns"`
	Draining bool       `json:"draining"`
	Since    *time.Time `json:"since"` // null: it sends no heartbeat
	Agents   []string   `json:"agents"`
	Gateway  bool       `json:"gateway"`
	Version  string     `json:"version"`

	Differs map[string]string `json:"differs"` // its settings that must be the same everywhere, and are not
}

// workers lists the live workers and gateways.
func (p *Program) workers(ctx context.Context, flags map[string]string, asJSON bool) error {
	list, refused := []liveWorker{}, ""
	err := p.withAdmin(ctx, flags, func(client *admin.Client, rdb redis.UniversalClient) error {
		infos, err := client.Workers(ctx)
		if err != nil {
			return err
		}
		for _, w := range infos {
			l := liveWorker{Worker: w.Name, Host: w.Host, PID: w.PID, Slots: w.Slots, Turns: w.Turns, Draining: w.Draining, Agents: append([]string{}, w.Agents...), Differs: map[string]string{}}
			if at := w.Started.UTC(); !w.Started.IsZero() {
				l.Since = &at
			}
			list = append(list, l)
		}
		if len(infos) == 0 {
			_, refused = hasNoWorker(ctx, rdb)
		}
		processes, err := agreement.Living(ctx, rdb)
		for _, one := range processes {
			i := slices.IndexFunc(list, func(l liveWorker) bool { return l.Worker == one.Name })
			if i < 0 && one.Gateway {
				i, list = len(list), append(list, liveWorker{Worker: one.Name, Gateway: true, Agents: []string{}})
			}
			if i >= 0 { // else it was killed
				list[i].Version, list[i].Differs = one.Version, map[string]string{}
				for d := range one.Differs(processes) {
					list[i].Differs[d.Setting] = one.Settings[d.Setting]
				}
			}
		}
		return err
	})
	if refused != "" {
		p.Complain(refused)
	}
	switch {
	case err != nil:
		return err
	case len(list) == 0 && refused != "" && !asJSON:
		return nil
	case asJSON:
		return p.printJSON(list)
	case len(list) == 0:
		return p.say("No worker is running.")
	}
	t := p.table()
	t.row("WORKER", "HOST", "PID", "SLOTS", "TURNS", "SINCE", "STATE", "VERSION", "AGENTS", "DIFFERS")
	for _, l := range list {
		state := "running"
		switch {
		case l.Draining:
			state = "draining"
		case l.Gateway:
			state = "gateway"
		}
		differs := slices.Sorted(maps.Keys(l.Differs))
		for i, name := range differs {
			differs[i] += "=" + l.Differs[name]
		}
		version, names, others := orDash(l.Version), orDash(firstLine(strings.Join(l.Agents, " "))), orDash(strings.Join(differs, " "))
		if l.Since == nil {
			t.row(l.Worker, "-", "-", "-", "-", "-", state, version, names, others)
			continue
		}
		t.row(cmp.Or(l.Worker, "-"), l.Host, l.PID, l.Slots, l.Turns, clock(*l.Since), state, version, names, others)
	}
	if err := t.end(); err != nil {
		return err
	}
	return p.say("TURNS and STATE are up to 5 s old.")
}
