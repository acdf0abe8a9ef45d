package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"turnstile/internal/protocol/agents"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/version"
	"turnstile/pkg/session"
)

// options are the flags.
type options struct {
	user string // who runs the program

	session   string
	id        string
	mode      string
	in        time.Duration
	expiresIn time.Duration
	agent     string
	metaPairs []string
	meta      map[string]string // metaPairs, after validation
	replyTo   string
	context   string
	deliverBy deliverBy
	answer    string
	wait      bool
	follow    bool
	after     string
	timeout   time.Duration
	json      bool
	file      string
	redis     string
	limits    session.Limits // of the settings

	given func(flag string) bool
}

func newCommand(o *options, run func(words []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "enqueue -s SESSION [flags] (TEXT... | -)\n  enqueue --file MESSAGES.jsonl [flags]\n  enqueue -s SESSION --reply-to DESTINATION\n  enqueue -s SESSION --answer KEY (JSON... | -)",
		Short:                 "Put messages into sessions, and wait for their replies",
		Long:                  helpText,
		Example:               helpExamples,
		Version:               version.String(),
		Args:                  cobra.ArbitraryArgs,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
		CompletionOptions:     cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:                  func(_ *cobra.Command, words []string) error { return run(words) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		text := err.Error()
		if strings.HasPrefix(text, "unknown") {
			text += "; a TEXT that begins with a dash goes after --"
		}
		return errors.New(text + "; see enqueue --help")
	})
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.session, "session", "s", "", "session `KEY`: letters, digits and ._:@+=~-; with --file the key for lines without one")
	f.StringVar(&o.id, "id", "", "message `ID`, unique in its session; the same id again is a duplicate, and runs once")
	f.StringVar(&o.mode, "mode", "", "how to handle it if the session is busy: `queue|collect|steer|interrupt|rollback|reject`")
	f.Var((*duration)(&o.in), "in", "put it into the queue only after `DUR`, as 90s, 1h30m or 2d")
	f.Var((*duration)(&o.expiresIn), "expires-in", "make it a dead letter if it has not started within `DUR`; with --in, from when it is due")
	f.StringVar(&o.agent, "agent", "", "`NAME` of the agent that the session gets, if it has none yet")
	f.StringArrayVar(&o.metaPairs, "meta", nil, "`k=v` for the agent, in addition to the text; repeatable")
	f.StringVar(&o.replyTo, "reply-to", "", "`DESTINATION` of the outcome, or - for none; without a TEXT that of the session's later messages")
	f.StringVar(&o.context, "context", "", "`JSON` that every delivery of the outcome repeats")
	f.Var(&o.deliverBy, "deliver-by", "after `WHEN` the outcome is no longer delivered: 10m from now, or 2026-11-24T18:00:00Z")
	f.StringVar(&o.answer, "answer", "", "give the JSON to the turn that waits for it under `KEY`")
	f.BoolVar(&o.wait, "wait", false, "wait for the reply and print it")
	f.BoolVar(&o.follow, "follow", false, "print the reply as it arrives, and tools on stderr")
	f.StringVar(&o.after, "after", "", "with --follow, send nothing, and continue after the event `EVENT_ID` of the message --id")
	f.Var((*duration)(&o.timeout), "timeout", "wait no longer than `DUR` for the reply; the message stays (default: no limit)")
	f.BoolVar(&o.json, "json", false, "print one JSON object a line")
	f.StringVar(&o.file, "file", "", "read messages from `MESSAGES.jsonl`, one JSON object a line; - is stdin")
	f.StringVar(&o.redis, "redis", "", "`URL` of Redis, instead of REDIS_URL")
	o.given = func(flag string) bool { return f.Changed(flag) }
	return cmd
}

func (o *options) givenAny(flags ...string) bool { return slices.ContainsFunc(flags, o.given) }

// setsReplyTo reports whether the call has no message and only sets the session's destination.
func (o *options) setsReplyTo(words []string) bool {
	return o.given("reply-to") && o.file == "" && len(words) == 0
}

// route is the destination of a message's outcome.
func (o *options) route() wire.Route {
	r := wire.Route(o.deliverBy)
	r.To = o.replyTo
	if o.context != "" {
		r.Context = json.RawMessage(o.context)
	}
	return r
}

// duration is a flag with a duration, in the settings' form.
type duration time.Duration

func (d *duration) String() string { return "" } // the help shows no default
func (*duration) Type() string     { return "duration" }

