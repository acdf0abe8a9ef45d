package lab

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// The flags of every benchmark. `make bench` sets them in the environment.
var (
	quick    = flag.Bool("quick", os.Getenv("BENCH_QUICK") != "", "a short run, to see that it works")
	markdown = flag.Bool("markdown", os.Getenv("BENCH_MARKDOWN") != "", "print the table as Markdown, and nothing else")
)

// Quick is the size of a run: full, or short with -quick. Call it after the flags have been parsed.
func Quick[T any](full, short T) T {
	if *quick {
		return short
	}
	return full
}

// Main parses the flags, measures with a new redis-server, and prints the report. A missed target
// is not an error.
func Main(title string, measure func(context.Context, *Server, *Report) error) {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := run(ctx, title, measure)
	if err != nil {
		fmt.Fprintln(os.Stderr, title+":", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, title string, measure func(context.Context, *Server, *Report) error) error {
	srv, err := StartServer(ctx, None)
	if err != nil {
		return err
	}
	defer srv.Stop()
	r := &Report{title: title}
	began := time.Now()
	if err := measure(ctx, srv, r); err != nil {
		return err
	}
	if *markdown {
		return r.Markdown(os.Stdout)
	}
	if err := r.Text(os.Stdout); err != nil {
		return err
	}
	_, err = fmt.Printf("  (%s)\n\n", time.Since(began).Round(time.Second))
	return err
}

// Progress prints a line about the run to the terminal.
func Progress(format string, args ...any) {
	if !*markdown {
		fmt.Fprintf(os.Stderr, "  ... "+format+"\n", args...)
	}
}
