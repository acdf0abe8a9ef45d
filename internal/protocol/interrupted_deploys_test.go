package protocol_test

import (
	"fmt"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// drained is a turn whose worker, of this age, drains. It returns whether the next one begins a new transcript.
func drained(b *actors.Bench, age time.Duration, progressed bool) (suspended bool) {
	b.Helper()
	b.Worker = actors.NewWorker(b.T, b.Redis, "w", func(c *protocol.Config) { c.Age = func() time.Duration { return age } })
	h := b.Start()
	suspended = h.Turn().Reset != ""
	if progressed {
		h.Progressed()
	}
	mark(b, h, resume.ReasonShutdown)
	expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
	return suspended
}

// A deploy hands a turn from one old worker to the next: only the first of their drains is counted. A restart loop
// hands it to newer ones, and is counted each time.
func TestADeployIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	for i := range 35 {
		expect.Equal(t, fmt.Sprint("suspended before drain ", i), drained(b, time.Hour, false), false)
		expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
	}
	drained(b, 0, false)
	drained(b, 0, false)
	expect.Equal(t, "suspended after two restarts more", drained(b, 0, false), true)
}

// After Redis' clock went back, a drain that lies ahead of it excuses nobody.
func TestADrainAheadOfTheClockExcusesNobody(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	drained(b, 0, false)
	ahead := time.Now().Add(time.Hour).UnixMilli()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Resume(), "drained_at", ahead).Err())
	drained(b, 0, false)
	expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 2)
}

// progresses is a turn that ends a step, and whose worker then dies.
func progresses(b *actors.Bench) *protocol.Claim {
	b.Helper()
	h := b.Start()
	_, err := h.Journal(b.Ctx, protocol.JournalWrite{HasSteps: true, Progress: true, Steps: map[string]string{"s": "{}"}})
	expect.OK(b, err)
	b.Die()
	return h
}

// A message that kills its worker after each step ends all the same, also where each death begins a new transcript.
func TestDeathsWithProgressEnd(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]actors.Setup{"resume": func(*protocol.Config) {}, "suspend": crashSuspends} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, setup)
			b.SayAll("a", "b")
			for n := range 30 {
				expect.Equal(t, "message", progresses(b).Turn().Message.ID, "a")
				if name == "suspend" || n == 29 {
					b.Doubt()
				}
			}
			expect.Equal(t, "the next one", b.Claim().Turn().Message.ID, "b")
			expect.Equal(t, "outcome", b.Outcome("a").Error, "given up: its worker died in 30 turns in a row")
		})
	}
}

// An owner that says that it lives takes its death back from both counts.
func TestSurvivorsAreInNoCount(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	for i := range 35 {
		h := progresses(b)
		if i%2 == 0 {
			h = b.Start() // without progress
			b.Die()
		}
		next := b.Start() // it has counted the death
		expect.OK(t, h.Survive(b.Ctx))
		expect.OK(t, next.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonLeaseLost}))
	}
	expect.Equal(t, "suspended", drained(b, 0, false), false)
}

// A drained run that has ended a tool which no earlier run had is not counted, but ten times the limit ends it.
func TestProgressIsNotCountedForEver(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	for i := range 30 {
		expect.Equal(t, fmt.Sprint("suspended before drain ", i), drained(b, 0, true), false)
	}
	expect.Equal(t, "suspended after 30", drained(b, 0, true), true)
}
