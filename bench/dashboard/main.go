// Command dashboard measures the cost of asynqmon's page of queues when many sessions are listed,
// the cost of taking the idle ones off the list, and the page's cost after that. It starts its own
// redis-server, and with -browser a Chromium.
//
// asynqmon requests one queue after the other, and the page in the browser repeats that every few
// seconds.
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/maintenance"
)

var (
	sizes   = flag.String("queues", "1000,10000,100000", "how many queues are listed, separated by commas")
	pages   = flag.Int("pages", 5, "times that the page is asked for; medians are printed")
	chrome  = flag.String("browser", "", "a Chromium with which the page is looked at: chromium-headless-shell, say")
	viewing = flag.Int("most", 10_000, "how many rows the browser is shown at most: it keeps some 90 KB for each")
)

// busy is how many sessions have a waiting message while all others are idle.
const busy = 10

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

// listed measures the page with n queues that hold a completed task each, and again after they were
// taken off the list.
func listed(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	rdb := srv.Client()
	defer rdb.Close()
	if err := (lab.Load{Sessions: n, Each: 1}).Fill(ctx, rdb, "idle", "hello"); err != nil {
		return err
	}
	// The pass is made here, not by a worker's job.
	if err := asynq.NewInspectorFromRedisClient(rdb).PauseQueue("turnstile:maintenance"); err != nil {
		return err
	}
	if err := lab.RunAll(ctx, rdb, n, lab.Production(50)); err != nil {
		return err
	}
	if err := (lab.Load{Sessions: busy, Each: 1}).Fill(ctx, rdb, "busy", "hello"); err != nil {
		return err
	}
	mon := newMonitor(srv)
	defer mon.Close()
	asked := *pages
	if n > *viewing {
		asked = 1
	}
	before, err := mon.page(ctx, asked)
	if err != nil {
		return err
	}
	report.Add(fmt.Sprintf("%d idle and %d busy sessions, all listed: the page", n, busy), "%s", before)
	if n <= *viewing {
		if err := seen(ctx, mon, report, "  in the browser"); err != nil {
			return err
		}
	}
	took, err := unregister(ctx, srv, n)
	if err != nil {
		return err
	}
	report.Add("  the pass that takes the idle ones off", "%s", took)
	after, err := mon.page(ctx, *pages)
	if err != nil {
		return err
	}
	report.Reach("  the page then", after.queues == busy, fmt.Sprintf("%d queues", busy), "%s", after)
	if err := seen(ctx, mon, report, "  in the browser"); err != nil {
		return err
	}
	took, err = unregister(ctx, srv, 0)
	if err != nil {
		return err
	}
	report.Add("  the next pass", "%s", took)
	lab.Progress("%d queues", n)
	return nil
}

// seen opens the page in the browser, if there is one.
func seen(ctx context.Context, mon monitor, report *lab.Report, figure string) error {
	if *chrome == "" {
		return nil
	}
	first, err := mon.look(ctx, *chrome)
	if err != nil {
		return err
	}
	report.Add(figure, "%s", first)
	return nil
}

// unregister makes a pass, which must take n names off the list.
func unregister(ctx context.Context, srv *lab.Server, n int) (string, error) {
	rdb := srv.Client()
	defer rdb.Close()
	consumer, err := protocol.NewConsumer(rdb, protocol.Config{Worker: "bench"})
	if err != nil {
		return "", err
	}
	if err := rdb.ConfigResetStat(ctx).Err(); err != nil {
		return "", err
	}
	sent, began := lab.Count(rdb), time.Now()
	names, err := maintenance.New(rdb, consumer).Unregister(ctx)
	took := time.Since(began)
	if err == nil && names != n {
		err = fmt.Errorf("%d names were taken off, want %d", names, n)
	}
	if err != nil {
		return "", err
	}
	commands := sent.Total()
	usec, err := lab.RedisTime(ctx, rdb, sent.Commands())
	return fmt.Sprintf("%d names in %s, %d commands, %s of Redis' time", names, lab.Short(took), commands,
		lab.Short(time.Duration(usec*float64(time.Microsecond)))), err
}
