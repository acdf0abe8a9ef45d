package worker

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"turnstile/internal/backoff"
	"turnstile/test/expect"
)

// A pause grows from a second to a minute, however many turns fail together, and ends when a later turn works. Then
// one turn at a time tries. Meanwhile the worker takes little, or nothing if all agents have a pause.
func TestPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pauses{Backoff: backoff.Backoff{First: time.Second, Longest: time.Minute}, agents: 2, log: slog.New(slog.DiscardHandler), by: map[string]pause{}}
		admitted := func(what string, most int, aside bool, after time.Duration) {
			t.Helper()
			began := time.Now()
			m, a := p.admit(nil)
			expect.Equal(t, what, m, most)
			expect.Equal(t, what+": aside", a, aside)
			if took := time.Since(began); took < after || took > after+stepAside {
				t.Errorf("%s: after %s, want %s", what, took, after)
			}
		}
		fails := func(name string) { p.fails(name, time.Now(), errors.New("gone")) }
		admitted("without a pause", claimBatch, false, 0)
		before := time.Now()
		time.Sleep(time.Millisecond)
		fails("a")
		p.fails("a", before, errors.New("gone"))
		admitted("beside another agent", claimBatch, true, stepAside)
		fails("b")
		fails("b")
		admitted("when a's pause is over", 1, true, time.Second-stepAside)
		p.tries("a")
		expect.Equal(t, "a second try", p.of("a").over(), false)
		admitted("after both pauses", 1, false, 900*time.Millisecond)
		p.works("b", before)
		expect.Equal(t, "b, of an older turn", p.of("b").failures, 2)
		p.works("b", time.Now())
		p.works("a", time.Now())
		admitted("without a pause again", claimBatch, false, 0)
		for range 8 {
			fails("a")
		}
		expect.Equal(t, "the longest", time.Until(p.of("a").until), time.Minute)
		done := make(chan struct{})
		close(done)
		if _, aside := p.admit(done); !aside {
			t.Error("a drain waits")
		}
	})
}
