package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"turnstile/chaos/internal/world"
	"turnstile/test/harvest"
	"turnstile/test/history"
)

// Workers renew their leases each third of a lease. A machine that does not run a process for so long
// can end them.
const stall = 400 * time.Millisecond

// stalls records when the machine had no time for this process, until ctx ends.
func stalls(ctx context.Context, log *history.Log) {
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(last) > every+stall {
			log.Add(history.Record{Kind: history.Stall, Since: last.UnixNano(), At: now.UnixNano()})
		}
		last = now
	}
}

// drained waits until nothing waits, runs or is undelivered, at most for patience, and records
// whether that happened.
func drained(ctx context.Context, h *harvest.Harvest, log *history.Log, patience time.Duration) {
	shown := time.Now()
	err := world.Await(ctx, patience, func() error {
		time.Sleep(200 * time.Millisecond) // it reads much
		err := h.Left(ctx, keepsJournals)
		if err != nil && time.Since(shown) > 10*time.Second {
			shown = time.Now()
			fmt.Println("chaos:", err)
		}
		return err
	})
	status := "ok"
	if err != nil {
		status = fmt.Sprintf("after %s: %v", patience, err)
	}
	log.Add(history.Record{Kind: history.Drained, Status: status})
}

// keepsJournals reports whether the journal of a session may stay until it expires. If a user or an
// operator stops an interrupted message while it waits, its journal stays for /resume.
func keepsJournals(session string) bool {
	kind := history.KindOf(session)
	return kind == history.Commands || kind == history.Operators
}

// processes records processes that outlive their workers.
func processes(ctx context.Context, w *world.World, log *history.Log) {
	// A killed process is listed until its parent has waited for it.
	_ = world.Await(ctx, 5*time.Second, func() error {
		if left := w.Leftovers(); len(left) > 0 {
			return errors.New(left[0])
		}
		return nil
	})
	for _, p := range w.Leftovers() {
		log.Add(history.Record{Kind: history.Left, Name: "process", Target: p, Error: "it lives, and its worker has ended"})
	}
}

// panics records panics and races from the processes' logs.
func panics(w *world.World, log *history.Log) error {
	logs, err := filepath.Glob(filepath.Join(w.Dir, "logs", "*.log"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "WARNING: DATA RACE") {
				log.Add(history.Record{Kind: history.Left, Name: "panic", Target: filepath.Base(name), Error: strings.TrimSpace(line)})
			}
		}
	}
	return nil
}
