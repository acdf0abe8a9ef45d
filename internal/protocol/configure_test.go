package protocol_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// An agent's title never replaces a user's, in any order, and never names another transcript (B71).
func TestB71_TitleOfTheUserStays(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("a")
		h := b.Start()
		expect.OK(t, h.Title(b.Ctx, "its"))
		expect.Equal(t, "title", b.Info().Title+" "+b.Info().TitleBy, "its agent")
		expect.OK(t, h.Title(b.Ctx, "its second"))
		b.Replies("/title mine", "mine")
		expect.OK(t, h.Title(b.Ctx, "its third"))
		expect.Equal(t, "title", b.Info().Title+" "+b.Info().TitleBy, "mine user")
		b.Replies("/new", "The running turn ends in the old one")
		expect.Equal(t, "title after /new", b.Info().Title, "")
		expect.OK(t, h.Title(b.Ctx, "of the old conversation"))
		expect.Equal(t, "title after /new", b.Info().Title, "")
		b.Say("b")
		b.Finish(h)
		expect.OK(t, h.Title(b.Ctx, "of the new one"))
		expect.Equal(t, "title", b.Info().Title, "of the new one")
		b.Die()
		expect.OK(t, h.Title(b.Ctx, "a lost owner's"))
		expect.Equal(t, "title", b.Info().Title, "of the new one")
	})
}

func TestB71_TitleRace(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for i := range 40 {
		expect.OK(t, b.Client.Session(actors.Key).SetTitle(b.Ctx, ""))
		mine := fmt.Sprint("mine ", i)
		var both sync.WaitGroup
		both.Go(func() {
			for range 3 {
				if err := h.Title(b.Ctx, "its"); err != nil {
					t.Error(err)
				}
			}
		})
		both.Go(func() {
			if err := b.Client.Session(actors.Key).SetTitle(b.Ctx, mine); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if s := b.Info(); s.Title != mine || s.TitleBy != "user" {
			t.Fatalf("the title is %q, by %s", s.Title, s.TitleBy)
		}
	}
}

func TestCleanTitle(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", protocol.MaxTitle)
	for text, want := range map[string]string{
		"The build":                "The build",
		" The\n build\t":           "The build",
		" \n":                      "",
		long:                       long,
		long + "x":                 long,
		long[:len(long)-2] + " xy": long[:len(long)-2],
	} {
		got := protocol.CleanTitle(text)
		if got != want || protocol.CleanTitle(got) != got {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
