// Command chaos runs Turnstile's real programs while everything around them breaks, and checks from
// the history whether the promises of docs/guarantees.md held. See README.md. Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/chaos/internal/agents"
	"turnstile/chaos/internal/world"
	"turnstile/test/checker"
	"turnstile/test/history"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == "agent" {
		os.Exit(agent(os.Args[2], os.Args[3:]))
	}
	redis.SetLogger(quiet{}) // the harness's clients would log every outage that it makes
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := command(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	os.Exit(code)
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// agent is a recording agent: this program is started as one by the workers.
func agent(kind string, args []string) int {
	switch kind {
	case "exec":
		return agents.Exec(args[0])
	case "acp":
		return agents.ACP(args[0])
	case "model":
		return agents.Model(args[0], args[1])
	}
	return 2
}

// The exit codes.
const (
	exitFinding = 1
	exitBroken  = 2 // the harness could not do its work
)

func command(ctx context.Context) (int, error) {
	var o options
	flags := o.flags()
	kept := flags.String("check", "", "a kept run's directory: it is only checked again")
	planted := flags.String("defects", "", "an archive of defects: each is put into copies of the programs and must be found")
	one := flags.String("defect", "", "the name of the one defect to try")
	total := flags.Bool("total", false, "the arguments are kept runs' directories: they are checked again, and their totals shown")
	switch err := flags.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0, nil
	case err != nil:
		return exitBroken, err
	case *kept != "":
		report, err := check(*kept, o.ttl)
		if err != nil {
			return exitBroken, err
		}
		return printed(report), nil
	case *total:
		return totalled(flags.Args(), o.ttl)
	case *planted != "":
		return plant(ctx, *planted, *one, o)
	}
	return o.runs(ctx)
}

// check checks the history of a run.
func check(dir string, ttl time.Duration) (checker.Report, error) {
	records, err := history.Load(filepath.Join(dir, agents.HistoryDir))
	return checker.Check(records, checker.Limits{TTL: ttl, Grace: world.Grace, Drain: world.Drain, StuckLimit: world.StuckLimit}), err
}

// totalled checks the histories of several runs and prints their totals.
func totalled(dirs []string, ttl time.Duration) (code int, err error) {
	var reports []checker.Report
	for _, dir := range dirs {
		report, err := check(dir, ttl)
		if err != nil {
			return exitBroken, err
		}
		reports = append(reports, report)
	}
	fmt.Printf("%d runs\n", len(reports))
	return printed(checker.Total(reports)), nil
}

// printed prints a report and returns the exit code.
func printed(report checker.Report) int {
	report.Print(os.Stdout)
	if len(report.Findings) > 0 {
		return exitFinding
	}
	return 0
}
