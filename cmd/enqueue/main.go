// Command enqueue puts messages into sessions and can wait for the replies.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"syscall"

	"turnstile"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/process/guardian"
	"turnstile/internal/program/config"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/text/printable"
)

func main() {
	guardian.Conceal() // with `docker exec` it runs next to agents, with a password in REDIS_URL
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)   // a second Ctrl-C ends the process at once
	signal.Ignore(syscall.SIGPIPE) // it would end the process before stderr has said what is stored
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is the whole program and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := newOutput(stdout, stderr, environ)
	out.unread = cancel
	code := exitOK
	o := options{}
	cmd := newCommand(&o, func(words []string) error {
		out.json = o.json
		var err error
		code, err = execute(ctx, o, words, stdin, out, environ)
		return err
	})
	cmd.SetArgs(slices.Clip(append([]string{}, args...))) // nil would mean the process's own arguments
	cmd.SetOut(printable.NewWriter(stdout))
	cmd.SetErr(printable.NewWriter(stderr))
	if err := cmd.Execute(); err != nil {
		out.json = out.json || o.json || slices.Contains(args, "--json")
		f := usage(err)
		errors.As(err, &f)
		out.fail(f)
		code = f.code
	}
	if out.err != nil && code == exitOK {
		code = exitOther // the caller lacks a part of the output
	}
	return code
}

// execute validates all it can before it connects.
func execute(ctx context.Context, o options, words []string, stdin io.Reader, out *output, environ []string) (int, error) {
	if err := o.validate(words); err != nil {
		return 0, err
	}
	overrides := map[string]string{}
	if o.redis != "" {
		overrides["REDIS_URL"] = o.redis
	}
	if warning := config.SecretFlag("redis", "REDIS_URL", o.redis); warning != "" {
		out.note("enqueue: " + warning)
	}
	settings, err := config.LoadSender(environ, config.Options{Overrides: overrides})
	if err != nil {
		return 0, usage(err)
	}
	o.limits = settings.Limits()
	if u, err := user.Current(); err == nil {
		o.user = u.Username
	}
	var work func(*turnstile.Client, redis.UniversalClient) (int, error)
	link := &away{note: out.note}
	switch {
	case o.setsReplyTo(words):
		work = setReplyTo(ctx, o, out)
	case o.given("answer"):
		value, err := o.value(ctx, words, stdin)
		if err != nil {
			return 0, err
		}
		work = answer(ctx, o, value, out)
	case o.file != "":
		in, err := openLines(o.file, stdin)
		if err != nil {
			return 0, err
		}
		defer in.close()
		work = newBulk(ctx, o, in, out, link).run
	default:
		m, err := o.message(ctx, words, stdin)
		if err != nil {
			return 0, err
		}
		work = newSingle(ctx, o, m, out, link).run
	}
	rdb, err := connect(ctx, settings.RedisURL)
	if err != nil {
		return 0, err
	}
	defer rdb.Close()
	rdb.AddHook(link)
	return work(turnstile.NewClient(rdb, turnstile.ClientConfig{
		Limits: o.limits, RememberIDs: settings.IdempotencyTTL,
	}), rdb)
}
