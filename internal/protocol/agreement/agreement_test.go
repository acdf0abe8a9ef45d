package agreement

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	expect.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// process is a Watch whose log the test reads.
type process struct {
	Watch
	t   *testing.T
	log bytes.Buffer
}

func newProcess(t *testing.T, rdb redis.UniversalClient, name string, settings map[string]string) *process {
	t.Helper()
	p := &process{t: t}
	p.Watch = Watch{
		Name: name, Settings: func() map[string]string { return maps.Clone(settings) }, Redis: rdb,
		Logger: slog.New(slog.NewJSONHandler(&p.log, nil)),
	}
	return p
}

// looks returns what the process logs in one round: over, or each setting that differs, its own and the
// other value, and who has that.
func (p *process) looks() (said []string) {
	p.t.Helper()
	p.log.Reset()
	expect.OK(p.t, p.look(p.t.Context()))
	for line := range strings.Lines(p.log.String()) {
		var l struct{ Level, Setting, Own, Other, Neighbour string }
		expect.OK(p.t, json.Unmarshal([]byte(line), &l))
		if l.Level == "INFO" {
			said = append(said, fmt.Sprintf("%s=%s is over", l.Setting, l.Other))
		} else {
			said = append(said, fmt.Sprintf("%s: %s, %s %s", l.Setting, l.Own, l.Neighbour, l.Other))
		}
	}
	slices.Sort(said)
	return said
}

func names(all []Process) (list []string) {
	for _, p := range all {
		list = append(list, p.Name)
	}
	slices.Sort(list)
	return list
}

// A deploy changes a setting: each difference is logged once, and its end when the last worker of before has gone.
// A setting that another process does not have is none, nor is what cannot be read.
func TestADifferenceIsLoggedOnceAndItsEnd(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	changing := map[string]string{"A": "1", "B": "1"}
	one, two := newProcess(t, rdb, "one", map[string]string{"A": "1", "B": "1"}), newProcess(t, rdb, "two", changing)
	gateway := newProcess(t, rdb, "gateway", map[string]string{"A": "2", "C": "1"})
	gateway.Gateway = true
	expect.List(t, "alone", one.looks())
	expect.List(t, "two of a kind", two.looks())
	expect.OK(t, rdb.ZAdd(t.Context(), rediskey.Processes,
		redis.Z{Score: 1e15, Member: "["}, redis.Z{Score: 1e15, Member: `{"name":"old"}`}, redis.Z{Score: 1e15, Member: `{"settings":{"A":"3"}}`},
		redis.Z{Score: 1e15, Member: `{"name":"long","settings":{"A":"` + strings.Repeat("3", mostLine) + `"}}`},
	).Err())
	said := gateway.looks()
	if len(said) != 1 || said[0] != "A: 2, one 1" && said[0] != "A: 2, two 1" {
		t.Errorf("the gateway says %q", said)
	}
	expect.List(t, "one beside the gateway", one.looks(), "A: 1, gateway 2")
	expect.List(t, "again", one.looks())
	expect.List(t, "again", gateway.looks())

	changing["A"], changing["B"] = "2", "2"
	expect.List(t, "two, changed", two.looks(), "A: 2, one 1", "B: 2, one 1")
	expect.List(t, "one beside two", one.looks(), "B: 1, two 2")
	all, err := Living(t.Context(), rdb)
	expect.OK(t, err)
	expect.List(t, "living", names(all), "gateway", "old", "one", "two")
	for _, p := range all {
		if p.Name == "gateway" && (!p.Gateway || p.Version == "" || p.Settings["layout"] != rediskey.Layout) {
			t.Errorf("%+v", p)
		}
	}

	expect.OK(t, rdb.ZAdd(t.Context(), rediskey.Processes, redis.Z{Score: 1, Member: one.line}).Err()) // as if it was killed minutes ago
	expect.List(t, "the end", gateway.looks(), "A=1 is over")
	expect.List(t, "the end", two.looks(), "A=1 is over", "B=1 is over")
	if ttl := rdb.TTL(t.Context(), rediskey.Processes).Val(); ttl <= 0 || ttl > kept {
		t.Errorf("what the last process leaves is kept for %s", ttl)
	}
}

// A process publishes at its start, and withdraws that at its end.
func TestAProcessThatEndsDoesNotCount(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	p := newProcess(t, rdb, "one", map[string]string{"A": "1"})
	ctx, cancel := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() { p.Run(ctx) })
	living := func() int {
		all, err := Living(t.Context(), rdb)
		expect.OK(t, err)
		return len(all)
	}
	expect.Soon(t, "the process", func() bool { return living() == 1 })
	cancel()
	over.Wait()
	expect.Equal(t, "processes", living(), 0)
}

// Names are unique, as two processes of one container host may be.
func TestNames(t *testing.T) {
	t.Parallel()
	if one, two := NewName(), NewName(); one == two || one[:len(one)-4] != two[:len(two)-4] {
		t.Errorf("%s and %s", one, two)
	}
}
