package admin_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"turnstile"

	"turnstile/internal/protocol"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Rerun requeues messages as far as there is room.
func TestRerunIntoAFullLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 3)
	b.SayAll("a", "b", "c")
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	b.SayAll("d", "e")
	n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 1)
	expect.List(t, "the line", b.Waiting(), "d", "e", "a")
	b.Drain()
	n, err = b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "then", n, 2)
}

// archived sends n messages with IDs that are not in the order of their arrival, and stops them
// all.
func archived(b *actors.Bench, n int) (ids []string) {
	b.Helper()
	for i := range n {
		id := fmt.Sprintf("m%04d", (i*7+3)%n)
		b.Say(id)
		ids = append(ids, id)
	}
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(b, err)
	expect.Equal(b, "archived", b.Info().DeadLetters, n)
	return ids
}

// More than a batch, in order. The same /resume does not rerun messages that fail again meanwhile.
func TestRerunInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 1101
	for i := range n {
		b.Say(fmt.Sprintf("m%04d", i))
	}
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "archived", b.Info().DeadLetters, n)
	calls := 0
	b.Redis.AddHook(actors.Behind(actors.Script("rerun"), func() {
		calls++
		h := b.Claim()
		for range 20 {
			more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "again"})
			expect.OK(t, err)
			expect.Equal(t, "has a next turn", more, true)
		}
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
	}))
	again, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", again, n)
	expect.Equal(t, "calls", calls, 3)
	ran := b.Drain()
	expect.Equal(t, "run", len(ran), n-3*20)
	for i, id := range ran {
		if want := fmt.Sprintf("m%04d", i+60); id != want {
			t.Fatalf("%s runs, want %s", id, want)
		}
	}
}

// Batches follow each other without a gap, after the waiting messages, although each reply was
// lost. Messages that were deleted meanwhile are skipped.
func TestRerunInOrder(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	ids := archived(b, 1100)
	b.Say("new")
	faults := &redistest.Faults{}
	faults.RunTwice(actors.Script("rerun"), -1)
	b.Redis.AddHook(faults)
	b.Redis.AddHook(actors.Behind(actors.Script("rerun"), sync.OnceFunc(func() {
		n, err := b.Client.Operate(actors.Key).DeleteDeadLetters(b.Ctx, ids[3], ids[500], ids[700])
		expect.OK(t, err)
		expect.Equal(t, "deleted: the first of them is in line again", n, 2)
	})))
	n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 1098)
	want := append([]string{"new"}, ids[:500]...)
	want = append(append(want, ids[501:700]...), ids[701:]...)
	expect.List(t, "the line", b.Waiting(), want...)
}

// Another /resume comes between two batches, and all its messages fail again: this call does not
// rerun them once more.
func TestRerunBesideAnother(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	archived(b, 1100)
	other := false
	b.Redis.AddHook(actors.Behind(actors.Script("rerun"), func() {
		if other {
			return
		}
		other = true
		n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
		expect.OK(t, err)
		expect.Equal(t, "run again by the other", n, 600)
		h := b.Claim()
		for more := true; more; {
			more, err = h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "again"})
			expect.OK(t, err)
		}
	}))
	n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 500)
	expect.List(t, "the line", b.Waiting())
	expect.Equal(t, "archived", b.Info().DeadLetters, 1100)
	n, err = b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again the next time", n, 1100)
}

// A batch of large messages is smaller: 4 MiB.
func TestRerunOfLargeMessages(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	for i := range 7 {
		_, err := b.Client.Session(actors.Key).Send(b.Ctx, turnstile.Message{ID: fmt.Sprint("m", i), Text: strings.Repeat("x", 1<<20-1000)})
		expect.OK(t, err)
	}
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	calls := 0
	b.Redis.AddHook(actors.Behind(actors.Script("rerun"), func() { calls++ }))
	n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 7)
	expect.Equal(t, "calls", calls, 2)
	expect.List(t, "the line", b.Waiting(), "m0", "m1", "m2", "m3", "m4", "m5", "m6")
}

// Each dead letter is read twice, to find its place and to move it, however many there are. No
// command reads them all.
func TestRerunReadsEachTwice(t *testing.T) {
	t.Parallel()
	rdb := redistest.StartServer(t).Client()
	b := actors.BenchOn(t, rdb)
	const n = 3000
	archived(b, n)
	b.Replies("/resume", "Rerunning 3000 messages.") // the scripts are known now
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.OK(t, rdb.ConfigResetStat(b.Ctx).Err())
	again, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
	expect.OK(t, err)
	expect.Equal(t, "run again", again, n)
	calls := map[string]int{}
	for _, m := range regexp.MustCompile(`cmdstat_(\w+):calls=(\d+)`).FindAllStringSubmatch(rdb.Info(b.Ctx, "commandstats").Val(), -1) {
		calls[m[1]], err = strconv.Atoi(m[2])
		expect.OK(t, err)
	}
	expect.Equal(t, "reads of tasks", calls["hmget"], 2*n)
	expect.Equal(t, "reads of the whole archive", calls["zrange"], 0)
	if calls["zscan"] < n/500 || calls["evalsha"] != n/500 {
		t.Errorf("pages and batches: %v", calls)
	}
}
