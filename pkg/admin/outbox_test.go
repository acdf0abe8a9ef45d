package admin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// outbox is a session's outbox, a line for each record.
func outbox(b *actors.Bench) (lines []string) {
	b.Helper()
	for d, err := range b.Client.Operate(actors.Key).Deliveries(b.Ctx) {
		expect.OK(b, err)
		line := fmt.Sprint(d.Destination, " ", d.Type, " ", strings.Join(d.Messages, ","))
		if d.Attempts > 0 {
			line += fmt.Sprint(" tried ", d.Attempts)
		}
		if d.Error != "" {
			line += " " + d.Error
		}
		if d.GivenUp {
			line += " undelivered"
		}
		actors.Recent(b.T, "stored", d.At)
		lines = append(lines, line)
	}
	return lines
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	say := func(id, to string) {
		_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: id, Text: id, ReplyTo: to})
		expect.OK(t, err)
	}
	for i := range 30 {
		say(fmt.Sprintf("a%02d", i), "one")
	}
	say("b", "two")
	b.Drain()
	known := []deliveries.Line{{Destination: "one", MaxAge: time.Hour}, {Destination: "two", MaxAge: time.Hour}}
	taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
	expect.OK(t, err)
	for _, d := range taken.Deliveries {
		switch {
		case d.Destination == "two":
			_, _, err = deliveries.Ack{Delivery: d, Verdict: deliveries.Again, Wait: time.Hour, Why: "HTTP status 503"}.Do(b.Ctx, b.Redis)
		case d.Sequence == taken.Deliveries[0].Sequence:
			_, _, err = deliveries.Ack{Delivery: d, Verdict: deliveries.GiveUp, Why: "HTTP status 422"}.Do(b.Ctx, b.Redis)
		}
		expect.OK(t, err)
	}
	lines := outbox(b)
	expect.Equal(t, "records", len(lines), 31)
	expect.Equal(t, "the first", lines[0], "one message.done a01")
	expect.Equal(t, "another line's", lines[29], "two message.done b tried 1 HTTP status 503")
	expect.Equal(t, "given up", lines[30], "one message.done a00 HTTP status 422 undelivered")

	say("c", "two")
	owing, err := b.Client.Operate(actors.Key).Undelivered(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "owing", owing, admin.Undelivered{Owed: 1, Waiting: 30, GivenUp: 1})
	if _, err := b.Client.Operate("a/b").Undelivered(b.Ctx); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a wrong key: %v", err)
	}

	n, err := b.Client.Operate(actors.Key).Redrive(b.Ctx, "two")
	expect.OK(t, err)
	expect.Equal(t, "redriven of another destination", n, 0)
	n, err = b.Client.Operate(actors.Key).Redrive(b.Ctx, "one")
	expect.OK(t, err)
	expect.Equal(t, "redriven", n, 1)
	expect.Equal(t, "behind the others", outbox(b)[29], "one message.done a00")
	expect.List(t, "sessions with deliveries", sessionsOf(b, admin.Query{State: admin.StateUndelivered}), actors.Key)

	// No destination means none, and not all.
	if n, err := b.Client.Operate(actors.Key).DeleteUndelivered(b.Ctx, ""); n != 0 || !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an empty destination: %d, %v", n, err)
	}
}

// A session with undelivered outcomes is not erased, unless that is requested.
func TestEraseKeepsDeliveries(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.SayAll("a", "b")
	b.Finish(b.Start())
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	b.Die()
	before := b.Dump()
	err = b.Client.Operate(actors.Key).Erase(b.Ctx)
	if !errors.Is(err, session.ErrUndelivered) || !strings.Contains(err.Error(), "1 outcomes are owed to destinations, 1 are not delivered") {
		t.Errorf("erase: %v", err)
	}
	actors.Same(t, "refused", before, b.Dump())
	expect.OK(t, b.Client.Operate(actors.Key).Erase(b.Ctx, admin.EraseUndelivered()))
	expect.Equal(t, "left", b.Dump(), "")
}

func TestDestinationStates(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	at := time.UnixMilli(5)
	for name, s := range map[string]deliveries.DestinationState{
		"failing": {Paused: true, Why: "HTTP status 401", At: 5}, "gone": {Disabled: true, Why: "HTTP status 410", At: 5},
	} {
		expect.OK(t, deliveries.SetDestination(b.Ctx, b.Redis, name, s))
	}
	expect.OK(t, b.Client.PauseDestination(b.Ctx, "hook", "maintenance"))
	list, err := b.Client.Destinations(b.Ctx)
	expect.OK(t, err)
	want := []admin.Destination{
		{Name: "failing", Paused: true, Why: "HTTP status 401", RetryAt: at},
		{Name: "gone", Disabled: true, Why: "HTTP status 410", Since: at},
		{Name: "hook", Paused: true, Why: "maintenance"},
	}
	if !slices.Equal(list, want) {
		t.Errorf("by name: %+v", list)
	}
	for _, d := range list {
		expect.OK(t, b.Client.EnableDestination(b.Ctx, d.Name))
	}
	list, err = b.Client.Destinations(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "enabled", len(list), 0)
	for _, err := range []error{b.Client.PauseDestination(b.Ctx, "Not a name", ""), b.Client.EnableDestination(b.Ctx, "")} {
		if !errors.Is(err, session.ErrInvalid) {
			t.Errorf("a wrong name: %v", err)
		}
	}
}
