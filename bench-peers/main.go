// Command peers compares Turnstile with other ways to handle the messages of many sessions: the same
// messages, a handler that only records, on servers that it starts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"turnstile/bench/internal/lab"
)

var (
	rounds = flag.Int("rounds", 5, "rounds, each of which runs every peer once in each setting; medians are printed")
	bound  = flag.Duration("patience", time.Minute, "the longest time of a run; a peer that takes longer is reported as not run")
	only   = flag.String("only", "", "only peers whose name contains this")
	save   = flag.Bool("write", false, "write tables and pictures into docs/internals/, too")
)

func main() {
	if lab.RunJob("peers", func(j job, ctx context.Context) error { return child(ctx, j) }) {
		return
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if *save && (*only != "" || lab.Quick(false, true)) {
		return errors.New("-write needs a full run, without -only and -quick")
	}
	on, err := machine(ctx)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(peers), func(p peer) bool { return !strings.Contains(p.name, *only) })
	all, err := measureAll(ctx, lab.Quick(*rounds, 1), *bound, chosen)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s\n\nRounds: %d. Figures are medians with their ranges, violations the sums of all rounds.\n%s", on, lab.Quick(*rounds, 1), tables(all, chosen))
	fmt.Print(text)
	if !*save {
		return nil
	}
	return write(filepath.Join(folder(), "..", "docs", "internals"), text, all, chosen)
}
