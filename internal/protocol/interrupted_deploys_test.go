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
	expect.OK(b, h.Requeue(b.Ctx, resume.ReasonShutdown))
	return suspended
}

// A deploy hands a turn from one old worker to the next: only the first of their drains is counted. A restart loop
// hands it to newer ones, and is counted each time.
func TestADeployIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	for i := range 6 {
		expect.Equal(t, fmt.Sprint("suspended before drain ", i), drained(b, time.Hour, false), false)
		expect.Equal(t, "interruptions", resumeRecord(b).Interruptions, 1)
	}
	drained(b, 0, false)
	drained(b, 0, false)
	expect.Equal(t, "suspended after two restarts more", drained(b, 0, false), true)
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
