// Command dashboard measures what asynqmon's page of queues costs when many
// sessions are listed, and what is left of it when the names of idle sessions
// have been unregistered. It starts its own redis-server.
//
// asynqmon asks for one queue after the other, and the page in the browser asks
// anew every few seconds.
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/sessionqueue"
)

var (
	sizes = flag.String("queues", "100,1000,10000", "how many queues are listed, separated by commas")
	pages = flag.Int("pages", 5, "times that the page is asked for; medians are printed")
)

// busy is how many sessions have a message that waits while all others are idle.
const busy = 10

// retention is how long results are kept: just long enough to be looked at, for
// the purge is to find them over.
const retention = time.Second

func main() { lab.Main("dashboard", run) }

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	for word := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("-queues: %w", err)
		}
		if err := listed(ctx, srv, report, lab.Quick(n, max(1, n/10))); err != nil {
			return err
		}
	}
	return nil
}

// listed measures the page with n queues that hold a completed task each, and
// after they were purged and unregistered.
func listed(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb := srv.Client()
	defer rdb.Close()
	if err := (lab.Load{Sessions: n, Each: 1}).Fill(ctx, rdb, "idle", "hello"); err != nil {
		return err
	}
	opts := lab.Production(50)
	opts.Queue.Retention, opts.Maintenance = retention, false // it is purged here
	if err := lab.Answer(ctx, rdb, n, opts); err != nil {
		return err
	}
	finished := time.Now()
	if err := (lab.Load{Sessions: busy, Each: 1}).Fill(ctx, rdb, "busy", "hello"); err != nil {
		return err
	}
	mon := newMonitor(srv)
	defer mon.Close()
	before, err := mon.page(ctx, *pages)
	if err != nil {
		return err
	}
	report.Add(fmt.Sprintf("%d idle and %d busy sessions: the page", n, busy), "%s", before)

	time.Sleep(time.Until(finished.Add(retention + time.Second)))
	consumer, err := sessionqueue.NewConsumer(rdb, sessionqueue.Config{Worker: "bench"})
	if err != nil {
		return err
	}
	began := time.Now()
	purged, err := consumer.Purge(ctx)
	if err != nil {
		return err
	}
	report.Add("  purge of the results", "%d in %s", purged, lab.Short(time.Since(began)))
	began = time.Now()
	names, err := consumer.Unregister(ctx)
	if err != nil {
		return err
	}
	report.Add("  unregistering of the idle names", "%d in %s", names, lab.Short(time.Since(began)))
	after, err := mon.page(ctx, *pages)
	if err != nil {
		return err
	}
	report.Reach("  the page then", after.queues == busy, fmt.Sprintf("%d queues", busy), "%s", after)
	lab.Progress("%d queues", n)
	return nil
}
