package admin_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// countedAdmin is an operator whose replies are counted.
func countedAdmin(b *actors.Bench) (*admin.Session, *redistest.Replies) {
	replies := &redistest.Replies{}
	rdb := b.BareRedis()
	rdb.AddHook(replies)
	return admin.NewClient(rdb).Session(actors.Key), replies
}

// sayLong sends long messages.
func sayLong(b *actors.Bench, n, bytes int, text string) {
	b.Helper()
	for i := range n {
		m := turnstile.Message{ID: fmt.Sprint("long", i), Text: strings.Repeat(text, bytes/len(text)), Attachments: []session.Attachment{{Name: "a", URL: "https://example.org"}}}
		_, err := b.Client.Session(actors.Key).Send(b.Ctx, m)
		expect.OK(b, err)
	}
}

// A session's view has the beginnings of its follow-ups, however long they are.
func TestFollowUpsHaveTheBeginningsOfTexts(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	for name, text := range map[string]string{"plain": "x", "escaped": "\x01", "of two bytes": "é", "of surrogates": "\U0001F600", "quoted": `"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("now")
			b.Start()
			sayLong(b, 8, 256<<10, text)
			b.Say("short")
			s, replies := countedAdmin(b)
			list, err := s.FollowUps(b.Ctx)
			expect.OK(t, err)
			if total, _ := replies.Take(); total > 64<<10 {
				t.Errorf("%d bytes were read", total)
			}
			expect.Equal(t, "follow-ups", len(list), 9)
			for i, m := range list[:8] {
				expect.Equal(t, "place", m.ID+string(m.State)+fmt.Sprint(m.Position, m.Cut), fmt.Sprintf("long%dpending%d true", i, i+2))
				if n := len(m.Text); n > 4<<10 || n < 600 || strings.Trim(m.Text, text) != "" {
					t.Errorf("%d bytes: %.20q", n, m.Text)
				}
			}
			expect.Equal(t, "a short one", fmt.Sprint(list[8].Text != "", list[8].Cut), "true false")
		})
	}
}

// All follow-ups together have no more than so many bytes, and all of them have their IDs.
func TestManyFollowUpsAreBounded(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 1000}))
	b.Say("now")
	b.Start()
	for i := range 600 {
		_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: fmt.Sprint(i), Text: strings.Repeat("x", 5000)})
		expect.OK(t, err)
	}
	s, replies := countedAdmin(b)
	list, err := s.FollowUps(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "follow-ups", len(list), 600)
	if total, largest := replies.Take(); total > 2<<20 || largest > 1<<20 {
		t.Errorf("%d bytes were read, at most %d at a time", total, largest)
	}
	texts := 0
	for _, m := range list {
		texts += len(m.Text)
		expect.Equal(t, "cut", m.Cut, true)
	}
	if texts < 1<<20 || texts > 3<<19 {
		t.Errorf("%d bytes of texts", texts)
	}
}

// Lists read a few texts at a time.
func TestListsReadFewTextsAtATime(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	b := actors.NewBench(t)
	sayLong(b, 8, 1<<20, "x")
	s, replies := countedAdmin(b)
	read := func(what string, n int) {
		t.Helper()
		total, largest := replies.Take()
		if expect.Equal(t, what, n, 8); total < 8<<20 || largest > 4<<20 {
			t.Errorf("%s: %d bytes were read, at most %d at a time", what, total, largest)
		}
	}
	read("waiting", count(b.Ctx, t, s.Queue))
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	read("dead", count(b.Ctx, t, s.DeadLetters))
	last, err := s.LastDeadLetters(b.Ctx, 10)
	expect.OK(t, err)
	read("the last dead", len(last))
	for _, d := range last {
		expect.Equal(t, "beginning", fmt.Sprint(len(d.Text), d.Cut, len(d.Attachments)), "4096 true 0")
	}
}

func count[T any](ctx context.Context, t *testing.T, all func(context.Context) iter.Seq2[T, error]) (n int) {
	t.Helper()
	for _, err := range all(ctx) {
		expect.OK(t, err)
		n++
	}
	return n
}