func (d *duration) Set(text string) error {
	v, err := wire.ParseDuration(text)
	*d = duration(v)
	return err
}

// deliverBy is a flag with a time or a duration. It is a route with only that field.
type deliverBy wire.Route

func (d *deliverBy) String() string { return "" } // the help shows no default
func (*deliverBy) Type() string     { return "time" }

func (d *deliverBy) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: give it a time or a duration, or leave it out")
	}
	r, err := wire.Route{}.DeliverBy(text)
	*d = deliverBy(r)
	return err
}

// validate checks each flag, and their combinations.
func (o *options) validate(words []string) error {
	problem := func(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }
	switch {
	case o.given("file") && o.file == "":
		return problem("--file names no file")
	case o.given("redis") && o.redis == "":
		return problem("--redis is empty: give it a URL, or leave it out for REDIS_URL")
	case o.file != "" && len(words) > 0:
		return problem("both --file and a TEXT: use one of them")
	case o.file != "" && o.given("id"):
		return problem("--id with --file: write the ids into the file's lines")
	case o.file == "" && !o.given("session"):
		return problem("no session: name one with -s SESSION; see enqueue --help")
	case o.wait && o.follow:
		return problem("both --wait and --follow: use one of them")
	case o.given("after") && !o.follow:
		return problem("--after needs --follow")
	case o.given("after") && o.file != "":
		return problem("--after with --file: it continues with one message, named with --id")
	case o.given("after") && !o.given("id"):
		return problem("--after needs the --id of the message that was followed")
	case o.given("after") && o.givenAny("mode", "in", "expires-in", "agent", "meta", "reply-to", "context", "deliver-by"):
		return problem("--after sends nothing: leave out --mode, --in, --expires-in, --agent, --meta, --reply-to, --context and --deliver-by")
	case o.given("reply-to") && o.replyTo == "":
		return problem("--reply-to is empty: name a destination, or - for none")
	case o.given("answer") && o.answer == "":
		return problem("--answer is empty: name the key of the wait")
	case o.given("answer") && (o.file != "" || o.givenAny("id", "mode", "in", "expires-in", "agent", "meta", "reply-to", "context", "deliver-by", "wait", "follow", "timeout")):
		return problem("--answer sends no message: it takes only -s, --json and --redis")
	case o.given("agent") && agents.ValidateName(o.agent) != nil:
		return usage(agents.ValidateName(o.agent))
	case o.given("context") && o.context == "":
		return problem("--context is empty: give it JSON, or leave it out")
	case o.setsReplyTo(words) && o.givenAny("id", "mode", "in", "expires-in", "agent", "meta", "context", "deliver-by", "wait", "follow", "timeout"):
		return problem("no TEXT: --reply-to without one sets the session's destination, and takes only -s, --json and --redis")
	case o.given("timeout") && !o.wait && !o.follow:
		return problem("--timeout needs --wait or --follow")
	case o.given("timeout") && o.timeout <= 0:
		return problem("--timeout %s: it must be above 0", o.timeout)
	case o.in < 0:
		return problem("--in %s: it is negative", o.in)
	case o.expiresIn < 0:
		return problem("--expires-in %s: it is negative", o.expiresIn)
	case o.given("answer") && len(words) == 0:
		return problem("no JSON: write the value after the flags, or - to read it from stdin")
	case o.file == "" && len(words) == 0 && !o.givenAny("after", "reply-to"):
		return problem("no TEXT: write it after the flags, or - to read it from stdin; see enqueue --help")
	}
	if o.given("session") {
		if err := session.ValidateKey(o.session); err != nil {
			return usage(err)
		}
	}
	if o.given("id") {
		if err := session.ValidateID(o.id); err != nil {
			return usage(err)
		}
	}
	if o.given("after") {
		if _, err := stream.ParseEventID(o.after); err != nil {
			return usage(err)
		}
	}
	if _, err := wire.ParseMode(o.mode); err != nil {
		return usage(err)
	}
	if err := o.route().Validate(); err != nil {
		return usage(err)
	}
	for _, pair := range o.metaPairs {
		k, v, ok := strings.Cut(pair, "=")
		if !ok || k == "" {
			return problem("--meta %q: write it as k=v", pair)
		}
		if _, twice := o.meta[k]; twice {
			return problem("--meta %q: that key is given twice", k)
		}
		if o.meta == nil {
			o.meta = map[string]string{}
		}
		o.meta[k] = v
	}
	return nil
}
