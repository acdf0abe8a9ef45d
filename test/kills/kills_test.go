//go:build linux

package kills_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/kills"
)

// The flags of `make kills`.
var (
	number = flag.Int("kills", 30, "how many workers are killed, a third of them with each agent")
	seed   = flag.Uint64("seed", 1, "repeats what is killed at which point, not the timing")
	every  = flag.Int("every", 12, "a worker is killed at one of so many points of its agents")
	outage = flag.Int("outage", 15, "Redis is killed with one of so many workers")
	keep   = flag.Bool("keep", false, "the run's directory is kept, also without a finding")
)

func TestMain(m *testing.M) { actors.Main(m) }

// Workers are killed at random points of turns of 20 steps, and Redis now and then. A step that has ended does not
// run again, a step of which nobody knows the end is named once, a model is asked the same again, byte for byte,
// and every message has one reply.
func TestKills(t *testing.T) {
	expect.NotQuick(t)
	dir, err := os.MkdirTemp("", "turnstile-kills-") //nolint:usetesting // it is kept after a finding
	expect.OK(t, err)
	began := time.Now()
	w := newWorld(t, dir)
	w.run()
	acts, err := readRecord(filepath.Join(dir, kills.RecordName))
	expect.OK(t, err)
	var turns []turn
	for _, c := range w.chats {
		turns = append(turns, w.read(c)...)
	}
	report := check(acts, turns)
	report.findings = append(report.findings, w.model.findings...)
	for _, f := range report.findings {
		t.Error(f)
	}
	if len(report.findings) > 0 || t.Failed() || *keep {
		fmt.Printf("seed %d; the record and the workers' logs: %s\n", *seed, dir)
	} else {
		expect.OK(t, os.RemoveAll(dir))
	}
	fmt.Printf("%8d workers killed, in %s: %s; %s\n", total(w.killer.made), time.Since(began).Round(time.Second), counts(w.killer.made), counts(w.killer.points))
	fmt.Printf("%8d Redis killed and started again\n", w.killer.outages)
	report.print(os.Stdout)
	fmt.Printf("%8d requests to the model, of them %d repeated, %d not byte-equal with the first of their number, %d of which the response was stored\n",
		w.model.requests, w.model.repeated, w.model.unequal, w.model.stored)
}
