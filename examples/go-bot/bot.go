// Command go-bot is a whole bot in Go. Its platform is the terminal: each line of the standard input
// is a message of the user, and it prints the replies. docs/library.md explains it.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/pkg/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "go-bot:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: go-bot SESSION FILE: the session's key, and the file that keeps the bot's place")
	}
	o, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	o.ContextTimeoutEnabled = true
	rdb := redis.NewClient(o)
	defer rdb.Close()
	b := &bot{chat: turnstile.NewClient(rdb).Session(args[0]), place: args[1], out: os.Stdout}
	ended := make(chan error, 2)
	go func() { ended <- b.follow(ctx) }()
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			b.hear(ctx, turnstile.NewMessageID(), lines.Text()) // a platform's messages have an ID
		}
		if lines.Err() != nil {
			ended <- lines.Err()
		}
	}()
	return <-ended
}

// bot is the bot of one chat.
type bot struct {
	chat  *turnstile.Session
	place string // the file with the ID of the last event that the user has seen
	out   io.Writer
	turn  string // the running turn's ID, if the user has seen its beginning
}

func (b *bot) say(text string) { fmt.Fprintln(b.out, text) }

// hear handles a text of the user. It repeats the Send until it is certain: with the same ID it is
// stored once.
func (b *bot) hear(ctx context.Context, id, text string) {
	m, command := turnstile.ParseInput(turnstile.Message{ID: id, Text: text})
	for ctx.Err() == nil {
		var reply string
		var err error
		if command { // also /approve and /deny, which answer a question
			reply, err = b.chat.Command(ctx, m.Text, turnstile.CommandConfig{ID: id})
		} else {
			_, err = b.chat.Send(ctx, m)
		}
		switch {
		case err == nil && command:
			b.say(reply)
			return
		case err == nil:
			return
		case errors.Is(err, session.ErrRefused), errors.Is(err, session.ErrExpired): // it is decided
			b.say("This was not accepted: " + err.Error())
			return
		}
		pause(ctx, time.Second)
	}
}

// follow shows the user what happens in the session, also after a restart of the bot: it goes on
// after the last event that the user has seen.
func (b *bot) follow(ctx context.Context) error {
	for {
		after, err := os.ReadFile(b.place)
		if errors.Is(err, os.ErrNotExist) {
			after, err = b.show(ctx)
		}
		if err != nil {
			return err
		}
		for e, err := range b.chat.Events(ctx, turnstile.EventsAfter(string(after))) {
			if err != nil {
				return err
			}
			if e.Type == session.EventGap || e.Type == session.EventReset { // events are gone: show the whole again
				if err := os.Remove(b.place); err != nil {
					return err
				}
				break
			}
			b.event(e)
			if e.ID == "" { // the last piece of a reply, which its turn's end repeats
				continue
			}
			if err := b.save(e.ID); err != nil {
				return err
			}
		}
	}
}

// show prints the conversation, and returns where its events go on.
func (b *bot) show(ctx context.Context) ([]byte, error) {
	for {
		page, err := b.chat.Transcript(ctx, turnstile.TranscriptQuery{})
		switch {
		case err == nil:
			for _, e := range page.Entries {
				if e.Text != "" {
					b.say(string(e.Role) + ": " + e.Text)
				}
			}
			return []byte(page.EventID), b.save(page.EventID)
		case ctx.Err() != nil, errors.Is(err, session.ErrInvalid):
			return nil, err
		}
		pause(ctx, time.Second) // Redis is away
	}
}

// event shows the user one event.
func (b *bot) event(e session.Event) {
	switch e.Type {
	case session.EventTurnStarted:
		switch {
		case e.Continues != "":
			b.say("\nThis was interrupted, and goes on.")
		case b.turn != "": // its worker died
			b.say("\nThis was interrupted, and begins again.")
		}
		b.turn = e.Turn
	case session.EventText:
		fmt.Fprint(b.out, e.Text)
	case session.EventNotice:
		b.say(e.Text)
	case session.EventQuestionAsked:
		b.say(fmt.Sprintf("May I %s? %s Send /approve or /deny.", e.Name, e.Text))
	case session.EventTurnRequeued, session.EventTurnRetry:
		if b.turn = ""; e.Keeps == 0 && e.Reason != session.ReasonParked {
			b.say("\nThis was interrupted, and begins again.")
		}
	case session.EventTurnEnded:
		b.turn = ""
		b.say("")
		if e.Status != session.StatusDone {
			b.say(fmt.Sprintf("%s: %s", e.Status, e.Error))
		}
	}
}

// save stores the place after the user has seen the event: a bot that is killed between the two
// shows one event twice, and leaves none out.
func (b *bot) save(id string) error {
	if err := os.WriteFile(b.place+".new", []byte(id), 0o600); err != nil {
		return err
	}
	return os.Rename(b.place+".new", b.place)
}

// pause waits before a repetition.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
