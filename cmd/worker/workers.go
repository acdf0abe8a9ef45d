package main

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/admin"
)

// liveWorker is one worker in the list.
type liveWorker struct {
	Worker   string     `json:"worker"`
	Host     string     `json:"host"`
	PID      int        `json:"pid"`
	Slots    int        `json:"slots"`
	Turns    int        `json:"turns"`
	Draining bool       `json:"draining"`
	Since    *time.Time `json:"since"` // null: it sends no heartbeat, so only its name is known
}

// workers lists the live workers.
func (p *program) workers(ctx context.Context, flags map[string]string, asJSON bool) error {
	list := []liveWorker{}
	err := p.withAdmin(ctx, flags, func(client *admin.Client, _ redis.UniversalClient) error {
		infos, err := client.Workers(ctx)
		for _, w := range infos {
			l := liveWorker{Worker: w.Name, Host: w.Host, PID: w.PID, Slots: w.Slots, Turns: w.Turns, Draining: w.Draining}
			if at := w.Started.UTC(); !w.Started.IsZero() {
				l.Since = &at
			}
			list = append(list, l)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return p.printJSON(list)
	case len(list) == 0:
		return p.say("No worker is running.")
	}
	t := p.table()
	t.row("WORKER", "HOST", "PID", "SLOTS", "TURNS", "SINCE", "STATE")
	for _, l := range list {
		state := "running"
		if l.Draining {
			state = "draining"
		}
		if l.Since == nil {
			t.row(l.Worker, "-", "-", "-", "-", "-", state)
			continue
		}
		t.row(cmp.Or(l.Worker, "-"), l.Host, l.PID, l.Slots, l.Turns, clock(*l.Since), state)
	}
	if err := t.end(); err != nil {
		return err
	}
	return p.say("TURNS and STATE are up to 5 s old.")
}
