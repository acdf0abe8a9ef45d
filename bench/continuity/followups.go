package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

const (
	behind     = 10              // follow-ups in each line
	turnTakes  = 4 * time.Second // the turn before them
	drainTakes = time.Second     // DRAIN_TIMEOUT: the turn is interrupted
	cutWithin  = time.Second     // of the last follow-up

	// lastWithin is how long the results are awaited. A message without one by then counts as lost.
	lastWithin = 2 * time.Minute
)

// followups ends a worker in the middle of turns with follow-ups, and counts the results of all
// messages on another, idle worker.
func followups(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	for _, how := range []struct {
		name    string
		signal  os.Signal
		holding string // the reason why the next worker cannot take the sessions yet
	}{
		{"SIGTERM", syscall.SIGTERM, fmt.Sprintf("DRAIN_TIMEOUT %s", drainTakes)},
		{"SIGKILL", syscall.SIGKILL, fmt.Sprintf("SENTINEL_TTL %s", *ttl)},
	} {
		var all tally
		n := lab.Quick(*rounds, 1)
		for range n {
			if err := all.round(ctx, srv, how.signal); err != nil {
				return fmt.Errorf("%s: %w", how.name, err)
			}
		}
		lab.Progress("%s: %d workers", how.name, n)
		figure := fmt.Sprintf("%s, %d follow-ups behind a turn of %s: lost", how.name, behind, turnTakes)
		report.Reach(figure, all.lost == 0, "0", "%d of %d messages", all.lost, all.messages)
		report.Reach("  out of order", all.astray == 0, "0", "%d", all.astray)
		report.Reach("  twice in the transcript", all.doubled == 0, "0", "%d", all.doubled)
		report.Add(fmt.Sprintf("  signal to the last reply, with %s, and the turn's %s again", how.holding, turnTakes),
			"longest %s, median %s (%d sessions)", lab.Short(lab.Quantile(all.took, 1)), lab.Short(lab.Median(all.took)), len(all.took))
	}
	return nil
}

// tally counts the messages by their results.
type tally struct {
	mu                              sync.Mutex
	messages, lost, astray, doubled int
	took                            []time.Duration // from the signal to each session's last reply
}

func (t *tally) round(ctx context.Context, srv *lab.Server, signal os.Signal) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb := srv.Client()
	defer rdb.Close()
	client, admin := turnstile.NewClient(rdb), admin.NewClient(rdb)
	j := job{Addr: srv.Addr(), Slots: *sessions, TTL: *ttl, Drain: drainTakes}
	owner, err := j.start(ctx)
	if err != nil {
		return err
	}
	defer owner.End()
	// It uses a tool, so that the interrupted turn has entries that go with it.
	if err := send(ctx, client, 0, fmt.Sprintf("tool=work:%s hello", turnTakes)); err != nil {
		return err
	}
	if err := lab.Until(ctx, "the start of all turns", 10*time.Millisecond, func() (bool, error) {
		var running int
		err := owner.Call("running", &running)
		return running == *sessions, err
	}); err != nil {
		return err
	}
	next, err := j.start(ctx)
	if err != nil {
		return err
	}
	defer next.End()
	for i := range behind {
		if err := send(ctx, client, i+1, "and then"); err != nil {
			return err
		}
	}
	time.Sleep(rand.N(cutWithin))
	sent := time.Now()
	owner.Signal(signal)
	errs := make([]error, *sessions)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = t.count(ctx, client, admin, key(i), sent) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// send sends a message to each session.
func send(ctx context.Context, client *turnstile.Client, place int, text string) error {
	return lab.Parallel(*sessions, func(i int) error {
		_, err := client.Session(key(i)).Send(ctx, turnstile.Message{ID: message(place), Text: text})
		return err
	})
}

func key(i int) string { return fmt.Sprintf("chat:%d", i) }

func message(place int) string { return fmt.Sprintf("m%02d", place) }

// count waits for all results of a session, and checks that each message has its result and its
// place in the transcript.
func (t *tally) count(ctx context.Context, client *turnstile.Client, admin *admin.Client, key string, sent time.Time) error {
	patient, cancel := context.WithTimeout(ctx, lastWithin)
	defer cancel()
	done := make([]bool, behind+1)
	for place := range done {
		o, err := client.Session(key).Wait(patient, message(place))
		if err != nil && patient.Err() == nil && !errors.Is(err, session.ErrNotFound) {
			return err
		}
		done[place] = err == nil && o.Status == session.StatusDone
	}
	took := time.Since(sent)
	said, err := saidIn(ctx, client, key)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took = append(t.took, took)
	for place := range done {
		t.messages++
		if !done[place] || !slices.Contains(said, message(place)) {
			t.lost++
		}
	}
	for i := 1; i < len(said); i++ {
		switch {
		case slices.Contains(said[:i], said[i]):
			t.doubled++
		case said[i] < slices.Max(said[:i]):
			t.astray++
		}
	}
	return nil
}

// saidIn are the IDs of the messages in a session's transcript.
func saidIn(ctx context.Context, client *turnstile.Client, key string) (ids []string, err error) {
	transcript, err := client.Session(key).Transcript(ctx, turnstile.TranscriptQuery{Limit: session.NoLimit})
	for _, e := range transcript.Entries {
		if e.Role == session.RoleUser {
			ids = append(ids, e.Message)
		}
	}
	return ids, err
}
